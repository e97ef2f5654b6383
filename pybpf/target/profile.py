"""What one kernel release knows of BPF: a name, a release or a file in, a Profile out.

A profile answers which program, attach and map types there are, which helpers and kernel functions
a program may call, which instructions the verifier takes, and its limits. Its file is
JSON; ``origin`` says where the facts are from: ``recorded`` by tools/record_profile.py on a running
kernel, or ``documented``, from the sources of that release. ``notes`` says what deviates from it.

Facts about helpers' arguments, contexts and maps are in pybpf.verifier, which asks a profile for
its ``version``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from pybpf.dataclass import dataclass
from pybpf.errors import TargetError
from pybpf.isa.abi import AttachType, MapType, ProgType
from pybpf.target import features

if TYPE_CHECKING:
    from pathlib import Path

VERSION = 1
NAMES = ("5.10", "5.15", "6.1", "6.6", "6.12", "6.18", "7.3")
"""The profiles that come with pybpf, oldest first."""
LIVE = "live"
"""The name of the profile nearest to the running kernel."""

_FILE_SIZE = 1 << 20
_GREATEST = 1 << 10
"""No helper, type or attach type has a number above this."""
_MOST = 1 << 40
_SHOWN = 40
_RANGE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")


class ProfileError(TargetError):
    """A kernel profile that there is none of, or a file that is none."""


class Origin(StrEnum):
    """Where the facts of a profile are from."""

    RECORDED = "recorded"
    DOCUMENTED = "documented"


@dataclass(frozen=True, slots=True)
class Limits:
    """Numbers the verifier holds programs to: instructions, bytes of stack, call frames."""

    insns: int = 1_000_000
    """The most instructions of a program of a privileged user."""
    insns_unprivileged: int = 4096
    processed: int = 1_000_000
    """The most instructions the verifier walks through, all paths together."""
    jump_sequence: int = 8192
    """The most branches put off (BPF_COMPLEXITY_LIMIT_JMP_SEQ)."""
    states: int = 64
    """The most states kept of one instruction before unprivileged programs are given up."""
    stack: int = 512
    """Bytes of stack, of all frames of a chain of calls together."""
    stack_tail_call: int = 256
    """The same below a subprogram that makes tail calls."""
    frames: int = 8
    """The most call frames at one time, the program's own included."""
    subprograms: int = 256
    used_maps: int = 64


@dataclass(frozen=True, slots=True)
class Kfunc:
    """A function of the kernel that programs may call, with the flags it is registered with.

    ``flags`` are those of include/linux/btf.h, in lower case without ``KF_``: ``acquire``,
    ``release``, ``ret_null``, ``trusted_args``, ``sleepable``, ``destructive``, ``rcu``,
    ``iter_new``, ``iter_next``, ``iter_destroy``, ``rcu_protected``, ``fastcall``, ….
    """

    name: str
    flags: frozenset[str]


