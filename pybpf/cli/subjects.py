"""What the argument of ``verify`` names in; the programs that it holds, ready to be judged, out.

That is an object file, a script, or with a type one program: bytes, hexadecimal or assembler text.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from pybpf.cli import UsageError, inputs

if TYPE_CHECKING:
    from enum import IntEnum

    from pybpf.isa.abi import AttachType, ProgType
    from pybpf.script import MapSpec
    from pybpf.target.profile import Profile
    from pybpf.verifier.kerneltypes import KernelTypes
    from pybpf.verifier.subject import Subject

_DIGITS = 10
# No script begins like this: there a probe comes first.
_INSTRUCTION = re.compile(
    rb"\s*(?:[rw]\d+ *s?\W{0,3}= |\*\([us]\d+ \*\)|(?:call|goto) \S|exit\s*(?:;|\Z))"
)
_LISTED = {"program type": "\n  hint: such as xdp, sched_cls, socket_filter, kprobe, tracepoint"}


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that say what is judged."""
    add = parser.add_argument
    add("file", nargs="?", metavar="FILE-or-SCRIPT",
        help="an object, a script or its text, or with --type a program; - is stdin")  # fmt: skip
    add("arguments", nargs="*", metavar="ARG", help="what $1, $2 … of a script stand for")
    add("--prog", metavar="NAME", help="only this program of the object (or probe of the script)")
    add("--type", metavar="T", help="FILE is a program of this type, such as xdp or sched_cls")
    add("--attach", metavar="A", help="its expected attach type, such as cgroup_inet_ingress")
    add(
        "--map", action="append", default=[], metavar="NAME=TYPE:K:V:N",
        help="a map that it names: type, sizes of key and value, entries",
    )  # fmt: skip
    add("--target", metavar="FILE", help="compile a script for a snapshot, not this machine")
    add("--btf", metavar="FILE", help="types of the kernel that judges")


def subjects(
    options: argparse.Namespace, kernel: Profile, types: KernelTypes | None
) -> Sequence[Subject]:
    """Return the programs that the options name; scripts are compiled for the BPF of a kernel.

    Raises UsageError where there is none, ObjectError or SourceError where it is not what it
    should be.
    """
    if options.file is None:
        raise UsageError("nothing to verify\n  hint: an object, a script, or --batch FILE")
    if options.type is None:
        for name in ("attach", "map"):
            if getattr(options, name):
                raise UsageError(f"--{name} is about a single program: it goes with --type")
    is_file = inputs.is_file(options.file)
    data = inputs.read_bytes(options.file) if is_file else None
    if data is not None and data.startswith(inputs.ELF):
        found = _object(data, options, types)
    elif options.type is not None:
        return [_one(data, options)]
    elif options.btf is not None:
        raise UsageError("--btf tells a script nothing: it goes with an object, --type or --batch")
    else:
        found = _script(data, options, kernel)
    if options.prog is None:
        return found
    chosen = [one for one in found if one.name == options.prog]
    if not chosen:
        from pybpf.suggest import did_you_mean

        names = [one.name for one in found]
        similar = did_you_mean(options.prog, names) or f": there are {', '.join(names)}"
        raise UsageError(f"no program is called '{options.prog}'{similar}")
    return chosen


def _script(data: bytes | None, options: argparse.Namespace, kernel: Profile) -> Sequence[Subject]:
    """Return the probes of a script: what was read from a file, or else the argument itself."""
    if data is not None and b"\0" in data:
        raise UsageError(
            f"{options.file} is neither an object nor a script\n"
            "  hint: --type says that it holds the instructions of a program, and of which type"
        )
    if data is not None and options.file.endswith(".c"):
        command = f"clang -O2 -g -target bpf -c {options.file} -o {options.file[:-2]}.o"
        raise UsageError(f"{options.file} is C, and no object\n  hint: {command}")
    if _INSTRUCTION.match(os.fsencode(options.file) if data is None else data):
        name = "this" if data is None else options.file
        raise UsageError(
            f"{name} is assembler text, and no script\n"
            "  hint: --type says of which type the program is, as in --type xdp"
        )
    from pybpf.compiler.pipeline import compile_script
    from pybpf.target.restricted import restricted
    from pybpf.verifier.subject import of_script

    given = options.file
    source = inputs.script(given) if data is None else inputs.as_text(given, data)
    target = inputs.target(options.target, inputs.environment(options.arguments))
    if target.arch.byteorder != "little":
        raise UsageError("the model is of little-endian machines, and the target is none")
    target = restricted(target, kernel.code_features)
    return [*of_script(compile_script(source, target))]


def _object(
    data: bytes, options: argparse.Namespace, types: KernelTypes | None
) -> Sequence[Subject]:
    """Return the programs of an object, with the types that their sections say or the options."""
    from pybpf.dataclass import replace
    from pybpf.objfile.object import Object
    from pybpf.verifier.subject import of_object

    if options.arguments:
        other = options.arguments[0]
        raise UsageError(f"one object at a time: '{other}' would be an argument of a script")
    if options.target or options.map:
        raise UsageError("--target and --map are not for objects")
    target = None if types is None else types.btf
    found = [*of_object(Object.parse(data, options.file), target)]
    if options.type is None:
        return found
    prog_type, attach = _types(options)
    return [
        replace(
            one,
            program=replace(
                one.program, prog_type=int(prog_type), expected_attach_type=int(attach or 0)
            ),
        )
        for one in found
    ]


