"""What is read of a line holds what a real shell runs of it: the shell itself is the oracle."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from khepri.agent.permissions import Permissions, Rule, Verdict
from khepri.agent.readings import Clarity
from khepri.agent.shell_reading import read_line

RULES = Permissions([Rule(Verdict.ALLOW, "command", "*", "test"), Rule(Verdict.DENY, "command", "denied", "test")])
SHELL = shutil.which("bash") or "/bin/sh"
OTHER_SHELL = shutil.which("dash") or "/bin/sh"
READERS = ("make", "sed", "awk", "python3", "perl", "m4", "ed", "tar")
PROGRAMS = (
    *READERS,
    "env",
    "timeout",
    "nohup",
    "nice",
    "xargs",
    "sh",
    "dash",
    "bash",
    "true",
    "echo",
    "cat",
    "find",
    "setsid",
    "time",
)
PIECES = (
    *("denied", "'denied'", "de''nied", "d\\enied", "$X", "${X}", "bin/denied", "$'denied'", "{denied,x}", "[d]enied"),
    *("env", "env -i", "env -S", "env -u X", "A=b", "timeout 5", "timeout -k 1 5", "nohup", "nice -n 1", "setsid -w"),
    *("xargs", "xargs -I@", "xargs -n 1", "@", "sh -c", "bash -lc", "bash -o pipefail -c", "sh", "eval", "exec"),
    *("command", "builtin", "true", "echo", "find . -maxdepth 0 -exec", "\\;", "{}", "{", "}", "(", ")", "!", "time"),
    *(
        "&&",
        "||",
        ";",
        "|",
        "\n",
        "if",
        "then",
        "fi",
        "do",
        "done",
        "while",
        "for x in a",
        "case a in a)",
        ";;",
        "esac",
    ),
    *("$(", "`", '"', "'", "> f", "2>&1", "<<< denied", "<<E", "E", "--", "-", "f()", "trap", "EXIT", "X=denied", "#"),
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder whose ``bin`` is all that a shell finds there, the denied program among it."""
    place = tmp_path_factory.mktemp("shell")
    programs = place / "bin"
    programs.mkdir()
    for name in PROGRAMS:
        found = shutil.which(name)
        if found:
            (programs / name).symlink_to(found)
    denied = programs / "denied"
    denied.write_text(f"#!/bin/sh\n: > {place / 'ran'}\n", encoding="utf-8")
    denied.chmod(0o755)
    return place


def runs_denied(place: Path, line: str, shell: str = SHELL) -> bool:
    """Return True if a real shell comes to run the denied program."""
    work = place / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    (work / "bin").symlink_to(place / "bin")
    ran = place / "ran"
    ran.unlink(missing_ok=True)
    try:
        subprocess.run(
            [shell, "-c", line],
            cwd=work,
            env={"PATH": str(place / "bin"), "HOME": str(work), "X": "denied"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=20,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pass
    return ran.exists()


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=7).map(" ".join))
@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_what_a_real_shell_runs_is_denied(place: Path, line: str) -> None:
    if RULES.command(line).verdict is not Verdict.DENY:
        assert not runs_denied(place, line)


def test_a_command_is_found_wherever_a_shell_replaces_something(place: Path) -> None:
    commands = (
        "`denied`",
        "x`denied`",
        "$(denied)",
        "x $(denied)",
        "'`denied`'",
        '"`denied`"',
        "<(denied)",
        "\\`denied`",
    )
    values = (
        "{}",
        "${{A:={}}}",
        "${{A-{}}}",
        "${{X/{}/}}",
        "${{X/d/{}}}",
        "${{X#{}}}",
        "${{X^{}}}",
        "${{A:-${{A:={}}}}}",
    )
    places = (
        "echo {}",
        'echo "{}"',
        "cat <<E\n{}\nE",
        "cat <<-E\n\t{}\n\tE",
        "f() {{ echo {}; }}; f",
        "echo `echo {}`",
    )
    lines = [at.format(value.format(command)) for at in places for value in values for command in commands]
    lines += ["echo `echo \\`denied\\``", "A=${B:=`denied`}", 'case "${A:=`denied`}" in *) ;; esac']
    missed = [line for line in lines if RULES.command(line).verdict is not Verdict.DENY]
    assert [line for line in missed if runs_denied(place, line)] == []


