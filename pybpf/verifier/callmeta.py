"""What is learned of a call while its arguments are checked: a noun for arguments.py and calls.py.

Source: struct bpf_call_arg_meta in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybpf.verifier.protos import CallFlag

if TYPE_CHECKING:
    from pybpf.verifier.program import MapInfo
    from pybpf.verifier.protos import Proto
    from pybpf.verifier.records import Field
    from pybpf.verifier.state import Reg


class Call:
    """A helper's call. Registers are by number, 0 is none.

    ``map``, ``uid``: the map it is about; ``key``: the constant key that is looked up in it (-1:
    not known). ``ref``: the reference that an argument holds, ``release`` the register of the
    argument that is given back. ``mem_size``: of the memory that it returns. ``most``: the greatest
    size of memory that it was given. ``fill``: the register, offset and size of an area of stack
    that it fills. ``subprog``: the callback. ``root``: the id of the dynptr. ``pointer``: what a
    map's value exchanges; ``percpu``: an object for each CPU.
    """

    __slots__ = (
        "fill", "key", "map", "mem_size", "most", "packets", "percpu", "pointer", "proto", "ref",
        "release", "root", "subprog", "uid",
    )  # fmt: skip

    def __init__(self, proto: Proto) -> None:
        self.proto = proto
        self.packets = CallFlag.PKT in proto.flags
        self.map: MapInfo | None = None
        self.uid = 0
        self.key = -1
        self.ref = 0
        self.release = 0
        self.mem_size = 0
        self.most = 0
        self.fill: tuple[int, int, int] | None = None
        self.subprog = 0
        self.root = 0
        self.pointer: Field | None = None
        self.percpu: Reg | None = None

    @property
    def word(self) -> str:
        """The helper as messages name it: ``bpf_sk_release#86``."""
        return f"bpf_{self.proto.name}#{self.proto.number}"
