"""What a trial tells of a library, on the backend in plain Python."""

import pytest

from khepri.engine.backend import Batch, Logits
from khepri.engine.trial import try_backend
from tests.support.scripted_backend import ScriptedBackend


class TimedBackend(ScriptedBackend):
    """A backend whose passes take a second each."""

    now_s = 0.0

    def decode(self, batch: Batch) -> Logits:
        self.now_s += 1.0
        return super().decode(batch)


@pytest.mark.parametrize(("share", "told"), [(1.0, 1.0), (0.5, 0.5), (1.2, 1.0)])
def test_the_share_is_what_the_threads_got_of_the_processor(share: float, told: float) -> None:
    backend = TimedBackend()
    trial = try_backend(backend, 2, lambda: backend.now_s, lambda: 2 * share * backend.now_s)
    assert trial.figures.share == pytest.approx(told)
