from pybpf.cli import main


def test_an_empty_script_is_a_script(capsys):
    assert main(["run", "-e", ""]) == 1

    assert capsys.readouterr().err == (
        "<script>:1:1: error: the script is empty\n"
        '  hint: a script is one clause or more, such as BEGIN { print("hello"); }\n'
    )


def test_options_may_stand_between_a_script_and_its_arguments(capsys):
    assert main(["run", "BEGIN { exit($1); }", "-e", "3"]) == 0
    assert capsys.readouterr().err == ""
