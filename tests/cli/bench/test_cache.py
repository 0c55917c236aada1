import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from khepri.cli.bench import cache, cache_runs
from khepri.cli.bench.cache_runs import Scale
from khepri.cli.progress import Progress
from khepri.config import Value
from khepri.engine.backends.ik_llama_api import find_library
from khepri.engine.generate import Engine
from khepri.engine.request import Generation


@pytest.fixture(autouse=True)
def _small(own_folders: None, monkeypatch: pytest.MonkeyPatch) -> None:
    small = Scale(preamble_tokens=300, turn_tokens=60, turns=3, conversations=8, most_held=3)
    monkeypatch.setattr(cache, "QUICK", small)
    monkeypatch.setattr(cache, "_PRECISION_TOKENS", 200)


def test_it_measures_turns_a_restart_conversations_and_precisions(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flags: dict[str, Value] = {"model": str(tiny_model), "extra_buffers": "off", "threads": 1, "backend": "llama_cpp"}
    twins: list[Generation] = []

    def run_twin(engine: Engine, prompt: Sequence[int], stable_tokens: int, progress: Progress) -> Generation:
        twins.append(cache_runs.run_twin(engine, prompt, stable_tokens, progress))
        return twins[-1]

    monkeypatch.setattr(cache, "run_twin", run_twin)
    cache.run(tmp_path, flags, quick=True, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert [turn["prompt_tokens"] for turn in found["turns"]] == [300, 364, 428, 492]
    assert [turn["cached_tokens"] for turn in found["turns"]] == [0, 303, 367, 431]
    assert all(turn["first_token_ms"] > 0 and turn["new_tokens_ms"] > 0 for turn in found["turns"])
    assert found["restart"]["restored_tokens"] == 300
    assert found["answers_as_before"]
    uncached, turns = found["uncached_turns_ms"], found["turns"]
    assert uncached[0] == found["uncached_ms"]
    assert uncached[2] == pytest.approx(uncached[0] + turns[2]["new_tokens_ms"] + turns[3]["new_tokens_ms"])
    assert [(twin.prompt_tokens, twin.cached_tokens) for twin in twins] == [(364, 300)] * 2
    assert found["beside_ms"] == pytest.approx(sum(twin.ttft_ms for twin in twins) / 2)
    assert found["gains"][0] == pytest.approx(found["uncached_ms"] / found["beside_ms"])
    assert found["gains"][2] == pytest.approx(uncached[2] / turns[3]["first_token_ms"])
    assert found["file_bytes"] > 300 * 4
    many = found["conversations"]
    assert (many["count"], many["held"], many["answers"]) == (8, 3, 16)
    assert many["held_tokens"] <= many["cells"]
    assert many["largest_gap"] <= many["tie_gap"]
    assert many["same_answers"] > 8
    assert found["precisions"][0]["kv_type"] == "f16"
    assert all(1 < each["perplexity"] < 1e6 for each in found["precisions"])
    assert {promise["kept"] for promise in found["promises"]} <= {True, False}


@pytest.mark.skipif(find_library() is None, reason="the extra `fast` is not installed")
def test_of_a_library_that_keeps_one_conversation_it_says_so_and_gives_no_figure_of_several(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags: dict[str, Value] = {"model": str(tiny_model), "extra_buffers": "off", "threads": 1, "backend": "ik_llama"}
    cache.run(tmp_path, flags, quick=True, as_json=False)
    shown = capsys.readouterr().out
    assert "one conversation at a time, as this library keeps no more" in shown
    assert "of the blocks empty" not in shown
    assert "held at once" not in shown
    assert "16 of 16 answers" in shown


def test_for_people_it_names_what_was_missed(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_LEAST_GAIN", 1000.0)
    cache.run(
        tmp_path,
        {"model": str(tiny_model), "extra_buffers": "off", "threads": 1, "backend": "llama_cpp"},
        quick=True,
        as_json=False,
    )
    shown = capsys.readouterr().out
    assert "MISSED: in the median a turn begins" in shown
    assert "kept: and gives the answer that the first one gave" in shown
