"""``khepri doctor`` run as the user runs it: a real process, folders of its own, and whatever is wrong with them."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from khepri.engine.backends.ik_llama_api import find_library
from tests.support.tiny_model import write_tiny_model

DOCTOR = (sys.executable, "-P", "-m", "khepri", "doctor")
NAMES = [
    "khepri",
    "network",
    "terminal",
    "git",
    "models folder",
    "cache folder",
    "config folder",
    "configuration",
    "tools",
    "cpu",
    "library",
    "model",
    "backend",
    "settings",
    "speed",
    "memory",
]
FIRST_WORDS = "khepri: examining; loading and measuring a model takes some seconds\n"
ESCAPE = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07)")
COLOUR = re.compile(r"\x1b\[[0-9;]*[34]\dm|\x1b\[[0-9;]*[34]8;")
USER_TOOL = """
name = "{name}"
description = "Counts words."
permission = "command"
command = ["wc", "-w"]
[parameters]
type = "object"
"""
MODULES = """
import atexit, pathlib, sys
sys.argv = ["khepri", "doctor", "--json"]
atexit.register(lambda: pathlib.Path("modules").write_text("\\n".join(sys.modules)))
from khepri.__main__ import main
main()
"""


@dataclass(frozen=True)
class Home:
    """A user with nothing yet, standing in an empty folder."""

    folder: Path
    environment: dict[str, str]

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def config(self) -> Path:
        return self.folder / "config" / "khepri"

    def run(
        self, *arguments: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            (*DOCTOR, *arguments),
            cwd=cwd or self.project,
            env={**self.environment, **(environment or {})},
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="strict",
        )

    def lines(self, *arguments: str, environment: Mapping[str, str] | None = None) -> dict[str, dict[str, str]]:
        done = self.run("--json", *arguments, environment=environment)
        assert done.stderr == FIRST_WORDS
        return {line["name"]: line for line in json.loads(done.stdout)["checks"]}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KHEPRI_", "XDG_", "GIT_"))}
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "PYTHONIOENCODING", "TTY_COMPATIBLE"):
        kept.pop(name, None)
    folders = {"DATA": "data", "CACHE": "cache", "CONFIG": "config"}
    moved = {f"XDG_{kind}_HOME": str(tmp_path / name) for kind, name in folders.items()}
    # Measuring every library takes seconds a test; one test does.
    own = {"HOME": str(tmp_path), "TERM": "xterm-256color", "KHEPRI_BACKEND": "llama_cpp"}
    home = Home(tmp_path, {**kept, **moved, **own})
    home.project.mkdir()
    return home


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny_model(tmp_path_factory.mktemp("models") / "random.gguf"))


def on_a_terminal(
    home: Home,
    columns: int,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    report_elsewhere: bool = False,
) -> str:
    """Run the command on a terminal of its own and return all that it wrote there, of the report too or without it."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    with subprocess.Popen(
        (*DOCTOR, *arguments),
        cwd=home.project,
        env={**home.environment, **(environment or {})},
        stdin=slave,
        stdout=subprocess.DEVNULL if report_elsewhere else slave,
        stderr=slave,
        start_new_session=True,
    ):
        os.close(slave)
        written = bytearray()
        while True:
            try:
                chunk = os.read(master, 65536)
            except OSError:
                break
            if not chunk:
                break
            written += chunk
    os.close(master)
    return written.decode()


def test_all_is_reported_of_a_model_that_works(home: Home, model: str) -> None:
    done = home.run("--json", "--model", model)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert [line["name"] for line in report["checks"]] == NAMES
    assert all(list(line) == ["name", "status", "detail", "advice"] for line in report["checks"])
    lines = {line["name"]: line for line in report["checks"]}
    assert re.search(r"prefill \d+ tokens/s .* decode [\d.]+ tokens/s", lines["speed"]["detail"])
    assert "trained for 2048 tokens, its own chat template" in lines["model"]["detail"]
    assert "came through" in lines["settings"]["detail"]
    assert report["status"] == "warning", "the context is longer than the tiny model was trained for"


