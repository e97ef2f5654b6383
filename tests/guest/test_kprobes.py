"""kprobe and kretprobe on single functions: where they may be put, and what they know."""

import os
import re
from pathlib import Path

import pytest

from pybpf.errors import KernelError, SourceError
from pybpf.kernel import features, syscall

SINGLE_AND_MANY = pytest.mark.parametrize("place", ["do_futex", "do_fute[x]"])
MINE = "pid == $self && arg6 == 0x77"


@SINGLE_AND_MANY
def test_arguments_are_those_of_functions_not_of_system_calls(run, futex, place):
    """A system call has its fourth argument in another register; the seventh is on the stack."""
    done = run(
        f"kprobe:{place} / {MINE} / {{ @[arg1, arg2, arg3, arg4, arg5, arg6] = count(); }}",
        lambda: futex(3),
    )
    assert done.maps["@"] == {(138, 1, 0, 0x66, 0x55, 0x77): 3}


@SINGLE_AND_MANY
def test_registers(run, futex, place):
    done = run(
        f"kprobe:{place} / {MINE} / {{"
        " @[regs->rsi, regs->rdx, regs->r8, regs->r9] = count(); print(*regs); }",
        futex,
    )
    assert done.maps["@"] == {(138, 1, 0x66, 0x55): 1}
    shown = re.findall(r"^\t(\w+) = (0x[0-9a-f]+|0),?$", done.printed, re.MULTILINE)
    values = {name: int(value, 0) for name, value in shown}
    order = (
        "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss"
    )
    assert " ".join(values) == order
    assert values["rsi"] == 138
    assert min(values["rip"], values["rsp"]) > 1 << 63
    assert values["cs"] == 0x10


def test_patterns_have_registers_that_ftrace_does_not_save(run, futex):
    """A link to many functions has arguments only, and leaves what it finds in other places."""
    done = run(
        f"kprobe:do_futex / {MINE} / {{ one[1] = *regs; }}"
        f"kprobe:do_fute[x] / {MINE} / {{ many[1] = *regs; }}",
        futex,
    )
    one, many = done.maps["one"][1], done.maps["many"][1]
    kept = ("rbx", "rbp", "r12", "r13", "r14", "r15", "cs", "ss", "rsp")
    assert [one[name] for name in kept] == [many[name] for name in kept]


@SINGLE_AND_MANY
def test_caller_is_the_function(run, futex, place):
    done = run(
        f'kprobe:{place} / {MINE} / {{ @[caller] = count(); printf("%s %v\\n", caller, caller); }}',
        futex,
    )
    assert re.fullmatch(r"(do_futex\+\d{1,2}) \1\n", done.printed)
    assert done.maps["@"] == {done.printed.split()[0]: 1}


def test_symbol_and_offset(run, futex, boundary):
    offset = boundary("do_futex")
    done = run(
        f"kprobe:do_futex+{offset} / pid == $self && arg1 == 138 / {{ @[caller] = count(); }}"
        f"kprobe:do_futex+{offset:#x} / pid == $self && arg1 == 138 / {{ @[caller] = count(); }}",
        lambda: futex(2),
    )
    assert done.maps["@"] == {f"do_futex+{offset + 1}": 4}


def test_an_address(run, futex, target):
    (address,) = target.symbols.addresses("do_futex")
    done = run(
        f"kprobe:{address:#x} / {MINE} / {{ @[caller] = count(); }}"
        f"kretprobe:{address} / pid == $self && retval == 0 / {{ @r[1] = count(); }}",
        lambda: futex(2),
    )
    assert [(name.partition("+")[0], n) for name, n in done.maps["@"].items()] == [("do_futex", 2)]
    assert done.maps["@r"][1] >= 2


