"""What commands take: scripts, files, sizes, targets."""

from __future__ import annotations

import os
import re
import stat
import sys
from argparse import ArgumentTypeError
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pybpf.cli import UsageError
from pybpf.errors import EncodingError, ObjectError
from pybpf.source import Source

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from pybpf.compiler.pipeline import Options
    from pybpf.target.target import Target

ELF = b"\x7fELF"
"""What object files begin with."""
_DEFAULT_MAP = 4096

_LIKE_A_FILE = re.compile(r"[\w./~+-]+")
_LONGEST = 256 << 20
_PAGE = 4096
_SLOT = 8
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def read_bytes(name: str, most: int | None = None) -> bytes:
    """Return the content of a file, or of standard input for ``-``, ``most`` bytes of it.

    Raises UsageError, also for more than 256 MiB where ``most`` is not given: some have no end.
    """
    size = _LONGEST + 1 if most is None else most
    try:
        if name == "-":
            data = sys.stdin.buffer.read(size)
        else:
            with open(name, "rb") as file:  # noqa: PTH123 - pathlib loads slowly
                data = file.read(size)
    except OSError as error:
        raise UsageError(f"cannot read {name or repr(name)}: {error.strerror}") from None
    if most is None and len(data) > _LONGEST:
        raise UsageError(f"cannot read {name}: it has more than {_LONGEST >> 20} MiB")
    return data


def from_hex(data: bytes, name: str) -> bytes:
    """Return bytes that were written in hexadecimal, with any white space; others as they are.

    Raises UsageError, which says ``name``, where a digit is missing.
    """
    digits = re.sub(rb"\s|0[xX]|,", b"", data)
    if not data.isascii() or not re.fullmatch(rb"[0-9a-fA-F]*", digits) or not data.strip():
        return data
    if len(digits) % 2:
        raise UsageError(f"{name} holds an odd number of hexadecimal digits: {len(digits)}")
    return bytes.fromhex(digits.decode())


@contextmanager
def instructions(data: bytes, name: str) -> Iterator[None]:
    """Make ObjectErrors, which name the file and the place, of EncodingErrors about raw bytes.

    The offset is that in ``data``, which was perhaps written in hexadecimal.
    """
    try:
        yield
    except EncodingError as error:
        hint = "this is text: `pybpf asm` makes instructions of it"
        hints = () if plain_text(data) is None else (hint,)
        place = _SLOT * error.index
        # Bytes that end within a slot, or do not even begin with an instruction, never were any.
        doubt = hints or len(data) % _SLOT or not error.index
        reason = f"neither an object nor instructions: {error.reason}" if doubt else error.reason
        raise ObjectError(name, reason, offset=place, hints=hints) from None


