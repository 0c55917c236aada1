from collections.abc import Callable

import pytest

from khepri.engine.backend import Backend
from tests.engine.conformance import BATCH_TOKENS, CONTEXT_TOKENS, SEQUENCES, BackendConformance, Exactness, feed
from tests.support.scripted_backend import ScriptedBackend


class TestScriptedBackend(BackendConformance):
    @pytest.fixture
    def make_backend(self) -> Callable[[], Backend]:
        return lambda: ScriptedBackend(CONTEXT_TOKENS, BATCH_TOKENS, SEQUENCES)

    @pytest.fixture
    def exactness(self) -> Exactness:
        return Exactness(0.0)


def test_a_cell_from_another_context_changes_the_logits() -> None:
    backend = ScriptedBackend()
    expected = feed(backend, [1, 2, 3, 4], 4)
    backend.sequence_remove(0, 0)
    feed(backend, [9, 2, 3], 3, sequence=1)
    feed(backend, [1], 1)
    backend.sequence_copy(1, 0, 1, 3)
    assert (feed(backend, [4], 1) != expected[-1]).any()


def test_a_model_that_cannot_remove_a_tail_refuses_and_keeps_all() -> None:
    backend = ScriptedBackend(can_remove_tail=False)
    expected = feed(backend, [1, 2, 3, 4], 4)
    assert not backend.sequence_remove(0, 2)
    assert backend.sequence_length(0) == 4
    assert backend.sequence_remove(0, 0)
    assert (feed(backend, [1, 2, 3, 4], 4) == expected).all()
