"""The parts of a step are timed one by one, on what was really said."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

from khepri.cli.bench.corpus import load_corpus
from khepri.cli.bench.profile import Profile, profile
from tests.support.scripted_backend import ByteVocabulary

BYTES = ByteVocabulary()
CALL = tuple(BYTES.tokenize('\n{"name": "read", "arguments": {"path": "README.md"}}\n</tool_call>'))
CORPUS = {item.name: item for item in load_corpus(BYTES)}


def ticking(step_s: float) -> Iterator[float]:
    return itertools.count(0.0, step_s)


def test_every_part_is_the_median_of_its_laps() -> None:
    ticks = ticking(0.001)
    edit, call = CORPUS["edit_fetch"], CORPUS["call_read"]
    answers = {edit.name: edit.prompt[100:140], call.name: CALL}
    found = profile(BYTES, [edit, call], answers, lambda: next(ticks))
    for part in (found.drafting, found.horizon, found.sampling, found.text, found.grammar):
        assert abs(part - 1.0) < 1e-6


def test_what_did_not_occur_takes_nothing() -> None:
    ticks = ticking(0.001)
    assert profile(BYTES, list(CORPUS.values()), {}, lambda: next(ticks)) == Profile(0.0, 0.0, 0.0, 0.0, 0.0)


def test_a_call_that_was_cut_short_is_replayed_as_far_as_it_goes() -> None:
    ticks = ticking(0.001)
    call = replace(CORPUS["call_read"], max_tokens=5)
    assert profile(BYTES, [call], {call.name: CALL[:5]}, lambda: next(ticks)).grammar > 0.0
