"""Pins: all of an object's or none; maps that are pinned by their names are found again."""

import re

import pytest

pytestmark = pytest.mark.kernel


def test_programs_maps_and_links_are_pinned(apart):
    done = apart(
        "load $OBJECTS/counting.el.o --prog on_tracepoint --attach --pin $FS/a/b >/dev/null\n"
        "ls $FS/a/b; python3 -c 'import os; os.getppid()'\n"
        "bpftool map dump pinned $FS/a/b/counting_bss"
    )
    names, _, dump = done.stdout.partition("on_tracepoint_link\n")
    assert names.split() == ["counting_bss", "counting_rodata", "on_tracepoint"]
    assert re.search(r'"tracepoints": [1-9]', dump)


def test_a_map_that_is_pinned_is_found_again(apart):
    run = (
        "load $OBJECTS/kept.el.o --pin-root $FS -v 2>&1 >/dev/null | grep 'map kept'; "
        "bpftool map update pinned $FS/kept key 0 0 0 0 value 7 0 0 0 0 0 0 0\n"
    )
    done = apart(f"{run}{run}load $OBJECTS/kept.el.o --pin-root $FS --attach --dev lo -c true "
                 "--dump")  # fmt: skip
    lines = done.stdout.splitlines()
    assert lines[:2] == [
        "map kept: created, array, key 4, value 8, 4 entries",
        "map kept: found where it is pinned, array, key 4, value 8, 4 entries",
    ]
    assert "  0: 7" in lines


def test_a_pinned_map_that_is_another_is_refused(apart):
    done = apart(
        "bpftool map create $FS/kept type array key 4 value 8 entries 5 name kept\n"
        "load $OBJECTS/kept.el.o --pin-root $FS",
        check=False,
    )
    assert re.fullmatch(
        r"error: \S+/kept\.el\.o: the map that is pinned at \S+/kept is another: "
        r"entries 5, not 4\n"
        r"  hint: remove \S+/kept, if nobody needs it\n"
        r"  hint: or choose another folder: --pin-root DIR\n",
        done.stderr,
    )
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("prepare", "arguments", "message"),
    [
        # What is there stays, and nothing else does.
        ("bpftool map create $FS/x/on_typed type array key 4 value 4 entries 1 name x",
         "--pin $FS/x", ("cannot pin $FS/x/on_typed: File exists (errno 17)\n"
         "  hint: something is pinned there already: remove it, or choose another folder")),
        ("", "--pin $FS/../plain/x",
         ("cannot pin $FS/../plain/x/on_tracepoint: Operation not permitted (errno 1)\n"
         "  hint: it is in no bpf file system: mount -t bpf bpf /sys/fs/bpf")),
    ],
)  # fmt: skip
def test_all_is_pinned_or_nothing(apart, prepare, arguments, message):
    done = apart(
        f"mkdir $FS/x $FS/../plain; {prepare}\n"
        f"load $OBJECTS/counting.el.o {arguments} >/dev/null || ls $FS $FS/x $FS/../plain\n"
        "echo $FS",
    )
    *listed, folder = done.stdout.splitlines()
    assert done.stderr == f"error: {message}\n".replace("$FS", folder)
    names = [line for line in listed if line and not line.endswith((":", ".debug"))]
    assert names == ["x"] + ["on_typed"] * bool(prepare)


def test_maps_pinned_by_name_go_where_loading_fails(apart):
    """The map is there before the program is refused."""
    done = apart(
        "load $OBJECTS/kept.el.o --pin-root $FS --target count=x --prog nosuch 2>/dev/null "
        "|| ls $FS; load $OBJECTS/kept.el.o --pin-root $FS/there >/dev/null; ls $FS"
    )
    assert [line for line in done.stdout.splitlines() if "debug" not in line] == ["there"]
