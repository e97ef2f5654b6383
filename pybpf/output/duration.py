"""Print a time span: nanoseconds -> six columns with the unit that fits.

Three digits are kept and the rest is cut off, not rounded; from 1000 seconds on, up to 999 minutes,
hours or days are whole. Negative spans are always nanoseconds.
"""

from __future__ import annotations

# (what the step before is divided by, places behind the point, unit)
_STEPS = (
    (1, 0, "ns"),
    (10, 2, "us"),
    (10, 1, "us"),
    (10, 0, "us"),
    (10, 2, "ms"),
    (10, 1, "ms"),
    (10, 0, "ms"),
    (10, 2, " s"),
    (10, 1, " s"),
    (10, 0, " s"),
    (60, 0, " M"),
    (60, 0, " H"),
    (24, 0, " D"),
    (365, 0, " Y"),
)


def duration(ns: int) -> str:
    """Return the span as ply prints it, such as `` -28ns``, ``1.02us``, ``  27 M``."""
    number, step = ns, 0
    while number > 999 and step + 1 < len(_STEPS):
        step += 1
        number //= _STEPS[step][0]
    _, places, unit = _STEPS[step]
    if not places:
        return f"{number:4}{unit}"
    whole, fraction = divmod(number, 10**places)
    return f"{whole:{3 - places}}.{fraction:0{places}}{unit}"
