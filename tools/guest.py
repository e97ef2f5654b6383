"""Run commands in Debian kernels under QEMU: a kernel's name and argv in, output and status out.

    python tools/guest.py fetch 6.1 7.3
    python tools/guest.py run 6.1 -- python -m pytest -m guest

`fetch` unpacks kernel packages into .kernels/ (or $PYBPF_KERNELS) and installs nothing. apt gets
a second set of sources, made from the machine's own by replacing the suite, and keeps its lists
and archives in a folder that is removed afterwards, so the machine's own apt state stays as it was.

`run` boots such a kernel with virtme-ng and software emulation. The guest's root is this machine's,
read through a cached 9p share below a writable overlay: the command sees the same checkout, the
same Python and the same paths, runs as root in the checkout, may write anywhere, and nothing it
writes outlives it. stdout and stderr of the command arrive as one stream on stdout; its status is
the exit status. 125 says that the guest failed, not the command.
"""

import argparse
import collections
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent

# Kernel series -> the Debian suite that carries it.
KERNELS = {"6.1": "bookworm", "6.12": "trixie", "7.3": "trixie-backports"}

# A kernel is one package up to 7.0; later ones put its parts into the packages beside it.
PARTS = ("image", "binary", "modules", "base")

# Program -> what brings it. virtme-ng asks file(1) for the version of a kernel image.
PROGRAMS = {
    "qemu-system-x86_64": "apt-get install qemu-system-x86",
    "busybox": "apt-get install busybox-static",
    "depmod": "apt-get install kmod",
    "file": "apt-get install file",
    "setpriv": "apt-get install util-linux",
    "vng": "pip install virtme-ng",
}

GUEST_FAILED = 125
CONSOLE_LINES = 60


class GuestError(Exception):
    """The guest, not the command in it, failed; the message says what to do about it."""


def kernels_dir() -> Path:
    """Return the folder of unpacked kernels: $PYBPF_KERNELS or .kernels in the checkout."""
    return Path(os.environ.get("PYBPF_KERNELS") or CHECKOUT / ".kernels").absolute()


# --- fetch ----------------------------------------------------------------------------------------


def rename_suite(suite: str, codename: str, wanted: str) -> str | None:
    """Say which suite of `wanted` stands for a suite of `codename`; None for a stranger's suite.

    With codename bookworm and wanted trixie, bookworm-security becomes trixie-security. A wanted
    pocket (trixie-backports) lies on the mirror of the plain suite only.
    """
    if suite == codename:
        return wanted
    if "-" not in wanted and suite.startswith(f"{codename}-"):
        return wanted + suite.removeprefix(codename)
    return None


def rewrite_list(text: str, codename: str, wanted: str) -> str:
    """Rewrite one-line apt sources (`deb [options] URI suite components`) for another suite."""
    lines = []
    for line in text.splitlines():
        entry = re.fullmatch(r"\s*deb\s+((?:\[[^]]*\]\s+)?\S+)\s+(\S+)\s+([^#]*)(?:#.*)?", line)
        if entry and (suite := rename_suite(entry[2], codename, wanted)):
            lines.append(f"deb {entry[1]} {suite} {entry[3].strip()}\n")
    return "".join(lines)


def rewrite_deb822(text: str, codename: str, wanted: str) -> str:
    """Rewrite deb822 apt sources (stanzas with `Suites:`) for another suite."""
    stanzas = []
    for stanza in re.split(r"\n\s*\n", text):
        field = re.search(r"(?im)^Suites:(.*(?:\n[ \t].*)*)", stanza)
        suites = [rename_suite(s, codename, wanted) for s in field[1].split()] if field else []
        if field and any(suites):
            new_field = "Suites: " + " ".join(filter(None, suites))
            new = stanza[: field.start()] + new_field + stanza[field.end() :]
            stanzas.append(re.sub(r"(?im)^Types:.*", "Types: deb", new).strip() + "\n")
    return "\n".join(stanzas)