@pytest.mark.parametrize("place", ["vfs_read", "vfs_rea[d]"])
def test_retval_is_signed(run, place):
    def read():
        os.read(zero, 7777)
        with pytest.raises(IsADirectoryError):
            os.read(folder, 1)

    zero, folder = os.open("/dev/zero", os.O_RDONLY), os.open("/", os.O_RDONLY)
    done = run(
        f"kretprobe:{place} / pid == $self / {{"
        " @[retval] = count(); @negative[retval < 0] = count(); @q[1] = quantize(retval); }",
        read,
    )
    os.close(zero)
    os.close(folder)
    assert (done.maps["@"][7777], done.maps["@"][-21]) == (1, 1)
    assert done.maps["@negative"][1] == 1
    assert [-(2**63), -1, 1] in done.maps["@q"][1]
    assert [4096, 8191, 1] in done.maps["@q"][1]


def test_several_probes_on_one_function(run, futex):
    done = run(
        f"kprobe:do_futex / {MINE} / {{ @a[1] = count(); in[kpid] = 1; }}"
        f"kprobe:do_futex / {MINE} / {{ @b[1] = count(); }}"
        "kretprobe:do_futex / in[kpid] / { @r[retval] = count(); delete in[kpid]; }"
        "kretprobe:do_futex / pid == $self / { @s[1] = count(); }",
        lambda: futex(5),
    )
    assert (done.maps["@a"], done.maps["@b"], done.maps["@r"]) == ({1: 5}, {1: 5}, {0: 5})
    assert done.maps["@s"][1] >= 5
    assert done.maps["in"] == {}


def test_a_probe_that_does_nothing(run, futex):
    assert run("kprobe:do_futex {} kretprobe:do_fute[x] { } kprobe:do_futex / pid / {}", futex)


def test_strings_of_user_space_and_of_the_kernel(run):
    """str() finds out whose address it has; uptr() says so."""
    comm = Path("/proc/self/comm")
    before = comm.read_text()

    def act():
        with pytest.raises(FileNotFoundError):
            os.open("/no/such/file", os.O_RDONLY)
        comm.write_text("of the kernel")

    done = run(
        'kprobe:do_sys_openat2 / pid == $self / { printf("%s %s\\n", str(arg1), str(uptr(arg1)));'
        " @[str(arg1)] = count(); @mem[mem(uptr(arg1), 5)] = count(); }"
        'kprobe:__set_task_comm / pid == $self / { printf("<%s> <%s>\\n", str(arg1), '
        "str(arg1, 3)); print(mem(arg1, 4)); }",
        act,
    )
    comm.write_text(before)
    assert "/no/such/file /no/such/file\n" in done.printed
    assert "<of the kernel> <of>\n" in done.printed
    assert re.search(r"000:  6f 66 20 74 +of t\n", done.printed)
    assert done.maps["@"]["/no/such/file"] == 1
    assert done.maps["@mem"]["/no/s"] == 1


def test_an_argument_is_kept_for_the_return(run):
    def act():
        os.close(os.open("/dev/null", os.O_RDONLY))
        with pytest.raises(FileNotFoundError):
            os.open("/no/such/file", os.O_RDONLY)

    done = run(
        "kprobe:do_sys_openat2 / pid == $self / { file[kpid] = uptr(arg1); }"
        "kretprobe:do_sys_openat2 / file[kpid] / {"
        ' printf("%s %d\\n", str(file[kpid]), retval); delete file[kpid]; }',
        act,
    )
    # Which kernel returns an int and leaves the upper half of the register empty, or a long?
    assert re.search(r"^/no/such/file (-2|4294967294)$", done.printed, re.MULTILINE)
    assert re.search(r"^/dev/null \d{1,2}$", done.printed, re.MULTILINE)


def test_values_beyond_the_stack_of_bpf(run):
    name = "/no/such/file/" + "long" * 60

    def act():
        with pytest.raises(FileNotFoundError):
            os.open(name, os.O_RDONLY)

    both = "print(str(arg1, 512), str(arg1, 300), comm); @[str(arg1, 512), str(arg1, 5)] = count();"
    done = run(
        f"kprobe:do_sys_openat2 / pid == $self / {{ {both} }}"
        f"kprobe:do_sys_openat[2] / pid == $self / {{ {both} }}",
        act,
    )
    assert done.printed.count(name) == 4
    assert done.maps["@"][name, "/no/"] == 2


