from dataclasses import replace
from pathlib import Path

import numpy as np

from khepri.engine.disk import DiskTier
from khepri.engine.prefix import RadixPrefixCache
from khepri.engine.spare_time import SpareTime
from tests.support.decoding import ScriptedEngine
from tests.support.prefill import evaluate, fresh
from tests.support.scripted_backend import ScriptedBackend

LEFT = tuple(range(120))
OTHER = (7, *range(60))


def test_a_conversation_whose_writing_was_broken_off_is_written_before_another_takes_its_place(tmp_path: Path) -> None:
    backend = ScriptedBackend(context_tokens=1000)  # one conversation, and a sequence for copies
    disk = DiskTier(tmp_path, "context", 10**9)
    cache = RadixPrefixCache(backend, disk=disk)
    engine = replace(ScriptedEngine(backend).engine, cache=cache)
    evaluate(backend, cache, (*LEFT, 1))
    spare = SpareTime()
    spare.keep(LEFT)
    spare.use(engine, lambda: False)
    assert cache.has_unwritten
    spare.make_way(engine, (*LEFT, 2))
    assert cache.has_unwritten, "a prompt that goes on with it takes nothing away"
    spare.make_way(engine, OTHER)
    evaluate(backend, cache, OTHER)
    cache.finish()
    backend.evaluated.clear()
    assert np.array_equal(evaluate(backend, cache, (*LEFT, 3)), fresh((*LEFT, 3)))
    assert len(backend.evaluated) == 1
