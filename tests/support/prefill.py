"""Prefills through a prefix cache, and without one."""

from collections.abc import Sequence

from khepri.engine.backend import Backend, Batch, Logits
from khepri.engine.naive_prefix import NaivePrefixCache
from khepri.engine.prefix import RadixPrefixCache
from khepri.engine.prefix_cache import PrefixCache
from khepri.engine.radix import Match
from tests.support.scripted_backend import ScriptedBackend

PASS_TOKENS = 16


def evaluate(backend: Backend, cache: PrefixCache, prompt: Sequence[int], *, is_checked: bool = True) -> Logits:
    """Evaluate what the cache does not hold of ``prompt`` and return the logits of its last token."""
    start = cache.match(prompt)
    assert start < len(prompt), "there are no logits without a pass"
    try:
        for place in range(start, len(prompt), PASS_TOKENS):
            chunk = tuple(prompt[place : place + PASS_TOKENS])
            cache.reserve(len(chunk))
            logits = backend.decode(Batch(chunk, place, cache.sequence)).copy()
            cache.extend(chunk)
    finally:
        cache.release()
    if is_checked:
        cache.check_integrity()
    return logits


def fresh(prompt: Sequence[int], backend: Backend | None = None) -> Logits:
    """Return the logits after a full prefill, on a backend of its own or on one that nothing else uses."""
    backend = backend or ScriptedBackend()
    backend.sequence_remove(0, 0)
    return evaluate(backend, NaivePrefixCache(backend), prompt)


class ForgetfulCache(RadixPrefixCache):
    """A planted defect: keys and values are found by what stands at the end of a match, whatever stood before."""

    def _activate(self, wanted: tuple[int, ...], found: Match) -> None:
        for leaf in self.tree.leaves():
            path = self.tree.path_of(leaf)
            same = next((n for n in range(min(len(path), len(wanted)), 0, -1) if path[1:n] == wanted[1:n]), 0)
            if same > max(2, found.length):
                found = Match(leaf, same)
        super()._activate(wanted, found)
