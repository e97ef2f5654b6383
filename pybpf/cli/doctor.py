"""Check what scripts need of this kernel and of this user, by using it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from pybpf.cli.checks import Finding


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def main(options: argparse.Namespace) -> int:
    """Check everything; 0 where scripts can run, else 1."""
    return examine(json=options.json)


def examine(*, json: bool) -> int:
    """Check everything and print a line for each check, or all as a JSON object.

    Returns 0 where scripts can run, 1 where they cannot; what only some scripts need does not
    count.
    """
    # Not at import: help needs none of it.
    from pybpf.cli.checks import FEATURES, findings

    if json:
        found = list(findings())
        _print_json(found)
    else:
        width = max(len(feature.name) for feature in FEATURES)
        found = []
        for finding in findings():
            found.append(finding)
            print(_line(finding, width), flush=True)
        print(_summary(found))
    return 0 if _can_run(found) else 1


def _line(finding: Finding, width: int) -> str:
    name = f"{finding.feature.name:{width}}"
    if finding.found:
        return f"OK       {name}  {finding.detail}".rstrip()
    return f"missing  {name}  {finding.detail} (so {finding.feature.without})"


def _can_run(found: list[Finding]) -> bool:
    return all(finding.found for finding in found if finding.feature.needed)


def _summary(found: list[Finding]) -> str:
    missing = sum(not finding.found for finding in found)
    if not _can_run(found):
        return "scripts cannot run here"
    if not missing:
        return "scripts can run here"
    return f"scripts can run here, but for what needs the {missing} missing"


def _print_json(found: list[Finding]) -> None:
    import json

    from pybpf import __version__
    from pybpf.kernel import features

    checks = [
        {
            "check": finding.feature.name,
            "found": finding.found,
            "detail": finding.detail,
            "needed": finding.feature.needed,
            "without": finding.feature.without,
            "options": list(finding.feature.options),
            "lacking": list(finding.lacking),
        }
        for finding in found
    ]
    whole = {
        "pybpf": __version__,
        "kernel": os.uname().release,
        "machine": os.uname().machine,
        "tells_options": bool(features.config()),
        "can_run": _can_run(found),
        "checks": checks,
    }
    print(json.dumps(whole, indent=2))