def test_a_command_is_found_wherever_a_backslash_does_not_join_two_lines(place: Path) -> None:
    places = (
        *("true # {}", "# {}", "true 'a{}'", "true 'a{}' '", 'true "a{}"', "cat <<'E'\na{}\nE\n", "cat <<E\na{}\nE\n"),
        *(
            "cat <<\\E | true # {}",
            "true $(true # {})",
            "(true # {}\n)",
            "`true # {}`",
            "`true 'a{}'`",
            "true ${{A#{}}}",
        ),
        *("true $'a{}'", "true \"$(true 'a{}')\"", "true \"${{A-'{}'}}\"", "true a#{}", "cat <<'E'\na\nE{}"),
    )
    ends = ("\\\n{}", "\\\\\n{}", "\\\\\\\n{}", "\\\r\n{}", "\\\n\\\n{}", "\\\n#\\\n{}")
    rest = ("denied", "; denied", "E\ndenied", "' ; denied", "de\\\nnied")
    lines = [at.format(end.format(last)) for at in places for end in ends for last in rest]
    lines += [f"true a{blank}# ; denied" for blank in ("\r", "\v", "\f", "\\\t", "\\ ", "\x1f", "\u00a0", "\u3000")]
    missed = [line for line in lines if RULES.command(line).verdict is not Verdict.DENY]
    assert [line for line in missed if runs_denied(place, line)] == []


FOR_BASH = (
    *(
        "echo $'a\\' ; denied #'",
        "((denied))",
        "[[ a || denied ]]",
        "[[ a && denied ]]",
        'echo "${x-\'}"; denied #\'}"',
    ),
    *("true &> f denied", "true &>> f denied", "echo $[ 1 ; denied ]", "cat <<E\n${x-'}\nE\ndenied\nE #'}\nE\n"),
    *("[[ a > f || denied ]]", "[[ ( a || denied ) ]]", "((1)); ((denied))", "for ((;denied;)); do true; done"),
    *("x=${A-$'\\'}; denied #'}", "cat <<$'E\\'\ndenied\nE\\'\n", "true |& denied", "cat <<< denied", "true <(denied)"),
    *(
        'echo "${x#\'}"; denied #\'}"',
        'set -o posix\necho "${x-\'}"; denied #\'}"',
        'echo "${x-${y-\'}}"; denied #\'}}"',
    ),
)


@pytest.mark.parametrize("around", ["{}", "eval {}", "sh -c {}", "dash -c {}", "bash -c {}", "timeout 5 sh -c {}"])
@pytest.mark.parametrize("shell", [SHELL, OTHER_SHELL])
def test_what_another_shell_runs_is_denied_too(place: Path, shell: str, around: str) -> None:
    for line in FOR_BASH:
        whole = around.format(line if around == "{}" else shlex.quote(line))
        reading = read_line(whole, in_bash=shell == SHELL)
        parts = (*reading.commands, *reading.guesses)
        if reading.clarity is not Clarity.OPAQUE and not any(words[0].text == "denied" for words in parts):
            assert not runs_denied(place, whole, shell), whole


def test_what_means_another_thing_to_another_shell_is_clear_to_bash_alone() -> None:
    for line in ("[[ -f a && -f b ]]", "echo $'a'", "((1 + 1))", "a <<< b", "a &> f", "a |& b"):
        assert read_line(line).clarity is Clarity.CLEAR
        assert read_line(line, in_bash=False).clarity is Clarity.OPAQUE
        assert read_line(f"sh -c {shlex.quote(line)}").clarity is Clarity.OPAQUE
    for line in ("a && b || c", "a > f 2>&1", 'a "$(b)" ${X:-x} "${X#y}"', "for x in a b; do c $x; done"):
        assert read_line(line, in_bash=False) == read_line(line)
    for shell in ("zsh", "fish", "csh"):
        assert read_line(f"{shell} -c 'a b'").clarity is Clarity.OPAQUE


