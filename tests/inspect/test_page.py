"""The page for browsers: what is in it, that nothing gets out of its place, and how it is used."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pybpf.cli import main
from pybpf.dataclass import replace
from pybpf.inspect.code import Code, Part
from pybpf.inspect.facts import Judged, of_code
from pybpf.inspect.page import Shown, page
from pybpf.inspect.states import MORE, States
from pybpf.isa.assembler import assemble
from pybpf.isa.insn import LineInfo, Program
from pybpf.target.profile import profile
from pybpf.verifier.subject import of_object
from pybpf.verifier.verify import verify

PARTS = 4
STEP = """
	x = x * 33 + (y >> {shift}) + {number};"""
BRANCH = """
	if (x & {bit})
		y ^= skb->mark + {number};
	else
		y += skb->len * {number};"""


def long_source(steps):
    """Return C of a program that has some 7 instructions for each step of its four functions."""
    lines = ['#include "bpf.h"\nLICENSE("GPL");']
    lines.append(
        "struct { __uint(type, 2); __uint(max_entries, 64); __type(key, u32); __type(value, u64); }"
        ' totals SEC(".maps");'
    )
    for part in range(PARTS):
        lines.append(
            f"static __attribute__((noinline)) u64 part{part}(struct __sk_buff *skb, u64 x)\n{{"
        )
        lines.append("	u64 y = x;")
        for step in range(steps):
            number = (part * steps + step) * 7919
            lines.append(STEP.format(shift=step % 31, number=number))
            if step % 6 == 1:
                lines.append(BRANCH.format(bit=1 << step % 16, number=number))
        lines.append("	return x ^ y;\n}")
    calls = "\n".join(f"	x = part{part}(skb, x);" for part in range(PARTS))
    lines.append(f"""
