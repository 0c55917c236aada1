import sys
import time
from pathlib import Path

import pytest

from khepri.errors import ToolError
from khepri.repo.root import Repository
from khepri.tools.base import Arguments, Manifest, Observation, ToolContext
from khepri.tools.user import CommandTool

MANIFEST = Manifest(
    name="run",
    description="Run",
    permission="command",
    parameters={
        "type": "object",
        "properties": {"word": {"type": "string"}, "path": {"type": "string", "format": "path"}},
    },
    example={},
)
ECHO = (sys.executable, "-c", "import sys; print(sys.argv[1:])")


def run(root: Path, command: tuple[str, ...], arguments: Arguments, timeout_s: float = 30) -> Observation:
    context = ToolContext(Repository.open(root), lambda text: (len(text) + 3) // 4, 100)
    return CommandTool(MANIFEST, command, timeout_s).run(context, arguments)


@pytest.mark.parametrize("word", ["$(touch pwned)", "; touch pwned", "a b", "`x`", "'", "{path}", "\n", "🪲"])
def test_an_argument_stays_one_word(tmp_path: Path, word: str) -> None:
    observation = run(tmp_path, (*ECHO, "{word}", "--name={word}"), {"word": word})
    assert observation.text == f"exit status 0\n{[word, '--name=' + word]}"
    assert not (tmp_path / "pwned").exists()


def test_a_word_whose_argument_is_missing_is_left_out(tmp_path: Path) -> None:
    assert run(tmp_path, (*ECHO, "always", "--w={word}"), {}).text == "exit status 0\n['always']"


@pytest.mark.parametrize("word", ["-rf", "--exec=x", "nul\0"])
def test_an_argument_cannot_become_an_option(tmp_path: Path, word: str) -> None:
    with pytest.raises(ToolError):
        run(tmp_path, (*ECHO, "{word}"), {"word": word})


def test_a_path_argument_obeys_the_rules_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    (tmp_path / ".env").write_text("")
    assert "['a.py']" in run(tmp_path, (*ECHO, "{path}"), {"path": "./a.py"}).text
    for path in (".env", "../x", "/etc/passwd", "missing"):
        with pytest.raises(ToolError):
            run(tmp_path, (*ECHO, "{path}"), {"path": path})


def test_it_runs_in_the_root_without_input_and_shows_errors_too(tmp_path: Path) -> None:
    code = "import os, sys; print(os.getcwd(), repr(sys.stdin.read())); sys.exit('bad')"
    observation = run(tmp_path, (sys.executable, "-c", code), {})
    assert observation.text.startswith("exit status 1\n")
    assert f"{tmp_path} ''" in observation.text
    assert "bad" in observation.text
    assert observation.summary == "exit status 1"


def test_a_program_that_hangs_is_ended(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(ToolError, match="longer than 1 s"):
        run(tmp_path, (sys.executable, "-c", "import time; time.sleep(60)"), {}, timeout_s=1)
    assert time.monotonic() - started < 20


def test_a_flood_is_cut_and_counted(tmp_path: Path) -> None:
    observation = run(tmp_path, (sys.executable, "-c", "print('line\\n' * 400_000)"), {})
    assert observation.tokens <= 100
    assert "more lines, and 1000" in observation.text


def test_a_missing_program_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="cannot be run"):
        run(tmp_path, ("no-such-program",), {})
