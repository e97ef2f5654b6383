"""Probes of functions: kprobes, kretprobes, fprobes and tprobes; the words in, the event out.

Sources: trace_kprobe_create_internal() of kernel/trace/trace_kprobe.c and
trace_fprobe_create_internal() of kernel/trace/trace_fprobe.c.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence

from pybpf.dataclass import dataclass, replace
from pybpf.tracefs.dynevent import Fprobe, Kprobe, Tprobe
from pybpf.tracefs.dynevents.argument import Argument, parse_arguments
from pybpf.tracefs.dynevents.context import Context, Where
from pybpf.tracefs.dynevents.ctext import (
    U32,
    NumberError,
    restore,
    signed,
    unsigned,
    unsigned32,
)
from pybpf.tracefs.dynevents.existing import Existing
from pybpf.tracefs.dynevents.expand import expand, written
from pybpf.tracefs.dynevents.layout import probe_format
from pybpf.tracefs.dynevents.log import Log, Refused
from pybpf.tracefs.dynevents.messages import Message
from pybpf.tracefs.dynevents.probe import (
    Name,
    NotMine,
    State,
    exists,
    made_name,
    maxactive_text,
    own_name,
)
from pybpf.tracefs.dynevents.rules import MAX_ARGS, MAX_NAME
from pybpf.tracefs.dynevents.symbols import is_function, look_up_symbols
from pybpf.tracefs.dynevents.world import Kind
from pybpf.tracefs.fetch import Builtin, FetchArg

_MAX_ACTIVE = 4096
_DEFAULT_ACTIVE = 10
"""What a kretprobe without a number gets, or twice the number of CPUs if that is more."""
_TEXT_START = 0xFFFF_FFFF_8100_0000
"""Where the kernel's text starts on x86-64 without KASLR; what lies there cannot be probed."""


@dataclass(frozen=True, slots=True)
class _Probe:
    """What was found of a command before its arguments are judged."""

    kind: Kind
    head: str
    place: str
    where: Where
    function: str | None
    returns: bool


@dataclass(frozen=True, slots=True)
class _Parsed:
    """The arguments of a probe, and their values as they were written.

    ``unknown`` says that there are more arguments, which only BTF could tell.
    """

    args: tuple[Argument, ...]
    values: tuple[FetchArg, ...]
    unknown: bool


# --- kprobes --------------------------------------------------------------------------------------


def make_kprobe(argv: Sequence[str], state: State) -> None:
    """Make a kprobe or kretprobe. Raises NotMine, or Refused with the reason logged."""
    if argv[0][0] not in "pr" or len(argv) < 2:
        raise NotMine
    log = state.log
    log.command("trace_kprobe", argv)
    returns = argv[0][0] == "r"
    maxactive = _kprobe_maxactive(argv[0], log, returns=returns)
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
    head = f"r{active}" if returns else "p"
    probe = _Probe("kprobe", head, place, where, symbol or None, returns)
    parsed = _parse(argv, probe, state)
    _check_place(symbol, offset, address, parsed.args, state)
    given = _given(name)
    value = Kprobe(
        restore(argv[1].removesuffix("%return") if symbol else argv[1]),
        parsed.values,
        *given,
        returns,
        maxactive,
    )
    _register(probe, value, group, event, parsed, state)


def _kprobe_maxactive(head: str, log: Log, *, returns: bool) -> int | None:
    text = maxactive_text(head)
    if text is None:
        return None
    if not returns:
        raise log.refuse(Message.BAD_MAXACT_TYPE, errno.EINVAL, 1)
    return _maxactive(text, log)


def _maxactive(text: str, log: Log) -> int:
    try:
        number = unsigned32(text) if len(text) <= MAX_NAME else 0
    except NumberError:
        number = 0
    if not number:
        raise log.refuse(Message.BAD_MAXACT, errno.EINVAL, 1)
    if number > _MAX_ACTIVE:
        raise log.refuse(Message.MAXACT_TOO_BIG, errno.EINVAL, 1)
    return number


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
    if not 0 <= offset < U32 or (state.world.rules.early_symbols and not _probed(symbol, state)):
        raise state.log.refuse(Message.BAD_PROBE_ADDR, errno.EINVAL)
    return symbol, offset, returns


def _probed(symbol: str, state: State) -> bool:
    """Say whether a probe may be made of a symbol; one of a module may wait for the module."""
    module, colon, name = symbol.partition(":")
    if colon:
        state.assume(f"the modules of the kernel are not known: {module} is taken to be absent")
        return bool(module and name)
    return is_function(symbol, state)


def _entry(symbol: str, offset: int, state: State, *, returns: bool) -> Where:
    """Return whether arguments can be fetched; refuse a return probe within a function."""
    at_entry = offset in {0, state.world.rules.entry} and _probed(symbol, state)
    if returns:
        if offset not in {0, state.world.rules.entry} and _probed(symbol, state):
            raise state.log.refuse(Message.BAD_RETPROBE, errno.EINVAL)
        return Where.RETURN
    return Where.ENTRY if at_entry else Where(0)


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
    if address is None and not _probed(symbol, state):
        raise log.refuse(Message.BAD_PROBE_ADDR, errno.ENOENT)
    if address == _TEXT_START:
        raise log.refuse(Message.FAIL_REG_PROBE, errno.EINVAL)
    if 0 < offset < 4:
        raise log.refuse(Message.BAD_INSN_BNDRY, errno.EILSEQ)
    if offset not in {0, state.world.rules.entry}:
        state.assume(f"an instruction is taken to begin at {symbol}+{offset}")


