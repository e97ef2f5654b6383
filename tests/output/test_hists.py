import json

import pytest

from pybpf.output.hists import to_json
from pybpf.tracefs.triggers.hist_file import (
    Bucket,
    Column,
    Entry,
    Histogram,
    Named,
    Power,
    Stack,
    Symbol,
    Totals,
    Track,
    parse_hist,
)


def test_a_file_as_json():
    (histogram,) = parse_hist(
        "# event histogram\n#\n"
        "# trigger info: hist:keys=common_pid.execname:vals=hitcount,count:sort=hitcount:size=2048"
        " [active]\n#\n\n"
        "{ common_pid: cat             [       195] } hitcount:         31  count:     124\n"
        "\nTotals:\n    Hits: 31\n    Entries: 1\n    Dropped: 2\n"
    )
    shown = json.loads(to_json("syscalls/sys_enter_read", histogram))
    assert shown.pop("trigger").startswith("hist:keys=common_pid.execname:")
    assert shown == {
        "event": "hist",
        "of": "syscalls/sys_enter_read",
        "entries": [
            {
                "keys": {"common_pid": {"number": 195, "name": "cat"}},
                "values": {"hitcount": 31, "count": 124},
            }
        ],
        "hits": 31,
        "dropped": 2,
    }


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        (7, 7),
        ("dd", "dd"),
        ("\udcff", "\udcff"),
        (Symbol(16, "f+0x1/0x2"), {"address": 16, "name": "f+0x1/0x2"}),
        (Named(1, "init"), {"number": 1, "name": "init"}),
        (Power(0), [0, 1]),
        (Power(3), [5, 8]),
        (Bucket(10, 19), [10, 19]),
        (Stack(("a+0x1/0x2", "b+0x3/0x4")), ["a+0x1/0x2", "b+0x3/0x4"]),
    ],
)
def test_each_kind_of_key(key, shown):
    entry = Entry(
        {"k": key},
        (Column("hitcount", "percent", None),),
        (Track("onmax", 3, {"comm": "dd"}),),
    )
    made = json.loads(to_json("a/b", Histogram("hist:keys=k", (entry,), None, Totals(1, 1, 0))))
    assert made["entries"] == [
        {
            "keys": {"k": shown},
            "values": {"hitcount.percent": None},
            "tracks": [{"handler": "onmax", "value": 3, "saved": {"comm": "dd"}}],
        }
    ]
