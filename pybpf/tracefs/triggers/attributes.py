"""A hist trigger cut at its colons: the text without its filter in, its parts out.

attributes: part {':' part}
part:       'key[s]=' … | 'val[s]=' … | 'values=' … | 'sort=' … | 'name=' … | 'clock=' … | 'size=' N
          | VARIABLE '=' … {',' VARIABLE '=' …} | 'pause' | 'cont[inue]' | 'clear'
          | 'nohitcount' | 'NOHC' | 'onmatch(' … | 'onmax(' … | 'onchange(' …

Source: parse_hist_trigger_attrs(), parse_var_defs() of kernel/trace/trace_events_hist.c.
"""

from __future__ import annotations

from pybpf.tracefs.dynevents.ctext import NumberError, unsigned
from pybpf.tracefs.dynevents.log import Refused
from pybpf.tracefs.triggers.messages import HistMessage
from pybpf.tracefs.triggers.model import (
    ACTIONS_MAX,
    BITS_MAX,
    BITS_MIN,
    VARIABLES_MAX,
    Attributes,
)
from pybpf.tracefs.triggers.state import State
from pybpf.tracefs.triggers.text import strip

_HANDLERS = ("onmatch(", "onmax(", "onchange(")


def read_attributes(text: str, state: State) -> Attributes:
    """Return the parts of a histogram's text. Raises Refused."""
    found = Attributes()
    for part in text.split(":"):
        if "=" in part:
            if not part.partition("=")[2]:
                raise state.refuse(HistMessage.EMPTY_ASSIGNMENT, part)
            _assign(part, found, state)
        elif part in {"nohitcount", "NOHC"} and state.rules.hitcounts:
            found.no_hitcount = True
        elif part == "pause":
            found.pause = True
        elif part in {"cont", "continue"}:
            found.cont = True
        elif part == "clear":
            found.clear = True
        elif part.startswith(_HANDLERS) and len(found.actions) < ACTIONS_MAX:
            found.actions.append(part)
        else:
            raise Refused
    if found.keys is None:
        raise Refused
    if found.clock is None:
        found.clock = "global"
    return found


def _assign(part: str, found: Attributes, state: State) -> None:
    name, _, value = part.partition("=")
    match name:
        case "key" | "keys":
            found.keys = value
        case "val" | "vals" | "values":
            found.values = value
        case "sort":
            found.sort = value
        case "name":
            found.name = part
        case "clock":
            found.clock = strip(value)
        case "size":
            found.bits = _bits(value)
        case _ if len(found.assignments) == VARIABLES_MAX:
            raise state.refuse(HistMessage.TOO_MANY_VARS, part)
        case _:
            found.assignments.append(part)


def _bits(text: str) -> int:
    try:
        size = unsigned(text)
    except NumberError as error:
        raise Refused(error.errno) from None
    bits = max(size - 1, 0).bit_length()
    if not BITS_MIN <= bits <= BITS_MAX:
        raise Refused
    return bits


def read_variables(attributes: Attributes, state: State) -> None:
    """Cut the definitions of variables into names and expressions. Raises Refused."""
    for assignment in attributes.assignments:
        # The kernel overlooks what follows the sixteenth of one part.
        for definition in assignment.split(",")[:VARIABLES_MAX]:
            name, equals, expression = definition.partition("=")
            if not equals:
                raise state.refuse(HistMessage.MALFORMED_ASSIGNMENT, name)
            if len(attributes.variables) == VARIABLES_MAX:
                raise state.refuse(HistMessage.TOO_MANY_VARS, name)
            attributes.variables.append((name, expression))