# --- fprobes and tprobes --------------------------------------------------------------------------


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
    maxactive = None if text is None else _maxactive(text, log)
    log.index = 1
    symbol, returns = _fprobe_symbol(argv, state, tracepoint=tracepoint)
    if maxactive is not None and not returns:
        log.index = 0
        raise log.refuse(Message.BAD_MAXACT_TYPE, errno.EINVAL, 1)
    log.index = 0
    name, group = own_name(argv[0], log, "tracepoints" if tracepoint else "fprobes")
    if not tracepoint and rules.casts and not _pattern(symbol) and not is_function(symbol, state):
        log.index = 1
        raise log.refuse(Message.BAD_PROBE_ADDR, errno.EINVAL)
    probe = _fprobe(symbol, maxactive, state, tracepoint=tracepoint, returns=returns)
    event = name.event or made_name(_fprobe_name(symbol, tracepoint=tracepoint, returns=returns))
    parsed = _parse(argv, probe, state)
    _check_fprobe(symbol, parsed.args, state, tracepoint=tracepoint)
    if tracepoint:
        value: Fprobe | Tprobe = Tprobe(restore(symbol), parsed.values, *_given(name))
    else:
        value = Fprobe(restore(symbol), parsed.values, *_given(name), returns, maxactive)
    _register(probe, value, group, event, parsed, state)


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
) -> _Probe:
    where = Where.KERNEL | Where.FPROBE | (Where.RETURN if returns else Where.ENTRY)
    function = symbol
    if tracepoint:
        where |= Where.TRACEPOINT
        stub = f"__probestub_{symbol}"
        types = state.world.types
        if types is None or types.function(stub) is not None:
            function = stub
    head = "t" if tracepoint else "f" if maxactive is None else f"f{maxactive}"
    place = restore(symbol) + ("%return" if returns else "")
    return _Probe("fprobe", head, place, where, function, returns)


def _pattern(symbol: str) -> bool:
    return "*" in symbol or "?" in symbol


def _check_fprobe(symbol: str, args: Sequence[Argument], state: State, *, tracepoint: bool) -> None:
    log = state.log
    log.index = 1
    try:
        for arg in args:
            look_up_symbols(arg, state)
    except Refused as refusal:
        missing = refusal.errno == errno.ENOENT
        log.add(Message.BAD_PROBE_ADDR if missing else Message.FAIL_REG_PROBE)
        raise
    if not tracepoint and not _pattern(symbol) and not is_function(symbol, state):
        raise log.refuse(Message.FAIL_REG_PROBE, errno.EINVAL)


# --- both -----------------------------------------------------------------------------------------


def _given(name: Name) -> tuple[str | None, str | None]:
    return name.group and restore(name.group), name.event and restore(name.event)


def _parse(argv: Sequence[str], probe: _Probe, state: State) -> _Parsed:
    context = Context(state.log, state.world, probe.where, function=probe.function)
    words, unknown = expand(argv[2:], context)
    words = words[: limit(len(words), state)]
    args = parse_arguments([word.text for word in words], context)
    for what in context.assumptions:
        state.assume(what)
    values = written(words, args)
    if unknown:
        place = next(at for at, word in enumerate(argv[2:]) if word.startswith("$arg*"))
        values = (*values[:place], FetchArg(Builtin("arg*")), *values[place:])
    return _Parsed(args, values, unknown)


def limit(count: int, state: State) -> int:
    """Return how many of the arguments are taken. Raises Refused where too many are no option."""
    if count <= MAX_ARGS:
        return count
    match state.world.rules.excess_args:
        case "dropped":
            return MAX_ARGS
        case "logged":
            state.log.index = 2
            raise state.log.refuse(Message.TOO_MANY_ARGS, errno.E2BIG)
        case _:
            raise Refused(errno.E2BIG)


def _register(
    probe: _Probe,
    value: Kprobe | Fprobe | Tprobe,
    group: str,
    event: str,
    parsed: _Parsed,
    state: State,
) -> None:
    made = Existing(
        kind=probe.kind,
        group=restore(group),
        event=restore(event),
        head=probe.head,
        place=restore(probe.place),
        value=value,
        args=parsed.args,
    )
    append_or_add(made, state, known=not parsed.unknown)


def append_or_add(made: Existing, state: State, *, known: bool = True) -> None:
    """Make a probe, or one more for an event that has the same arguments. Raises Refused.

    ``known`` says that all of its arguments are.
    """
    old = [e for e in state.events if e.kind == made.kind and e.name == made.name]
    text = None
    if old:
        _check_sibling(made, old, state)
        text = old[0].format
    elif state.taken(made.name):
        raise exists(state)
    elif known and all(arg.known for arg in made.args):
        text = probe_format(made.event, state.next_number(), made.args, returns=made.returns)
    state.add(replace(made, format=text))


def _check_sibling(made: Existing, old: Sequence[Existing], state: State) -> None:
    log, first = state.log, old[0]
    if made.returns != first.returns or made.head[:1] != first.head[:1]:
        log.index = 0
        raise log.refuse(Message.DIFF_PROBE_TYPE, errno.EEXIST)
    different = _first_difference(made.args, first.args)
    if different is not None:
        log.index = different + 2
        raise log.refuse(Message.DIFF_ARG_TYPE, errno.EEXIST)
    texts = [arg.text for arg in made.args]
    if any(e.place == made.place and [arg.text for arg in e.args] == texts for e in old):
        log.index = 0
        raise log.refuse(Message.SAME_PROBE, errno.EEXIST)


def _first_difference(new: Sequence[Argument], old: Sequence[Argument]) -> int | None:
    if len(new) != len(old):
        return min(len(new), len(old))
    for place, (one, other) in enumerate(zip(new, old, strict=True)):
        if (one.storage, one.count, one.name) != (other.storage, other.count, other.name):
            return place
    return None
