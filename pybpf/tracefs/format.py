"""A tracepoint's ``format`` file: text in, fields with C types out.

The file gives each field's declaration, offset, size and signedness. Where they differ from what
the declaration says, the file is right: it was made by the compiler that built the kernel. The
exception are the arguments of system calls, see ``_argument``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pybpf.dataclass import dataclass
from pybpf.errors import TargetError
from pybpf.isa.insn import ByteOrder
from pybpf.tracefs.cnames import integer
from pybpf.types import U8, ULONG, VOID, Array, DataLoc, Int, Ptr, Space, Type, Typedef, size_of


@dataclass(frozen=True, slots=True)
class EventField:
    """One field: ``offset``, ``size`` (bytes), ``signed`` as the file says; ``common`` of common_*.

    ``size_of(type)`` is ``size``, except for system call arguments: each of them takes 8 bytes,
    however narrow its type, and ``offset`` is where the bytes of the type are.
    """

    name: str
    declaration: str
    type: Type
    offset: int
    size: int
    common: bool
    signed: bool = False


@dataclass(frozen=True, slots=True)
class EventFormat:
    """An event's record layout. ``id`` is what perf_event_open takes as config."""

    name: str
    id: int
    fields: tuple[EventField, ...]
    print_fmt: str = ""

    def field(self, name: str) -> EventField | None:
        """Return the field called ``name``, or None."""
        return next((f for f in self.fields if f.name == name), None)


@dataclass(frozen=True, slots=True)
class Declaration:
    """The parts of a field's declaration, before sizes are known.

    ``words`` name the type without qualifiers and ``*``; ``dimensions`` are as written, the empty
    string for ``[]``; ``location`` is ``__data_loc``, ``__rel_loc`` or empty; ``user`` says that a
    pointer is marked ``__user``.
    """

    name: str
    words: tuple[str, ...]
    pointers: int = 0
    dimensions: tuple[str, ...] = ()
    location: str = ""
    user: bool = False

    @property
    def type_name(self) -> str:
        """The type's words as one text, such as ``struct page``."""
        return " ".join(self.words)


_LOCATIONS = frozenset({"__data_loc", "__rel_loc"})
_QUALIFIERS = frozenset(
    {"const", "volatile", "restrict", "__restrict", "__kernel", "__user", "__percpu", "__rcu"}
    | {"__iomem", "__force", "__seg_gs", "__seg_fs"}
)
_TOKEN = re.compile(r"\w+|\*|\[[^\]]*\]|\S")
# clang with CONFIG_DEBUG_INFO_BTF spells __user as __attribute__((btf_type_tag("user"))).
_ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)")
_MAX_NESTED = 8
"""How many ``*`` and how many dimensions a declaration has at most."""
_FUNCTION = re.compile(r"[^()]*\(\s*\*+\s*(?:const\s+)?(\w+)\s*\)\s*\(.*\)\s*")


# declaration: [location] word {word | '*'} {dimension} name {dimension}
#            | word {word | '*'} '(' '*' name ')' '(' parameters ')'
# location:    '__data_loc' | '__rel_loc'
# dimension:   '[' [size] ']'
def parse_declaration(text: str) -> Declaration:
    """Return the parts of a declaration such as ``const char * name`` or ``u8 mac[6]``.

    A pointer to a function counts as ``void *``. Raises TargetError for other text.
    """
    user = "__user" in text or 'btf_type_tag("user")' in text
    text = _ATTRIBUTE.sub(" ", text)
    if function := _FUNCTION.fullmatch(text):
        return Declaration(function[1], ("void",), pointers=1)
    dimensions, words, location, pointers = [], [], "", 0
    for part in _TOKEN.findall(text):
        if part == "*":
            pointers += 1
        elif part in _LOCATIONS:
            location = part
        elif part[0] == "[" and part[-1] == "]":
            dimensions.append(part[1:-1].strip())
        elif not part.isidentifier():
            raise TargetError(f"no field declaration: {text[:80]!r}")
        elif part not in _QUALIFIERS:
            words.append(part)
    if len(words) < 2 or pointers > _MAX_NESTED or len(dimensions) > _MAX_NESTED:
        raise TargetError(f"no field declaration: {text[:80]!r}")
    return Declaration(words[-1], tuple(words[:-1]), pointers, tuple(dimensions), location, user)


def parse_format(text: str, name: str = "", byteorder: ByteOrder = "little") -> EventFormat:
    """Return the layout that the text of a ``format`` file describes.

    ``name`` is the event's ``category/event``, which the file does not hold in full; without it
    the result carries the event's bare name, and is not known to be a system call. ``byteorder`` is
    that of the kernel. Raises TargetError, naming the line, for text that is no format file.
    """
    fields: list[EventField] = []
    bare, number, print_fmt = "", -1, ""
    for count, line in enumerate(text.split("\n"), start=1):
        key, _, rest = line.partition(":")
        try:
            match key.strip():
                case "name":
                    bare = rest.strip()
                case "ID" if rest.strip().isdecimal() and len(rest) < 12:
                    number = int(rest)
                case "print fmt":
                    print_fmt = rest.strip()
                case "format" | "":
                    pass
                case _ if print_fmt:
                    print_fmt += "\n" + line
                case _:
                    fields.append(_parse_field(line, name, byteorder))
        except (TargetError, ValueError) as error:
            raise TargetError(
                f"format of {name or bare or 'event'}: line {count}: {error}"
            ) from None
    if number < 0 or not bare:
        raise TargetError(f"format of {name or bare or 'event'}: no name or ID in it")
    return EventFormat(name or bare, number, tuple(fields), print_fmt)


