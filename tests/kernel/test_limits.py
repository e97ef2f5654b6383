import resource

import pytest

from pybpf.kernel.limits import room_for_files


@pytest.fixture
def limits(monkeypatch):
    """Make up limits, and return them as a list that changes."""
    now = [1024, 4096]

    def change(_which, pair):
        now[:] = pair

    monkeypatch.setattr(resource, "getrlimit", lambda _which: tuple(now))
    monkeypatch.setattr(resource, "setrlimit", change)
    return now


@pytest.mark.parametrize(
    ("start", "count", "inside"),
    [
        ([1024, 4096], 10, [1024, 4096]),
        ([1024, 4096], 500, [1024, 4096]),
        ([1024, 4096], 2000, [2064, 4096]),
        ([1024, 4096], 10_000, [4096, 4096]),
        ([1024, resource.RLIM_INFINITY], 10_000, [10_064, resource.RLIM_INFINITY]),
        ([resource.RLIM_INFINITY] * 2, 10_000, [resource.RLIM_INFINITY] * 2),
    ],
)
def test_the_soft_limit_is_raised_as_far_as_need_be(limits, start, count, inside):
    limits[:] = start
    with room_for_files(count):
        assert limits == inside
    assert limits == start


def test_the_limit_is_restored_after_an_exception(limits):
    with pytest.raises(ZeroDivisionError), room_for_files(3000):
        raise ZeroDivisionError
    assert limits == [1024, 4096]
