"""``khepri bench`` as a process, on the tiny model."""

import json
from pathlib import Path

import pytest

from khepri.cli import exits
from khepri.cli.bench.corpus import TaskClass
from tests.support.command import Command
from tests.support.tiny_model import write_tiny_model


@pytest.fixture
def draft_model(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "draft.gguf", seed=9)


def test_a_quick_benchmark_runs_its_classes_with_every_arm(khepri: Command) -> None:
    done = khepri.run("bench", "--quick", "--json", "--model", str(khepri.model))
    assert done.returncode == exits.ANSWERED, done.stderr
    said = json.loads(done.stdout)
    brief = [TaskClass.EDIT, TaskClass.TOOL_CALL, TaskClass.EXPLANATION, TaskClass.NEW_CODE]
    assert [each["class"] for each in said["classes"]] == brief
    assert [run["arm"] for run in said["runs"][:3]] == ["baseline", "plain", "accelerated"]
    assert len(said["runs"]) == 3 * len(brief)
    for each in said["classes"]:
        assert each["agreeing_tokens"] <= each["compared_tokens"]
        assert each["arms"]["accelerated"]["first_token_ms"] > 0
    assert said["setting"]["threads"] == 1


def test_what_lies_on_the_disk_for_the_user_stays_as_it_is(khepri: Command) -> None:
    model = ("--model", str(khepri.model))
    khepri.run("ask", "What is here?", "--max-tokens", "4", *model)
    before = json.loads(khepri.run("cache", "--json").stdout)
    assert before["entries"] > 0
    khepri.run("bench", "--quick", "--repeats", "1", *model)
    khepri.run("prove", "--tokens", "20", *model)
    assert json.loads(khepri.run("cache", "--json").stdout) == before


def test_in_a_pipe_it_is_plain_text_and_progress_is_one_line(khepri: Command) -> None:
    done = khepri.run("bench", "--quick", "--draft", "off", "--repeats", "2", "--model", str(khepri.model))
    assert done.returncode == exits.ANSWERED
    assert "\x1b" not in done.stdout
    assert "new code" in done.stdout
    assert done.stderr.count("\n") <= 2


def test_a_draft_model_is_tried_and_spoken_of(khepri: Command, draft_model: Path) -> None:
    done = khepri.run(
        "bench", "--quick", "--draft", "all", "--draft-model", str(draft_model), "--model", str(khepri.model)
    )
    assert done.returncode == exits.ANSWERED, done.stderr
    assert "The draft model draft " in done.stdout


def test_a_sweep_prints_tables_and_writes_its_picture(khepri: Command, draft_model: Path) -> None:
    done = khepri.run("bench", "--sweep", "--quick", "--model", str(khepri.model), "--draft-model", str(draft_model))
    assert done.returncode == exits.ANSWERED, done.stderr
    for name in ("suffix, edit", "suffix, explanation", "draft, edit", "draft, explanation"):
        assert f"{name}: alpha" in done.stdout
    assert (khepri.cwd / "khepri-sweep.svg").read_text(encoding="utf-8").startswith("<svg")
    assert "wrote khepri-sweep.svg" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--repeats", "0"), exits.USAGE, "--repeats 0"),
        (("--draft", "guess"), exits.USAGE, "draft"),
        (("--gamma", "-1"), exits.USAGE, "gamma"),
        (("--output", "x.svg"), exits.USAGE, "--output belongs to --sweep"),
        (("--sweep", "--gamma", "3"), exits.USAGE, "leave --gamma out"),
        (("--sweep", "--draft", "off"), exits.USAGE, "nothing to sweep"),
        (("--sweep", "--output", "no/such/folder.svg"), exits.USAGE, "no such folder"),
        (("--sweep", "--repeats", "0"), exits.USAGE, "--repeats 0"),
        (("--draft", "model", "--draft-model", "no-such-model"), exits.NO_MODEL, "no-such-model"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_done_is_said_before_anything_runs(
    khepri: Command, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = khepri.run("bench", "--model", str(khepri.model), *arguments)
    assert done.returncode == code
    assert said in done.stderr
    assert not done.stdout


@pytest.mark.real_model
def test_on_a_real_model_an_edit_is_drafted_and_its_acceptance_is_shown(khepri: Command, small_model: Path) -> None:
    # A number for gamma is obeyed; what pays hangs on how busy the machine is.
    arguments = ("bench", "--quick", "--json", "--gamma", "3", "--model", str(small_model))
    done = khepri.run(*arguments, KHEPRI_THREADS="0")
    assert done.returncode == exits.ANSWERED, done.stderr
    said = json.loads(done.stdout)
    edit = said["classes"][0]
    assert edit["arms"]["accelerated"]["acceptance"]["suffix"] > 0.0
    assert edit["accelerated_to_plain"]["median"] > 0.0
    assert all(each["arms"]["plain"]["tokens_per_pass"] == 1.0 for each in said["classes"])
