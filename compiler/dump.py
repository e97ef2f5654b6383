"""Dumps of every stage: script text in, the text of one stage's result out.

They are for people who want to see what the compiler does, and what the golden tests compare.
"""

from __future__ import annotations

from pybpf.compiler.codegen import generate
from pybpf.compiler.infer import infer
from pybpf.compiler.irdump import dump_allocation, dump_function
from pybpf.compiler.lexer import lex
from pybpf.compiler.lower import lower
from pybpf.compiler.parser import parse_text
from pybpf.compiler.pipeline import Options, compile_script, deep_recursion
from pybpf.compiler.printer import dump_ast, dump_tokens
from pybpf.compiler.providers import row_of
from pybpf.compiler.tastdump import dump_types
from pybpf.script import CompiledScript
from pybpf.source import Source
from pybpf.target.target import Target

STAGES = ("types", "ir", "asm")
"""What ``run -S`` shows."""


def dump(source: Source, target: Target, stage: str, options: Options | None = None) -> str:
    """Return the dump of ``tokens``, ``ast``, ``types``, ``ir``, ``alloc`` or ``asm``."""
    if stage == "asm":
        return programs(compile_script(source, target, options or Options()))
    with deep_recursion(source):
        if stage == "tokens":
            return dump_tokens(lex(source))
        script = parse_text(source)
        if stage == "ast":
            return dump_ast(script)
        typed = infer(script, target)
        if stage == "types":
            return dump_types(typed)
        parts = []
        for index, probe in enumerate(typed.probes):
            narrow = options is not None and options.cgroup is not None
            function = lower(typed, probe, target, cgroup=narrow)
            if stage == "ir":
                parts.append(dump_function(function))
                continue
            generated = generate(
                function,
                features=target.features,
                prog_type=row_of(probe.specs[0].provider).prog_type,
                scratch_index=index,
                byteorder=target.arch.byteorder,
            )
            parts.append(dump_allocation(generated.allocation))
        return "\n".join(parts)


def programs(script: CompiledScript) -> str:
    """Return the instructions of a script's programs, which is the dump of ``asm``."""
    from pybpf.isa.disassembler import disassemble

    shown: list[int] = []
    parts = []
    for probe in script.probes:
        if id(probe.program) not in shown:
            shown.append(id(probe.program))
            parts.append(f"; {probe.spec}\n{disassemble(probe.program).rstrip()}\n")
    return "\n".join(parts)
