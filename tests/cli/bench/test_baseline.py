"""The baseline says in its own process what it says in ours, and what goes wrong there is told here."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from khepri.cli.bench.baseline import BaselineProcess
from khepri.engine.backend import LoadOptions
from khepri.engine.backends.llama_cpp_plain import LlamaCppPlain
from khepri.errors import ModelError

PROMPT = tuple(range(40, 90))


@pytest.fixture
def options(tiny_model: Path) -> LoadOptions:
    return LoadOptions(tiny_model, 512, 1, batch_tokens=32, extra_buffers=False)


@pytest.fixture
def baseline(options: LoadOptions) -> Iterator[BaselineProcess]:
    with BaselineProcess(options) as baseline:
        yield baseline


def child_of_ours() -> psutil.Process:
    (child,) = (child for child in psutil.Process().children() if "khepri.cli.bench.baseline" in child.cmdline())
    return child


def test_it_says_what_the_library_says_here_again_and_again(baseline: BaselineProcess, options: LoadOptions) -> None:
    with closing(LlamaCppPlain(options)) as plain:
        expected = plain.generate(PROMPT, 24, end_ids=()).tokens
    for _ in range(2):
        said = baseline.generate(PROMPT, 24, end_ids=())
        assert said.tokens == expected
        assert len(said.gaps_ms) == 23
        assert said.ttft_ms > 0
    assert len(baseline.generate(PROMPT, 24, end_ids=[expected[0]]).tokens) == 1


def test_a_model_that_cannot_be_loaded_is_told_and_leaves_no_process(tmp_path: Path) -> None:
    text = tmp_path / "text.gguf"
    text.write_text("no model")
    with pytest.raises(ModelError, match=r"cannot load .*text\.gguf"):
        BaselineProcess(LoadOptions(text, 512, 1))
    assert not any("khepri.cli.bench.baseline" in child.cmdline() for child in psutil.Process().children())


def test_a_death_is_told_with_its_status(baseline: BaselineProcess) -> None:
    child_of_ours().kill()
    with pytest.raises(ModelError, match=r"died .*-9"):
        baseline.generate(PROMPT, 4, end_ids=())


def test_ctrl_c_is_not_for_the_child(baseline: BaselineProcess) -> None:
    assert os.getpgid(child_of_ours().pid) != os.getpgrp()
    assert baseline.generate(PROMPT, 4, end_ids=()).tokens


def test_closing_twice_ends_the_process_once(options: LoadOptions) -> None:
    baseline = BaselineProcess(options)
    child = child_of_ours()
    baseline.close()
    baseline.close()
    assert not child.is_running()
