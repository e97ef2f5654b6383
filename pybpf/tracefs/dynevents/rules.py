"""What differs between kernels in dynamic events: a release in, its rules out.

The rules were observed on kernels 6.1.192, 6.12.117 and 7.3.4 (Debian, x86-64). A release between
two of them gets those of the older, as far as is known; ``dataclass.replace`` makes the rules of a
kernel whose features were probed.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from typing import Literal

from pybpf.dataclass import dataclass, field
from pybpf.errors import TargetError
from pybpf.tracefs.dynevents.messages import RENAMED_6_1, RENAMED_6_12, Message

MAX_ARGS = 128
MAX_ARG_NAME = 32
MAX_NAME = 63
"""The most bytes of the name of an event or a group."""
MAX_ARRAY = 64
MAX_EVENT_SIZE = 3072
"""The most bytes that the arguments of an event may take, what strings point to not counted."""
MAX_LINE = 4094
"""The most bytes of a line, its newline not counted."""
MAX_STACK = 2048
MAX_OPS = 15
"""The most steps an argument may need, storing it included."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How one kernel judges dynamic events. What is True is there, or happens, in that kernel.

    ``expression`` is the most bytes of an argument without its name; ``nesting`` how deep
    dereferences and casts may go, None for as deep as fits; ``excess_args`` what becomes of the
    129th argument. ``array_address`` says that an array field stands for its address, not for its
    first 8 bytes. ``mount_names`` says that tracefs makes folders also of names it uses itself.
    """

    release: str
    expression: int
    expression_errno: int
    nesting: int | None
    excess_args: Literal["dropped", "refused", "logged"]
    char: bool
    function_probes: bool
    dentry: bool
    btf_args: bool
    casts: bool
    array_address: bool
    mount_names: bool
    logs_unknown_kind: bool
    early_fields: bool
    """Fields are looked up while the argument is parsed, not after it."""
    register_logged_twice: bool
    wraps: bool
    """Numbers of bit fields are taken modulo 2**64."""
    symbol_errno: int
    """What a kprobe of a symbol that is not there is answered with."""
    repeated_errno: int
    """What a kprobe of a symbol that is there several times is answered with."""
    repeated_late: bool
    """That it is, is found after it was refused to return from a place within it."""
    modules_repeat: bool
    """Symbols of modules are counted also where the kernel itself has one of that name."""
    fprobe_maxactive: bool
    user_symbols: bool
    """Uprobes take the types symbol and symstr."""
    synthetic_separator: str
    """What stands between the fields in the print format of a synthetic event."""
    entry: int
    """How many bytes after its symbol a function's entry may be probed as such (endbr64)."""
    renamed: Mapping[Message, str] = field(default_factory=dict)

    def say(self, message: Message) -> str:
        """Return a message as this kernel words it."""
        return self.renamed.get(message, message.value)


_6_1 = Rules(
    release="6.1",
    expression=63,
    expression_errno=errno.EINVAL,
    nesting=None,
    excess_args="dropped",
    char=False,
    function_probes=False,
    dentry=False,
    btf_args=False,
    casts=False,
    array_address=False,
    mount_names=False,
    logs_unknown_kind=False,
    early_fields=False,
    register_logged_twice=True,
    wraps=True,
    symbol_errno=errno.ENOENT,
    repeated_errno=errno.EADDRNOTAVAIL,
    repeated_late=True,
    modules_repeat=True,
    fprobe_maxactive=False,
    user_symbols=True,
    synthetic_separator=", ",
    entry=0,
    renamed=RENAMED_6_1,
)
_6_12 = Rules(
    release="6.12",
    expression=63,
    expression_errno=errno.E2BIG,
    nesting=None,
    excess_args="refused",
    char=True,
    function_probes=True,
    dentry=True,
    btf_args=True,
    casts=False,
    array_address=False,
    mount_names=True,
    logs_unknown_kind=False,
    early_fields=True,
    register_logged_twice=True,
    wraps=True,
    symbol_errno=errno.EINVAL,
    repeated_errno=errno.EINVAL,
    repeated_late=False,
    modules_repeat=True,
    fprobe_maxactive=True,
    user_symbols=False,
    synthetic_separator=", ",
    entry=4,
    renamed=RENAMED_6_12,
)
_7_3 = Rules(
    release="7.3",
    expression=255,
    expression_errno=errno.E2BIG,
    nesting=8,
    excess_args="logged",
    char=True,
    function_probes=True,
    dentry=True,
    btf_args=True,
    casts=True,
    array_address=True,
    mount_names=True,
    logs_unknown_kind=True,
    early_fields=True,
    register_logged_twice=False,
    wraps=False,
    symbol_errno=errno.EINVAL,
    repeated_errno=errno.EINVAL,
    repeated_late=False,
    modules_repeat=False,
    fprobe_maxactive=False,
    user_symbols=False,
    synthetic_separator=" ",
    entry=4,
)

KNOWN: Mapping[str, Rules] = {rules.release: rules for rules in (_6_1, _6_12, _7_3)}
NEWEST = _7_3

_RELEASE = re.compile(r"(\d{1,4})\.(\d{1,4})(?!\d)")


def rules_for(release: str) -> Rules:
    """Return the rules of a kernel release such as ``6.12`` or ``6.12.117+deb13-amd64``.

    They are those of the newest known kernel that is not newer, or of the oldest. Raises
    TargetError for a text that is no release.
    """
    match = _RELEASE.match(release)
    if match is None:
        known = ", ".join(KNOWN)
        raise TargetError(
            f"no kernel release: {release[:40]!r}", hints=(f"{known} are known best",)
        )
    wanted = int(match[1]), int(match[2])
    best = _6_1
    for rules in KNOWN.values():
        major, minor = rules.release.split(".")
        if (int(major), int(minor)) <= wanted:
            best = rules
    return best
