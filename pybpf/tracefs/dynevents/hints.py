"""What to change where a definition is refused: an entry of the error_log in, advice out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pybpf.suggest import suggest
from pybpf.tracefs.dynevents.argument import STORAGES
from pybpf.tracefs.dynevents.ctext import restore, words
from pybpf.tracefs.dynevents.log import LogEntry
from pybpf.tracefs.dynevents.messages import Message
from pybpf.tracefs.dynevents.rules import MAX_ARRAY, MAX_NAME
from pybpf.tracefs.dynevents.world import Kind, World
from pybpf.tracefs.filters.explain import filter_hints
from pybpf.tracefs.filters.fields import kernel_fields
from pybpf.tracefs.filters.rules import tracing_rules
from pybpf.tracefs.format import EventFormat, parse_format

_NAMES = "a name has letters, digits and _, and does not begin with a digit"
_FIXED: Mapping[Message, str] = {
    Message.NON_UNIQ_SYMBOL: "several symbols have that name: write the address of one of them,"
    " as /proc/kallsyms has it",
    Message.FAIL_REG_PROBE: "probes are put on functions that ftrace can trace: not on data, nor on"
    " code that tracing itself needs",
    Message.BAD_EVENT_NAME: _NAMES,
    Message.BAD_ARG_NAME: _NAMES,
    Message.BAD_GROUP_NAME: "a group has letters, digits, _ and -, and does not begin with a digit",
    Message.EVENT_TOO_LONG: f"a name has at most {MAX_NAME} bytes",
    Message.GROUP_TOO_LONG: f"a name has at most {MAX_NAME} bytes",
    Message.NO_EVENT_INFO: "what to attach to is GROUP.EVENT, such as sched.sched_switch",
    Message.EVENT_EXIST: "remove that event first, -:GROUP/EVENT, or take another name",
    Message.EVENT_EXISTS: "remove that event first, -:synthetic/NAME, or take another name",
    Message.USED_ARG_NAME: "give each argument a name of its own: NAME=FETCH",
    Message.ARG_NAME_TOO_LONG: "an argument's name has at most 32 bytes",
    Message.NO_ARG_BODY: "an argument is NAME=FETCH, without spaces",
    Message.BAD_STRING: "strings and arrays are read from memory: +0(ADDRESS):TYPE",
    Message.BAD_SYMSTRING: "symstr takes a value: a field, or +0(ADDRESS)",
    Message.ARRAY_TOO_BIG: f"an array has at most {MAX_ARRAY} elements",
    Message.BAD_ARRAY_NUM: f"an array has 1 to {MAX_ARRAY} elements",
    Message.BAD_BITFIELD: "bWIDTH@OFFSET/CONTAINER, in bits: WIDTH and OFFSET fit in CONTAINER",
    Message.COMM_CANT_DEREF: "$comm is a string itself: $comm:string",
    Message.IMMSTR_NO_CLOSE: 'a string is \\"TEXT", with no space, : or # in it',
    Message.BAD_DEREF_OFFS: "a dereference is +OFFSET(ADDRESS)",
    Message.DEREF_NEED_BRACE: "a dereference is +OFFSET(ADDRESS)",
    Message.TYPECAST_REQ_FIELD: "a cast needs a member: (STRUCT)ADDRESS->MEMBER",
    Message.NO_PTR_STRCT: "a cast takes the name of a structure, without 'struct' and '*'",
    Message.NO_EP_FILTER: "a filter follows 'if', such as if prev_pid == 0",
    Message.NOFENTRY_ARGS: "arguments of functions can be read where they begin and return",
    Message.RETVAL_ON_PROBE: "$retval is there in return probes",
    Message.BAD_MAXACT_TYPE: "only return probes take a number",
    Message.BAD_IMM: "an immediate is \\NUMBER, of 64 bits",
    Message.NOSUP_PERCPU: "only kprobes and fprobes read variables of a CPU",
    Message.EVENT_TOO_BIG: "the arguments of an event take at most 3072 bytes",
    Message.TOO_MANY_ARGS: "an event has at most 128 arguments",
    Message.INVALID_CMD: "a synthetic event is s:NAME TYPE FIELD; TYPE FIELD",
    Message.INVALID_DYN_CMD: "the group of synthetic events is 'synthetic'",
    Message.INVALID_ARRAY_SPEC: "a string is char NAME[N] with N up to 256, or char NAME[]",
}
_LETTERS: Mapping[str, tuple[Kind, ...]] = {
    "e": ("eprobe",), "s": ("synthetic",), "f": ("fprobe",), "t": ("fprobe",),
    "p": ("kprobe", "uprobe"), "r": ("kprobe", "uprobe"),
}  # fmt: skip
_FIELD = frozenset({Message.BAD_VAR, Message.BAD_ATTACH_ARG, Message.NO_EVENT_FIELD})


def hints_for(entry: LogEntry, line: str, world: World) -> tuple[str, ...]:
    """Return what to change in ``line``, which was refused with ``entry``."""
    if entry.subsystem == "event filter parse error":
        return _filter(entry, line, world)
    meant = {world.rules.say(message): message for message in Message}
    message = meant.get(entry.message)
    eprobe = entry.subsystem == "event_probe"
    match message:
        case Message.ARG_TOO_LONG:
            return (f"an argument has at most {world.rules.expression} bytes, its name apart",)
        case Message.TOO_MANY_NESTED:
            return (f"at most {world.rules.nesting} dereferences and casts can be nested",)
        case Message.BAD_TYPE:
            return _type(entry)
        case Message.NO_MATCHING_TYPE:
            return lacking_hints(line, world)
        case Message.BAD_ATTACH_EVENT:
            return _event(line, world)
        case Message.NOSUP_BTFARG if eprobe:
            return ("write $ before the name of a field",)
        case Message.BAD_FETCH_ARG if eprobe and not world.rules.casts:
            return ("a field is $NAME; this kernel has neither casts nor fields without $",)
        case _ if message in _FIELD and eprobe:
            return _field(entry, line, world)
    return (_FIXED[message],) if message is not None and message in _FIXED else ()


def _word_at(entry: LogEntry) -> str:
    """Return the name at the caret, or of the first field after it."""
    text = entry.command[entry.column :]
    text = text.partition(" ")[0].partition("$")[2] or text.partition(" ")[0]
    name = ""
    for char in text:
        if not (char.isalnum() or char == "_"):
            break
        name += char
    return name


def lacking_hints(line: str, world: World) -> tuple[str, ...]:
    """Return what the kernel was built without, of what a line may define."""
    kinds = _LETTERS.get(line[:1], ())
    return tuple(f"this kernel has no {world.lacking[k]}" for k in kinds if k in world.lacking)


def _did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> tuple[str, ...]:
    found = suggest(name, known)
    return (f"did you mean {' or '.join(prefix + one for one in found)}?",) if found else ()


def _type(entry: LogEntry) -> tuple[str, ...]:
    name = entry.command[entry.column :].partition(" ")[0].partition("[")[0]
    guess = _did_you_mean(name, STORAGES)
    return guess or ("types are u8 to u64, s8 to s64, x8 to x64, string, ustring, symbol, b1@0/8",)


def _event(line: str, world: World) -> tuple[str, ...]:
    target = restore(words(line)[1]).replace(".", "/", 1)
    for event in world.existing:
        if event.name == target:
            kind = "another eprobe" if event.kind == "eprobe" else f"a {event.kind} event"
            return (f"an eprobe cannot be attached to {kind}",)
    if target.startswith("ftrace/"):
        return ("the events of ftrace are written by tracers: no eprobe can be attached to them",)
    return _did_you_mean(target, world.formats or ())


def _target(line: str, world: World) -> EventFormat | None:
    argv = words(line)
    target = restore(argv[1]).replace(".", "/", 1) if len(argv) > 1 else ""
    for event in world.existing:
        if event.name == target and event.format is not None:
            return parse_format(event.format)
    return world.formats[target] if world.formats and target in world.formats else None


def _field(entry: LogEntry, line: str, world: World) -> tuple[str, ...]:
    name, target = _word_at(entry), _target(line, world)
    if name.startswith("common_"):
        return ("the common_* fields are not there for eprobes",)
    if target is None:
        return ()
    names = [field.name for field in target.fields if not field.common]
    guess = _did_you_mean(name, names, "$")
    return guess or (f"fields: {' '.join(names)}" if names else "the event has no fields",)


def _filter(entry: LogEntry, line: str, world: World) -> tuple[str, ...]:
    target = _target(line, world)
    if target is None:
        return ()
    fields = kernel_fields(target.fields, tracing_rules(world.rules))
    return filter_hints(entry, fields, world)
