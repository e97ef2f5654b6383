"""kprobe and kretprobe: [MODULE:]SYMBOL, that +OFFSET, an address, or [MODULE:]PATTERN."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pybpf.compiler.glob import is_glob, matching
from pybpf.compiler.scope import fault
from pybpf.errors import TargetError
from pybpf.isa.insn import Program
from pybpf.script import KernelFunction, ProbeSpec, Provider
from pybpf.source import Span
from pybpf.suggest import did_you_mean
from pybpf.target.target import Target

_NUMBER = r"0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20}"
_PLACE = re.compile(rf"(?P<symbol>(?:\w+:)?[A-Za-z_.$][\w.$]*)(?:\+(?P<offset>{_NUMBER}))?")
_LIST = "`pybpf list 'kprobe:*'` shows all there are"
_ADDRESS = re.compile(_NUMBER)


def kprobe(where: str, span: Span, target: Target) -> list[ProbeSpec]:
    """Return the probe of ``kprobe:where``."""
    return _resolve(Provider.KPROBE, where, span, target)


def kretprobe(where: str, span: Span, target: Target) -> list[ProbeSpec]:
    """Return the probe of ``kretprobe:where``."""
    return _resolve(Provider.KRETPROBE, where, span, target)


def _resolve(provider: Provider, where: str, span: Span, target: Target) -> list[ProbeSpec]:
    if not where:
        raise fault(span, f"{provider} wants a function", f"such as {provider}:vfs_read")
    if _ADDRESS.fullmatch(where):
        places = [KernelFunction("", _number(where, span))]
    elif match := _PLACE.fullmatch(where):
        places = [KernelFunction(match["symbol"], _number(match["offset"] or "0", span))]
    elif is_glob(where):
        return [_expand(provider, where, span, target)]
    else:
        hint = f"as in {provider}:vfs_read, {provider}:vfs_read+0x10 or {provider}:vfs_*"
        raise fault(span, f"'{where}' is no function, function+offset, address or pattern", hint)
    return [ProbeSpec(provider, span.text, Program(()), functions=tuple(places))]


def _number(text: str, span: Span) -> int:
    number = int(text, 16) if text[:2].lower() == "0x" else int(text)
    if number >= 1 << 64:
        raise fault(span, f"{text} is beyond the 64 bits of an address")
    return number


def _expand(provider: Provider, where: str, span: Span, target: Target) -> ProbeSpec:
    try:
        known = target.functions()
    except TargetError as error:
        raise fault(span, error.message, *error.hints) from error
    module, _, pattern = where.rpartition(":")
    found = matching(pattern, known)
    if module:
        found = _of_module(module, found, span, target)
    if not found:
        near = did_you_mean(re.sub(r"[^\w.]", "", where), known)
        message = f"no function of this kernel matches '{where}'{near}"
        hints = _renamed(provider, where, known, target)
        if not hints and "+" in where:
            hints = ("a pattern has no offset: it stands for the starts of functions",)
        raise fault(span, message, *(hints or ((_LIST,) if known and not near else ())))
    places = tuple(KernelFunction(name) for name in found)
    return ProbeSpec(provider, span.text, Program(()), functions=places, glob=True)


def _of_module(module: str, names: Sequence[str], span: Span, target: Target) -> list[str]:
    """Return those functions that a module has, as ``module:function``."""
    try:
        symbols = target.symbols
    except TargetError as error:
        raise fault(span, error.message, *error.hints) from error
    return [f"{module}:{name}" for name in names if symbols.addresses(f"{name} [{module}]")]


def _renamed(
    provider: Provider, where: str, known: Sequence[str], target: Target
) -> tuple[str, ...]:
    """Return advice where a pattern would match what system calls are called today."""
    for name in target.arch.syscall_functions(where):
        if matching(name, known):
            return (
                f"since Linux 4.17 that is {provider}:{name}, with a struct pt_regs as argument",
                "tracepoint:syscalls/sys_enter_… has the arguments of system calls",
            )
    return ()