SEC("socket") int long_way(struct __sk_buff *skb)
{{
	u32 key = skb->len & 63, i;
	u64 x = skb->len, *total;

{calls}
#pragma clang loop unroll(disable)
	for (i = 0; i < 4; i++)
		x += bpf_get_prandom_u32() >> i;
	total = bpf_map_lookup_elem(&totals, &key);
	if (total)
		*total += x;
	return x;
}}
SEC("socket") int short_way(struct __sk_buff *skb)
{{
	return skb->len;
}}
""")
    return "\n".join(lines)


def shown(code, facts=None):
    facts = facts or of_code(code, "little")
    return page(facts, [Shown(facts.programs[0], code)])


def embedded(text):
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


def test_the_data_of_a_program():
    text = "x: r1 = 5\nif r0 == 0 goto x\nexit"
    data = embedded(shown(Code("main", "", assemble(text), (Part("main", 0),))))
    (program,) = data["programs"]
    assert program["insns"] == [
        [0, "r1 = 5", "", "x", -1, -1], [1, "if r0 == 0 goto x", "", "", 0, -1],
        [2, "exit", "", "", -1, -1],
    ]  # fmt: skip
    assert [block[:2] for block in program["blocks"]] == [[0, 2], [2, 3]]
    assert sorted(edge[2] for edge in program["edges"]) == ["back", "next"]
    assert program["states"] == {}


def test_a_rejection_says_why_and_what_to_change():
    code = Code("main", "", assemble("exit"), (Part("main", 0),))
    facts = of_code(code, "little")
    judged = Judged("6.12", "reject", "R0 !read_ok", 1, 1, (), 0)
    judged_facts = replace(facts, programs=(replace(facts.programs[0], verdict=judged),))
    (program,) = embedded(shown(code, judged_facts))["programs"]
    assert [line[:5] for line in program["advice"]] == ["why: ", "fix: "]
    assert embedded(shown(code))["programs"][0]["advice"] == []


EVIL = "</script><!--<script>alert(1)</script>\x1b&\u2028"


def evil():
    line = LineInfo(0, EVIL, 1, 1, EVIL)
    return Code(
        EVIL, EVIL, Program(assemble("r0 = 1\nexit").insns, lines=(line,), name=EVIL),
        (Part(EVIL, 0, EVIL),), notes={0: EVIL}, texts={0: EVIL},
    )  # fmt: skip


def test_names_cannot_get_out_of_the_data():
    text = shown(evil())
    before, rest = text.split('id="data">')
    inside, after = rest.split("</script>", 1)
    assert "<" not in inside
    assert ">" not in inside
    assert inside.isascii()
    assert "alert" not in after
    assert EVIL not in before
    assert before.count("<script") == 1
    assert embedded(text)["programs"][0]["name"] == EVIL.replace("\x1b", r"\x1b").replace(
        "\u2028", r"\xe2\x80\xa8"
    )


def test_the_page_needs_nothing_from_elsewhere():
    text = shown(Code("main", "", assemble("exit"), (Part("main", 0),)))
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert "default-src 'none'" in text
    assert not re.search(r"<(?:link|img|iframe|script[^>]* src)", text)
    assert "innerHTML" not in text


def test_functions_of_many_blocks_are_not_drawn():
    text = "if r0 == 0 goto +0\n" * 4000 + "exit"
    (program,) = embedded(shown(Code("main", "", assemble(text), (Part("main", 0),))))["programs"]
    assert program["titles"] == [["main: 4001 blocks are too many to draw", 0]]
    assert program["blocks"] == [None] * 4001


@pytest.mark.parametrize(
    "line",
    [
        "if r0 == {n} goto +0",
        "if r0 == {n} goto end",  # all jumps lead to one place
        "L{n}: if r0 == {n} goto L{other}",  # and here each to another, nested
        "L{n}: r0 = {n}\n" + "r1 = 1\n" * 2 + "if r0 == {n} goto L{n}",
    ],
)
def test_a_large_function_is_drawn_in_reasonable_time(line):
    count = 2000
    text = "\n".join(line.format(n=n, other=count - n - 1) for n in range(count))
    code = Code("main", "", assemble(f"{text}\nend: exit"), (Part("main", 0),))
    (program,) = embedded(shown(code))["programs"]
    assert None not in program["blocks"]


def test_states_are_kept_each_once(c_objects):
    from pybpf.objfile.object import Object

    subject = next(of_object(Object.open(c_objects / "loops.el.o")))
    states = States()
    assert verify(subject.program, profile("6.12"), log=states).verdict == "accept"
    assert states.visits[0] == 1
    assert states.values[0] == {"R1": ["ctx()"], "R10": ["fp0"]}
    loop = max(states.visits, key=states.visits.__getitem__)
    assert states.visits[loop] > 12
    assert any(values[-1] == MORE for values in states.values[loop].values())
    assert all(len(v) == len(set(v)) <= 5 for row in states.values.values() for v in row.values())


@pytest.fixture(scope="module")
def long_page(tmp_path_factory):
    """Return the page of an object of more than 4,000 instructions."""
    if shutil.which("clang") is None:
        pytest.skip("clang is not installed")
    folder = tmp_path_factory.mktemp("page")
    source, built, out = folder / "long.c", folder / "long.o", folder / "long.html"
    source.write_text(long_source(150))
    headers = Path(__file__).parents[1] / "objects" / "src"
    argv = ["clang", "-O2", "-g", "-target", "bpf", f"-I{headers}", "-c", source, "-o", built]
    subprocess.run(argv, check=True)
    assert main(["inspect", "--kernel", "6.12", "--html", str(out), str(built)]) == 0
    return out


@pytest.fixture
def browser(chromium, long_page):
    """Return a browser that shows the page, and look afterwards whether it complained."""
    chromium.problems.clear()
    chromium.dark(on=False)
    chromium.open(long_page)
    yield chromium
    assert chromium.problems == []


def picked(browser):
    return browser.js("document.querySelector('.row.picked')?.dataset.index")


def text_of(browser, selector):
    return browser.js(f"document.querySelector({json.dumps(selector)}).textContent")


def test_all_is_there(browser):
    assert browser.js("document.querySelectorAll('#code .row[data-index]').length") > 4000
    assert browser.js("document.querySelectorAll('#view svg g').length") > 150
    assert browser.js("document.querySelectorAll('#programs button').length") == 2
    assert text_of(browser, "#programs button").endswith("accept on 6.12")
    assert browser.js("document.title").endswith("long.o")


def test_the_state_is_shown_on_hover_and_of_what_is_picked(browser):
    browser.click("#code .row[data-index='1']")
    assert picked(browser) == "1"
    assert text_of(browser, "#state h2").startswith("Before 1: ")
    assert "R1ctx()" in text_of(browser, "#state table")
    browser.hover("#code .row[data-index='3']")
    assert text_of(browser, "#state h2").startswith("Before 3: ")
    browser.hover("#title")
    assert text_of(browser, "#state h2").startswith("Before 1: ")


def test_source_and_instructions_lead_to_each_other(browser):
    browser.click("#tabs [data-tab=source]")
    browser.click("#code .row[data-index='2000']")
    line = browser.js("program.insns[2000][5]")
    lit = "document.querySelector('#view .row.lit')"
    assert browser.js(f"{lit}.dataset.line") == str(line)
    box = f"{lit}.getBoundingClientRect()"
    view = "document.querySelector('#view').getBoundingClientRect()"
    assert browser.js(f"{box}.top >= {view}.top && {box}.bottom <= {view}.bottom")
    browser.click("#view .row[data-line='20']")
    assert browser.js("program.insns[picked][5]") == 20
    browser.hover("#view .row[data-line='25']")
    assert browser.js("document.querySelectorAll('#code .row.lit').length") >= 1


def test_graph_and_instructions_lead_to_each_other(browser):
    browser.click("#code .row[data-index='100']")
    first, last = browser.js("program.blocks.find(b => b[0] <= 100 && 100 < b[1]).slice(0, 2)")
    assert browser.js("document.querySelector('svg g.lit').dataset.index") == str(first)
    browser.click(f"svg g[data-index='{last}']")
    assert picked(browser) == str(last)
    width = "document.querySelector('svg').getBoundingClientRect().width"
    before = browser.js(width)
    browser.click("[data-zoom='1.25']")
    assert browser.js(width) > before
    browser.click("[data-zoom='0']")
    assert browser.js(width) == before


def test_search(browser):
    browser.key("/")
    browser.type("PRANDOM")
    assert re.fullmatch(r"1 / \d+", text_of(browser, "#found"))
    browser.key("Escape")
    browser.key("/")
    browser.type("CALL bpf_get_PRANDOM")
    assert text_of(browser, "#found") == "1 / 1"
    assert "call bpf_get_prandom_u32" in text_of(browser, ".row.picked")
    browser.key("Escape")
    browser.key("/")
    browser.type("skb->len")
    browser.key("Enter")
    assert text_of(browser, "#found").startswith("2 / ")
    browser.key("Escape")
    browser.key("Escape")
    assert text_of(browser, "#found") == ""
    assert browser.js("document.querySelectorAll('.row.hit').length") == 0
    browser.key("/")
    browser.type("nobody has this")
    assert text_of(browser, "#found") == "0 / 0"
    browser.key("Escape")


def test_keys(browser):
    browser.key("j")
    browser.key("j")
    browser.key("k")
    assert picked(browser) == "1"
    jump = browser.js("program.insns.findIndex(insn => insn[4] >= 0)")
    browser.js(f"pick({jump})")
    browser.key("Enter")
    assert picked(browser) == str(browser.js(f"program.insns[{jump}][4]"))
    browser.key("b")
    assert picked(browser) == str(jump)
    browser.key("]")
    assert text_of(browser, "#code .part").startswith("short_way")
    browser.key("[")
    assert text_of(browser, "#code .part").startswith("long_way")
    browser.key("f")
    assert "program long_way: socket_filter" in text_of(browser, "#view pre")
    browser.key("s")
    assert browser.js("document.querySelectorAll('#view .row').length") > 100
    browser.key("g")
    assert browser.js("!!document.querySelector('#view svg')")
    browser.key("?")
    assert browser.js("document.querySelector('#help').open")
    browser.key("Escape")


def test_light_and_dark(browser):
    def page_colour():
        return browser.js("getComputedStyle(document.querySelector('main')).backgroundColor")

    light = page_colour()
    browser.dark(on=True)
    dark = page_colour()
    assert light != dark
    browser.click("#theme")
    assert page_colour() == light
    browser.key("t")
    assert page_colour() == dark


def test_what_a_hostile_object_says_is_shown_and_not_run(chromium, tmp_path):
    path = tmp_path / "evil.html"
    path.write_text(shown(evil()))
    chromium.problems.clear()
    chromium.open(path)
    assert EVIL[:20] in text_of(chromium, "#code")
    assert chromium.js("document.scripts.length") == 2
    assert chromium.problems == []
