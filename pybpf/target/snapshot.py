"""A target saved in a file: the bytes of a snapshot in, a Target out, and the reverse.

A snapshot is a gzipped tar archive of text files, so that ``tar`` can show what is in it:

    snapshot.json    version, arch, release, cpus, features; pid_namespace, unless the initial one
    formats.txt      for each tracepoint ``FILE category/event/format``, then that file's text
    functions.txt    names of the functions a kprobe may be put on, one a line
    symbols.txt      text symbols, one a line: distance from the one before in hex, name [module]

Only the first is required. The environment of whoever saved it is not in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from pybpf.errors import TargetError
from pybpf.target.arch import ARCHES, Arch
from pybpf.target.features import ALL
from pybpf.target.symbols import SymbolTable
from pybpf.target.target import Target
from pybpf.tracefs.format import EventFormat, parse_format

if TYPE_CHECKING:
    from pathlib import Path

VERSION = 1
_META, _FORMATS, _FUNCTIONS, _SYMBOLS = _MEMBERS = (
    "snapshot.json",
    "formats.txt",
    "functions.txt",
    "symbols.txt",
)
_PACKED, _UNPACKED = 16 << 20, 64 << 20
"""The most bytes a file, and its content, may have; those of a real kernel are about 1 and 6 MB."""
_CPUS = 8192
"""The most that any kernel can be configured for."""
_TEXT = 0xFFFF_FFFF_8100_0000
"""Where ``normalise`` puts the start of the kernel's text: x86-64's address without KASLR."""


class SnapshotTarget:
    """A Target made of plain values; see ``load`` for one from a file.

    ``formats`` are the texts of format files by ``category/event``, parsed when first asked for.
    """

    def __init__(
        self,
        *,
        arch: Arch | str = "x86_64",
        release: str = "6.12.0",
        cpus: int = 1,
        features: Iterable[str] = ALL,
        pid_namespace: tuple[int, int] | None = None,
        environment: Mapping[str, str] | None = None,
        formats: Mapping[str, str] | None = None,
        functions: Iterable[str] = (),
        symbols: SymbolTable | Iterable[tuple[int, str]] = (),
    ) -> None:
        self.arch = ARCHES[arch] if isinstance(arch, str) else arch
        self.release = release
        self.cpus = cpus
        self.features = frozenset(features)
        self.pid_namespace = pid_namespace
        self.environment: Mapping[str, str] = MappingProxyType(dict(environment or {}))
        self.symbols = symbols if isinstance(symbols, SymbolTable) else SymbolTable(symbols)
        self._texts = dict(sorted((formats or {}).items()))
        self._formats: dict[str, EventFormat] = {}
        self._functions = tuple(sorted(set(functions)))

    @classmethod
    def load(
        cls, source: str | Path | bytes, *, environment: Mapping[str, str] | None = None
    ) -> SnapshotTarget:
        """Return the target saved in the file at a path, or in bytes.

        ``environment`` is what ``$name`` stands for. Raises TargetError, naming the file and what
        is wrong, where it cannot be read or is no snapshot.
        """
        name = "<snapshot>" if isinstance(source, bytes) else str(source)
        try:
            members = _unpack(source if isinstance(source, bytes) else _read(source))
            return cls(**_meta(members), **_content(members), environment=environment)
        except TargetError as error:
            raise TargetError(f"{name}: {error}") from None

    @property
    def types(self) -> None:
        """None: a snapshot holds no types."""
        return None

    def symbol_address(self, name: str) -> int:
        """Return the address of a symbol of code; a snapshot holds no others."""
        found = self.symbols.addresses(name)
        if not found:
            raise TargetError(f"unknown symbol '{name}'")
        return found[0]

    def event_names(self) -> Sequence[str]:
        """Return all tracepoints as ``category/event``, sorted; raises TargetError without any."""
        if not self._texts:
            raise TargetError("the target has no tracepoints")
        return tuple(self._texts)

    def event_text(self, name: str) -> str:
        """Return the format file of tracepoint ``category/event``; raises TargetError."""
        try:
            return self._texts[name]
        except KeyError:
            raise TargetError(f"unknown tracepoint '{name}'") from None

    def event_format(self, name: str) -> EventFormat:
        """Return the format of tracepoint ``category/event``; raises TargetError if unknown."""
        if name not in self._formats:
            text = self.event_text(name)
            self._formats[name] = parse_format(text, name, self.arch.byteorder)
        return self._formats[name]

    def entries(self) -> frozenset[int]:
        """Return none: what is attached is attached on a live machine."""
        return frozenset()

    def functions(self) -> Sequence[str]:
        """Return the names of the functions a kprobe may be put on, sorted, without repeats."""
        return self._functions


class Recordable(Target, Protocol):
    """What a snapshot can be made of: a Target that also gives the texts behind its values."""

    @property
    def symbols(self) -> SymbolTable:
        """The kernel's symbols."""

    def event_text(self, name: str) -> str:
        """Return the format file of tracepoint ``category/event``."""