def newest_release(packages: Iterable[str], kernel: str) -> str | None:
    """Pick the newest release of a kernel series, such as '6.1.0-57-amd64', from package names.

    Only the plain flavour counts: not -cloud, -rt, -unsigned or -dbg.
    """
    series = re.escape(kernel)
    plain = re.compile(rf"linux-image-({series}\.[0-9][^-]*(?:-[0-9][^-]*)?)-amd64")
    versions = [found[1] for name in packages if (found := plain.fullmatch(name))]
    newest = max(versions, key=lambda v: [int(n) for n in re.findall(r"\d+", v)], default=None)
    return newest and f"{newest}-amd64"


def fetch(kernel: str) -> Path:
    """Unpack a kernel series into the kernels folder, unless it is there; return its folder.

    Raises GuestError where apt, a Debian source or the packages are missing.
    """
    tree = kernels_dir() / kernel
    if tree.is_dir():
        return tree
    kernels_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=kernels_dir()) as name:
        room = Path(name)
        config = _private_apt(room, KERNELS[kernel])
        update = _apt(config, "apt-get", "update", check=False)
        packages = set(_apt(config, "apt-cache", "pkgnames", "linux-").split())
        release = newest_release(packages, kernel)
        if release is None:
            raise GuestError(
                f"no kernel {kernel} in {KERNELS[kernel]} of this machine's mirror; apt said:\n"
                f"{update}"
            )
        names = sorted({f"linux-{part}-{release}" for part in PARTS} & packages)
        _apt(config, "apt-get", "download", *names)
        for deb in room.glob("*.deb"):
            _output(["dpkg", "--extract", str(deb), str(room / "tree")], room)
        if not tree.is_dir():  # someone else may have been faster
            (room / "tree").rename(tree)
    return tree


def _private_apt(room: Path, suite: str) -> Path:
    """Write sources for a suite and an apt configuration that keeps all state in `room`."""
    os_release = dict(re.findall(r'(?m)^(\w+)="?([^"\n]*)', Path("/etc/os-release").read_text()))
    codename = os_release.get("VERSION_CODENAME")
    if os_release.get("ID") != "debian" or not codename:
        raise GuestError(
            "kernels come from a Debian machine's own apt sources, and this is "
            f"{os_release.get('PRETTY_NAME', 'no Debian')}; unpack Debian kernel packages into "
            f"{kernels_dir()}/VERSION yourself"
        )
    for folder in ("sources", "lists/partial", "cache/archives/partial"):
        (room / folder).mkdir(parents=True)
    etc = Path("/etc/apt")
    for path in (etc / "sources.list", *sorted(etc.glob("sources.list.d/*"))):
        rewrite = {".list": rewrite_list, ".sources": rewrite_deb822}.get(path.suffix)
        if rewrite and path.is_file() and (new := rewrite(path.read_text(), codename, suite)):
            (room / "sources" / path.name).write_text(new)
    if not any((room / "sources").iterdir()):
        raise GuestError(f"no apt source of this machine names the suite {codename}")
    config = room / "apt.conf"
    # The hooks are the machine's: they refresh indexes of its own packages.
    config.write_text(
        "#clear APT::Update::Pre-Invoke;\n"
        "#clear APT::Update::Post-Invoke;\n"
        "#clear APT::Update::Post-Invoke-Success;\n"
        'Dir::Etc::sourcelist "/dev/null";\n'
        f'Dir::Etc::sourceparts "{room}/sources";\n'
        f'Dir::State::Lists "{room}/lists";\n'
        f'Dir::Cache "{room}/cache";\n'
        'APT::Sandbox::User "root";\n'
        'Acquire::Languages "none";\n'
        'Acquire::Retries "3";\n'
    )
    return config


def _apt(config: Path, program: str, *args: str, check: bool = True) -> str:
    return _output([program, "-q", "-c", str(config), *args], config.parent, check=check)


