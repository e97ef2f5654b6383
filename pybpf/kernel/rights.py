"""What this process may do: files of /proc and /sys are read; the rights that are missing come out.

Sources: capabilities(7), proc(5), kernel_lockdown(7), Documentation/admin-guide/sysctl/kernel.rst.
"""

from __future__ import annotations

from collections.abc import Mapping

_CAPABILITIES = {
    "CAP_SYS_ADMIN": 21,
    "CAP_SYS_RESOURCE": 24,
    "CAP_SYSLOG": 34,
    "CAP_PERFMON": 38,
    "CAP_BPF": 39,
}
"""Those that tracing may take, by their bits."""
_SYSCTLS = ("unprivileged_bpf_disabled", "perf_event_paranoid", "kptr_restrict")
_WHOLE = ["0", "0", "4294967295"]
_FILTERED = "2"  # SECCOMP_MODE_FILTER


def lacking() -> tuple[str, ...]:
    """Return the capabilities that tracing may take and this process has not, in effect.

    None where /proc does not tell.
    """
    effective = int(_status().get("CapEff", "-1"), 16)
    return tuple(sorted(name for name, bit in _CAPABILITIES.items() if not effective >> bit & 1))


def needed() -> tuple[str, ...]:
    """Return the capabilities without which no script runs, and that this process has not.

    CAP_SYS_ADMIN stands for both, and is the only one before Linux 5.8.
    """
    missing = lacking()
    if "CAP_SYS_ADMIN" not in missing:
        return ()
    return tuple(name for name in ("CAP_BPF", "CAP_PERFMON") if name in missing)


def are_told() -> bool:
    """Whether /proc tells which capabilities this process has."""
    return "CapEff" in _status()


def in_user_namespace() -> bool:
    """Whether capabilities are those of a user namespace, which count for nothing in BPF."""
    return (_read("/proc/self/uid_map").split() or _WHOLE) != _WHOLE


def filtered() -> bool:
    """Whether a seccomp filter decides which system calls this process may make."""
    return _status().get("Seccomp") == _FILTERED


def lockdown() -> str:
    """Return the kernel's lockdown mode: ``none``, ``integrity`` or ``confidentiality``.

    Empty where the kernel has none, or does not tell.
    """
    _, _, rest = _read("/sys/kernel/security/lockdown").partition("[")
    return rest.partition("]")[0]


def sysctls() -> Mapping[str, str]:
    """Return the settings that restrict tracing, ``kernel.kptr_restrict`` to ``1``."""
    found = {f"kernel.{name}": _read(f"/proc/sys/kernel/{name}").strip() for name in _SYSCTLS}
    return {name: value for name, value in found.items() if value}


def why_no_perf() -> str:
    """Return what perf events take, in words.

    Debian's kernels know a level 3 of ``perf_event_paranoid``, and set it.
    """
    level = sysctls().get("kernel.perf_event_paranoid", "")
    if level.isdecimal() and int(level) > 2:
        return (
            f"kernel.perf_event_paranoid is {level}: here perf events take CAP_SYS_ADMIN; "
            "`sysctl kernel.perf_event_paranoid=2` makes CAP_PERFMON do"
        )
    return "perf events take root, or the capability CAP_PERFMON"


def explain() -> str:
    """Return what may be behind a refusal (EPERM, EACCES), as part of a sentence."""
    reasons = []
    if in_user_namespace():
        reasons.append("capabilities of a user namespace do not count")
    elif missing := needed():
        reasons.append(f"this process lacks {' and '.join(missing)}")
    if filtered():
        reasons.append("a seccomp filter may forbid it (as that of a container)")
    if lockdown() == "confidentiality":
        reasons.append("the kernel is locked down (/sys/kernel/security/lockdown)")
    return "; ".join(reasons)


def _status() -> Mapping[str, str]:
    lines = (line.partition(":") for line in _read("/proc/self/status").splitlines())
    return {name: value.strip() for name, _, value in lines}


def _read(path: str) -> str:
    """Return the text of a file; empty where it cannot be read."""
    try:
        with open(path) as file:  # noqa: PTH123 - pathlib loads slowly
            return file.read()
    except OSError:
        return ""
