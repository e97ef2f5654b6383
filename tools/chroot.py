"""Run commands in a Debian of its own: argv in; output and status out.

    python tools/chroot.py make
    python tools/chroot.py run --bind SITE:/opt -- python3 -m pybpf run 'BEGIN { print(pid); }'

`make` unpacks the smallest Debian that has a Python below .chroot/ (or $PYBPF_CHROOT), by
debootstrap, as root; that takes a minute, once.

`run` gives the command what a container has: its own pid, mount and cgroup namespaces, a root file
system that nobody can write to, its own /proc, a /dev with nothing but null, /sys without tracefs.
`--bind FOLDER:PLACE` shows a folder of this machine at a place that the Debian has; `--no` leaves
/proc, /sys or /dev/null out; `--tracefs` shows the kernel's. The command is process 1 there, and
its cgroup is the root of those that it sees. All of it ends with the command, which is killed
where this process ends before.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
SUITE = "bookworm"
MIRROR = "http://deb.debian.org/debian"
PACKAGES = ("python3",)
CHROOT_FAILED = 125
# What a container has, and may lack; each with the commands that make it, in $root.
PLACES = {
    "/dev/null": 'mknod -m 666 "$root/dev/null" c 1 3',
    "/proc": 'mount -t proc proc "$root/proc"',
    "/sys": (
        'mount -t sysfs -o ro sysfs "$root/sys"\n'
        'test ! -d "$root/sys/fs/cgroup" || mount -t cgroup2 none "$root/sys/fs/cgroup" || true'
    ),
}


class ChrootError(Exception):
    """The Debian, not the command in it, failed; the message says what to do about it."""


def folder() -> Path:
    """Return the folder of the Debian, in $PYBPF_CHROOT or .chroot in the checkout."""
    return Path(os.environ.get("PYBPF_CHROOT") or CHECKOUT / ".chroot").absolute() / SUITE


def make(root: Path) -> None:
    """Unpack a Debian, unless it is there; raises ChrootError where debootstrap cannot."""
    if root.is_dir():
        return
    if os.geteuid():
        raise ChrootError("debootstrap needs root")
    if not shutil.which("debootstrap"):
        raise ChrootError("there is no debootstrap: apt-get install debootstrap")
    # Under a name of its own until it is complete: who is interrupted begins anew.
    part = root.with_name(f"{SUITE}.part-{os.getpid()}")
    part.mkdir(parents=True)
    # What it mounts and starts, it may leave: in namespaces that ends with it.
    alone = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "--"]
    debian = [f"--include={','.join(PACKAGES)}", SUITE, str(part), MIRROR]
    command = [*alone, "debootstrap", "--variant=minbase", *debian]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode:
            last = "\n".join(done.stdout.splitlines()[-5:])
            raise ChrootError(f"debootstrap failed:\n{last}")
        for package in (part / "var/cache/apt/archives").glob("*.deb"):
            package.unlink()
        with suppress(OSError):  # somebody else was faster
            part.rename(root)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def script(
    root: Path, binds: Sequence[str] = (), without: Sequence[str] = (), *, tracefs: bool = False
) -> str:
    """Return the shell script that makes the file system in a mount namespace, and enters it."""
    lines = ["set -e", f"root={shlex.quote(str(root))}", "mount --make-rprivate /"]
    lines.append('mount --bind "$root" "$root"')
    lines.append('mount -t tmpfs -o mode=755 tmpfs "$root/dev"')
    lines += [commands for place, commands in PLACES.items() if place not in without]
    if tracefs:
        lines.append('mount -t tracefs none "$root/sys/kernel/tracing"')
    for bind in binds:
        source, _, place = bind.rpartition(":")
        lines.append(f'mount --bind {shlex.quote(source)} "$root"{shlex.quote(place)}')
        lines.append(f'mount -o remount,bind,ro "$root"{shlex.quote(place)}')
    lines.append('mount -o remount,bind,ro "$root"')
    lines.append('exec chroot "$root" "$@"')
    return "\n".join(lines)


def argv(root: Path, enter: str, command: Sequence[str]) -> list[str]:
    """Return the command that runs another as process 1 of a Debian, entered by a script."""
    namespaces = ["--mount", "--pid", "--fork", "--kill-child", "--cgroup"]
    if not root.is_dir():
        raise ChrootError(f"there is no {root}: python tools/chroot.py make")
    return ["unshare", *namespaces, "--", "sh", "-c", enter, "sh", *command]


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; returns the exit status."""
    parser = argparse.ArgumentParser(prog="chroot.py", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="what", required=True)
    commands.add_parser("make", help=f"unpack Debian {SUITE}")
    runs = commands.add_parser("run", help="run a command in it")
    runs.add_argument("--bind", action="append", default=[], metavar="FOLDER:PLACE")
    runs.add_argument("--no", action="append", default=[], choices=PLACES, metavar="PLACE")
    runs.add_argument("--tracefs", action="store_true")
    runs.add_argument("command", nargs="+", metavar="CMD")
    options = parser.parse_args(arguments)
    try:
        if options.what == "make":
            make(folder())
            return 0
        enter = script(folder(), options.bind, options.no, tracefs=options.tracefs)
        return subprocess.run(argv(folder(), enter, options.command), check=False).returncode
    except ChrootError as error:
        print(f"chroot.py: {error}", file=sys.stderr)
        return CHROOT_FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
