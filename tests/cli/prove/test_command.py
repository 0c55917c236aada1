"""``khepri prove`` as a process: what it refuses."""

import pytest

from khepri.cli import exits
from khepri.cli.bench.corpus import load_corpus
from khepri.cli.prove.command import EXACT_TOKENS, _items
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
