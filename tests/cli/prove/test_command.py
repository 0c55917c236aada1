"""``khepri prove`` as a process: what it refuses."""

import pytest

from khepri.cli import exits
from tests.support.command import Command


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
