"""The examples of ply's manual, with what the functions are called in today's kernels."""

import fcntl
import os
import socket
import struct

import pytest

from pybpf.kernel import features

DD = "dd if=/dev/zero of=/dev/null bs=1 count=100 status=none"
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


def functions(entries):
    return {name.partition("+")[0]: count for name, count in entries.items()}


@pytest.fixture(scope="module")
def some_system_calls():
    """Without kprobe.multi, probing all of the 380 takes a minute here."""
    return "kprobe:__x64_sys_*" if features.kprobe_multi() else "kprobe:__x64_sys_[rw]*"


def test_every_return_of_schedule(run):
    done = run("kretprobe:schedule { @[1] = count(); } interval:200ms { exit(0); }")
    assert done.maps["@"][1] > 0


def test_opened_files_and_who_opened_them(run):
    done = run("kprobe:do_sys_openat2 { print(comm, pid, str(arg1)); }", command=f"{DD}")
    assert any(
        line.startswith("dd ") and line.rstrip().endswith(", /dev/zero")
        for line in done.printed.splitlines()
    )


def test_the_distribution_of_what_read_returns(run):
    done = run(
        'kretprobe:__x64_sys_read / pid == $target / { @["dist"] = quantize(retval); }', command=DD
    )
    (small, *_) = done.maps["@"]["dist"]
    assert (small[:2], small[2] >= 100) == ([0, 1], True)


def test_system_calls_by_function(run, some_system_calls):
    done = run(f"{some_system_calls} {{ @[caller] = count(); }}", command=DD)
    found = functions(done.maps["@"])
    assert found["__x64_sys_read"] >= 100
    assert found["__x64_sys_write"] >= 100


def test_system_calls_of_every_dd_by_function(run, some_system_calls):
    done = run(
        f'{some_system_calls} / !strcmp(execname, "dd") / {{ @[caller] = count(); }}',
        lambda: [os.system(DD) for _ in range(2)],
    )
    found = functions(done.maps["@"])
    assert found["__x64_sys_write"] == 200
    assert found["__x64_sys_read"] >= 200


@pytest.fixture
def send():
    """Return a function that sends packets to this machine itself."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as to,
        socket.socket(to.family, to.type) as s,
    ):
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(s, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))
        to.bind(("127.0.0.1", 0))

        def send(times=10):
            for _ in range(times):
                s.sendto(b"x", to.getsockname())
                to.recv(1)

        yield send
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags))


def test_a_function_with_an_offset(run, send, boundary):
    offset = boundary("dev_hard_start_xmit")
    done = run(f"kprobe:dev_hard_start_xmit+{offset} / pid == $self / {{ @[1] = count(); }}", send)
    assert done.maps["@"][1] >= 10


def test_the_time_a_packet_takes(run, send):
    done = run(
        "kprobe:__netif_receive_skb { rx[arg0] = time; }"
        'kprobe:ip_rcv / rx[arg0] / { @["diff"] = quantize(time - rx[arg0]); delete rx[arg0]; }',
        send,
    )
    assert sum(count for *_, count in done.maps["@"]["diff"]) >= 10
