"""A target and the features of a kernel in; the target with no more than these out."""

from __future__ import annotations

from typing import Any, cast

from pybpf.target.target import Target


class _Restricted:
    """Everything is the target's own, but for its features."""

    def __init__(self, target: Target, features: frozenset[str]) -> None:
        self._target = target
        self._features = features

    @property
    def features(self) -> frozenset[str]:
        return self._target.features & self._features

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)


def restricted(target: Target, features: frozenset[str]) -> Target:
    """Return a target for which the compiler uses only ``features``, of those that it has."""
    return cast("Target", _Restricted(target, features))