def plain_text(data: bytes) -> str | None:
    """Return bytes as text, or None where they are none."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def read_text(name: str) -> Source:
    """Return the text of a file; bytes that are no UTF-8 stay recognisable."""
    return as_text(name, read_bytes(name))


def as_text(name: str, data: bytes) -> Source:
    """Return what was read from a file as a text."""
    return Source("<stdin>" if name == "-" else name, data.decode("utf-8", "surrogateescape"))


def script(argument: str | None) -> Source:
    """Return the script that an argument names (a file, or ``-``) or is; raises UsageError."""
    found = script_or_object(argument)
    if isinstance(found, bytes):
        hint = "`pybpf run` runs those that `pybpf compile -o` made"
        raise UsageError(f"{argument} is an object file, not a script\n  hint: {hint}")
    return found


def script_or_object(argument: str | None) -> Source | bytes:
    """Return the script that an argument names or is, or the bytes of the object that it names.

    Raises UsageError.
    """
    if argument is None:
        raise UsageError("no script given\n  hint: such as 'BEGIN { print(\"hello\"); }'")
    if is_file(argument):
        data = read_bytes(argument)
        return data if data.startswith(ELF) else as_text(argument, data)
    if _LIKE_A_FILE.fullmatch(argument) and argument not in {"BEGIN", "END"}:
        raise UsageError(
            f"there is no file '{argument}', and it is no script either\n"
            "  hint: a script has probes, as in 'kprobe:vfs_read { @[comm] = count(); }'"
        )
    # The bytes that were typed: a script is UTF-8 whatever the locale says.
    return Source("<script>", os.fsencode(argument).decode("utf-8", "surrogateescape"))


def is_file(name: str) -> bool:
    """Whether an argument names a file, or standard input; raises UsageError for a directory."""
    if name == "-":
        return True
    if not 0 < len(name) < _PAGE or "\0" in name:
        return False
    try:
        mode = os.stat(name).st_mode  # noqa: PTH116 - as above
    except OSError:
        return False
    if stat.S_ISDIR(mode):
        raise UsageError(f"{name} is a directory, not a script")
    return True


def write_bytes(name: str, data: bytes) -> None:
    """Write a file, or to standard output for ``-``; raises UsageError."""
    if name == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        return
    try:
        with open(name, "wb") as file:  # noqa: PTH123 - as above
            file.write(data)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot write {name or repr(name)}: {reason}") from None


def declare_sizes(parser: ArgumentParser) -> None:
    """Declare the options that say how large what a script needs is, and whom it is about."""
    add = parser.add_argument
    add("--map-size", type=count, metavar="N", help=f"entries of each map ({_DEFAULT_MAP})")
    add(
        "--buffer", type=_buffer, metavar="SIZE",
        help="room for records, such as 64K or 16M (8M, or what is enough)",
    )  # fmt: skip
    add(
        "--cgroup", metavar="PATH",
        help="trace only what is in that cgroup or below; `self` is that of pybpf",
    )  # fmt: skip


def sizes(options: Namespace) -> Options:
    """Return what these options say."""
    from pybpf.compiler.pipeline import Options

    return Options(
        map_entries=_DEFAULT_MAP if options.map_size is None else options.map_size,
        buffer_size=options.buffer,
        cgroup=options.cgroup,
    )


def _buffer(text: str) -> int:
    """Return the size rounded up to a power of two, as the kernel wants it."""
    return ring(size(text))


def environment(arguments: Sequence[str]) -> dict[str, str]:
    """Return what ``$1``, ``$2`` … and ``$target`` stand for where a script is only compiled."""
    words = {str(i): a for i, a in enumerate(arguments, start=1)}
    words.setdefault("target", os.environ.get("target", "0"))  # noqa: SIM112 - ply's name
    return words


def size(text: str) -> int:
    """Return a number of bytes written as ``65536``, ``64K`` or ``1M``, 1 byte to 1 GiB.

    Raises ArgumentTypeError.
    """
    match = re.fullmatch(r"([0-9]+)([kKmMgG]?)(?:i?[bB])?", text)
    number = int(match[1]) * _UNITS[match[2].lower()] if match else 0
    if not 0 < number <= _UNITS["g"]:
        raise ArgumentTypeError(f"'{text}' is no size from 1 to 1G, such as 65536, 64K or 4M")
    return number


def ring(size: int) -> int:
    """Return a size rounded up to one that a ring can have: a power of two, a page at least."""
    return max(_PAGE, 1 << (size - 1).bit_length())


def count(text: str) -> int:
    """Return a number of entries, as a map can have; raises ArgumentTypeError."""
    if not re.fullmatch(r"[0-9]{1,10}", text) or not 0 < int(text) < 1 << 31:
        raise ArgumentTypeError(f"'{text}' is no number from 1 to {(1 << 31) - 1}")
    return int(text)


def cpu(text: str) -> int:
    """Return the number of a CPU; raises ArgumentTypeError."""
    if not re.fullmatch(r"[0-9]{1,5}", text):
        raise ArgumentTypeError(f"'{text}' is no number of a CPU")
    return int(text)


def event(text: str) -> str:
    """Return ``SYSTEM/EVENT`` of that or ``SYSTEM.EVENT``; raises ArgumentTypeError."""
    match = re.fullmatch(r"([\w-]+)[./](\w[\w-]*)", text)
    if match is None:
        raise ArgumentTypeError(f"'{text}' is no SYS/EVENT, such as sched/sched_switch")
    return f"{match[1]}/{match[2]}"


def target(file: str | None, environment: Mapping[str, str]) -> Target:
    """Return the target saved in ``file``, or this machine."""
    if file is not None:
        from pybpf.target.snapshot import SnapshotTarget

        return SnapshotTarget.load(file, environment={**os.environ, **environment})
    from pybpf.kernel.live import LiveTarget

    return LiveTarget(environment)
