"""Damaged objects before anything is loaded: an ObjectError, or variables that can be read."""

import random

import pytest

from pybpf.btf.abi import Kind
from pybpf.btf.builder import Builder
from pybpf.btf.reader import Btf
from pybpf.btf.types import Composite, Field
from pybpf.errors import ObjectError, TargetError, ValueMismatch
from pybpf.kernel.types import KernelTypes
from pybpf.objects import structops
from pybpf.objects.object import Object
from pybpf.objfile.object import Object as Parsed

MUTATIONS = 400
OPERATIONS = "tcp_congestion_ops"
NAMES = ("values", "data", "data_custom", "kconfig", "struct_ops", "maps_inner", "ksyms")


class Itself(KernelTypes):
    """A kernel whose types are those of the object, which so fit it as far as they can."""

    def __init__(self, btf):
        super().__init__()
        number = btf.struct(OPERATIONS) or 0
        builder = Builder(btf.byteorder, base=btf)
        data = (Field("data", number, 64),)
        size = (btf.size(number) or 0) + 8
        builder.add(Composite(Kind.STRUCT, f"bpf_struct_ops_{OPERATIONS}", size, data))
        self.own = Btf(builder.blob(), base=btf)


def mutated(whole, draw):
    blob = bytearray(draw.choice(whole))
    for _ in range(draw.randint(1, 8)):
        width = draw.choice([1, 2, 4])
        at = draw.randrange(len(blob) - width)
        value = draw.choice([0, 1, (1 << 8 * width) - 1, draw.getrandbits(8 * width)])
        blob[at : at + width] = value.to_bytes(width, "little")
    return bytes(blob)


def use(data):
    """Do with an object all that can be done without a kernel."""
    try:
        held = Object(Parsed.parse(data, "x.o"))
        for section in held.sections.values():
            for name in section:
                try:
                    section[name] = section[name]
                except (TargetError, ValueMismatch, KeyError):
                    continue
        for table in held.maps.values():
            for part in ("key", "value"):
                table._codec(part, 8)
        if held.parsed.btf is not None:
            structops.operations(held.parsed, Itself(held.parsed.btf))
    except ObjectError as error:
        if "x.o" not in str(error):
            raise


def test_mutations(c_objects):
    whole = [(c_objects / f"{name}.el.o").read_bytes() for name in NAMES]
    for seed in range(MUTATIONS):
        use(mutated(whole, random.Random(seed)))


def test_a_type_that_a_kernel_has_is_found_by_itself(c_objects):
    found = Parsed.open(c_objects / "struct_ops.el.o")
    (what,) = structops.operations(found, Itself(found.btf))
    assert (what.name, what.type_name, len(what.data)) == ("slow", OPERATIONS, 48)
    assert what.data[32:36] == b"slow"
    assert what.members == ((0, 8, "half"), (1, 16, "avoid"), (2, 24, "undo"))


@pytest.mark.parametrize("name", NAMES)
def test_whole_objects(c_objects, name):
    use((c_objects / f"{name}.el.o").read_bytes())
