"""Triggers as the kernel lists them: what it holds in, a line of the ``trigger`` file out.

Source: event_hist_trigger_print(), hist_field_print(), expr_str() of trace_events_hist.c,
event_trigger_print() of trace_events_trigger.c.
"""

from __future__ import annotations

from collections.abc import Iterator

from pybpf.tracefs.filters.rules import TracingRules
from pybpf.tracefs.triggers.model import Action, HistData, HistField, Is

AVAILABLE = (
    "# Available triggers:\n"
    "# traceon traceoff snapshot stacktrace enable_event disable_event enable_hist disable_hist"
    " hist\n"
)
"""What the ``trigger`` file of an event without triggers reads."""


def field_name(field: HistField, rules: TracingRules, level: int = 0) -> str:
    """Return what a field is called, the empty text for a number."""
    if level > 1:
        return ""
    if field.field is not None:
        return field.field.name
    if field.flags & (Is.LOG2 | Is.ALIAS | Is.BUCKET):
        return field_name(field.operands[0], rules, level + 1)
    if field.flags & Is.CPU:
        return "common_cpu"
    if field.flags & Is.COMM:
        return "common_comm"
    if field.flags & (Is.EXPR | Is.VAR_REF):
        if field.system is not None:
            return rules.qualified.format(field.system, field.event, field.name)
        return field.name or ""
    if field.flags & Is.TIMESTAMP:
        return "common_timestamp"
    if rules.stack_fields and field.flags & Is.STACKTRACE:
        return "common_stacktrace"
    if rules.hitcounts and field.flags & Is.HITCOUNT:
        return "hitcount"
    return ""


def expression_text(field: HistField, rules: TracingRules, level: int = 0) -> str:
    """Return an expression as the kernel writes it."""
    if level > 1:
        return ""
    if not field.operands:
        return _operand(field, rules)
    if len(field.operands) == 1:
        return f"-({expression_text(field.operands[0], rules, level + 1)})"
    first, second = (_operand(operand, rules) for operand in field.operands)
    return first + field.operator + second


def _operand(field: HistField, rules: TracingRules) -> str:
    text = ""
    if field.flags & Is.VAR_REF:
        text = "$" if field.system is None else ""
    elif field.flags & Is.CONST:
        text = str(field.constant)
    text += field_name(field, rules)
    shown = None if field.flags & Is.VAR_REF else field.modifier()
    return text if shown is None else f"{text}.{shown}"


def _field(field: HistField, rules: TracingRules) -> str:
    text = "" if field.variable is None else f"{field.variable}="
    name = field_name(field, rules)
    if field.flags & Is.CPU:
        text += "common_cpu"
    if field.flags & Is.COMM:
        text += "common_comm"
    elif field.flags & Is.CPU and not rules.double_cpu:
        pass
    elif field.flags & Is.CONST:
        text += str(field.constant)
    else:
        if field.flags & (Is.VAR_REF | Is.ALIAS) and field.system is None:
            text += "$"
        text += name
    hidden = Is.VAR_REF | Is.EXPR | (Is.STACKTRACE if rules.stack_fields else Is(0))
    shown = None if field.flags & hidden else field.modifier()
    text += "" if shown is None else f".{shown}"
    return f"{text}={field.buckets}" if field.buckets else text


def _key(field: HistField, rules: TracingRules) -> str:
    if not field.flags & Is.STACKTRACE:
        return _field(field, rules)
    if not rules.stack_fields:
        return "stacktrace"
    return "common_stacktrace" if field.field is None else f"{field.field.name}.stacktrace"


def list_hist(
    data: HistData, rules: TracingRules, *, name: str | None, condition: str | None, paused: bool
) -> str:
    """Return the line of a histogram; ``name`` has its ``name=``."""
    attributes = data.attributes
    parts = ["hist", *([name] if name else [])]
    parts.append("keys=" + ",".join(_key(key, rules) for key in data.keys))
    shown = [] if attributes.no_hitcount else ["hitcount"]
    kept = data.fields[1 : data.values]
    shown += [_field(value, rules) for value in kept if not value.flags & Is.VAR]
    parts.append("vals=" + ",".join(shown))
    variables = [_field(value, rules) for value in kept if value.flags & Is.VAR]
    if variables:
        parts.append(",".join(variables))
    parts.append("sort=" + ",".join(_sort(data, rules)))
    parts.append(f"size={1 << data.bits}")
    if data.timestamps:
        parts.append(f"clock={attributes.clock}")
    if attributes.no_hitcount:
        parts.append("nohitcount")
    parts += [_action(data, action) for action in data.actions]
    text = ":".join(parts) + ("" if condition is None else f" if {condition}")
    return f"{text} {'[paused]' if paused else '[active]'}"


def _sort(data: HistData, rules: TracingRules) -> Iterator[str]:
    first_key = data.values - data.variables
    for index, descending in (data.sort or [(0, False)])[: data.sort_count]:
        text = "hitcount"
        if index:
            text = _field(data.fields[index + (data.variables if index >= first_key else 0)], rules)
        yield text + ".descending" * descending


def _action(data: HistData, action: Action) -> str:
    match action.kind:
        case "save":
            inner = data.saved
        case "trace":
            synthetic = [action.synthetic or ""] if action.keyword else []
            inner = [*synthetic, *action.parameters]
        case _:
            inner = []
    on = action.variable
    if action.handler == "onmatch":
        on = f"{action.system}.{action.event}"
    return f"{action.handler}({on}).{action.name}({','.join(inner)})"


def list_simple(head: str, count: int | None, condition: str | None) -> str:
    """Return the line of a trigger that is no histogram."""
    left = "unlimited" if count is None else f"count={count}"
    return f"{head}:{left}" + ("" if condition is None else f" if {condition}")
