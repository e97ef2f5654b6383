from pybpf.kernel.ftrace.errorlog import added, read_log
from pybpf.tracefs.dynevents.log import LogEntry

LOG = """\
[   53.1] trace_kprobe: error: Invalid register name
  Command: p:a/b vfs_read x=%ay
                          ^
[  54.22] hist:sched:sched_switch: error: Couldn't find field
  Command: hist:keys=nothing
                     ^
"""


class Files:
    def __init__(self, text=None):
        self.text = text

    def read(self, path):
        assert path == "instances/x/error_log"
        if self.text is None:
            raise FileNotFoundError
        return self.text


KPROBE = LogEntry("trace_kprobe", "Invalid register name", "p:a/b vfs_read x=%ay", 15)
HIST = LogEntry("hist:sched:sched_switch", "Couldn't find field", "hist:keys=nothing", 10)


def test_entries_are_read():
    assert read_log(Files(LOG), "instances/x/") == [("53.1", KPROBE), ("54.22", HIST)]


def test_a_kernel_without_a_log():
    assert read_log(Files(), "instances/x/") == []


def test_new_entries_about_a_text():
    """Others may fail at the same time, and the same may have failed before."""
    before, other = ("53.1", KPROBE), ("53.4", HIST)
    again = ("53.3", KPROBE)
    text = "p:a/b   vfs_read\tx=%ay"
    assert added([before], [before, again, other], text) == (KPROBE,)
    assert added([before], [before, other], text) == ()
    assert added([before], [again, other], "hist:keys=nothing if x") == (HIST,)
