"""The preamble is the same, byte for byte, until the files it describes change; and it reads nothing it must not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from khepri.agent.preamble import Preamble, build_preamble
from khepri.config import Config
from khepri.repo.root import Repository
from khepri.tools.registry import Registry


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    root = tmp_path / "repository"
    (root / "src").mkdir(parents=True)
    for name in ("app", "retry", "wait"):
        text = f"def {name}():\n    return {name!r}\n"
        (root / "src" / f"{name}.py").write_text(text, encoding="utf-8")
    return root


def count(text: str) -> int:
    return len(text.split())


def preamble(root: Path, config: Config | None = None, *, use_tools: bool = True) -> Preamble:
    registry = Registry.load() if use_tools else Registry(())
    return build_preamble(Repository.open(root), registry, config or Config(), count)


def test_it_is_the_same_from_session_to_session(root: Path) -> None:
    first = preamble(root)
    assert all(preamble(root) == first for _ in range(3))


def test_it_does_not_depend_on_the_cache(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = preamble(root)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    assert preamble(root) == first


def test_it_does_not_depend_on_times_of_files(root: Path) -> None:
    first = preamble(root)
    for file in (root / "src").iterdir():
        file.write_bytes(file.read_bytes())
    assert preamble(root) == first


def test_it_changes_with_the_files(root: Path) -> None:
    first = preamble(root)
    (root / "src" / "app.py").write_text("def another():\n    return 1\n", encoding="utf-8")
    assert preamble(root) != first


def test_it_names_every_tool_and_none_without_tools(root: Path) -> None:
    with_tools, without = preamble(root), preamble(root, use_tools=False)
    for manifest in Registry.load().manifests:
        assert f"- {manifest.name}(" in with_tools.text
    assert "tool_call" not in without.text
    assert "src/app.py" in without.text


def test_an_empty_folder_has_one(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    made = preamble(empty)
    assert "no files" in made.text
    assert "src/app.py" not in made.text, "an example is taken for a file where there is none"
    assert [notice for notice in made.notices if "no file here" in notice]


@pytest.mark.parametrize("name", ["AGENTS.md", ".khepri/AGENTS.md"])
def test_the_projects_instructions_are_read(root: Path, name: str) -> None:
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text("Answer in haiku.\n", encoding="utf-8")
    made = preamble(root)
    assert "Answer in haiku." in made.text
    assert made.notices == ()


def test_the_file_at_the_top_wins_unless_it_is_empty(root: Path) -> None:
    (root / ".khepri").mkdir()
    (root / ".khepri" / "AGENTS.md").write_text("Second.", encoding="utf-8")
    (root / "AGENTS.md").write_text("First.", encoding="utf-8")
    assert "First." in preamble(root).text
    assert "Second." not in preamble(root).text
    (root / "AGENTS.md").write_text("\n \n", encoding="utf-8")
    assert "Second." in preamble(root).text


def test_long_instructions_are_cut_and_said_so(root: Path) -> None:
    (root / "AGENTS.md").write_text("".join(f"Rule {n} holds.\n" for n in range(1000)), encoding="utf-8")
    made = preamble(root, Config(instructions_tokens=30))
    assert "Rule 0 holds." in made.text
    assert "Rule 999" not in made.text
    assert "[cut here]" in made.text
    (notice,) = made.notices
    assert notice.startswith("AGENTS.md is cut to 30 tokens: 99")


def test_instructions_of_no_tokens_are_left_out_in_silence(root: Path) -> None:
    (root / "AGENTS.md").write_text("Answer in haiku.\n", encoding="utf-8")
    made = preamble(root, Config(instructions_tokens=0))
    assert "haiku" not in made.text
    assert made.notices == ()


def test_a_link_inside_the_repository_is_followed(root: Path) -> None:
    (root / "CLAUDE.md").write_text("Answer in haiku.\n", encoding="utf-8")
    (root / "AGENTS.md").symlink_to("CLAUDE.md")
    assert "Answer in haiku." in preamble(root).text


def to_secret(root: Path) -> None:
    (root / ".env").write_text("PASSWORD=hunter2\n", encoding="utf-8")
    (root / "AGENTS.md").symlink_to(".env")


def to_outside(root: Path) -> None:
    (root.parent / "outside.md").write_text("PASSWORD=hunter2\n", encoding="utf-8")
    (root / "AGENTS.md").symlink_to(root.parent / "outside.md")


def to_git(root: Path) -> None:
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("PASSWORD=hunter2\n", encoding="utf-8")
    (root / "AGENTS.md").symlink_to(".git/config")


@pytest.mark.parametrize("link", [to_secret, to_outside, to_git])
def test_a_link_to_what_must_not_be_read_is_not_followed_and_said_so(root: Path, link: Callable[[Path], None]) -> None:
    link(root)
    made = preamble(root)
    assert "hunter2" not in made.text
    assert len(made.notices) == 1
    assert made.notices[0].startswith("AGENTS.md is not read: ")


def test_a_folder_a_broken_link_and_a_loop_are_no_instructions(root: Path) -> None:
    (root / "AGENTS.md").mkdir()
    assert preamble(root).notices == ()
    (root / "AGENTS.md").rmdir()
    (root / "AGENTS.md").symlink_to("nowhere")
    assert preamble(root).notices == ()
    (root / "AGENTS.md").unlink()
    (root / "AGENTS.md").symlink_to("AGENTS.md")
    assert preamble(root).notices == ()


def test_binary_instructions_are_not_read_and_said_so(root: Path) -> None:
    (root / "AGENTS.md").write_bytes(bytes(range(256)) * 40)
    assert preamble(root).notices[0].startswith("AGENTS.md is not read: ")


def test_escapes_in_instructions_are_spelled_out(root: Path) -> None:
    (root / "AGENTS.md").write_text("one\x1b[2Jtwo\x07", encoding="utf-8")
    made = preamble(root)
    assert "\x1b" not in made.text
    assert "\x07" not in made.text


def test_variables_in_instructions_stay_as_they_are(root: Path) -> None:
    (root / "AGENTS.md").write_text("Run $make and ${unknown} and $$.\n", encoding="utf-8")
    assert "Run $make and ${unknown} and $$." in preamble(root).text


def test_in_a_small_context_the_map_and_the_instructions_shrink_with_it(root: Path) -> None:
    for number in range(60):
        (root / "src" / f"part_{number}.py").write_text(f"def part_{number}():\n    pass\n", encoding="utf-8")
    without = count(preamble(root, Config(map_tokens=0, instructions_tokens=0)).text)
    (root / "AGENTS.md").write_text("Write plain code.\n" * 300, encoding="utf-8")
    small = preamble(root, Config(context_tokens=512))
    assert count(small.text) < without + 2 * 64 + 40
    assert small.notices == preamble(root, Config(instructions_tokens=64)).notices != ()
