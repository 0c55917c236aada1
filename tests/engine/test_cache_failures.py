"""Failures that prefix caches have had in public, each replayed beside the defect that lets it through.

Every defect is planted in a cache or a disk tier of its own, and must be seen: as a wrong answer, or as an error.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from khepri.engine import launch
from khepri.engine.backend import Backend, BackendName, Batch, Capabilities, KvType, Logits
from khepri.engine.disk import DiskTier, Entry
from khepri.engine.launch import EngineSettings, open_engine
from khepri.engine.prefix import CacheLimits, RadixPrefixCache
from khepri.engine.prefix_cache import PrefixCache
from khepri.errors import KhepriError
from tests.support.engine_files import files_in
from tests.support.prefill import ForgetfulCache, evaluate, fresh
from tests.support.scripted_backend import ScriptedBackend
from tests.support.tiny_model import write_tiny_model

LONG = tuple(range(100)) * 2
SHORT = LONG[:120]


def is_answered_rightly(backend: Backend, cache: PrefixCache, prompt: Sequence[int]) -> bool:
    """True if the cache leads to the logits of a fresh prefill; an error counts as a wrong answer."""
    try:
        return np.array_equal(evaluate(backend, cache, prompt, is_checked=False), fresh(prompt))
    except (KhepriError, AssertionError):
        return False


class AnyEntryTier(DiskTier):
    """The defect: a slot is restored for whatever conversation comes."""

    def find(self, tokens: Sequence[int]) -> tuple[Entry | None, int]:
        entry = next(iter(self._entries.values()), None)
        return entry, min(len(entry.tokens), len(tokens)) if entry is not None else 0


class TrustingCache(RadixPrefixCache):
    """The defect: a removal is taken for done."""

    def truncate(self, length: int) -> None:
        self._backend.sequence_remove(self.sequence, length)
        del self._tokens[length:]
        self._ledger.truncate(self.sequence, length)


class KeepingCache(RadixPrefixCache):
    """The defect: a draft that was refused is struck out of the books alone."""

    def truncate(self, length: int) -> None:
        del self._tokens[length:]
        self._ledger.truncate(self.sequence, length)


class CarelessTier(DiskTier):
    """The defect: what a file holds is not looked at."""

    def read(self, entry: Entry) -> bytes | None:
        return entry.path.read_bytes()[-100:]


class CarelessCache(RadixPrefixCache):
    """The defect: no room is made for what is restored, and what came of it is not asked."""

    def _load(self, entry: Entry, length: int) -> bool:
        assert self._disk is not None
        self._sequence = self._take_free(spared=None)
        self._backend.restore_sequence(self._sequence, self._disk.read(entry) or b"")
        self._tokens = list(entry.tokens[:length])
        self._ledger.truncate(self._sequence, 0)
        return True


class CompleteCache(RadixPrefixCache):
    """The defect: a prompt that is there needs no pass."""

    def match(self, prompt: Sequence[int], stable_tokens: int = 0) -> int:
        return super().match((*prompt, prompt[-1]), stable_tokens)


class StubbornBackend(ScriptedBackend):
    """A backend that removes whole sequences only."""

    def sequence_remove(self, sequence: int, start: int, end: int = -1) -> bool:
        if 0 < start < self.sequence_length(sequence):
            return False
        return super().sequence_remove(sequence, start, end)


@dataclass(frozen=True)
class World:
    """What a failure happens in: the kinds of backend, tier and cache."""

    backend: type[ScriptedBackend] = ScriptedBackend
    tier: type[DiskTier] = DiskTier
    cache: type[RadixPrefixCache] = RadixPrefixCache

    def begin(self, folder: Path | None = None, cells: int = 0) -> tuple[ScriptedBackend, RadixPrefixCache]:
        backend = self.backend(sequences=4, cells=cells)
        disk = None if folder is None else self.tier(folder, "context", 10**9)
        return backend, self.cache(backend, CacheLimits(), disk)


def write(folder: Path, prompt: Sequence[int]) -> None:
    """Have a process leave a prompt on the disk."""
    backend, cache = World().begin(folder)
    evaluate(backend, cache, prompt)
    cache.keep(prompt)
    cache.finish()


def unrelated_conversation(world: World, folder: Path) -> bool:
    write(folder, LONG)
    backend, cache = world.begin(folder)
    return is_answered_rightly(backend, cache, (5, *LONG))


def other_context(world: World, folder: Path) -> bool:
    backend, cache = world.begin()
    return all(is_answered_rightly(backend, cache, (first, *LONG)) for first in (201, 202, 201))


def removal_that_failed(world: World, folder: Path) -> bool:
    backend, cache = replace(world, backend=StubbornBackend).begin()
    return all(is_answered_rightly(backend, cache, prompt) for prompt in (LONG, (*LONG[:190], 7), (*SHORT, 8)))


def damaged_state(world: World, folder: Path, kept: float) -> bool:
    write(folder, LONG)
    backend, cache = world.begin(folder)
    [file] = folder.glob("*.kv")
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * kept)])
    return is_answered_rightly(backend, cache, (*LONG, 1))


def empty_state(world: World, folder: Path) -> bool:
    return damaged_state(world, folder, 0.0)


def truncated_state(world: World, folder: Path) -> bool:
    return damaged_state(world, folder, 0.7)


def the_same_prompt_again(world: World, folder: Path) -> bool:
    backend, cache = world.begin()
    return all(is_answered_rightly(backend, cache, LONG) for _ in range(3))


def limit_reached_while_restoring(world: World, folder: Path) -> bool:
    write(folder, LONG)
    backend, cache = world.begin(folder, cells=256)
    return is_answered_rightly(backend, cache, [3] * 200) and is_answered_rightly(backend, cache, (*LONG, 1))


def refused_draft(world: World, folder: Path) -> bool:
    backend, cache = world.begin()
    start = cache.match(SHORT)
    for place in range(start, len(SHORT), 16):
        chunk = SHORT[place : place + 16]
        backend.decode(Batch(chunk, place, cache.sequence))
        cache.extend(chunk)
    backend.decode(Batch((9, 9, 9), len(SHORT), cache.sequence))
    cache.extend((9, 9, 9))
    cache.truncate(len(SHORT))
    cache.release()
    return is_answered_rightly(backend, cache, (*SHORT, 1, 2, 3))


@pytest.mark.parametrize(
    ("replay", "defect"),
    [
        (unrelated_conversation, World(tier=AnyEntryTier)),
        (other_context, World(cache=ForgetfulCache)),
        (removal_that_failed, World(cache=TrustingCache)),
        (empty_state, World(tier=CarelessTier, cache=CarelessCache)),
        (truncated_state, World(tier=CarelessTier, cache=CarelessCache)),
        (the_same_prompt_again, World(cache=CompleteCache)),
        (limit_reached_while_restoring, World(cache=CarelessCache)),
        (refused_draft, World(cache=KeepingCache)),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_failure_is_answered_rightly_and_would_be_seen(
    tmp_path: Path, replay: Callable[[World, Path], bool], defect: World
) -> None:
    assert replay(World(), tmp_path / "right")
    assert not replay(defect, tmp_path / "wrong"), "the test does not see the defect that it is there for"


SETTINGS = EngineSettings(512, 1, 64, "off", backend=BackendName.LLAMA_CPP, cache_conversations=2, disk_bytes=10**9)


def logits_after(model: Path, folder: Path, settings: EngineSettings) -> tuple[Logits, int]:
    """Return the logits after a prompt in a process of its own, as it were, and how much of it was restored."""
    with open_engine(model, settings, files_in(folder)) as engine:
        restored = engine.cache.match(SHORT, len(SHORT) - 1)
        engine.cache.release()
        logits = evaluate(engine.backend, engine.cache, SHORT)
        engine.cache.keep(SHORT)
        engine.cache.finish()
    return logits, restored


@pytest.mark.parametrize("is_planted", [False, True])
def test_two_models_that_share_a_folder_never_get_each_others_states(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_planted: bool
) -> None:
    other = write_tiny_model(tmp_path / "other.gguf", seed=8)
    expected, _ = logits_after(other, tmp_path / "alone", SETTINGS)
    if is_planted:
        monkeypatch.setattr(launch, "_identity", lambda *_: "one for all")
        monkeypatch.setattr(launch, "fingerprint", lambda _: "one for all")
    logits_after(tiny_model, tmp_path, SETTINGS)
    logits, restored = logits_after(other, tmp_path, SETTINGS)
    assert (restored > 0) == is_planted
    assert np.array_equal(logits, expected) != is_planted


@pytest.mark.parametrize(
    "changed",
    [{"context_tokens": 1024}, {"threads": 2}, {"batch_tokens": 32}, {"extra_buffers": "on"}, {"kv_type": KvType.Q8_0}],
    ids=lambda changed: next(iter(changed)),
)
def test_states_of_other_context_parameters_are_not_taken(tmp_path: Path, changed: dict[str, object]) -> None:
    model = write_tiny_model(tmp_path / "tiny.gguf", heads=2)
    other = replace(SETTINGS, **changed)  # type: ignore[arg-type]
    logits_after(model, tmp_path, SETTINGS)
    assert logits_after(model, tmp_path, SETTINGS)[1] == len(SHORT) - 1
    assert logits_after(model, tmp_path, other)[1] == 0


class OtherBackend(ScriptedBackend):
    """A backend that says something else of itself."""

    def __init__(self, said: dict[str, object]) -> None:
        super().__init__()
        self.said = said

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, **self.said)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "said",
    [{"library": "scripted 2"}, {"features": ("AVX512",)}, {"kv_type": KvType.Q8_0}],
    ids=lambda said: next(iter(said)),
)
def test_states_of_another_library_are_filed_under_another_key(tiny_model: Path, said: dict[str, object]) -> None:
    key = launch._identity(tiny_model, SETTINGS, ScriptedBackend())
    assert launch._identity(tiny_model, SETTINGS, OtherBackend(said)) != key


def test_states_of_exact_decoding_are_filed_under_another_key(tiny_model: Path) -> None:
    backend = ScriptedBackend()
    key = launch._identity(tiny_model, SETTINGS, backend)
    assert launch._identity(tiny_model, replace(SETTINGS, exact=True), backend) != key
