"""The kernel's symbols, as far as a world knows them: names in, whether they are there out."""

from __future__ import annotations

import errno
import re
from collections import Counter
from collections.abc import Container, Iterable

from pybpf.tracefs.dynevents.argument import Argument
from pybpf.tracefs.dynevents.ctext import NumberError, signed
from pybpf.tracefs.dynevents.expression import split_symbol
from pybpf.tracefs.dynevents.log import Refused
from pybpf.tracefs.dynevents.probe import State
from pybpf.tracefs.dynevents.rules import Rules

_SYMBOL = re.compile(r"[A-Za-z_.$][\w.$]*", re.ASCII)


def is_symbol(name: str, state: State) -> bool:
    """Say whether the kernel has a symbol; where that is not known, one that may be is taken."""
    return _is_known(name, "symbols", state.world.symbols, state)


def is_function(name: str, state: State) -> bool:
    """Say whether a kprobe can be put on a function; see ``is_symbol``."""
    return _is_known(name, "functions", state.world.functions, state)


def _is_known(name: str, what: str, known: Container[str] | None, state: State) -> bool:
    if not _SYMBOL.fullmatch(name):
        return False
    if known is None:
        state.assume(f"the {what} of the kernel are not known: {name} is taken to exist")
        return True
    return name in known


def repeated_names(names: Iterable[str], rules: Rules) -> frozenset[str]:
    """Return which of the names of symbols stand for several; ``NAME [MODULE]`` is a module's."""
    kernel: Counter[str] = Counter()
    modules: Counter[str] = Counter()
    for name in names:
        bare, blank, _ = name.partition(" ")
        (modules if blank else kernel)[bare] += 1
    known = kernel + modules
    return frozenset(name for name in known if is_repeated(kernel[name], modules[name], rules))


def is_repeated(kernel: int, modules: int, rules: Rules) -> bool:
    """Say whether a name of so many symbols of the kernel and of modules is not unique."""
    count = kernel + modules if rules.modules_repeat or not kernel else kernel
    return count > 1


def look_up_symbols(argument: Argument, state: State) -> None:
    """Look up the symbol that an argument's ``@SYM`` names. Raises Refused; nothing is logged."""
    if argument.symbol is None:
        return
    symbol, offset = split_symbol(argument.symbol)
    if offset:
        try:
            signed(offset)
        except NumberError as error:
            raise Refused(error.errno) from None
    if not is_symbol(symbol, state):
        raise Refused(errno.ENOENT)
