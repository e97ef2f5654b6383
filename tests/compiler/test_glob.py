"""Patterns match what the shells' match."""

from __future__ import annotations

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


# Shells differ in empty alternatives, in how "!(" goes on and in brackets that have no end.
COMMON = st.recursive(
    st.text("ab", max_size=2) | st.sampled_from(["*", "?", "[ab]", "[!a]", "[a-c]"]),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map("".join)
        | st.tuples(
            st.sampled_from("?*+@"), st.lists(inner.filter(bool), min_size=1, max_size=2)
        ).map(lambda t: f"{t[0]}({'|'.join(t[1])})")
    ),
    max_leaves=5,
)
