"""What C ply 2.4 does wrong with kprobes, and what is right; the rest is in tests/ply."""

import os
import re
from pathlib import Path

import pytest

from pybpf.errors import SourceError

DD = "dd if=/dev/zero of=/dev/null bs=1 count=50 status=none"
MINE = "pid == $self && arg2 == 4321"


def read():
    """Read by a size that nobody else reads by."""
    file = os.open("/dev/zero", os.O_RDONLY)
    os.read(file, 4321)
    os.close(file)


def test_arg3_was_the_register_of_system_calls(run):
    """vfs_read(file, buffer, count, position): the last is an address in the kernel, in rcx."""
    done = run(
        f"kprobe:vfs_read / {MINE} / {{ @[arg3 == regs->rcx, arg3 > arg1] = count(); }}", read
    )
    assert done.maps["@"] == {(1, 1): 1}


def test_arg6_was_unknown(run, futex):
    done = run("kprobe:do_futex / pid == $self && arg6 == 0x77 / { @[arg6] = count(); }", futex)
    assert done.maps["@"] == {0x77: 1}


def test_two_histograms_did_not_load(run):
    """Time and size of a call, in one clause: what everybody writes first."""
    done = run(
        f"kprobe:vfs_read / {MINE} / {{ start[kpid] = time; }}"
        "kretprobe:vfs_read / start[kpid] / {"
        " @time[comm] = quantize(time - start[kpid]); @size[comm] = quantize(retval);"
        " delete start[kpid]; }",
        read,
    )
    (size,) = done.maps["@size"].values()
    (time,) = done.maps["@time"].values()
    assert size == [[4096, 8191, 1]]
    assert [count for *_, count in time] == [1]


@pytest.mark.parametrize("probe", ["kprobe:vfs_read", "kretprobe:vfs_read", "kprobe:vfs_rea[d]"])
def test_interval_after_kprobe_fires(run, probe):
    done = run(
        f'{probe} {{ @[1] = count(); }} interval:50ms {{ exit(4); }} END {{ print("end"); }}'
    )
    assert (done.ending.code, done.printed) == (4, "end    \n")


@pytest.mark.parametrize("place", ["vfs_read", "vfs_rea[d]"])
def test_output_after_exit_in_end(run, place):
    """It came out or not, by the CPU on which END ran: so, several times."""
    for _ in range(4):
        done = run(
            f'kprobe:{place} / pid == $target / {{ exit(3); }} END {{ printf("end\\n"); }}',
            command=DD,
        )
        assert (done.printed, done.ending.code) == ("end\n", 3)


def test_one_bad_symbol_ended_a_pattern(run):
    """do_syscall_64 may not be probed, and there is no vfs_raed."""
    done = run(
        "kprobe:@(do_syscall_64|vfs_raed|vfs_read) / pid == $self / { @[caller] = count(); }", read
    )
    assert {name.partition("+")[0] for name in done.maps["@"]} == {"vfs_read"}


def test_a_name_of_several_functions_was_an_invalid_argument(run):
    done = run(
        "kprobe:type_show / pid == $self / { @[1] = count(); }",
        lambda: Path("/sys/class/net/lo/type").read_text(),
    )
    assert done.maps["@"] == {1: 1}


def test_patterns_missed_names_with_dots(run, target):
    name = next(name for name in target.functions() if re.fullmatch(r"\w+\.isra\.0", name))
    pattern = f"{name[:-1]}[0]"
    assert run(f"kprobe:{pattern} {{ @[1] = count(); }} BEGIN {{ exit(5); }}").ending.code == 5


def test_modules_could_not_be_named(run):
    done = run(
        "kprobe:overlay:ovl_open / pid == $self / { @[caller] = count(); }",
        lambda: Path(__file__).read_bytes(),
    )
    ((name, count),) = done.maps["@"].items()
    assert name.startswith("ovl_open [overlay]+")
    assert count >= 1


def test_stacks_had_wrong_names(run):
    """Of functions that ftrace cannot trace, ply knows nothing: it names what lies before them."""
    done = run(f"kprobe:vfs_read / {MINE} / {{ @[stack] = count(); }}", read)
    (stack,) = done.maps["@"]
    names = [frame.partition("+")[0] for frame in stack]
    assert (names[0], names[-2:]) == (
        "vfs_read", ["do_syscall_64", "entry_SYSCALL_64_after_hwframe"],
    )  # fmt: skip


@pytest.mark.parametrize("script", ["kprobe:vfs_read {}", "kretprobe:vfs_read", "kprobe:vfs_r* {}"])
def test_probes_that_do_nothing_did_not_load(run, script):
    assert run(f"{script} BEGIN {{ exit(0); }}").ending.code == 0


def test_a_caller_behind_strcmp_was_miscompiled(run):
    done = run(
        'kprobe:vfs_read / !strcmp(comm, "dd") && pid == $target / { @[caller, comm] = count(); }',
        command=DD,
    )
    ((caller, comm),) = done.maps["@"]
    assert (caller.partition("+")[0], comm) == ("vfs_read", "dd")
    assert done.maps["@"][caller, comm] >= 50


def test_names_of_user_space_were_empty(run):
    """str() of an address in user space, without a word about whose it is."""

    def act():
        with pytest.raises(FileNotFoundError):
            os.open("/no/such/file", os.O_RDONLY)

    done = run('kprobe:do_sys_openat2 / pid == $self / { printf("%s\\n", str(arg1)); }', act)
    assert "/no/such/file\n" in done.printed


def test_old_names_of_system_calls_matched_nothing(run):
    with pytest.raises(SourceError) as error:
        run('kprobe:SyS_* / !strcmp(execname, "dd") / { @[caller] = count(); }')
    assert str(error.value).splitlines()[-2:] == [
        "  hint: since Linux 4.17 that is kprobe:__x64_sys_*, with a struct pt_regs as argument",
        "  hint: tracepoint:syscalls/sys_enter_… has the arguments of system calls",
    ]
