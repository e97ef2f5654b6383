"""What C ply answered with a number alone, about functions: what is wrong, where, what to do."""

import re

import pytest

NO_FILE = "No such file or directory (errno 2)"
NO_PLACE = "No instruction begins there (errno 84)"


@pytest.mark.parametrize(
    ("spec", "message", "hint"),
    [
        # ERR:-22, "Unable to create xprobe: Invalid argument"
        (
            "kprobe:vfs_raed",
            f"cannot probe vfs_raed: {NO_FILE}",
            "there is no such function; did you mean 'vfs_read'?",
        ),
        (
            "kretprobe:zebra_crossing",
            f"cannot probe zebra_crossing: {NO_FILE}",
            "there is no such function",
        ),
        # ERR:-2
        (
            "kprobe:zebra_*",
            "no function of this kernel matches 'zebra_*'",
            "`pybpf list 'kprobe:*'` shows all there are",
        ),
        # ERR:-84, "Invalid or incomplete multibyte or wide character"
        (
            "kprobe:vfs_read+0x10000",
            f"cannot probe vfs_read+0x10000: {NO_PLACE}",
            "the function has SIZE; that is PLACE",
        ),
        (
            "kprobe:vfs_read+1",
            f"cannot probe vfs_read+0x1: {NO_PLACE}",
            "no instruction starts at this offset",
        ),
        # ERR:-22
        (
            "kretprobe:vfs_read+9",
            "cannot probe vfs_read+0x9: Invalid argument (errno 22)",
            "a kretprobe is put on the start of a function",
        ),
    ],
)
def test_functions(start, spec, message, hint):
    script = f"{spec} {{ @ = count(); }}"
    status, said = start("-c", "true", script).end()
    said = re.sub(r"[0-9]+ bytes \(0x[0-9a-f]+\)", "SIZE", said)
    said = re.sub(r"(?<=that is )\S+\+0x[0-9a-f]+", "PLACE", said)
    caret = "^" * len(spec)
    assert said == (f"<script>:1:1: error: {message}\n    {script}\n    {caret}\n  hint: {hint}\n")
    assert status == 1