def test_a_joined_line_is_read_and_a_comment_is_none_of_it() -> None:
    rules = Permissions([Rule(Verdict.ALLOW, "command", "pytest", "test"), Rule(Verdict.DENY, "command", "rm", "test")])
    for line in ("pytest \\\n  -q", "py\\\ntest 'x' \\\n-q # rm", "pytest # rm \\", "pytest 'a\\\nb' <<'E'\nx\\\nE\n"):
        assert rules.command(line).verdict is Verdict.ALLOW
    assert rules.command("pytest # \\\nrm x").verdict is Verdict.DENY


def test_what_a_program_is_given_to_run_is_denied(place: Path) -> None:
    code = """import os; os.system("denied")"""
    lines = [
        *("make -f - <<< 'x:;denied'", "make -f- <<E\nx:\n\tdenied\nE", "echo 'x:;denied' | env make -f /dev/stdin"),
        *("echo denied | sed e", "sed -n 1e <<< denied", "sed 's/x/denied/e' <<< x", "sed '1e denied' <<< x"),
        *(f"python3 <<< '{code}'", f"python3 - <<'E'\n{code}\nE", f"echo '{code}' | timeout 5 python3 -u"),
        *("perl <<< 'system(\"denied\")'", "awk 'BEGIN{system(\"denied\")}'", "sh -c perl <<< 'exec denied'"),
        *("m4 <<< 'syscmd(denied)'", "ed <<< '!denied'", "true > a; tar -cf b a; tar --to-c=denied -xf b"),
    ]
    ran = [line for line in lines if runs_denied(place, line)]
    assert [line for line in ran if RULES.command(line).verdict is not Verdict.DENY] == []
    assert ran


@pytest.mark.skipif(shutil.which("dash") is None, reason="there is no dash")
def test_the_oracle_notices_what_bash_reads_in_another_way(place: Path) -> None:
    differ = [line for line in FOR_BASH if runs_denied(place, line, OTHER_SHELL) and not runs_denied(place, line)]
    assert len(differ) > 5


@pytest.mark.parametrize("line", ["denied", "true | xargs -I@ denied", "sh -c 'env denied'", "X=1; $(echo denied)"])
def test_the_oracle_notices(place: Path, line: str) -> None:
    if os.name == "posix":
        assert runs_denied(place, line) or "xargs" in line


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("pytest -q", [["pytest", "-q"]]),
        ("cd x && A=1 env -u B timeout 5 /usr/bin/pytest 'a b'", [["cd", "x"], ["/usr/bin/pytest", "a b"]]),
        ("a | b 2>&1; c &", [["a"], ["b"], ["c"]]),
        ("sh -c 'a; b' && nice -n 1 -- c", [["a"], ["b"], ["c"]]),
        ("sudo -u me -- c", [["sudo", "-u", "me", "--", "c"], ["c"]]),
        ("make -C x test", [["make", "-C", "x", "test"]]),
        ("bash run.sh x", [["bash", "run.sh", "x"]]),
        ("[ -f a ] || b", [["[", "-f a", "]"], ["b"]]),
        ("find . -name x -exec grep -l y {} +", [["find", ".", "-name", "x", "-exec", "grep", "-l", "y", "{}", "+"]]),
        ("", []),
        ("# nothing", []),
        (
            "git commit -m 'use `x` <(y)' -m \"and \\`x\\` <(y)\"",
            [["git", "commit", "-m", "use `x` <(y)", "-m", "and `x` <(y)"]],
        ),
        (
            "git log -- $(cat <<'E'\n`x` and $(y)\nE\n) # `z`",
            [["git", "log", "--", "$(cat <<'E'\n`x` and $(y)\nE\n)"], ["cat"]],
        ),
        ("cat - <<E | b\nx\nE", [["cat", "-"], ["b"]]),
        ("a - 2>&1", [["a", "-"]]),
        ('a "$(b `c`)" ${A[`d`]}', [["a", '"$(b `c`)"', "${A[`d`]}"], ["b", "`c`"], ["c"], ["d"]]),
    ],
)
def test_a_clear_line_is_read_as_the_commands_that_it_runs(line: str, commands: list[list[str]]) -> None:
    reading = read_line(line)
    found = [[word.text for word in each] for each in reading.commands]
    assert reading.clarity is Clarity.CLEAR
    assert [each for each in found if each[-1] != "{}" or each[0] == "find"] == commands