class Profile:
    """What one kernel release knows; see ``profile`` for one by name.

    ``facts`` is the content of a profile's file; raises ProfileError where it is none.
    """

    def __init__(self, facts: Mapping[str, Any], name: str | None = None) -> None:
        try:
            self.name: str = name or _text(facts, "name")
            self.release = _text(facts, "release")
            self.date = _text(facts, "date")
            self.arch = _text(facts, "arch")
            self.origin = Origin(facts["origin"])
            self.notes: tuple[str, ...] = tuple(_notes(facts["notes"]))
            self.version = _version(self.release)
            self.instructions = frozenset(facts["instructions"].split())
            self.map_types = frozenset(map(MapType, _numbers(facts["map_types"])))
            self.limits = Limits(**{name: _limit(name, n) for name, n in facts["limits"].items()})
            self._types: dict[str, dict[str, str]] = _texts(facts["program_types"])
            self._kfuncs: dict[str, dict[str, str]] = _texts(facts["kfuncs"])
            self._unprivileged = _texts({"": facts["unprivileged"]})[""]
            self.program_types = frozenset(ProgType[kind.upper()] for kind in self._types)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProfileError(f"no kernel profile: {_reason(error)}") from None

    def __repr__(self) -> str:
        return f"Profile({self.name!r}, {self.release!r}, {self.origin.value})"

    def checked(self) -> Self:
        """Return the profile, having read all of it; raises ProfileError for what is no number."""
        try:
            for kind in self.program_types:
                self.attach_types(kind)
                self.helpers(kind, privileged=False)
                for attach in (0, *AttachType):
                    self.helpers(kind, attach, sleepable=True)
        except ValueError as error:
            raise ProfileError(f"no kernel profile: {error}") from None
        return self

    @property
    def code_features(self) -> frozenset[str]:
        """What compiled scripts may use on this kernel, by the names in ``target.features``."""
        found = {features.PROBE_READ_KERNEL}
        for feature, names in _CODE.items():
            if names <= self.instructions:
                found.add(feature)
        if MapType.RINGBUF in self.map_types:
            found.add(features.RINGBUF)
        if self.version not in _COMM_NOT_PADDED:
            found.add(features.COMM_PADDED)
        return frozenset(found)

    def attach_types(self, prog_type: ProgType) -> frozenset[int]:
        """Return the expected attach types with which a program of a type can be loaded.

        Where the kernel looks at none, that is all of them, and the set is empty.
        """
        return frozenset(_numbers(self._facts(prog_type).get("attach", "")))

    def helpers(
        self,
        prog_type: ProgType,
        attach_type: int = 0,
        *,
        sleepable: bool = False,
        privileged: bool = True,
    ) -> frozenset[int]:
        """Return the numbers of the helpers that a program may call.

        Empty for a type that the kernel does not have. Programs of unprivileged users are of two
        types, SOCKET_FILTER and CGROUP_SKB; those of others get an empty set.
        """
        name = prog_type.name.lower()
        if name not in self._types:
            return frozenset()
        if not privileged:
            return frozenset(_numbers(self._unprivileged.get(name, "")))
        return self._helpers(prog_type, int(attach_type), sleepable)

    @cache  # noqa: B019 - profiles live as long as the process
    def _helpers(self, prog_type: ProgType, attach_type: int, sleepable: bool) -> frozenset[int]:  # noqa: FBT001
        facts = self._facts(prog_type)
        numbers = set(_numbers(facts.get("helpers", "")))
        try:
            attach = AttachType(attach_type).name.lower().removeprefix("cgroup_")
        except ValueError:
            attach = ""
        wanted = [attach]
        if sleepable:
            wanted += ["sleepable", f"{attach}/sleepable"]
        for key in wanted:
            for change in facts.get(f"helpers/{key}", "").split():
                if change[0] not in "+-":
                    raise ValueError(f"'{change[:_SHOWN]}' is no change, as +1-3 and -7 are")
                (numbers.update if change[0] == "+" else numbers.difference_update)(
                    _numbers(change[1:])
                )
        return frozenset(numbers)

    def kfuncs(self, prog_type: ProgType) -> Mapping[str, Kfunc]:
        """Return the kernel functions that programs of a type may call, by name.

        Functions of modules are not among them.
        """
        found: dict[str, Kfunc] = {}
        for hook in ("common", _HOOKS.get(prog_type, "")):
            for flags, names in self._kfuncs.get(hook, {}).items():
                flag_set = frozenset(flags.split())
                found.update((name, Kfunc(name, flag_set)) for name in names.split())
        return found

    def _facts(self, prog_type: ProgType) -> Mapping[str, str]:
        return self._types.get(prog_type.name.lower(), {})


_CODE: Mapping[str, frozenset[str]] = {
    features.CPU_V4: frozenset({"sdiv", "smod", "movsx", "ldsx", "bswap", "gotol"}),
    features.JMP32: frozenset({"v3"}),
    features.MAP_VALUE_ADDR: frozenset({"map_value"}),
}
_COMM_NOT_PADDED = frozenset({(6, 0), (6, 1)})

# Which registered set of kernel functions a program type looks into (btf_kfunc_hook).
_HOOKS: Mapping[ProgType, str] = {
    ProgType.XDP: "xdp",
    ProgType.SCHED_CLS: "sched_cls",
    ProgType.SCHED_ACT: "sched_act",
    ProgType.STRUCT_OPS: "struct_ops",
    ProgType.TRACING: "tracing",
    ProgType.TRACEPOINT: "tracing",
    ProgType.PERF_EVENT: "tracing",
    ProgType.LSM: "tracing",
    ProgType.SYSCALL: "syscall",
    ProgType.CGROUP_SKB: "cgroup",
    ProgType.CGROUP_SOCK: "cgroup",
    ProgType.CGROUP_DEVICE: "cgroup",
    ProgType.CGROUP_SOCK_ADDR: "cgroup",
    ProgType.CGROUP_SOCKOPT: "cgroup",
    ProgType.CGROUP_SYSCTL: "cgroup",
    ProgType.SOCK_OPS: "cgroup",
    ProgType.SK_SKB: "sk_skb",
    ProgType.SOCKET_FILTER: "socket_filter",
    ProgType.LWT_IN: "lwt",
    ProgType.LWT_OUT: "lwt",
    ProgType.LWT_XMIT: "lwt",
    ProgType.LWT_SEG6LOCAL: "lwt",
    ProgType.NETFILTER: "netfilter",
    ProgType.KPROBE: "kprobe",
}


