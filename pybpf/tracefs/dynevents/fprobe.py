"""Fprobes and tprobes: the words of ``f[:[GROUP/][EVENT]] SYMBOL ARGS`` in, the event out.

Source: trace_fprobe_create_internal() of kernel/trace/trace_fprobe.c.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence

from pybpf.tracefs.dynevent import Fprobe, Tprobe
from pybpf.tracefs.dynevents.argument import Argument
from pybpf.tracefs.dynevents.context import Where
from pybpf.tracefs.dynevents.ctext import (
    restore,
)
from pybpf.tracefs.dynevents.function import (
    Probe,
    given_name,
    parse_maxactive,
    parse_probe,
    register,
)
from pybpf.tracefs.dynevents.log import Refused
from pybpf.tracefs.dynevents.messages import Message
from pybpf.tracefs.dynevents.probe import (
    NotMine,
    State,
    made_name,
    maxactive_text,
    own_name,
)
from pybpf.tracefs.dynevents.symbols import is_function, look_up_symbols


def make_fprobe(argv: Sequence[str], state: State) -> None:
    """Make an fprobe or tprobe. Raises NotMine, or Refused with the reason logged."""
    if argv[0][0] not in "ft" or len(argv) < 2 or not state.world.rules.function_probes:
        raise NotMine
    log, rules = state.log, state.world.rules
    log.command("trace_fprobe", argv)
    tracepoint = argv[0][0] == "t"
    text = maxactive_text(argv[0])
    if text is not None and not rules.fprobe_maxactive:
        raise log.refuse(Message.BAD_MAXACT, errno.EINVAL, 1)
    maxactive = None if text is None else parse_maxactive(text, log)
    log.index = 1
    symbol, returns = _fprobe_symbol(argv, state, tracepoint=tracepoint)
    if maxactive is not None and not returns:
        log.index = 0
        raise log.refuse(Message.BAD_MAXACT_TYPE, errno.EINVAL, 1)
    log.index = 0
    name, group = own_name(argv[0], log, "tracepoints" if tracepoint else "fprobes")
    probe = _fprobe(symbol, maxactive, state, tracepoint=tracepoint, returns=returns)
    event = name.event or made_name(_fprobe_name(symbol, tracepoint=tracepoint, returns=returns))
    parsed = parse_probe(argv, probe, state)
    _check_fprobe(symbol, parsed.args, state, tracepoint=tracepoint)
    if tracepoint:
        value: Fprobe | Tprobe = Tprobe(restore(symbol), parsed.values, *given_name(name))
    else:
        value = Fprobe(restore(symbol), parsed.values, *given_name(name), returns, maxactive)
    register(probe, value, group, event, parsed, state)


def _fprobe_symbol(argv: Sequence[str], state: State, *, tracepoint: bool) -> tuple[str, bool]:
    log = state.log
    symbol, percent, suffix = argv[1].partition("%")
    if percent and (tracepoint or suffix != "return"):
        raise log.refuse(Message.BAD_ADDR_SUFFIX, errno.EINVAL, len(symbol))
    if tracepoint and (bad := re.search(r"[^A-Za-z0-9_]", symbol)):
        raise log.refuse(Message.BAD_TP_NAME, errno.EINVAL, bad.start())
    if percent:
        return symbol, True
    for index, word in enumerate(argv[2:], start=2):
        place = word.find("$retval")
        after = word[place + 7 : place + 8]
        if place < 0 or (after and (after.isalnum() or after == "_")):
            continue
        if tracepoint:
            log.index = index
            raise log.refuse(Message.RETVAL_ON_PROBE, errno.EINVAL, place)
        return symbol, True
    return symbol, False


def _fprobe_name(symbol: str, *, tracepoint: bool, returns: bool) -> str:
    if tracepoint:
        return f"_{symbol}" if symbol[:1].isdigit() else symbol
    return f"{symbol}__{'exit' if returns else 'entry'}"


def _fprobe(
    symbol: str, maxactive: int | None, state: State, *, tracepoint: bool, returns: bool
) -> Probe:
    where = Where.KERNEL | Where.FPROBE | (Where.RETURN if returns else Where.ENTRY)
    function = symbol
    if tracepoint:
        where |= Where.TRACEPOINT
        stub = f"__probestub_{symbol}"
        types = state.world.types
        if types is None or not types.complete or types.function(stub) is not None:
            function = stub
    head = "t" if tracepoint else "f" if maxactive is None else f"f{maxactive}"
    place = restore(symbol) + ("%return" if returns else "")
    return Probe("fprobe", head, place, where, function, returns)


def _pattern(symbol: str) -> bool:
    return "*" in symbol or "?" in symbol


def _check_fprobe(symbol: str, args: Sequence[Argument], state: State, *, tracepoint: bool) -> None:
    log = state.log
    log.index = 1
    absent = not tracepoint and not _pattern(symbol) and not is_function(symbol, state)
    if absent and state.world.rules.casts:
        raise log.refuse(Message.BAD_PROBE_ADDR, errno.EINVAL)
    try:
        for arg in args:
            look_up_symbols(arg, state)
    except Refused as refusal:
        missing = refusal.errno == errno.ENOENT
        log.add(Message.BAD_PROBE_ADDR if missing else Message.FAIL_REG_PROBE)
        raise
    if absent:
        raise log.refuse(Message.FAIL_REG_PROBE, errno.EINVAL)
