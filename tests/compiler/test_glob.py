"""Patterns match what the shells' match."""

from __future__ import annotations

import re
import shutil
import subprocess
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.compiler.glob import is_glob, matching

VFS = ["vfs_read", "vfs_readv", "vfs_write"]
NAMES = ["", "a", "b", "aa", "ab", "ba", "abc", *VFS, "x(y", "]", "-"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("abc", ["abc"]),
        ("vfs_*", ["vfs_read", "vfs_readv", "vfs_write"]),
        ("*", NAMES),
        ("?", ["a", "b", "]", "-"]),
        ("?*?", [n for n in NAMES if len(n) > 1]),
        ("[ab]", ["a", "b"]),
        ("[!ab]", ["]", "-"]),
        ("[^ab]", ["]", "-"]),
        ("[]a]", ["a", "]"]),
        ("[!]a]", ["b", "-"]),
        ("[a-b]", ["a", "b"]),
        ("[b-a]", []),
        ("[a-]", ["a", "-"]),
        ("[-a]", ["a", "-"]),
        ("[!b-a]", ["a", "b", "]", "-"]),
        ("vfs_@(read|write)", ["vfs_read", "vfs_write"]),
        ("vfs_read?(v)", ["vfs_read", "vfs_readv"]),
        ("vfs_!(read)", ["vfs_readv", "vfs_write"]),
        ("vfs_!(read*)", ["vfs_write"]),
        ("!(vfs_*|?|)", ["aa", "ab", "ba", "abc", "x(y"]),
        ("*(a)", ["", "a", "aa"]),
        ("+(a)", ["a", "aa"]),
        ("*(a|b)", ["", "a", "b", "aa", "ab", "ba"]),
        ("+(a|b)c", ["abc"]),
        ("@(vfs_@(read|write)|a)", ["a", "vfs_read", "vfs_write"]),
        ("@()", [""]),
        # What is not closed stands for itself.
        ("x(*", ["x(y"]),
        ("x@(", []),
        ("[a", []),
        ("@(a", []),
    ],
)
def test_matching(pattern, found):
    assert matching(pattern, NAMES) == found


@pytest.mark.parametrize(
    ("text", "magic"),
    [("vfs_read", False), ("a(b)", False), ("a+1", False), ("a*", True), ("a?", True), ("[", True),
     ("@(a)", True), ("+(a)", True), ("!(a)", True), ("!a", False)],
)  # fmt: skip
def test_is_glob(text, magic):
    assert is_glob(text) == magic


PATTERNS = st.text("*?[]!@+()|-^ab", max_size=14)


@given(PATTERNS, st.lists(st.text("ab]!-(", max_size=8)))
def test_any_text_is_a_pattern(pattern, names):
    assert set(matching(pattern, names)) <= set(names)


@pytest.mark.parametrize(
    "pattern",
    ["*(*(*(a)))b", "+(+(+(a)))b", "*(a|aa)b", "*(a|*b)*(a|b*)c", "!(*a*)!(*b*)c", "*a" * 8 + "b",
     "@(" * 5000, "*(" * 500 + "a" + ")" * 500,
     "*(" * 15 + "a|b" + ")" * 15 + "c", "!(" * 15 + "a|b" + ")" * 15 + "c"],
    ids=lambda pattern: pattern[:20],
)  # fmt: skip
def test_no_pattern_takes_long(pattern):
    assert matching(pattern, ["a" * 30, "x" * 30]) in ([], ["a" * 30])


ATOMS = ["a", "b", "*", "?", "[!a]"]
CHOICES = ["", "a", "*", "a|b", "|a", "a|?(b)", "@(a|b)", "b!(a)"]
GROUPS = [f"{kind}({choices})" for kind in "?*+@!" for choices in CHOICES]
SMALL_PATTERNS = ["".join(pieces) for pieces in product(ATOMS + GROUPS, repeat=2)]
SMALL_PATTERNS += ["".join(pieces) for pieces in product(["a", *"*?", *GROUPS[::7]], repeat=3)]
SHORT_NAMES = ["".join(letters) for n in range(4) for letters in product("ab", repeat=n)]

# Behind a `*`, bash (5.2) does not look whether such a group may match the nothing that is left:
# to bash `*@(|x)` is not `*`. ksh93 and mksh, where these patterns come from, know that it is.
ODD_IN_BASH = re.compile(r"\*(?!\().*[@+!]\(")


@pytest.mark.parametrize(
    ("shell", "options", "odd"),
    [("bash", "shopt -s extglob", ODD_IN_BASH), ("ksh93", ":", None), ("mksh", ":", None)],
    ids=["bash", "ksh93", "mksh"],
)
def test_as_shells_match(shell, options, odd):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    patterns = [pattern for pattern in SMALL_PATTERNS if not (odd and odd.search(pattern))]
    names = " ".join(f"'{name}'" for name in SHORT_NAMES)
    each = f"for name in {names}; do [[ $name == $pattern ]] && found=$found$name,; done"
    script = f'{options}; for pattern in "$@"; do found=; {each}; echo "$found"; done'

    printed = subprocess.run(
        [shell, "-c", script, shell, *patterns], capture_output=True, text=True, check=True
    ).stdout

    theirs = [line.split(",")[:-1] for line in printed.splitlines()]
    ours = [matching(pattern, SHORT_NAMES) for pattern in patterns]
    assert len(patterns) > 1500
    assert dict(zip(patterns, ours, strict=True)) == dict(zip(patterns, theirs, strict=True))


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*@(|b)", ["", "a", "b", "ab"]),
        ("*+(*)", ["", "a", "b", "ab"]),
        ("*!(b)", ["", "a", "b", "ab"]),
        ("*!(a)b", ["b", "ab"]),
        ("*!()", ["a", "b", "ab"]),
    ],
)
def test_a_group_behind_a_star_may_match_nothing(pattern, found):
    assert matching(pattern, ["", "a", "b", "ab"]) == found
