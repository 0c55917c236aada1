"""``khepri prove`` as a process: what it refuses."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from khepri.cli import exits
from khepri.cli.bench.command import Target
from khepri.cli.bench.corpus import load_corpus
from khepri.cli.prove.command import EXACT_TOKENS, Finding, Proof, _items, check
from khepri.cli.prove.compare import Comparison, Divergence
from khepri.config import Config, Decoding
from khepri.errors import BrokenPromiseError
from tests.support.command import Command
from tests.support.decoding import BYTES


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--draft", "off"), "nothing to prove"),
        (("--gamma", "0"), "nothing to prove"),
        (("--tokens", "0"), "--tokens 0"),
        (("--exact", "--backend", "ik_llama"), "cannot decode exactly"),
    ],
    ids=["no drafter", "no drafted token", "no token", "a library that cannot"],
)
def test_what_cannot_be_proven_is_said_before_anything_is_loaded_or_measured(
    khepri: Command, arguments: tuple[str, ...], said: str
) -> None:
    done = khepri.run("prove", "--model", str(khepri.model), *arguments)
    assert done.returncode == exits.USAGE
    assert said in done.stderr
    assert "measuring" not in done.stderr
    assert not done.stdout


def test_no_text_is_compared_twice_and_there_are_enough_of_them() -> None:
    items = list(_items(load_corpus(BYTES)))
    assert len({(item.prompt, item.grammar is None) for item in items}) == len(items)
    assert sum(item.max_tokens for item in items) > 1.5 * EXACT_TOKENS


TIE = Divergence(position=3, plain="a", accelerated="b", margin=0.1, gap=0.1, rounding=0.1)
DEFECT = Divergence(position=3, plain="a", accelerated="b", margin=2.0, gap=2.0, rounding=0.1)


def proof_of(*divergences: Divergence, decoding: Decoding = Decoding.FAST, drafted: int = 20) -> Proof:
    target = cast(Target, SimpleNamespace(settings=replace(Config(), decoding=decoding)))
    comparison = Comparison(
        tokens=40, drafted=drafted, accepted=drafted, forced=0, passes=20, cached=0, divergences=divergences
    )
    return Proof(target, (), (Finding("one", comparison),))


def test_runs_that_are_the_same_and_near_ties_keep_the_promise() -> None:
    assert TIE.is_near_tie()
    check(proof_of(), 40)
    check(proof_of(TIE), 40)
    check(proof_of(decoding=Decoding.EXACT), 40)


@pytest.mark.parametrize(
    ("proof", "said"),
    [
        (proof_of(TIE, DEFECT), "1 of 40 tokens differ, and rounding"),
        (proof_of(TIE, decoding=Decoding.EXACT), "1 of 40 tokens differ, and exact decoding was promised"),
        (proof_of(drafted=0), "nothing was drafted"),
    ],
    ids=["a defect", "a near-tie where exactness was promised", "no draft"],
)
def test_a_broken_promise_is_an_error(proof: Proof, said: str) -> None:
    with pytest.raises(BrokenPromiseError, match=said):
        check(proof, 40)


def test_too_few_tokens_prove_nothing() -> None:
    with pytest.raises(BrokenPromiseError, match="fewer than the 41"):
        check(proof_of(), 41)
