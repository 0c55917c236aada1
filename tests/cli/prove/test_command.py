"""``khepri prove`` as a process: what it refuses."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from khepri.cli import exits
from khepri.cli.bench.command import Target
from khepri.cli.bench.corpus import load_corpus
from khepri.cli.prove.command import EXACT_TOKENS, Proof, _items
from khepri.cli.prove.compare import Divergence
from khepri.config import Config, Decoding
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


@pytest.mark.parametrize(("decoding", "is_defect"), [(Decoding.EXACT, True), (Decoding.FAST, False)])
def test_a_near_tie_is_a_defect_where_exactness_was_promised(decoding: Decoding, is_defect: bool) -> None:
    target = cast(Target, SimpleNamespace(settings=replace(Config(), decoding=decoding)))
    tie = Divergence(position=3, plain="a", accelerated="b", margin=0.1, gap=0.1, rounding=0.1)
    assert tie.is_near_tie()
    assert Proof(target, (), ()).is_defect(tie) is is_defect