@cache
def profile(name: str | Path) -> Profile:
    """Return the profile of a name of NAMES, of ``live``, or in the file at a path.

    ``live`` is the newest of NAMES that is not newer than the running kernel, or the oldest. What
    holds a ``/`` or ends in ``.json`` is a path. Raises ProfileError, with the nearest names, for
    an unknown one, and for a file that cannot be read or is no profile.
    """
    from pathlib import Path

    text = str(name)
    if text == LIVE:
        import os

        return Profile(_packaged(nearest(os.uname().release)), LIVE)
    if text in NAMES:
        return Profile(_packaged(text))
    if not isinstance(name, Path) and "/" not in text and not text.endswith(".json"):
        from pybpf.suggest import did_you_mean

        raise ProfileError(
            f"unknown kernel profile '{text}'{did_you_mean(text, (*NAMES, LIVE))}\n"
            f"  hint: there are {', '.join(NAMES)}, live, and files of tools/record_profile.py"
        )
    try:
        return Profile(_read(Path(name))).checked()
    except ProfileError as error:
        raise ProfileError(f"{name}: {error}") from None


def nearest(release: str) -> str:
    """Return the name of the newest profile that is not newer than a release, or of the oldest.

    Raises ProfileError where the release does not start with two numbers.
    """
    version = _version(release)
    return max((n for n in NAMES if _version(n) <= version), key=_version, default=NAMES[0])


def _packaged(name: str) -> Mapping[str, Any]:
    import json
    import lzma
    from pathlib import Path

    data = (Path(__file__).parent / "profiles" / f"{name}.json.xz").read_bytes()
    facts: Mapping[str, Any] = json.loads(lzma.decompress(data))
    return facts


def _read(path: Path) -> Mapping[str, Any]:
    import json

    try:
        with path.open("rb") as file:
            data = file.read(_FILE_SIZE + 1)
        if len(data) > _FILE_SIZE:
            raise ProfileError(f"no kernel profile: larger than {_FILE_SIZE >> 20} MiB")
        facts = json.loads(data)
    except OSError as error:
        raise ProfileError(error.strerror or str(error)) from None
    except ValueError as error:
        raise ProfileError(f"no kernel profile: {error}") from None
    except RecursionError:
        raise ProfileError("no kernel profile: nested too deeply") from None
    if not isinstance(facts, dict):
        raise ProfileError("no kernel profile: no JSON object")
    if facts.get("profile") != VERSION:
        raise ProfileError(
            f"no kernel profile of version {VERSION}: 'profile' is {facts.get('profile')!r}"
        )
    return facts


def _text(facts: Mapping[str, Any], name: str) -> str:
    text = facts[name]
    if not isinstance(text, str):
        raise TypeError(f"'{name}' is no text")
    return text


def _notes(value: object) -> Iterable[str]:
    if not isinstance(value, list):
        raise TypeError("'notes' is no list")
    return map(str, value)


def _limit(name: str, value: object) -> int:
    """Return a limit; raises ValueError for what is none."""
    if name not in Limits.__slots__:
        raise ValueError(f"there is no limit '{name[:_SHOWN]}'")
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= _MOST:
        raise ValueError(f"the limit '{name}' is no number from 1 to {_MOST}")
    return value


def _reason(error: Exception) -> str:
    """Say in words what an exception about a profile's facts means."""
    if isinstance(error, KeyError):
        return f"there is no '{error.args[0]}'"
    if isinstance(error, ValueError):
        return str(error)
    return f"a field is of another type: {error}"


def _texts(table: Any) -> dict[str, dict[str, str]]:
    """Return a table of tables of texts; raises AttributeError or TypeError where it is none."""
    found = {name: dict(facts.items()) for name, facts in table.items()}
    if any(not isinstance(text, str) for facts in found.values() for text in facts.values()):
        raise TypeError("no text")
    return found


def _version(release: str) -> tuple[int, int]:
    found = re.match(r"(\d{1,9})\.(\d{1,9})", release)
    if not found:
        raise ProfileError(f"no kernel release: '{release}'")
    return int(found[1]), int(found[2])


def _numbers(text: str) -> Iterable[int]:
    """Yield the numbers of ranges such as ``1-3,7``."""
    for part in filter(None, text.split(",")):
        found = _RANGE.fullmatch(part)
        if found is None:
            raise ValueError(f"'{part[:_SHOWN]}' is no number of a helper or type, nor a range")
        first, last = int(found[1]), int(found[2] or found[1])
        if not first <= last <= _GREATEST:
            raise ValueError(f"{part} is no number of a helper or type, nor a range of them")
        yield from range(first, last + 1)


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers as ranges such as ``1-3,7``."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