@pytest.mark.skipif(find_library() is None, reason="the extra `fast` is not installed")
def test_the_measurement_of_each_library_is_shown_and_the_choice_remembered(home: Home, model: str) -> None:
    detail = home.lines("--model", model, environment={"KHEPRI_BACKEND": "auto"})["backend"]["detail"]
    for backend in ("llama_cpp", "ik_llama"):
        assert re.search(rf"{backend}: prefill \d+ tokens/s, passes of 1, 4, 8, 16 tokens in [\d, ]+ ms", detail)
    for _ in range(3):  # on a busy machine it takes three measurements until one is kept for good
        again = home.lines("--model", model, environment={"KHEPRI_BACKEND": "auto"})["backend"]["detail"]
    assert "known from an earlier measurement" in again
    assert "as configured" in home.lines("--model", model)["backend"]["detail"]


def test_a_second_look_does_not_probe_again(home: Home, model: str) -> None:
    home.lines("--model", model)
    assert "earlier probe" in home.lines("--model", model)["settings"]["detail"]


def test_the_library_is_never_loaded_in_the_commands_own_process(home: Home, model: str) -> None:
    environment = {**home.environment, "KHEPRI_MODEL": model}
    done = subprocess.run((sys.executable, "-P", "-c", MODULES), cwd=home.project, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert b'"speed"' in done.stdout
    modules = (home.project / "modules").read_text(encoding="utf-8").split("\n")
    assert "khepri.cli.doctor" in modules
    assert "llama_cpp" not in modules


def test_without_a_model_the_code_is_3_and_the_library_is_looked_at_all_the_same(home: Home) -> None:
    done = home.run("--json")
    assert done.returncode == 3
    report = json.loads(done.stdout)
    lines = {line["name"]: line for line in report["checks"]}
    assert list(lines) == NAMES
    assert report["status"] == lines["model"]["status"] == "problem"
    assert "khepri models pull" in lines["model"]["advice"]
    assert "llama-cpp-python" in lines["library"]["detail"]
    assert lines["speed"]["detail"].count("not known") == 1


@pytest.mark.parametrize("damage", ["text", "truncated", "empty", "missing", "folder"])
def test_a_model_that_cannot_be_loaded_has_its_own_code_and_says_why(home: Home, model: str, damage: str) -> None:
    path = home.folder / "bad.gguf"
    content = {"text": b"just words\n", "truncated": Path(model).read_bytes()[:-5000], "empty": b""}
    if damage in content:
        path.write_bytes(content[damage])
    elif damage == "folder":
        path.mkdir()
    done = home.run("--json", "--model", str(path))
    assert done.returncode == (3 if damage == "missing" else 4), done.stdout
    line = next(line for line in json.loads(done.stdout)["checks"] if line["name"] == "model")
    assert line["status"] == "problem"
    assert str(path) in line["detail"]
    assert line["advice"]


def test_a_damaged_file_in_khepris_own_folder_is_pointed_out(home: Home, model: str) -> None:
    own = home.folder / "data" / "khepri" / "models"
    own.mkdir(parents=True)
    (own / "half.gguf").write_bytes(b"GGUF")
    line = home.lines("--model", model)["model"]
    assert line["status"] == "warning"


@pytest.mark.parametrize("text", ["no_such_key = 1", "threads = 'many'", "not toml at all ["])
def test_a_broken_configuration_is_a_problem_and_the_rest_is_still_looked_at(home: Home, model: str, text: str) -> None:
    home.config.mkdir(parents=True)
    (home.config / "config.toml").write_text(text, encoding="utf-8")
    done = home.run("--json", "--model", model)
    lines = {line["name"]: line for line in json.loads(done.stdout)["checks"]}
    assert done.returncode == 2
    assert lines["configuration"]["status"] == "problem"
    assert "config.toml" in lines["configuration"]["detail"]
    assert "tokens/s" in lines["speed"]["detail"]


def test_a_repositorys_own_configuration_is_reported_as_applied(home: Home) -> None:
    (home.project / ".khepri").mkdir()
    (home.project / ".khepri" / "config.toml").write_text("context_tokens = 4096\n", encoding="utf-8")
    lines = home.lines()
    assert "context_tokens = 4096" in lines["configuration"]["detail"]
    assert "the repository's own file" in lines["configuration"]["detail"]
    assert "context 4096 tokens" in lines["settings"]["detail"]


def test_the_users_own_tools_are_named_with_what_is_permitted(home: Home) -> None:
    tools = home.config / "tools"
    tools.mkdir(parents=True)
    (tools / "words.toml").write_text(USER_TOOL.format(name="words"), encoding="utf-8")
    assert "words (not permitted" in home.lines()["tools"]["detail"]
    permitted = home.lines(environment={"KHEPRI_PERMISSION_COMMAND": "allow"})["tools"]
    assert permitted["detail"].endswith("your own: words")


def test_a_broken_tool_of_the_users_is_a_problem(home: Home) -> None:
    tools = home.config / "tools"
    tools.mkdir(parents=True)
    (tools / "words.toml").write_text(USER_TOOL.format(name="others"), encoding="utf-8")
    line = home.lines()["tools"]
    assert line["status"] == "problem"
    assert "words.toml" in line["detail"]


def test_a_folder_that_cannot_be_written_is_a_warning_that_says_what_is_lost(home: Home) -> None:
    for name in ("data", "cache", "config"):
        (home.folder / name).write_text("a file where a folder should be", encoding="utf-8")
    lines = home.lines()
    for name, loss in (("models", "no model can"), ("cache", "made anew"), ("config", "settings cannot")):
        line = lines[f"{name} folder"]
        assert line["status"] == "warning"
        assert loss in line["detail"]
        assert f"XDG_{'DATA' if name == 'models' else name.upper()}_HOME" in line["advice"]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is read-only even to root")
def test_a_read_only_home_costs_warnings_and_nothing_else(home: Home, model: str) -> None:
    nowhere = {f"XDG_{kind}_HOME": "/proc/khepri" for kind in ("DATA", "CACHE", "CONFIG")}
    done = home.run("--json", "--model", model, environment=nowhere)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = {line["name"]: line for line in json.loads(done.stdout)["checks"]}
    assert {lines[f"{name} folder"]["status"] for name in ("models", "cache", "config")} == {"warning"}
    assert "tokens/s" in lines["speed"]["detail"]


def test_looking_leaves_nothing_behind(home: Home) -> None:
    home.lines()
    assert sorted(path.name for path in home.folder.rglob("*")) == ["project"]


@pytest.mark.parametrize("kind", ["none", "empty", "bare", "committed"])
def test_every_kind_of_repository_is_described(home: Home, kind: str) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "init.defaultBranch=main")
        subprocess.run(
            ("git", *identity, *arguments), cwd=home.project, env=home.environment, check=True, capture_output=True
        )

    if kind != "none":
        git("init", *(["--bare"] if kind == "bare" else []))
    if kind == "committed":
        (home.project / "a.py").write_text("a = 1\n", encoding="utf-8")
        git("add", "a.py")
        git("commit", "-m", "first")
        (home.project / "b.py").write_text("b = 1\n", encoding="utf-8")
    line = home.lines()["git"]
    assert line["status"] == "ok"
    expected = {
        "none": "is not a git repository",
        "empty": r"branch main \(no commits yet\), nothing changed, without history: .* has no commits yet; 0 files",
        "bare": "bare repository, so there is no file to read; without history: the repository has no commits yet",
        "committed": r"branch main, 1 changed, at [0-9a-f]{7,}; 2 files to read",
    }
    assert re.search(expected[kind], line["detail"])


