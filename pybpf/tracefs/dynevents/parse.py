"""One dynamic event: its text in, its value out, judged by the rules of a kernel alone.

What depends on more than rules is taken to be there: events, fields, symbols, types.
"""

from __future__ import annotations

from pybpf.errors import Diagnostic, DynEventError
from pybpf.source import Source, Span
from pybpf.tracefs.dynevent import DynEvent, Removal
from pybpf.tracefs.dynevents.ctext import as_bytes, restore, words
from pybpf.tracefs.dynevents.explain import explain
from pybpf.tracefs.dynevents.judge import judge
from pybpf.tracefs.dynevents.rules import NEWEST, Rules, rules_for
from pybpf.tracefs.dynevents.world import World

_EINVAL = 22


def parse(text: str | bytes, kernel: str | Rules = NEWEST) -> DynEvent:
    """Return the dynamic event that a line of ``dynamic_events`` defines.

    ``kernel`` is a release such as ``6.12``. ``parse(str(value))`` is ``value``. Raises
    DynEventError, with the kernel's message and its caret, for what that kernel refuses, and for
    a text that does not hold exactly one definition; TargetError for a ``kernel`` that is none.
    """
    rules = kernel if isinstance(kernel, Rules) else rules_for(kernel)
    raw = as_bytes(text)
    lines = [line for line in raw.split("\n") if words(line.partition("#")[0])]
    if len(lines) != 1:
        what = "no definition" if not lines else "one definition at a time"
        source = Source("<definition>", restore(raw))
        raise DynEventError(Diagnostic(what, Span(source, 0, 0)), _EINVAL)
    line = lines[0].partition("#")[0]
    if line.startswith(("-", "!")):
        removal = _removal(words(line))
        if removal is not None:
            return removal
    world = World(rules)
    verdict = judge(text, world)
    if not verdict.accepted or not verdict.made:
        raise explain(text, verdict, world)
    return verdict.made[0].value


def _removal(argv: list[str]) -> Removal | None:
    """Return the removal that a command asks for; None for one that no kernel takes."""
    head = argv[0]
    if head.startswith("-"):
        name = head[2:] if head.startswith("-:") else ""
    else:
        name = head.partition(":")[2]
    group, slash, event = name.partition("/")
    rest = restore(" ".join(argv[1:]))
    if slash:
        return Removal(restore(group), restore(event) or None, rest)
    return Removal(None, restore(name), rest) if name else None