def _output(argv: list[str], cwd: Path, *, check: bool = True) -> str:
    try:
        done = subprocess.run(
            argv, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
    except FileNotFoundError:
        raise GuestError(f"{argv[0]} is missing: kernels are fetched with apt and dpkg") from None
    if check and done.returncode:
        raise GuestError(f"{shlex.join(argv)} failed:\n{done.stdout}")
    return done.stdout


# --- run ------------------------------------------------------------------------------------------


def missing_programs(path: str) -> list[str]:
    """List what a guest needs and `path` lacks, each with the command that brings it."""
    return [
        f"{name} ({how})" for name, how in PROGRAMS.items() if not shutil.which(name, path=path)
    ]


def run(kernel: str, command: Sequence[str], *, cpus: int, memory: str, timeout: int) -> int:
    """Run a command in a guest, copy its output to stdout and return its exit status.

    `timeout` is in seconds and covers boot and command. Raises GuestError where the guest cannot
    be had or does not report a status; the message ends with the last lines of its console.
    """
    environment = host_environment()
    if missing := missing_programs(environment["PATH"]):
        raise GuestError(f"a guest needs {', '.join(missing)}")
    image = _find_image(kernel)
    with tempfile.TemporaryDirectory(prefix="run-", dir=kernels_dir()) as name:
        room = Path(name)
        (room / "status").touch()
        (room / "script").write_text(_guest_script(kernel, command))
        # setpriv and timeout see to it that QEMU ends even if this process is killed.
        argv = ["setpriv", "--pdeathsig", "TERM", "timeout", "--kill-after=5", str(timeout)]
        argv += _vng(image, room, cpus, memory)
        with _started(argv, environment | {"TMPDIR": name}) as vng:
            console = _copy_output(vng)
            ended = vng.wait()
        status = (room / "status").read_text().split()
    if len(status) == 2:
        return int(status[1])
    if ended in {124, 137}:
        problem = f"not done after {timeout} s, killed"
    else:
        problem = "ended without a status" if status else "did not come up"
    raise GuestError(f"guest {kernel} {problem}; the end of its console:\n{console}")


def host_environment() -> dict[str, str]:
    """Put the running Python's folder in front of PATH (vng is there), the sbin folders behind."""
    here, path = str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)
    return os.environ | {"PATH": f"{here}:{path}:/usr/sbin:/sbin"}


def _find_image(kernel: str) -> Path:
    tree = kernels_dir() / kernel
    for pattern in ("boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz"):
        for image in sorted(tree.glob(pattern)):
            return image
    raise GuestError(f"no kernel in {tree}: run `python tools/guest.py fetch {kernel}` first")


def _vng(image: Path, room: Path, cpus: int, memory: str) -> list[str]:
    """Build the vng command: one boot with our three devices, the kernel log on stderr.

    vng passes output through ports that only udev makes reachable, and machines without udev get
    none. So the guest has two ports of its own, found by name in /sys/class/virtio-ports.
    An oops ends the guest, or tests would go on in a broken kernel.

    Always emulation, since /dev/kvm may exist and hang, and all CPUs in one thread: QEMU's threads
    do not keep up with code that another CPU patches. A kernel that patches itself (each
    tracepoint that is switched on or off does so) then runs into stale int3 instructions and
    dies, within seconds of switching many tracepoints and now and then during boot.
    """
    devices = [
        *("-accel", "tcg,thread=single"),
        *("-virtfs", "local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap"),
        *("-chardev", "file,id=output,path=/proc/self/fd/1"),
        *("-device", "virtserialport,chardev=output,name=pybpf.output"),
        *("-chardev", f"file,id=status,path={str(room / 'status').replace(',', ',,')}"),
        *("-device", "virtserialport,chardev=status,name=pybpf.status"),
    ]
    # Relative to where vng is started, since vng does not quote this word for its shell.
    kernel = str(image.relative_to(kernels_dir()))
    argv = ["vng", "--verbose", "--run", kernel, "--disable-kvm", "--force-9p"]
    argv += ["--user", "root", "--cpus", str(cpus), "--memory", memory, "--append", "oops=panic"]
    argv += [f"--qemu-opts={shlex.join(devices)}"]
    return [*argv, "--exec", f"sh {shlex.quote(str(room / 'script'))}"]