def test_a_machine_without_git_gets_a_warning(home: Home, tmp_path: Path) -> None:
    line = home.lines(environment={"PATH": str(tmp_path / "nothing")})["git"]
    assert line["status"] == "warning"
    assert "install git" in line["advice"]


def test_a_folder_that_does_not_exist_is_a_problem_and_not_the_end(home: Home) -> None:
    done = home.run("--json", "--cwd", str(home.folder / "nowhere"))
    lines = {line["name"]: line for line in json.loads(done.stdout)["checks"]}
    assert done.returncode == 3, "no model is the graver problem"
    assert lines["git"]["status"] == "problem"
    assert "nowhere" in lines["git"]["detail"]


def test_a_pipe_gets_one_aligned_line_for_each_thing_and_no_escape(home: Home) -> None:
    done = home.run()
    assert done.stderr == FIRST_WORDS
    assert "\x1b" not in done.stdout
    *rows, summary = done.stdout.rstrip("\n").split("\n")
    assert [row[8:21].rstrip() for row in rows if row[:1] != " "] == NAMES
    assert all(row[:7].rstrip() in ("ok", "warning", "problem", "") for row in rows)
    assert all(row.lstrip().startswith("-> ") for row in rows if row[:1] == " ")
    assert re.fullmatch(r"1 problem, \d+ warnings?", summary)