_FIELD = re.compile(r"\s*field:(.+);\s*offset:(\d+);\s*size:(\d+);(?:\s*signed:([01]);)?\s*")


# field: 'field:' declaration ';' 'offset:' N ';' 'size:' N ';' ['signed:' ('0' | '1') ';']
def _parse_field(text: str, event: str, byteorder: ByteOrder) -> EventField:
    match = _FIELD.fullmatch(text)
    if match is None:
        raise TargetError(f"no field: {text[:80]!r}")
    # A record fits a page of the ring buffer, and dynamic arrays have 16-bit places.
    if max(len(match[2]), len(match[3])) > 5:
        raise TargetError(f"no record has such a field: {text.strip()[:80]!r}")
    offset, size, signed = int(match[2]), int(match[3]), match[4] == "1"
    declared = parse_declaration(match[1])
    argument = None
    if event.startswith("syscalls/sys_enter_") and size == 8:
        argument = _argument(declared)
    t = argument or _type(declared, size, signed=signed)
    if argument and byteorder == "big":
        offset += size - size_of(argument)
    return EventField(
        declared.name,
        match[1],
        t,
        offset,
        size,
        common=declared.name.startswith("common_"),
        signed=signed,
    )


def _argument(declared: Declaration) -> Type | None:
    """Return the type of a system call's argument as C sees it; None where its name is unknown.

    The record holds the whole register of every argument and the file calls it unsigned, but only
    the bits of the declared type mean something: openat's ``dfd``, -100, is often
    0x00000000ffffff9c. All of the pointers come from user space, although the file drops their
    ``__user``.
    """
    if declared.location or declared.dimensions:
        return None
    if declared.pointers:
        return _pointer(declared, Space.USER)
    return integer(declared.words)


def _type(declared: Declaration, size: int, *, signed: bool) -> Type:
    """Return the type of a field of ``size`` bytes."""
    if declared.location:
        return _located(declared, size, signed=signed)
    if declared.dimensions:
        return _array(declared, size, signed=signed)
    if declared.pointers and size == 8:
        return _pointer(declared, Space.USER if declared.user else Space.KERNEL)
    return _scalar(declared, size, signed=signed)


def _scalar(declared: Declaration, size: int, *, signed: bool) -> Type:
    """Return an integer, or the bytes of what is none (``uuid_t``, ``struct x``)."""
    if size in {1, 2, 4, 8} and declared.words[0] not in {"struct", "union"}:
        return Int(size, signed, declared.type_name)
    return Typedef(declared.type_name, Array(U8, size))


def _pointer(declared: Declaration, space: Space) -> Type:
    """Return the pointer type; what it points to is void under its name unless it is an integer."""
    known = integer(declared.words)
    target: Type = known or VOID
    if known is None and declared.words != ("void",):
        target = Typedef(declared.type_name, VOID)
    for _ in range(declared.pointers):
        target = Ptr(target, space)
    return target


def _array(declared: Declaration, size: int, *, signed: bool) -> Type:
    """Return an array that fills ``size`` bytes.

    Old kernels print a dimension as the source's macro (``char comm[TASK_COMM_LEN]``): then the
    declared type says how large an element is, and the size how many there are.
    """
    counts = list(_counts(declared.dimensions))
    total = 1
    for count in counts:
        total *= count
    if total and size % total == 0:
        element_size = size // total
    else:
        element_size = _element_size(declared)
        counts = [size // element_size]
    if not element_size:  # a field of no bytes
        counts = [0]
    element: Type
    if declared.pointers:
        element = _pointer(declared, Space.USER if declared.user else Space.KERNEL)
    else:
        element = _scalar(declared, element_size, signed=signed)
    for count in reversed(counts):
        element = Array(element, count)
    return element


def _counts(dimensions: tuple[str, ...]) -> Iterator[int]:
    for text in dimensions:
        yield int(text) if text.isdecimal() else 0


def _element_size(declared: Declaration) -> int:
    if declared.pointers:
        return 8
    known = integer(declared.words)
    return known.size if known else 1


def _located(declared: Declaration, size: int, *, signed: bool) -> Type:
    """Return the type of a word that tells where in the record the data are.

    A probe's array of strings is several such words (``__data_loc char[][3]``).
    """
    element: Type = U8
    if known := integer(declared.words):
        element = Int(known.size, signed if known.name == "char" else known.signed, known.name)
    elif declared.words == ("cpumask_t",):
        element = ULONG
    word = DataLoc(element, relative=declared.location == "__rel_loc")
    return word if size == 4 else Array(word, size // 4)
