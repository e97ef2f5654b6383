"""Every entry of ply's manual, and every difference from C ply, has tests that are there.

The table in docs/ply.md names them; so does DIFFERENCES here for docs/ply-differences.md, which is
for people to read.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MANUALS = "tests/ply/test_manual.py", "tests/guest/test_manual.py"

D, M = "tests/ply/test_defects.py::", "tests/ply/test_manual.py::"
L, V = "tests/ply/test_defects_language.py::", "tests/ply/test_defects_values.py::"
G = "tests/guest/test_defects.py::"
K = "tests/guest/test_kprobes.py::"
LIVE, PLY = "tests/cli/test_run_live.py::", "tests/cli/test_ply.py::"

DIFFERENCES = {
    # Counting
    "`count`, `sum` and `quantize` lose": [
        f"{D}test_count_loses_no_update", "tests/guest/test_exact.py::test_aggregations_are_exact",
    ],
    "`sum` of signed values": [f"{V}test_maps[sums were unsigned]"],
    "`quantize` counts in 64 bits": [f"{V}test_buckets_counted_in_32_bits"],
    "The labels of one histogram": [
        f"{V}test_histograms[labels of another map]",
        f"{V}test_histograms[labels of a map that comes later]",
    ],
    "The suffix of 2^60": [f"{V}test_histograms[2 to the 60 was a Z]"],
    "A map holds 4096 entries": [
        f"{D}test_maps_held_1024_entries", f"{D}test_full_maps_lost_updates_in_silence",
    ],
    # Output
    "Records that are lost": [
        f"{D}test_lost_output_was_a_success", f"{D}test_losses_are_counted_exactly_with_k",
    ],
    "What `END` prints": [
        f"{D}test_output_after_exit_in_end", f"{G}test_output_after_exit_in_end",
    ],
    "Records of all CPUs": [f"{D}test_records_of_two_cpus_changed_places"],
    "Maps are sorted by comparing": [
        f"{V}test_maps[equal values sorted by difference]",
        f"{V}test_maps[wide values sorted by difference]",
    ],
    "Strings of 8, 16": [
        f"{L}test_words[strings of 8 bytes were dumped]",
        f"{L}test_words[strings of 8 bytes ran on]",
    ],
    "Control characters": [f"{V}test_printf[control characters came through]"],
    "`printf` checks": [f"{V}test_printf"],
    "The stack of a thread": ["tests/output/test_values.py::test_a_stack_that_cannot_be_found"],
    "Bars of histograms": [
        "tests/cli/test_printer.py::test_histograms_are_drawn_with_what_there_is",
    ],
    "`--format json`": [f"{LIVE}test_json_lines"],
    # Arithmetic
    "Signed division": [
        f"{V}test_arithmetic", f"{V}test_negative_fields_of_tracepoints_were_positive",
    ],
    "A decimal number": [f"{L}test_words[2147483648 was unsigned int]"],
    "`-2147483648` is": [f"{L}test_words[minus 2147483648 is negative]"],
    "`&&` and `||`": [f"{L}test_logic_evaluated_both_sides"],
    "`^^` works": [f"{L}test_grammar[exclusive or did not compile]"],
    # Language
    "`return` works": [f"{L}test_grammar[return did not compile]"],
    "`$target`, `$1` and": [
        f"{L}test_the_environment_was_of_type_void", f"{L}test_target_could_not_be_compared",
        f"{L}test_a_variable_called_target_was_stronger",
        f"{D}test_what_stood_behind_the_script_was_ignored",
    ],
    "`pid` and `kpid` are those": [
        "tests/container/test_container.py::test_the_command_has_the_number_that_the_script_sees",
    ],
    "Numbers beyond 64 bits": [f"{L}test_words"],
    "`_1` is a name": [
        f"{L}test_words[underscore is a name]", f"{L}test_words[suffixes were errors]",
        f"{L}test_words[characters were unknown]", f"{L}test_words[neighbouring strings]",
    ],
    "A probe specification ends": [f"{L}test_probe_specifications"],
    "The last `;`": [
        f"{L}test_grammar[last semicolon missing]", f"{L}test_grammar[empty statements]",
        f"{L}test_grammar[missing body]", f"{D}test_probes_that_do_nothing_did_not_load",
    ],
    "Maps may stand without keys": [
        f"{L}test_grammar[maps without keys]", f"{L}test_grammar[aggregations without keys]",
    ],
    "`m[1] = m[1] + 1`": [f"{V}test_maps[m = m + 1 alone had no type]"],
    "Keys are checked": [
        f"{V}test_maps[keys of other types]", f"{V}test_maps[another number of keys]",
        f"{V}test_maps[keys were cut short]", f"{V}test_maps[keys were not widened]",
    ],
    "`strcmp` compares": [f"{V}test_maps[strcmp compared the shorter length]"],
    "Fields chain": [
        f"{V}test_fields_of_fields_were_a_syntax_error", f"{V}test_arrays_had_no_elements",
    ],
    "Pointers can be added to": [
        f"{V}test_pointers_could_not_be_added_to", f"{K}test_an_argument_is_kept_for_the_return",
    ],
    "A `char *` field": [f"{V}test_strings_behind_pointers_were_numbers"],
    "There is no `stdbuf`": [f"{V}test_crashes[stdbuf]", f"{V}test_crashes[bwrite]"],
    "`clear`, `print` and the like": [f"{V}test_crashes[print as a value]"],
    "Words of C and bpftrace": [
        f"{L}test_grammar[loops]", f"{L}test_grammar[assignment of sums]",
        "tests/compiler/test_infer_errors.py::test_words_of_bpftrace",
        "tests/compiler/test_infer_errors.py::test_providers_of_bpftrace",
    ],
    "All errors of types": [
        "tests/compiler/test_infer_errors.py::test_errors[together]", f"{V}test_crashes",
    ],
    # Probes
    "The fourth argument": [
        f"{G}test_arg3_was_the_register_of_system_calls", f"{G}test_arg6_was_unknown",
    ],
    "An `interval` fires": [
        f"{D}test_interval_after_tracepoint_fires", f"{G}test_interval_after_kprobe_fires",
    ],
    "`interval:0`, `profile:0hz`": [
        f"{L}test_probe_specifications[interval of 0 never fired]",
        f"{L}test_probe_specifications[profile of 0 never fired]",
        f"{L}test_probe_specifications[profile of a CPU too many]",
    ],
    "`profile` starts after": [f"{D}test_profile_began_before_begin"],
    "`tracepoint` takes patterns": [f"{M}test_all_system_calls"],
    "`eprobe` takes the definition": [
        "tests/kernel/test_eprobes.py::test_eprobes_in_scripts",
        "tests/compiler/eprobes/test_scripts.py::test_scripts",
        "tests/guest/test_eprobes.py::test_the_same_records_as_the_kernels_own",
    ],
    "A name that several": [
        f"{G}test_a_name_of_several_functions_was_an_invalid_argument",
        f"{G}test_modules_could_not_be_named",
    ],
    "A pattern of names": [f"{G}test_old_names_of_system_calls_matched_nothing"],
    "All functions of kallsyms": [
        f"{D}test_stacks_had_wrong_names", f"{G}test_stacks_had_wrong_names",
        f"{D}test_nothing_is_cached",
    ],
    "A function of a pattern": [
        f"{G}test_one_bad_symbol_ended_a_pattern",
        "tests/guest/test_globs.py::test_functions_that_cannot_be_probed_are_skipped",
    ],
    "While many functions": [
        "tests/guest/test_scale.py::test_a_bar_on_a_terminal",
        "tests/guest/test_scale.py::test_a_signal_while_attaching",
    ],
    "`MODULE:PATTERN` matches": [f"{K}test_functions_of_modules"],
    "Probes are perf events": ["tests/guest/test_runs.py::test_signals_leave_nothing"],
    "tracefs is looked for": ["tests/guest/test_runs.py::test_tracefs_need_not_be_mounted"],
    "Two `quantize`": [f"{D}test_room", f"{G}test_two_histograms_did_not_load"],
    # Command line
    "`pybpf ply` is": [f"{PLY}test_the_options_are_those_of_ply"],
    "`-T` uses more": ["tests/cli/test_doctor.py::test_here"],
    "`-h` prints": [f"{PLY}test_the_options_are_those_of_ply", f"{PLY}test_the_version"],
    "An argument that looks": [f"{D}test_files", f"{LIVE}test_a_script_from_standard_input"],
    "`-e` ends with 0": [f"{D}test_a_dry_run_of_a_good_script_failed"],
    "Errors go to standard error": [f"{D}test_errors_went_to_standard_output_as_numbers"],
    "SIGTERM and SIGHUP": [f"{D}test_sigterm_lost_the_output"],
    "The run ends when": [
        f"{D}test_the_end_of_the_command_with_data_hangs",
        f"{D}test_the_command_of_a_faulty_script_stayed",
        f"{D}test_the_command_outlived_the_script",
    ],
    "The command of `-c` runs": [f"{L}test_target_could_not_be_compared"],
    "Where the kernel refuses": [f"{LIVE}test_a_program_that_the_kernel_refuses_is_five_lines"],
    "No error is a number": ["tests/cli/test_ply_messages.py::test_messages"],
    "Scripts compile for other": [
        "tests/cli/test_run_vm.py::test_the_demonstration_runs_in_the_vm",
        "tests/cli/test_tools.py::test_a_snapshot_compiles_as_this_machine_does",
    ],
}  # fmt: skip
"""How each line of docs/ply-differences.md begins, and the tests that show it."""


def table():
    """Return the tests that the rows of the manual name, by the entry of the row."""
    text = (ROOT / "docs/ply.md").read_text()
    section = text.partition("## The manual, entry by entry\n")[2].partition("\n## ")[0]
    found = {}
    for line in section.splitlines()[2:]:
        if line.startswith("| ") and not line.startswith(("| ---", "| entry")):
            entry, _, tests = re.split(r"(?<!\\) \| ", line.strip("| "))
            assert entry not in found
            found[entry] = re.findall(r"`([^`]+)`", tests)
    return found


def bullets():
    """Return the lines of docs/ply-differences.md."""
    text = (ROOT / "docs/ply-differences.md").read_text().partition("\n## Requests")[0]
    return re.findall(r"^- (.*)", text, re.MULTILINE)


def asked_for():
    """Return the tests that the rows on requests name, by the row."""
    text = (ROOT / "docs/ply-differences.md").read_text().partition("\n## Requests")[2]
    lines = [line for line in text.splitlines() if line.startswith("| ")][2:]
    return {line: re.findall(r"`(tests/[^`]+)`", line) for line in lines}


@pytest.fixture(scope="module")
def collected():
    """Return the tests that pytest finds in the files that are named, with and without ids."""
    named = [*table().values(), *DIFFERENCES.values(), *asked_for().values(), MANUALS]
    files = {name.partition("::")[0] for names in named for name in names}
    assert [file for file in files if not (ROOT / file).exists()] == []
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    result = subprocess.run(
        [*command, *sorted(files)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    ids = {line for line in result.stdout.splitlines() if "::" in line}
    return ids | {one.partition("[")[0] for one in ids}


def test_every_entry_of_the_manual_has_tests_that_exist(collected):
    assert all(table().values())
    assert [name for names in table().values() for name in names if name not in collected] == []


def test_every_test_of_the_manual_has_its_entry(collected):
    named = {name for names in table().values() for name in names}
    tests = {name for name in collected if name.startswith(MANUALS) and "[" in name}
    tests |= {name for name in collected if name.startswith(MANUALS)} - {
        name.partition("[")[0] for name in tests
    }
    missing = {name for name in tests if not named & {name, name.partition("[")[0]}}
    assert missing == set()


def test_every_difference_has_tests_that_exist(collected):
    assert all(DIFFERENCES.values())
    names = [name for names in DIFFERENCES.values() for name in names]
    assert [name for name in names if name not in collected] == []


def test_every_difference_is_described_and_no_other():
    lines = bullets()
    untested = [line for line in lines if not any(line.startswith(b) for b in DIFFERENCES)]
    undescribed = [b for b in DIFFERENCES if sum(line.startswith(b) for line in lines) != 1]
    assert (untested, undescribed) == ([], []), "name the tests of each in DIFFERENCES above"


def test_every_request_that_is_met_has_tests_that_exist(collected):
    assert asked_for()
    for row, names in asked_for().items():
        assert names or "| not " in row, row
        assert [name for name in names if name not in collected] == []