@pytest.mark.parametrize("place", ["overlay:ovl_open", "ovl_open", "ovl_ope[n]", "overlay:ovl_o*"])
def test_functions_of_modules(run, place):
    """The root of a guest is an overlay."""
    done = run(
        f"kprobe:{place} / pid == $self / {{ @[caller, stack] = count(); }}",
        lambda: Path(__file__).read_bytes(),
    )
    ((caller, stack),) = (
        (caller, stack)
        for caller, stack in done.maps["@"]
        if caller.startswith("ovl_open [overlay]+") and "do_sys_openat2" in str(stack)
    )
    assert stack[0] == caller


def test_a_name_of_many_functions(run):
    """Files in sysfs are read by functions of their own, many of which are called type_show."""

    def act():
        Path("/sys/class/net/lo/type").read_text()
        Path("/sys/bus/event_source/devices/software/type").read_text()

    done = run(
        "kprobe:type_show / pid == $self / { @one[1] = count(); @where[regs->rip] = count(); }"
        "kretprobe:type_show / pid == $self / { @r[retval] = count(); }"
        "kprobe:type_sho[w] / pid == $self / { @many[1] = count(); }",
        act,
    )
    assert done.maps["@one"] == done.maps["@many"] == {1: 2}
    assert list(done.maps["@where"].values()) == [1, 1]
    assert done.maps["@r"] == {2: 1, 4: 1}  # "1\n" and "772\n"
    assert done.skipped == []


def test_a_function_of_many_names_is_probed_once(run):
    """ftrace lists one name of each; __x64_sys_getppid need not be it."""
    done = run(
        "kprobe:__x64_sys_getppi[d] / pid == $self / { @[1] = count(); }"
        "kprobe:*sys_getppid / pid == $self / { @[2] = count(); }"
        "kretprobe:*sys_getppid / pid == $self / { @[3] = count(); }",
        lambda: [os.getppid() for _ in range(5)],
    )
    assert done.maps["@"] == {1: 5, 2: 5, 3: 5}


def test_functions_that_the_compiler_made_of_others(run, target):
    """It leaves out arguments (isra) or takes them for constants (constprop)."""
    known = set(target.functions())
    whole = re.compile(r"(\w+)\.(isra|constprop)\.\d+")
    made = {found[1]: one for one in known if (found := whole.fullmatch(one))}
    name = next(name for name in sorted(made) if name not in known)
    assert run(f"BEGIN {{ exit(0); }} kprobe:{made[name]} {{}} kprobe:{name}.*[0-9] {{}}")
    with pytest.raises(KernelError, match=rf"the compiler made {re.escape(name)}\.") as error:
        run(f"BEGIN {{ exit(0); }} kprobe:{name} {{}}")
    assert str(error.value).endswith("of it, whose arguments may be others")


def test_an_offset_into_several_functions(run, target):
    """Those that have an instruction there are probed."""

    def has(address):
        try:
            pmu = features.pmu("kprobe").type
            syscall.perf_open_probe(pmu, 0, None, address, cpu=0).close()
        except KernelError:
            return False
        return True

    starts = target.symbols.addresses("type_show")
    offset = next(offset for offset in range(5, 40) if has(starts[0] + offset))
    fitting = [has(start + offset) for start in starts]
    done = run(f"BEGIN {{ exit(0); }} kprobe:type_show+{offset} {{ @[1] = count(); }}")
    assert [one.function for one in done.skipped] == ["type_show"] * fitting.count(False)


NO_SUCH = "No such file or directory (errno 2)"
NO_SUCH_IN = "there is no such function in a loaded module called '{}'"
NO_PLACE = "No instruction begins there (errno 84)"
NO_START = "no instruction starts at this offset"
REFUSED = "Invalid argument (errno 22)"
BLACKLISTED = "it must not be probed: it is in debugfs' kprobes/blacklist (noinstr, for one)"
SYSTEM_CALL = (
    "__x64_sys_{}, with a struct pt_regs as argument\n"
    "  hint: tracepoint:syscalls/sys_enter_… has the arguments of system calls"
)


