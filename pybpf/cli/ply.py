"""Run a ply script on the live kernel, with the options of ply and no others."""

from __future__ import annotations

from pybpf.cli import Parser, run


def declare(parser: Parser) -> None:
    """Declare the arguments; all that `pybpf run` has besides gets its default."""
    run.declare_ply(parser)
    full = Parser(parser.prog)
    run.declare(full)
    known = parser.parse_args([])
    others = {k: v for k, v in vars(full.parse_args([])).items() if k not in known}
    parser.set_defaults(**{**others, "no_verify": True})  # ply only compiles
    parser.elsewhere = "pybpf run"


main = run.main