def test_progress_is_shown_on_a_terminal_only_also_when_the_report_goes_elsewhere(home: Home, model: str) -> None:
    for elsewhere in (False, True):
        shown = on_a_terminal(home, 100, "--model", model, report_elsewhere=elsewhere)
        assert "looking at the inference library" in shown
        assert FIRST_WORDS.strip() not in shown
    done = home.run("--model", model)
    assert "looking at" not in done.stdout + done.stderr


def test_in_a_pipe_each_line_comes_when_it_is_known(home: Home, model: str) -> None:
    with subprocess.Popen(
        (*DOCTOR, "--model", model), cwd=home.project, env=home.environment, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline().startswith(b"ok      khepri")
        assert child.poll() is None, "the measurement takes seconds from here"
        assert b"tokens/s" in child.stdout.read()


def test_a_terminal_of_twenty_columns_can_be_read(home: Home) -> None:
    shown = on_a_terminal(home, 20)
    rows = ESCAPE.sub("", shown).replace("\r\n", "\n").split("\n")
    report = [row for row in rows if "\r" not in row]
    assert max(len(row.rstrip()) for row in report) <= 20
    assert "problem model" in report
    assert any("narrow" in row for row in report)


def test_no_color_is_honoured_and_the_words_remain(home: Home) -> None:
    assert COLOUR.search(on_a_terminal(home, 100))
    plain = on_a_terminal(home, 100, environment={"NO_COLOR": "1"})
    assert not COLOUR.search(plain)
    assert "problem" in plain


@pytest.mark.parametrize("as_terminal", [True, False])
def test_an_output_that_is_not_unicode_loses_characters_and_no_line(home: Home, as_terminal: bool) -> None:
    ascii_only = {"PYTHONIOENCODING": "ascii", "KHEPRI_MODEL": "modèle-🐞"}
    if as_terminal:
        shown = on_a_terminal(home, 100, environment=ascii_only)
    else:
        shown = home.run(environment=ascii_only).stdout
    assert "Traceback" not in shown
    assert "UTF-8 locale" in shown
    assert "mod\\xe8le" in shown
    assert "memory" in shown


def test_names_that_would_command_the_terminal_are_spelled_out(home: Home) -> None:
    folder = home.folder / "a\x1b[31mred\x07 'quoted' 🐞"
    folder.mkdir()
    done = home.run("--cwd", str(folder))
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout
    assert "🐞" in done.stdout


def test_markup_in_a_name_is_not_obeyed(home: Home) -> None:
    folder = home.folder / "[red]x"
    folder.mkdir()
    assert "[red]x" in ESCAPE.sub("", on_a_terminal(home, 300, "--cwd", str(folder)))


def test_an_output_that_is_closed_early_is_no_traceback(home: Home) -> None:
    with subprocess.Popen(
        DOCTOR, cwd=home.project, env=home.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        assert b"Traceback" not in child.stderr.read()