def snapshot(target: Recordable, *, symbols: bool = True, normalise: bool = False) -> bytes:
    """Return the snapshot of a target; the same target gives the same bytes.

    Without ``symbols`` there are no addresses in it. ``normalise`` moves all of them by the same
    distance, so that the kernel's text starts where it would without KASLR; addresses in recorded
    events then mean nothing any more. Raises TargetError where the target lacks something.
    """
    import json

    meta: dict[str, Any] = {
        "version": VERSION,
        "arch": target.arch.name,
        "release": target.release,
        "cpus": target.cpus,
        "features": sorted(target.features),
    }
    if target.pid_namespace is not None:
        meta["pid_namespace"] = target.pid_namespace
    texts = {
        _META: json.dumps(meta, indent=1) + "\n",
        _FORMATS: join_formats({name: target.event_text(name) for name in target.event_names()}),
        _FUNCTIONS: "".join(f"{name}\n" for name in target.functions()),
    }
    if symbols:
        table = _normalised(target.symbols) if normalise else target.symbols
        texts[_SYMBOLS] = _write_symbols(table)
    return _pack({name: text.encode("utf-8", "surrogateescape") for name, text in texts.items()})


def write_snapshot(
    target: Recordable, path: str | Path, *, symbols: bool = True, normalise: bool = False
) -> None:
    """Save the snapshot of a target; raises TargetError also where the file cannot be written."""
    from pathlib import Path

    data = snapshot(target, symbols=symbols, normalise=normalise)
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise TargetError(f"cannot write {path}: {error.strerror}") from None


def join_formats(formats: Mapping[str, str]) -> str:
    """Return format files as one text."""
    return "".join(
        f"FILE {name}/format\n{text.rstrip()}\n" for name, text in sorted(formats.items())
    )


def split_formats(text: str) -> dict[str, str]:
    """Return the format files that ``join_formats`` joined, by ``category/event``."""
    if not text.strip():
        return {}
    lead, *pieces = re.split(r"^FILE (\S+)/format\n", text, flags=re.MULTILINE)
    if lead.strip() or not pieces:
        raise TargetError(f"{_FORMATS} does not start with a FILE line")
    return dict(zip(pieces[::2], pieces[1::2], strict=True))


