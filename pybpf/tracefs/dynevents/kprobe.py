"""Kprobes and kretprobes: the words of ``p[:[GROUP/][EVENT]] PLACE ARGS`` in, the event out.

Source: trace_kprobe_create_internal() of kernel/trace/trace_kprobe.c.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence

from pybpf.tracefs.dynevent import Kprobe
from pybpf.tracefs.dynevents.argument import Argument
from pybpf.tracefs.dynevents.context import Where
from pybpf.tracefs.dynevents.ctext import (
    U32,
    NumberError,
    restore,
    signed,
    unsigned,
)
from pybpf.tracefs.dynevents.function import (
    Probe,
    given_name,
    parse_maxactive,
    parse_probe,
    register,
)
from pybpf.tracefs.dynevents.log import Log, Refused
from pybpf.tracefs.dynevents.messages import Message
from pybpf.tracefs.dynevents.probe import (
    NotMine,
    State,
    made_name,
    maxactive_text,
    own_name,
)
from pybpf.tracefs.dynevents.symbols import is_function, look_up_symbols

_DEFAULT_ACTIVE = 10
"""What a kretprobe without a number gets, or twice the number of CPUs if that is more."""
_TEXT_START = 0xFFFF_FFFF_8100_0000
"""Where the kernel's text starts on x86-64 without KASLR; what lies there cannot be probed."""


def make_kprobe(argv: Sequence[str], state: State) -> None:
    """Make a kprobe or kretprobe. Raises NotMine, or Refused with the reason logged."""
    if argv[0][0] not in "pr" or len(argv) < 2:
        raise NotMine
    log = state.log
    log.command("trace_kprobe", argv)
    returns = argv[0][0] == "r"
    maxactive = _return_limit(argv[0], log, returns=returns)
    log.index = 1
    symbol, offset, address = "", 0, _address(argv[1])
    where = Where.KERNEL
    if address is None:
        if "/" in argv[1] and ":" in argv[1]:
            raise NotMine
        symbol, offset, returns = _symbol(argv[1], state, returns=returns)
        if returns:
            where |= Where.RETURN
        where |= _entry(symbol, offset, state, returns=returns)
        if state.world.rules.repeated_late:
            _check_unique(symbol, state)
    log.index = 0
    name, group = own_name(argv[0], log, "kprobes")
    letter = "r" if returns else "p"
    if address is None:
        event = name.event or made_name(f"{letter}_{symbol}_{offset}")
        place = f"{symbol}+{offset}" if offset else symbol
    else:
        # The kernel shows a hash of the address, in the listing and in the name that it makes.
        state.assume("the kernel lists an address as a hash of it, which cannot be told")
        event = name.event or made_name(f"{letter}_0x{address:016x}")
        place = f"0x{address:x}"
    active = maxactive or max(_DEFAULT_ACTIVE, 2 * state.world.cpus)
    # What waits for its module has not been given the default yet.
    head = f"r{active}" if returns and (maxactive or ":" not in symbol) else letter
    probe = Probe("kprobe", head, place, where, symbol or None, returns)
    parsed = parse_probe(argv, probe, state)
    _check_place(symbol, offset, address, parsed.args, state)
    given = given_name(name)
    value = Kprobe(
        restore(argv[1].removesuffix("%return") if symbol else argv[1]),
        parsed.values,
        *given,
        returns,
        maxactive,
    )
    register(probe, value, group, event, parsed, state)


def _return_limit(head: str, log: Log, *, returns: bool) -> int | None:
    text = maxactive_text(head)
    if text is None:
        return None
    if not returns:
        raise log.refuse(Message.BAD_MAXACT_TYPE, errno.EINVAL, 1)
    return parse_maxactive(text, log)


def _address(text: str) -> int | None:
    try:
        return unsigned(text)
    except NumberError:
        return None


def _symbol(text: str, state: State, *, returns: bool) -> tuple[str, int, bool]:
    symbol, percent, suffix = text.partition("%")
    if percent:
        if suffix != "return":
            raise state.log.refuse(Message.BAD_ADDR_SUFFIX, errno.EINVAL, len(symbol))
        returns = True
    match = re.search("[+-]", symbol)
    offset = 0
    if match is not None:
        try:
            offset = signed(symbol[match.start() :])
        except NumberError:
            offset = -1
        symbol = symbol[: match.start()]
    if not 0 <= offset < U32:
        raise state.log.refuse(Message.BAD_PROBE_ADDR, errno.EINVAL)
    if not _probed(symbol, state):
        raise state.log.refuse(Message.BAD_PROBE_ADDR, state.world.rules.symbol_errno)
    if not state.world.rules.repeated_late:
        _check_unique(symbol, state)
    return symbol, offset, returns


def _check_unique(symbol: str, state: State) -> None:
    """Refuse a symbol that is there several times: any of them might be meant."""
    if symbol in state.world.repeated:
        raise state.log.refuse(Message.NON_UNIQ_SYMBOL, state.world.rules.repeated_errno)


def _probed(symbol: str, state: State) -> bool:
    """Say whether a probe may be made of a symbol; one of a module may wait for the module."""
    module, colon, name = symbol.partition(":")
    if colon:
        state.assume(f"the modules of the kernel are not known: {module} is taken to be absent")
        return bool(module and name)
    world = state.world
    data = world.symbols is not None and symbol in world.symbols
    return data or symbol in world.repeated or is_function(symbol, state)


def _entry(symbol: str, offset: int, state: State, *, returns: bool) -> Where:
    """Return whether arguments can be fetched; refuse a return probe within a function."""
    entry = offset == 0 or (offset == state.world.rules.entry and is_function(symbol, state))
    there = ":" not in symbol and _probed(symbol, state)
    if returns:
        if there and not entry:
            raise state.log.refuse(Message.BAD_RETPROBE, errno.EINVAL)
        return Where.RETURN
    return Where.ENTRY if entry and there else Where(0)


def _check_place(
    symbol: str, offset: int, address: int | None, args: Sequence[Argument], state: State
) -> None:
    """Refuse what registering the probe would; the arguments' symbols are looked up with it."""
    log = state.log
    log.index = 1
    try:
        for arg in args:
            look_up_symbols(arg, state)
    except Refused as refusal:
        missing = refusal.errno == errno.ENOENT
        log.add(Message.BAD_PROBE_ADDR if missing else Message.FAIL_REG_PROBE)
        raise
    data = address is None and ":" not in symbol and not is_function(symbol, state)
    if data or address == _TEXT_START:
        raise log.refuse(Message.FAIL_REG_PROBE, errno.EINVAL)
    # A function begins with the 5 bytes of a call of ftrace, on some kernels after endbr64.
    entry = state.world.rules.entry
    if 0 < offset < entry + 5 and offset != entry:
        raise log.refuse(Message.BAD_INSN_BNDRY, errno.EILSEQ)
    if offset not in {0, state.world.rules.entry}:
        state.assume(f"an instruction is taken to begin at {symbol}+{offset}")