def types_of(file: str | None, kernel: Profile) -> KernelTypes | None:
    """Return the types of the kernel that programs are judged for, None where they are not known.

    They are in a file, or the running kernel's, and read when they are needed.
    """
    from pybpf.target.profile import LIVE
    from pybpf.verifier import kerneltypes

    return kerneltypes.types_of(file, live=kernel.name == LIVE)


def _types(options: argparse.Namespace) -> tuple[ProgType, AttachType | None]:
    """Return the types that ``--type`` and ``--attach`` name; raises UsageError."""
    from pybpf.isa.abi import AttachType

    prog_type, attach = program_type(options.type)
    if options.attach is None:
        return prog_type, attach
    return prog_type, _member(options.attach, AttachType, "attach type")


def program_type(name: str) -> tuple[ProgType, AttachType | None]:
    """Return the type that a name means, a number, or the section of an object such as ``tc``.

    A section may tell the attach type, too. Raises UsageError with the nearest names.
    """
    from pybpf.isa.abi import ProgType

    section = None
    if name.lower() not in _names(ProgType):
        from pybpf.objfile.sections import Trait, parse

        section = parse(name)
        if section and section.kind.traits & (Trait.SLEEPABLE | Trait.FRAGS):
            section = None  # it says of the program what --type does not
    if section is None:
        return _member(name, ProgType, "program type"), None
    return section.kind.prog_type, section.kind.attach_type


def _one(data: bytes | None, options: argparse.Namespace) -> Subject:
    """Return a single program; bytes are judged as they are, whatever they hold."""
    from pybpf.dataclass import replace
    from pybpf.isa.assembler import assemble
    from pybpf.verifier.subject import of_bytes, of_program

    prog_type, attach = _types(options)
    maps = [_map(text) for text in options.map]
    title = "<program>" if data is None else "<stdin>" if options.file == "-" else options.file
    is_file = data is not None
    if data is None:
        data = os.fsencode(options.file)
    code = inputs.from_hex(data, title)
    if not code.strip():
        raise UsageError(f"{title} holds no instruction")
    text = None if code is not data else inputs.plain_text(data)
    if text is None:
        with inputs.instructions(code, title):
            return _attached(of_bytes(code, prog_type, attach, options.type), options.type)
    if not is_file and re.fullmatch(r"[\w./~+-]+", text) and text != "exit":
        raise UsageError(f"there is no file '{text}', and it is no program either")
    program = replace(assemble(text, title), prog_type=prog_type, expected_attach_type=attach)
    try:
        return _attached(of_program(program, maps, options.type), options.type)
    except KeyError as missing:
        name = missing.args[0]
        raise UsageError(
            f"the program names a map '{name}', and there is none\n"
            f"  hint: such as --map {name}=hash:4:8:16"
        ) from None


def _attached(subject: Subject, name: str) -> Subject:
    """Return a program attached to what the name of a section says of the kernel."""
    from pybpf.dataclass import replace
    from pybpf.objfile.sections import Trait, parse

    section = parse(name)
    if section is None or Trait.BTF not in section.kind.traits:
        return subject
    return replace(subject, program=replace(subject.program, attach_to=section.target))


def _map(text: str) -> MapSpec:
    """Return the map that ``counts=hash:4:8:16`` describes; raises UsageError."""
    from pybpf.isa.abi import MapType
    from pybpf.script import MapRole, MapSpec

    match = re.fullmatch(r"([\w.$@]+)=(\w+):(\d{1,9}):(\d{1,9}):(\d{1,9})", text)
    if match is None:
        raise UsageError(f"'{text}' describes no map, as counts=hash:4:8:16 does")
    kind = _member(match[2], MapType, "map type")
    key, value, entries = (int(match[n]) for n in (3, 4, 5))
    return MapSpec(match[1], MapRole.MAP, kind, key, value, entries)


_Number = TypeVar("_Number", bound="IntEnum")


def _member(name: str, kind: type[_Number], what: str) -> _Number:
    """Return the type that a name or number means; raises UsageError with the nearest names."""
    plain = re.sub(r"^bpf_(prog_type_|map_type_)?", "", name.lower())
    if plain.isdecimal() and len(plain) < _DIGITS and int(plain) in {int(each) for each in kind}:
        return kind(int(plain))
    names = _names(kind)
    if plain not in names:
        from pybpf.suggest import did_you_mean

        similar = did_you_mean(plain, names)
        raise UsageError(f"there is no {what} '{name}'{similar or _LISTED.get(what, '')}")
    return kind[plain.upper()]


def _names(kind: type[_Number]) -> list[str]:
    return [each.lower() for each in kind.__members__]
