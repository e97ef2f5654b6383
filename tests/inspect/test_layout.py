"""Graphs on a plane: no nodes overlap, edges begin and end at theirs, all is within the size."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from pybpf.inspect.layout import plan


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 25))
    size = st.tuples(st.floats(20, 300), st.floats(20, 150))
    sizes = draw(st.lists(size, min_size=count, max_size=count))
    node = st.integers(0, count - 1)
    pairs = draw(st.lists(st.tuples(node, node), max_size=40))
    return sizes, pairs, {(a, b) for a, b in pairs if b <= a}


@given(graphs())
def test_any_graph(graph):
    sizes, edges, back = graph
    found = plan(sizes, edges, back)

    boxes = [(x, y, x + w, y + h) for (x, y), (w, h) in zip(found.places, sizes, strict=True)]
    for one, other in combinations(boxes, 2):
        assert (
            one[2] <= other[0] + 1e-6 or other[2] <= one[0] + 1e-6
            or one[3] <= other[1] or other[3] <= one[1]
        )  # fmt: skip
    points = [point for path in found.paths for point in path]
    for x, y in [*points, *((x, y) for box in boxes for x, y in (box[:2], box[2:]))]:
        assert -1e-6 <= x <= found.width + 1e-6
        assert -20 <= y <= found.height + 20
    for (origin, goal), path in zip(edges, found.paths, strict=True):
        assert path[0][1] == boxes[origin][3]
        assert path[-1][1] == boxes[goal][1]
        assert boxes[origin][0] <= path[0][0] <= boxes[origin][2]
        assert boxes[goal][0] <= path[-1][0] <= boxes[goal][2]
        if (origin, goal) not in back:
            assert boxes[origin][3] < boxes[goal][1]


def test_nothing():
    assert plan([], [], ()).width == 0


def test_a_diamond_is_even():
    sizes = [(100.0, 40.0)] * 4
    found = plan(sizes, [(0, 1), (0, 2), (1, 3), (2, 3)], ())
    (top, left, right, low) = found.places
    assert left[1] == right[1]
    assert abs(top[0] - low[0]) < 1
    assert abs((left[0] + right[0]) / 2 - top[0]) < 1
    assert found.beside == frozenset()


def test_what_leads_back_has_a_lane_on_the_left_and_what_is_long_on_the_right():
    chain = [(n, n + 1) for n in range(9)]
    found = plan([(50.0, 20.0)] * 10, [*chain, (0, 9), (8, 2)], {(8, 2)})
    assert found.beside == {9, 10}
    assert max(x for x, _ in found.paths[9]) > max(x + 50 for x, _ in found.places)
    assert min(x for x, _ in found.paths[10]) < min(x for x, _ in found.places)
