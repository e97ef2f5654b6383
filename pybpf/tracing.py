"""Trace from Python: a script in; rows as they come, and maps as dicts, out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from pybpf.compiler.pipeline import Options, compile_script
from pybpf.kernel.child import Child
from pybpf.kernel.live import LiveTarget
from pybpf.output import jsonl
from pybpf.output import text as plain_text
from pybpf.output.values import Style
from pybpf.rows import Row
from pybpf.script import CompiledScript, MapRole
from pybpf.session import Ending, Session
from pybpf.target.symbols import LazySymbols

_OWN = frozenset({MapRole.MAP, MapRole.COUNT, MapRole.SUM, MapRole.QUANTIZE})


class Maps(Mapping[str, dict[Any, Any]]):
    """The script's maps by name, each read anew as a dict when it is asked for.

    A key of one part is that part, any other a tuple; values are plain data as in JSON lines: a
    number, a string, or for a histogram a list of ``[lowest, highest, count]``.
    """

    def __init__(self, session: Session, script: CompiledScript, style: Style) -> None:
        self._session = session
        self._style = style
        self._names = [spec.name for spec in script.maps if spec.role in _OWN]

    def __getitem__(self, name: str) -> dict[Any, Any]:
        if name not in self._names:
            raise KeyError(name)
        row = self._session.decoder.map_row(name)
        found = {}
        for key, value in row.entries:
            parts = [
                _hashable(jsonl.plain(k, t, self._style))
                for k, t in zip(key, row.keys, strict=True)
            ]
            plain_key = parts[0] if len(parts) == 1 else tuple(parts)
            found[plain_key] = jsonl.plain(value, row.value, self._style)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _hashable(part: Any) -> Any:
    """Return plain data as something that can be a key: arrays and structs as tuples."""
    match part:
        case list():
            return tuple(map(_hashable, part))
        case dict():
            return tuple(map(_hashable, part.values()))
        case _:
            return part


class Trace:
    """A script that runs on this kernel while the ``with`` block does.

    Needs root, or CAP_BPF and CAP_PERFMON, and for tracepoints the right to read tracefs. Entering
    raises SourceError for a faulty script and KernelError where the kernel refuses; leaving
    detaches everything.
    """

    def __init__(
        self,
        script: str,
        *,
        command: str | None = None,
        environment: Mapping[str, str] | None = None,
        options: Options | None = None,
        strict: bool = False,
    ) -> None:
        self._text = script
        self._command = command
        self._environment = dict(environment or {})
        self._options = options or Options()
        self._strict = strict
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            child = None
            environment = self._environment
            if self._command is not None:
                child = stack.enter_context(Child(self._command))
                environment = environment | {"target": str(child.pid)}
            target = LiveTarget(environment)
            script = compile_script(self._text, target, self._options)
            self._session = stack.enter_context(
                Session(
                    script,
                    target,
                    child=child,
                    strict=self._strict,
                )
            )
            self._style = Style(LazySymbols(target), time.time_ns() - time.monotonic_ns())
            self.maps = Maps(self._session, script, self._style)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def ending(self) -> Ending | None:
        """Why the script ended by itself, or None while it runs."""
        return self._session.ending

    def rows(self, timeout: float | None = None) -> Iterator[Row]:
        """Yield rows as they come: for ``timeout`` seconds, or (None) until the script ends.

        The script ends by ``exit()`` or with the command. May be called again after a time-out.
        """
        return self._session.rows(timeout)

    def finish(self) -> Iterator[Row]:
        """Detach, run END, and yield what is left: END's rows, the maps, and what was lost."""
        return self._session.finish()

    def text(self, row: Row) -> str:
        """Return a row as the command line prints it, with its line ends."""
        return plain_text.render(
            row, self._style.symbols, walltime_offset=self._style.walltime_offset
        )

    def json(self, row: Row) -> str:
        """Return a row as one JSON line."""
        return jsonl.render(row, self._style.symbols, walltime_offset=self._style.walltime_offset)


def trace(
    script: str,
    *,
    command: str | None = None,
    environment: Mapping[str, str] | None = None,
    options: Options | None = None,
    strict: bool = False,
) -> Trace:
    """Return a context manager that runs a script on this kernel; see Trace.

    ``command`` is run once everything is attached, and its end is the end of the run; ``$target``
    is its pid. ``environment`` adds to what ``$name`` stands for. ``strict`` ends the run when
    records are lost.
    """
    return Trace(script, command=command, environment=environment, options=options, strict=strict)
