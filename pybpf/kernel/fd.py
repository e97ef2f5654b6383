"""Fd: a file descriptor that is closed in time."""

from __future__ import annotations

import os
import warnings
from types import TracebackType
from typing import Self


class Fd:
    """An open file descriptor that closes when its ``with`` block ends."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        """Return the number; raises ValueError once closed."""
        if self.closed:
            raise ValueError("the file descriptor is closed")
        return self._fd

    @property
    def closed(self) -> bool:
        """Whether it was closed or detached, or never opened."""
        return getattr(self, "_fd", -1) < 0

    def detach(self) -> int:
        """Return the number and forget it: closing is up to the caller."""
        fd, self._fd = self.fileno(), -1
        return fd

    def close(self) -> None:
        """Close the descriptor; closing twice is allowed."""
        if not self.closed:
            os.close(self.detach())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not self.closed:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
            self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._fd})"
