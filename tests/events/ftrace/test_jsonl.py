import json

from pybpf.events.ftrace.jsonl import to_json
from pybpf.events.ftrace.reader import Lost, PageReader, RawRecord
from pybpf.events.ftrace.record import Decoder
from pybpf.tracefs.format import EventField, EventFormat
from pybpf.types import CHAR, U8, U16, Array, Typedef

FORMAT = EventFormat(
    "grp/evt",
    7,
    (
        EventField("common_type", "", U16, 0, 2, common=True),
        EventField("common_pid", "", U16, 4, 2, common=True),
        EventField("comm", "", Array(CHAR, 4), 8, 4, common=False),
        EventField("list", "", Array(U16, 2), 12, 4, common=False),
        EventField("uuid", "", Typedef("uuid_t", Array(U8, 2)), 16, 2, common=False),
    ),
)


def test_objects():
    payload = bytes([7, 0, 0, 0, 9, 0, 0, 0]) + b"\xc3\xa9\xff\0" + b"\1\0\2\0" + b"\xab\xcd"
    record = Decoder(FORMAT)(5, 1, payload, 0, len(payload))
    assert to_json(record) == (
        '{"event":"grp/evt","timestamp":5,"cpu":1,"fields":'
        '{"common_pid":9,"comm":"\\u00e9\\\\xff","list":[1,2],"uuid":"abcd"}}'
    )
    assert to_json(Lost(5, 1, None)) == '{"event":"lost","timestamp":5,"cpu":1,"records":null}'
    assert to_json(RawRecord(5, 1, 99, b"\1")) == (
        '{"event":null,"timestamp":5,"cpu":1,"id":99,"payload":"01"}'
    )


def test_captured_records(capture):
    reader = PageReader(capture.formats)
    objects = [json.loads(to_json(item)) for item in reader.feed(capture.cpus[0][:4096])]
    switch = next(o for o in objects if o["event"] == "sched/sched_switch")
    assert {"common_pid", "prev_comm", "next_prio"} <= set(switch["fields"])