@pytest.mark.parametrize(
    ("probe", "place", "reason", "hint"),
    [
        (
            "kprobe:vfs_raed",
            "vfs_raed",
            NO_SUCH,
            "there is no such function; did you mean 'vfs_read'?",
        ),
        ("kretprobe:zebra_crossing", "zebra_crossing", NO_SUCH, "there is no such function"),
        (
            "kprobe:overlay:ovl_opne",
            "overlay:ovl_opne",
            NO_SUCH,
            NO_SUCH_IN.format("overlay") + "; did you mean 'ovl_open'?",
        ),
        ("kprobe:0x1234", "address 0x1234", NO_SUCH, "no function of the kernel lies there"),
        (
            "kprobe:SyS_read",
            "SyS_read",
            NO_SUCH,
            "since Linux 4.17 that is " + SYSTEM_CALL.format("read"),
        ),
        ("kprobe:vfs_read+1", "vfs_read+0x1", NO_PLACE, NO_START),
        (
            "kprobe:vfs_read+0x10000",
            "vfs_read+0x10000",
            NO_PLACE,
            "the function has N bytes (0xN); that is ELSEWHERE",
        ),
        (
            "kprobe:overlay:ovl_open+65536",
            "overlay:ovl_open+0x10000",
            NO_PLACE,
            "the function has N bytes (0xN); that is ELSEWHERE",
        ),
        ("kprobe:overlay:ovl_open+1", "overlay:ovl_open+0x1", NO_PLACE, NO_START),
        (
            "kretprobe:vfs_read+9",
            "vfs_read+0x9",
            REFUSED,
            "a kretprobe is put on the start of a function",
        ),
        (
            "kprobe:sys_openat",
            "sys_openat",
            NO_SUCH,
            "since Linux 4.17 that is " + SYSTEM_CALL.format("openat"),
        ),
        ("kprobe:do_syscall_64", "do_syscall_64", REFUSED, BLACKLISTED),
        ("kretprobe:do_syscall_64", "do_syscall_64", REFUSED, BLACKLISTED),
        (
            "kprobe:trace_clock_local",
            "trace_clock_local",
            REFUSED,
            "it was compiled without what tracing it takes (notrace)",
        ),
        (
            "kprobe:start_kernel",
            "start_kernel",
            REFUSED,
            "it is gone: it only served to start the kernel (__init)",
        ),
    ],
)
def test_places_that_cannot_be_probed(run, probe, place, reason, hint):
    with pytest.raises(KernelError) as error:
        run(f"BEGIN {{ exit(0); }} {probe} {{ @[1] = count(); }}")
    said = re.sub(r"\d+ bytes \(0x[0-9a-f]+\)", "N bytes (0xN)", str(error.value))
    said = re.sub(r"(?<=that is )\S+( \[\w+\])?\+0x[0-9a-f]+$", "ELSEWHERE", said)
    assert said == f"cannot probe {place}: {reason}\n  hint: {hint}"


@pytest.mark.parametrize(
    ("pattern", "hints"),
    [
        ("vfs_raed*", "; did you mean 'vfs_read'?"),
        ("nosuch:ovl_*", "\n  hint: `pybpf list 'kprobe:*'` shows all there are"),
        ("SyS_*", "\n  hint: since Linux 4.17 that is kprobe:" + SYSTEM_CALL.format("*")),
    ],
)
def test_patterns_of_nothing(run, pattern, hints):
    script = f"kprobe:{pattern} {{ @[1] = count(); }}"
    message = f"<script>:1:1: error: no function of this kernel matches '{pattern}'"
    place = f"\n    {script}\n    {'^' * (7 + len(pattern))}"
    head, *tail = hints.partition("\n")
    with pytest.raises(SourceError) as error:
        run(script)
    assert str(error.value) == message + head + place + "".join(tail)