def _guest_script(kernel: str, command: Sequence[str]) -> str:
    """Write the shell script that virtme's init runs: report, build the root, run the command."""
    environment = {
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "PYBPF_GUEST": kernel,
        "TMPDIR": "/dev/shm",
    }
    if objects := os.environ.get("PYBPF_OBJECTS"):  # compiled here: see tools/objects.py
        environment["PYBPF_OBJECTS"] = str(Path(objects).absolute())
    env = shlex.join(f"{name}={value}" for name, value in environment.items())
    enter = shlex.join(["sh", "-c", 'cd "$0" && exec "$@"', str(CHECKOUT), *command])
    return f"""\
set -e
for port in /sys/class/virtio-ports/*; do
    case $(cat "$port/name") in
    pybpf.output) output=/dev/${{port##*/}} ;;
    pybpf.status) status=/dev/${{port##*/}} ;;
    esac
done
exec >"$output" 2>&1 </dev/null
echo up >"$status"
# virtme's own root is an uncached share, in which every start of Python takes three times as long.
mkdir /run/lower /run/upper /run/work /run/root
mount -t 9p -o ro,trans=virtio,version=9p2000.L,cache=loose,msize=512000 root /run/lower
mount -t overlay -o lowerdir=/run/lower,upperdir=/run/upper,workdir=/run/work overlay /run/root
mkdir -p /run/root/lib/modules
for tree in /proc /sys /dev /lib/modules; do mount --rbind "$tree" "/run/root$tree"; done
# Where an installed kernel has its options; up to 7.0 the package has them in boot.
for config in {shlex.quote(str(kernels_dir() / kernel))}/boot/config-* /lib/modules/*/config; do
    if [ -f "$config" ]; then cp "$config" "/run/root/boot/config-$(uname -r)"; fi
done
code=0
chroot /run/root env -i {env} {enter} || code=$?
echo "$code" >"$status"
"""


@contextmanager
def _started(argv: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process in a session of its own, and leave no process of that session behind."""
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=kernels_dir(),
        env=environment,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _copy_output(process: subprocess.Popen[bytes]) -> str:
    """Copy stdout of a process to ours until it ends; return the last lines of its stderr.

    QEMU truncates what it writes to, so it gets pipes, never the caller's own file.
    """
    assert process.stdout
    assert process.stderr
    lines: collections.deque[bytes] = collections.deque(maxlen=CONSOLE_LINES)
    reader = threading.Thread(target=lines.extend, args=(process.stderr,), daemon=True)
    reader.start()
    while data := os.read(process.stdout.fileno(), 65536):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    reader.join()
    return b"".join(lines).replace(b"\r", b"").decode(errors="replace")


# --- command line ---------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Run commands in Debian kernels under QEMU.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("fetch", help="download and unpack kernels that are not there yet")
    verb.add_argument("kernels", nargs="+", choices=KERNELS, metavar="KERNEL", help=str([*KERNELS]))
    verb = verbs.add_parser("run", help="run a command in a kernel")
    verb.add_argument("kernel", choices=KERNELS, metavar="KERNEL")
    verb.add_argument("--cpus", type=int, default=2, help="virtual CPUs (2)")
    verb.add_argument("--memory", default="2G", help="memory of the guest (2G)")
    verb.add_argument("--timeout", type=int, default=1800, help="seconds for everything (1800)")
    verb.add_argument("command", nargs="+", metavar="-- COMMAND", help="program and arguments")
    return parser


def main() -> int:
    """Run the command line; return the exit status."""
    options = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        if options.verb == "run":
            return run(
                options.kernel,
                options.command,
                cpus=options.cpus,
                memory=options.memory,
                timeout=options.timeout,
            )
        for kernel in options.kernels:
            print(f"{kernel}: {fetch(kernel)}")
    except GuestError as error:
        print(f"guest.py: {error}", file=sys.stderr)
        return GUEST_FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return 128 + signal.SIGPIPE
    return 0


if __name__ == "__main__":
    sys.exit(main())
