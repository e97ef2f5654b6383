"""What the kernel says of filters it refuses; source: ERRORS of trace_events_filter.c."""

from __future__ import annotations

from enum import Enum

SUBSYSTEM = "event filter parse error"
"""Under what name they stand in the error_log."""


class FilterMessage(Enum):
    """A line of the error_log."""

    INVALID_OP = "Invalid operator"
    TOO_MANY_OPEN = "Too many '('"
    TOO_MANY_CLOSE = "Too few '('"
    MISSING_QUOTE = "Missing matching quote"
    MISSING_BRACE_OPEN = "Missing '{'"
    MISSING_BRACE_CLOSE = "Missing '}'"
    OPERAND_TOO_LONG = "Operand too long"
    EXPECT_STRING = "Expecting string field"
    EXPECT_DIGIT = "Expecting numeric field"
    ILLEGAL_FIELD_OP = "Illegal operation for field type"
    FIELD_NOT_FOUND = "Field not found"
    ILLEGAL_INTVAL = "Illegal integer value"
    INVALID_FILTER = "Meaningless filter expression"
    TOO_MANY_PREDS = "Too many terms in predicate expression"
    INVALID_CPULIST = "Invalid cpulist"
    INVALID_VALUE = "Invalid value (did you forget quotes)?"
    NO_FUNCTION = "Function not found"
    ERRNO = "Error"
    NO_FILTER = "No filter found"


class FilterFault(Exception):
    """Why a filter is refused; ``message`` is None where the kernel has no words for it."""

    def __init__(self, errno: int, message: FilterMessage | None = None, place: int = 0) -> None:
        self.errno, self.message, self.place = errno, message, place
        super().__init__(errno, message, place)
