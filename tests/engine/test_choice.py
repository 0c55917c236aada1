"""The faster library is taken, once it was seen to live and to agree; and it is measured only once."""

import json
import os
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from khepri.engine.backend import BackendName
from khepri.engine.backends.ik_llama_api import find_library
from khepri.engine.choice import Candidate, Choice, Machine, choose, decide, disagreement, shift
from khepri.engine.trial import PREFILL_TOKENS, WIDTHS, Figures, Trial
from khepri.errors import CancelledError, ModelLoadError
from tests.support.tiny_model import write_tiny_recurrent_model, write_tiny_window_model

needs_both = pytest.mark.skipif(find_library() is None, reason="the extra `fast` is not installed")

LLAMA_CPP = Candidate(BackendName.LLAMA_CPP, Figures(1300.0, {1: 60.0, 4: 150.0, 8: 350.0, 16: 500.0}))
IK_LLAMA = Candidate(BackendName.IK_LLAMA, Figures(900.0, {1: 52.0, 4: 85.0, 8: 140.0, 16: 250.0}))


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the machine for a quiet one, whatever else runs on it."""
    monkeypatch.setattr("khepri.engine.choice.LEAST_SHARE", 0.0)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "probe.json", tmp_path / "backends.json", 1, None, threading.Event())


def choose_here(model: Path, machine: Machine) -> tuple[Choice, list[str]]:
    told: list[str] = []
    return choose(model, machine, told.append), told


def test_the_faster_library_is_taken_and_the_gain_is_said() -> None:
    choice = decide([LLAMA_CPP, IK_LLAMA])
    assert choice.backend is BackendName.IK_LLAMA
    ratio = LLAMA_CPP.step_ms / IK_LLAMA.step_ms
    assert f"{ratio:.2f} times as fast as llama_cpp" == choice.reason
    assert choice.candidates == (LLAMA_CPP, IK_LLAMA)


def test_a_step_counts_the_prefill_and_the_passes_of_each_width() -> None:
    slow_prefill = Candidate(BackendName.IK_LLAMA, Figures(9000.0, {1: 1.0, 4: 1.0, 8: 1.0, 16: 1.0}))
    assert decide([LLAMA_CPP, slow_prefill]).backend is BackendName.LLAMA_CPP


@pytest.mark.parametrize(("gain", "taken"), [(0.02, BackendName.LLAMA_CPP), (0.10, BackendName.IK_LLAMA)])
def test_a_gain_that_a_second_measurement_could_take_back_is_none(gain: float, taken: BackendName) -> None:
    assert LLAMA_CPP.figures is not None
    figures = LLAMA_CPP.figures
    slightly_faster = Figures(
        figures.prefill_ms * (1 - gain), {rows: ms * (1 - gain) for rows, ms in figures.pass_ms.items()}
    )
    assert decide([LLAMA_CPP, Candidate(BackendName.IK_LLAMA, slightly_faster)]).backend is taken


def test_what_is_out_is_not_taken_and_its_reason_is_kept() -> None:
    out = Candidate(BackendName.IK_LLAMA, None, "it died (SIGILL)")
    choice = decide([LLAMA_CPP, out])
    assert (choice.backend, choice.reason) == (BackendName.LLAMA_CPP, "no other library can be used")
    assert "SIGILL" in out.describe()
    choice = decide([replace(LLAMA_CPP, figures=None, refusal="it died"), IK_LLAMA])
    assert (choice.backend, choice.reason) == (BackendName.IK_LLAMA, "the only library that can be used")


def test_probability_that_moves_is_measured_whatever_is_added_to_a_row() -> None:
    rows = np.random.default_rng(0).normal(0, 3, (4, 50)).astype(np.float32)
    assert shift(rows, rows) == 0
    assert shift(rows + np.float32(7), rows) < 1e-6
    sure = np.full((1, 3), -50, np.float32)
    one, other = sure.copy(), sure.copy()
    one[0, 0] = other[0, 1] = 50
    assert shift(one, other) == pytest.approx(1)
    even = np.zeros((1, 4), np.float32)
    half = np.array([[0, 0, -99, -99]], np.float32)
    assert shift(half, even) == pytest.approx(0.5)


def test_libraries_disagree_over_tokens_sizes_and_logits_but_not_over_rounding() -> None:
    logits = np.random.default_rng(0).normal(0, 3, (1 + len(WIDTHS), 4, 50)).astype(np.float32)
    found = Trial((1, 2, 3), Figures(1.0, {}), logits)
    assert disagreement(found, found) == ""
    assert disagreement(replace(found, logits=logits + np.float32(0.01) * logits), found) == ""
    assert "other tokens" in disagreement(replace(found, tokens=(1, 2)), found)
    assert "another size" in disagreement(replace(found, logits=logits[:, :, :-1]), found)
    for index, width in enumerate((PREFILL_TOKENS, *WIDTHS)):
        for wrong in (logits[index, :, ::-1], np.float32("nan")):
            spoilt = logits.copy()
            spoilt[index] = wrong
            assert f"with {width} tokens a pass" in disagreement(replace(found, logits=spoilt), found)


@needs_both
def test_both_libraries_are_measured_once_and_agree_on_a_real_model(tiny_model: Path, machine: Machine) -> None:
    choice, told = choose_here(tiny_model, machine)
    assert [candidate.backend for candidate in choice.candidates] == list(BackendName)
    for candidate in choice.candidates:
        assert candidate.figures is not None, candidate.refusal
        assert candidate.figures.prefill_ms > 0
        assert all(ms > 0 for ms in candidate.figures.pass_ms.values())
    assert ["llama_cpp (1 of 2" in told[0], "ik_llama (2 of 2" in told[1]] == [True, True]
    again, told_again = choose_here(tiny_model, machine)
    assert told_again == []
    assert again == replace(choice, was_cached=True)
    assert len(json.loads(machine.probe_file.read_text())) == 2


@needs_both
def test_what_was_measured_beside_other_programs_is_measured_again_a_few_times_and_the_best_of_it_counts(
    tiny_model: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("khepri.engine.choice.LEAST_SHARE", 2.0)
    shortest_ms = float("inf")
    for attempt in (1, 2, 3):
        choice, told = choose_here(tiny_model, machine)
        assert len(told) == 2
        assert (choice.attempts, choice.is_final) == (attempt, attempt == 3)
        figures = choice.candidates[0].figures
        assert figures is not None
        assert figures.prefill_ms <= shortest_ms
        shortest_ms = figures.prefill_ms
    again, told = choose_here(tiny_model, machine)
    assert told == []
    assert again == replace(choice, was_cached=True)


def test_the_best_of_two_trials_is_that_of_every_pass() -> None:
    slow_start = replace(IK_LLAMA, figures=Figures(1000.0, {1: 50.0, 4: 90.0, 8: 139.0, 16: 260.0}, 0.5))
    joined = IK_LLAMA.joined(slow_start)
    assert joined.figures == Figures(900.0, {1: 50.0, 4: 85.0, 8: 139.0, 16: 250.0}, 1.0)
    dead = Candidate(BackendName.IK_LLAMA, None, "it died")
    assert (IK_LLAMA.joined(dead), dead.joined(IK_LLAMA)) == (IK_LLAMA, dead)


@needs_both
def test_it_is_measured_anew_when_something_changes_or_the_file_is_damaged(tiny_model: Path, machine: Machine) -> None:
    choose_here(tiny_model, machine)
    _, told = choose_here(tiny_model, replace(machine, threads=2))
    assert len(told) == 2
    _, told = choose_here(tiny_model, replace(machine, extra_buffers=False))
    assert len(told) == 2
    machine.choice_file.write_text('{"a": 1}', encoding="utf-8")
    _, told = choose_here(tiny_model, machine)
    assert len(told) == 2


@needs_both
def test_a_library_that_dies_is_out_and_the_other_is_taken(
    tiny_model: Path, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Python runs this file before anything else.
    program = "import os, signal, sys\nif 'ik_llama' in sys.orig_argv: os.kill(os.getpid(), signal.SIGILL)"
    (tmp_path / "sitecustomize.py").write_text(program, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", ""))))
    choice, _ = choose_here(tiny_model, machine)
    assert choice.backend is BackendName.LLAMA_CPP
    assert "SIGILL" in choice.candidates[1].refusal


@needs_both
@pytest.mark.parametrize("write", [write_tiny_window_model, write_tiny_recurrent_model])
@pytest.mark.parametrize("extra_buffers", [None, False])
def test_a_library_that_gives_up_on_the_shape_of_a_model_is_out_in_its_own_words(
    machine: Machine, tmp_path: Path, write: Callable[[Path], Path], extra_buffers: bool | None
) -> None:
    choice, _ = choose_here(write(tmp_path / "odd.gguf"), replace(machine, extra_buffers=extra_buffers))
    assert (choice.backend, choice.reason) == (BackendName.LLAMA_CPP, "no other library can be used")
    assert re.search(r"[\w-]+\.c(pp)?:\d+: ", choice.candidates[1].refusal), choice.candidates[1].refusal


@needs_both
def test_a_file_that_no_library_can_load_is_refused_with_its_name(machine: Machine, tmp_path: Path) -> None:
    text = tmp_path / "notes.gguf"
    text.write_text("no model", encoding="utf-8")
    with pytest.raises(ModelLoadError, match=r"notes\.gguf"):
        choose_here(text, machine)
    assert not machine.choice_file.exists()


@needs_both
def test_giving_up_ends_the_measurement_and_leaves_no_choice(tiny_model: Path, machine: Machine) -> None:
    machine.cancelled.set()
    with pytest.raises(CancelledError):
        choose_here(tiny_model, machine)
    assert not machine.choice_file.exists()


def test_where_one_library_is_installed_nothing_is_measured(
    tiny_model: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("khepri.engine.choice._installed", lambda: {BackendName.LLAMA_CPP: "0.3.36"})
    choice, told = choose_here(tiny_model, machine)
    assert (choice.backend, told) == (BackendName.LLAMA_CPP, [])