def _read(path: str | Path) -> bytes:
    from pathlib import Path

    try:
        with Path(path).open("rb") as file:
            return file.read(_PACKED + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise TargetError(getattr(error, "strerror", None) or str(error)) from None


def _unpack(data: bytes) -> dict[str, str]:
    """Return the texts in an archive; nothing is believed about what comes from outside."""
    import tarfile
    import zlib
    from io import BytesIO

    if len(data) > _PACKED:
        raise TargetError(f"no snapshot: larger than {_PACKED >> 20} MiB")
    unzip = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        raw = unzip.decompress(data, _UNPACKED + 1)
    except zlib.error:
        raise TargetError("no snapshot, or damaged: cannot decompress it as gzip") from None
    if len(raw) > _UNPACKED:
        raise TargetError(f"no snapshot: more than {_UNPACKED >> 20} MiB when decompressed")
    if not unzip.eof:
        raise TargetError("truncated: the gzip stream has no end")
    members: dict[str, str] = {}
    try:
        with tarfile.open(fileobj=BytesIO(raw), mode="r:") as archive:
            for member in archive:
                file = archive.extractfile(member) if member.isfile() else None
                if member.name not in _MEMBERS or file is None or member.issparse():
                    raise TargetError(f"no snapshot: unexpected member {member.name[:80]!r}")
                members[member.name] = file.read().decode("utf-8", "surrogateescape")
    except (tarfile.TarError, OSError, ValueError, OverflowError) as error:
        raise TargetError(f"no snapshot, or damaged: {error}") from None
    return members


def _meta(members: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of SnapshotTarget that snapshot.json holds."""
    import json

    if _META not in members:
        raise TargetError(f"no snapshot: there is no {_META} in it")
    try:
        content = json.loads(members[_META])
        match content:
            case {"version": int(version)} if version != VERSION:
                raise TargetError(f"version {version}, but only version {VERSION} is understood")
            case {
                "version": int(),
                "arch": str(arch),
                "release": str(release),
                "cpus": int(cpus),
                "features": [*features],
            } if 0 < cpus <= _CPUS and all(isinstance(feature, str) for feature in features):
                pass
            case _:
                raise TargetError(f"{_META} lacks a field, or one has a wrong type")
    except (ValueError, RecursionError):
        raise TargetError(f"{_META} is no JSON") from None
    if arch not in ARCHES:
        known = ", ".join(sorted(ARCHES))
        raise TargetError(f"unknown architecture {arch[:40]!r}; known are {known}")
    return {
        "arch": arch,
        "release": release,
        "cpus": cpus,
        "features": features,
        "pid_namespace": _pid_namespace(content.get("pid_namespace")),
    }


def _pid_namespace(value: Any) -> tuple[int, int] | None:
    match value:
        case None:
            return None
        case [int(device), int(inode)] if 0 <= device < 1 << 32 and 0 < inode < 1 << 63:
            return device, inode
        case _:
            raise TargetError(f"{_META}: pid_namespace is no pair of a device and an inode")


def _content(members: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of SnapshotTarget that the other members hold."""
    return {
        "formats": split_formats(members.get(_FORMATS, "")),
        "functions": members.get(_FUNCTIONS, "").split(),
        "symbols": _read_symbols(members.get(_SYMBOLS, "")),
    }


def _write_symbols(table: SymbolTable) -> str:
    lines, before = [], 0
    for address, name in table:
        lines.append(f"{address - before:x} {name}\n")
        before = address
    return "".join(lines)


def _read_symbols(text: str) -> SymbolTable:
    rows, address = [], 0
    try:
        for line in text.splitlines():
            distance, name = line.split(" ", 1)
            address += int(distance, 16)
            rows.append((address, name))
    except ValueError:
        raise TargetError(f"{_SYMBOLS}: line {len(rows) + 1} is no symbol") from None
    return SymbolTable(rows)


def _normalised(table: SymbolTable) -> SymbolTable:
    start = next(iter(table.addresses("_text")), None) or next((a for a, _ in table), 0)
    return SymbolTable(((address - start + _TEXT) % 2**64, name) for address, name in table)


def _pack(members: Mapping[str, bytes]) -> bytes:
    import tarfile
    import zlib
    from io import BytesIO

    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)  # its times and owners are 0
            info.size = len(data)
            archive.addfile(info, BytesIO(data))
    gzip = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)  # the header's time is 0
    return gzip.compress(buffer.getvalue()) + gzip.flush()
