"""Nodes with sizes and edges between them in; places on a plane, in layers from top to bottom, out.

Edges lead down, but for those given as ``back``. Nodes are put in layers by the longest way to
them, ordered within a layer so that few edges cross, and moved towards what they are joined with.
An edge over a few layers goes between the nodes of these; a longer one, and one that leads back,
has a lane of its own beside all nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain, pairwise

from pybpf.dataclass import dataclass

Point = tuple[float, float]
Edge = tuple[int, int]
_GAP_X, _GAP_Y, _LANE = 28.0, 34.0, 10.0
_SHORT = 4
"""An edge over more layers than these has a lane."""
_BEND = 4.0
"""How wide the place is that an edge has between the nodes of a layer."""
_SWEEPS = 6


@dataclass(frozen=True, slots=True)
class Plan:
    """The upper left corner of each node, the points of each edge, and the size of all.

    ``beside`` are the places, among the edges, of those that have a lane: their paths have corners.
    """

    places: tuple[Point, ...]
    paths: tuple[tuple[Point, ...], ...]
    beside: frozenset[int]
    width: float
    height: float


def plan(sizes: Sequence[Point], edges: Sequence[Edge], back: Collection[Edge]) -> Plan:
    """Return where nodes and edges are; ``sizes`` are widths and heights of the nodes.

    Without ``back``, edges must make no cycle. Paths are in the order of ``edges``.
    """
    if not sizes:
        return Plan((), (), frozenset(), 0, 0)
    down = [edge for edge in edges if edge not in back]
    layer = _layers(len(sizes), down)
    graph = _Graph(sizes, layer)
    bends = {e: graph.join(e) for e in dict.fromkeys(down) if layer[e[1]] - layer[e[0]] <= _SHORT}
    graph.order()
    graph.place()
    lanes = [edge for edge in dict.fromkeys(edges) if edge not in bends]
    left, right = (
        _beside(graph, [e for e in lanes if e in back]),
        _beside(graph, [e for e in lanes if e not in back]),
    )
    shift = _LANE * (max(left.values(), default=-1) + 2)
    paths = []
    for edge in edges:
        if edge in bends:
            path = graph.between(edge, bends[edge])
        elif edge in left:
            path = graph.around(edge, -_LANE * (left[edge] + 1))
        else:
            path = graph.around(edge, graph.width + _LANE * (right[edge] + 1))
        paths.append(tuple((x + shift, y) for x, y in path))
    places = tuple((x + shift, y) for x, y in graph.corners())
    width = graph.width + shift + _LANE * (max(right.values(), default=-1) + 2)
    beside = frozenset(at for at, edge in enumerate(edges) if edge not in bends)
    return Plan(places, tuple(paths), beside, width, graph.height)


def _layers(count: int, down: Iterable[Edge]) -> list[int]:
    """Return the number of edges on the longest way to each node."""
    after: list[list[int]] = [[] for _ in range(count)]
    waits = [0] * count
    for origin, goal in down:
        after[origin].append(goal)
        waits[goal] += 1
    layer = [0] * count
    ready = [node for node in range(count) if not waits[node]]
    for node in ready:
        for goal in after[node]:
            layer[goal] = max(layer[goal], layer[node] + 1)
            waits[goal] -= 1
            if not waits[goal]:
                ready.append(goal)
    return layer


class _Graph:
    """Nodes in layers. Numbers beyond those of the nodes are bends of edges."""

    def __init__(self, sizes: Sequence[Point], layer: Sequence[int]) -> None:
        self._count = len(sizes)
        self._sizes = [*sizes]
        self._layer = [*layer]
        self._rows: list[list[int]] = [[] for _ in range(max(layer) + 1)]
        for node, row in enumerate(layer):
            self._rows[row].append(node)
        self._up: list[list[int]] = [[] for _ in sizes]
        self._down: list[list[int]] = [[] for _ in sizes]
        self._x: list[float] = []
        self._tops: list[float] = []
        self.width = self.height = 0.0

    def join(self, edge: Edge) -> list[int]:
        """Add an edge, with a bend in each layer that it goes through; return the bends."""
        origin, goal = edge
        bends = []
        for row in range(self._layer[origin] + 1, self._layer[goal]):
            bend = len(self._sizes)
            self._sizes.append((_BEND, 0))
            self._layer.append(row)
            self._rows[row].append(bend)
            self._up.append([])
            self._down.append([])
            bends.append(bend)
        for one, other in pairwise((origin, *bends, goal)):
            self._down[one].append(other)
            self._up[other].append(one)
        return bends

    def order(self) -> None:
        """Order each layer by the middle of what its nodes are joined with, down and up again."""
        place = [0.0] * len(self._sizes)
        for row in self._rows:
            for at, node in enumerate(row):
                place[node] = at
        for sweep in range(_SWEEPS):
            joined = self._down if sweep % 2 else self._up
            for row in reversed(self._rows) if sweep % 2 else self._rows:
                middle = {
                    n: sum(place[m] for m in joined[n]) / len(joined[n]) if joined[n] else place[n]
                    for n in row
                }
                row.sort(key=middle.__getitem__)
                for at, node in enumerate(row):
                    place[node] = at

    def place(self) -> None:
        """Give each node a middle, and each layer a top."""
        self._x = [0.0] * len(self._sizes)
        for row in self._rows:
            at = 0.0
            for node in row:
                self._x[node] = at + self._sizes[node][0] / 2
                at += self._sizes[node][0] + _GAP_X
        for sweep in range(_SWEEPS):
            joined = self._down if sweep % 2 else self._up
            for row in reversed(self._rows) if sweep % 2 else self._rows:
                self._settle(row, joined)
        left = min(x - w / 2 for x, (w, _) in zip(self._x, self._sizes, strict=True))
        self._x = [x - left for x in self._x]
        self.width = max(x + w / 2 for x, (w, _) in zip(self._x, self._sizes, strict=True))
        top = 0.0
        for row in self._rows:
            self._tops.append(top)
            top += max(self._sizes[node][1] for node in row) + _GAP_Y
        self.height = top - _GAP_Y

    def _settle(self, row: list[int], joined: list[list[int]]) -> None:
        """Move the nodes of a layer to the middle of their neighbours, as far as there is room."""
        x, sizes = self._x, self._sizes
        wanted = [sum(x[m] for m in joined[n]) / len(joined[n]) if joined[n] else x[n] for n in row]
        apart = [(sizes[a][0] + sizes[b][0]) / 2 + _GAP_X for a, b in pairwise(row)]
        right, left = [*wanted], [*wanted]
        for at, gap in enumerate(apart):
            right[at + 1] = max(right[at + 1], right[at] + gap)
        for at in range(len(row) - 2, -1, -1):
            left[at] = min(left[at], left[at + 1] - apart[at])
        for node, one, other in zip(row, right, left, strict=True):
            x[node] = (one + other) / 2

    def corners(self) -> list[Point]:
        """Return the upper left corner of each node."""
        return [
            (self._x[n] - self._sizes[n][0] / 2, self._tops[self._layer[n]])
            for n in range(self._count)
        ]

    def span(self, edge: Edge) -> Point:
        """Return the heights between which an edge goes."""
        ends = self._end(edge[0])[1], self._tops[self._layer[edge[1]]]
        return min(ends), max(ends)

    def _end(self, node: int) -> Point:
        return self._x[node], self._tops[self._layer[node]] + self._sizes[node][1]

    def between(self, edge: Edge, bends: Sequence[int]) -> list[Point]:
        """Return the points of an edge that goes between nodes: down through all of a layer."""
        points = [self._end(edge[0])]
        for bend in bends:
            row = self._layer[bend]
            high = max(self._sizes[node][1] for node in self._rows[row])
            points += [(self._x[bend], self._tops[row]), (self._x[bend], self._tops[row] + high)]
        return [*points, (self._x[edge[1]], self._tops[self._layer[edge[1]]])]

    def around(self, edge: Edge, x: float) -> list[Point]:
        """Return the points of an edge that goes beside all nodes."""
        (first, bottom), (last, top) = self._end(edge[0]), self.corners_of(edge[1])
        low, high = bottom + _GAP_Y / 3, top - _GAP_Y / 3
        return [(first, bottom), (first, low), (x, low), (x, high), (last, high), (last, top)]

    def corners_of(self, node: int) -> Point:
        """Return the middle of a node's upper side."""
        return self._x[node], self._tops[self._layer[node]]


def _beside(graph: _Graph, edges: Sequence[Edge]) -> dict[Edge, int]:
    """Return the lane of each edge, 0 next to the nodes; those that lead to one node share one.

    No other edges are in a lane at the same height.
    """
    groups: dict[int, list[Edge]] = {}
    for edge in edges:
        groups.setdefault(edge[1], []).append(edge)
    spans = []
    for goal, group in groups.items():
        tops, bottoms = zip(*map(graph.span, group), strict=True)
        spans.append((max(bottoms) - min(tops), min(tops), max(bottoms), goal))
    free: list[list[Point]] = []
    found: dict[Edge, int] = {}
    for _, top, bottom, goal in sorted(spans):
        for lane, taken in enumerate(chain(free, [[]])):
            if all(bottom + 1 < start or end + 1 < top for start, end in taken):
                if lane == len(free):
                    free.append([])
                free[lane].append((top, bottom))
                found |= dict.fromkeys(groups[goal], lane)
                break
    return found
