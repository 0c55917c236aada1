"""The prefix cache: several conversations in one KV cache, sharing what they have in common.

Each leaf of the radix tree is a sequence of the backend that holds a whole path. A prompt that continues one goes on
in its sequence; one that leaves it earlier gets a sequence of its own, which shares the cells up to there. The sequence
in use is out of the tree, so that eviction cannot reach it. What is worth keeping is written to the disk tier and comes
back from it. Texts and conversations are not known here.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from khepri.engine.backend import Backend
from khepri.engine.blocks import BLOCK_TOKENS, BlockLedger
from khepri.engine.disk import DiskTier, Entry
from khepri.engine.naive_prefix import NaivePrefixCache
from khepri.engine.prefix_cache import PrefixCache
from khepri.engine.radix import Match, Node, RadixTree, common_length
from khepri.engine.write_behind import WriteBehind, fresh_memory
from khepri.errors import OutOfBlocksError

_LEAST_KEPT_TOKENS: Final = 64
_LEAST_GAIN_TOKENS: Final = 32
_RESTORE_COST: Final = 0.01
"""What restoring a token takes at most, in prefills of a token."""


@dataclass(frozen=True)
class CacheLimits:
    """What the cache may hold for later. A conversation in use may fill the whole context besides."""

    sequences: int = 8
    """Most conversations."""
    tokens: int | None = None
    """Most tokens, shared ones counted once; None sets no limit but the cells."""
    bytes: int | None = None
    """Most bytes of keys and values; None sets no limit but the cells."""


def choose_cache(backend: Backend, limits: CacheLimits = CacheLimits(), disk: DiskTier | None = None) -> PrefixCache:
    """Return the cache that suits a backend: a model that cannot roll back keeps only what a prompt goes on from."""
    can_roll_back = backend.capabilities.can_remove_tail
    return RadixPrefixCache(backend, limits, disk) if can_roll_back else NaivePrefixCache(backend)


class RadixPrefixCache:
    """A prefix cache over all sequences of a backend that can remove tails. The backend's thread only."""

    def __init__(self, backend: Backend, limits: CacheLimits = CacheLimits(), disk: DiskTier | None = None) -> None:
        """Begin with nothing.

        Args:
            backend: The target, with no tokens in its cache. Its last sequence is used for copies only, if it has more
                than one. One that bears no gaps between used cells is given one conversation at a time, which grows
                and shrinks at its end.
            limits: What may be held.
            disk: Where prefixes outlive the process; None keeps nothing.
        """
        capabilities = backend.capabilities
        assert disk is None or capabilities.sequences > 1, "what is written may have to be copied first"
        self._backend = backend
        self._limits = limits
        self._disk = disk
        self._writer = None if disk is None else WriteBehind(disk)
        self._tree = RadixTree()
        self._ledger = BlockLedger(capabilities.cells)
        self._copies = capabilities.sequences - 1
        self._conversations = max(1, self._copies) if capabilities.may_leave_gaps else 1
        self._free = list(range(self._conversations))
        self._sequence: int | None = None
        self._tokens: list[int] = []
        self._latest: Node | None = None
        self._kept: list[tuple[int, ...]] = []
        self._tail: tuple[int, ...] | None = None

    @property
    def sequence(self) -> int:
        """The sequence in use."""
        assert self._sequence is not None, "no sequence is in use: match comes first"
        return self._sequence

    @property
    def length(self) -> int:
        """Number of tokens that are known to be in it."""
        return len(self._tokens)

    @property
    def ledger(self) -> BlockLedger:
        """What the sequences use, for figures only."""
        return self._ledger

    @property
    def tree(self) -> RadixTree:
        """What is held for later, for figures only."""
        return self._tree

    def match(self, prompt: Sequence[int], stable_tokens: int = 0) -> int:
        """Take the longest held prefix into use; see ``PrefixCache.match``."""
        self.release()
        wanted = tuple(prompt[: len(prompt) - 1])
        found = self._tree.match(wanted)
        if not self._restore(wanted, found, stable_tokens):
            # Room that was made for what could not be restored may have taken what was found.
            self._activate(wanted, self._tree.match(wanted))
        if stable_tokens >= _LEAST_KEPT_TOKENS:
            self.keep(prompt[:stable_tokens])
        return len(self._tokens)

    def reserve(self, tokens: int) -> None:
        """Evict until there is room; see ``PrefixCache.reserve``.

        Raises:
            OutOfBlocksError: There is none although nothing is held for later.
        """
        while not self._ledger.has_room(self.sequence, tokens):
            victim = self._tree.victim()
            if victim is None:
                self._ledger.append(self.sequence, tokens)  # says what is missing
                return
            self._evict(victim)

    def extend(self, tokens: Sequence[int]) -> None:
        """Note tokens that were evaluated; see ``PrefixCache.extend``."""
        self._ledger.append(self.sequence, len(tokens))
        self._tokens.extend(tokens)

    def truncate(self, length: int) -> None:
        """Roll the sequence in use back; see ``PrefixCache.truncate``."""
        held = self._backend.sequence_length(self.sequence)
        length = self._ledger.most_kept(self.sequence, min(length, held, len(self._tokens)))
        if held > length and not self._backend.sequence_remove(self.sequence, length):
            length = 0
            self._backend.sequence_remove(self.sequence, 0)
        del self._tokens[length:]
        self._ledger.truncate(self.sequence, length)

    def release(self) -> None:
        """Put the sequence in use into the tree; see ``PrefixCache.release``."""
        if self._sequence is None:
            return
        self.truncate(len(self._tokens))
        sequence, tokens = self._sequence, self._tokens
        self._sequence, self._tokens = None, []
        for freed in self._tree.insert(tokens, sequence) if tokens else [sequence]:
            self._empty(freed)
        self._latest = self._tree.match(tokens).leaf
        self._keep_within_limits()

    def clear(self) -> None:
        """Forget all sequences; what is on the disk stays there."""
        if self._sequence is not None:
            self._empty(self._sequence)
            self._sequence, self._tokens = None, []
        while (victim := self._tree.victim()) is not None:
            self._evict(victim)

    def keep(self, tokens: Sequence[int], *, is_tail: bool = False) -> None:
        """Ask for what is held of ``tokens`` to be written to the disk; see ``PrefixCache.keep``."""
        path = tuple(tokens)
        if self._writer is None or self._writer.holds(path):
            return
        if is_tail:
            self._tail = path
        elif path not in self._kept:
            self._kept.append(path)

    def loses(self, tokens: Sequence[int], prompt: Sequence[int]) -> bool:
        """Tell what there is no place for beside a prompt; see ``PrefixCache.loses``."""
        paths = (tokens, *self._kept, self._tail or ())
        is_left = any(common_length(path, prompt) < len(path) - BLOCK_TOKENS for path in paths)
        return self._conversations == 1 and is_left

    @property
    def has_unwritten(self) -> bool:
        """True if ``write_back`` has something to do."""
        return bool(self._kept) or self._tail is not None

    def write_back(self, goes_on: Callable[[], bool] = lambda: True) -> bool:
        """Have one prefix written to the disk; see ``PrefixCache.write_back``. No sequence may be in use."""
        if self._writer is None:
            return False
        if not self.has_unwritten:
            self._writer.save_statistics()
            return False
        assert self._sequence is None, "what is in use is not complete"
        is_tail = not self._kept
        path = self._kept[0] if self._kept else self._tail or ()
        held, leaf = self._worth_writing(path)
        if leaf is not None and not self._hand_over(leaf, held, is_tail, goes_on):
            return False
        if is_tail:
            self._tail = None
        else:
            self._kept.pop(0)
        return True

    def finish(self) -> None:
        """Write all that is worth keeping; see ``PrefixCache.finish``. No sequence may be in use."""
        if self._writer is not None:
            self._writer.close()
            while self.write_back():
                pass

    def check_integrity(self) -> None:
        """Assert that the tree, the ledger and the backend agree on every sequence."""
        self._tree.check_integrity()
        self._ledger.check_integrity()
        owned = {leaf.sequence: leaf.end for leaf in self._tree.leaves()}
        if self._sequence is not None:
            assert self._sequence not in owned, "the sequence in use is in the tree as well"
            owned[self._sequence] = len(self._tokens)
        assert not set(owned) & set(self._free), "a sequence is free and in use"
        assert len(owned) + len(self._free) == self._conversations, "a sequence was lost"
        for sequence in range(self._backend.capabilities.sequences):
            held, noted = self._backend.sequence_length(sequence), owned.get(sequence, 0)
            assert held == noted, f"the backend holds {held} tokens of sequence {sequence}, {noted} are noted"
            assert self._ledger.length(sequence) == noted, "the ledger has another length"

    def _activate(self, wanted: tuple[int, ...], found: Match) -> None:
        """Take what the tree holds into use: in its own sequence if little else is in that, or else in a copy."""
        leaf, length = found.leaf, found.length
        if leaf is None:
            self._sequence = self._take_free(spared=None)
            return
        if leaf.end - length >= BLOCK_TOKENS and self._fork(leaf, length):
            self._tokens = list(wanted[:length])
            return
        self._sequence = self._tree.remove(leaf)
        self._tokens = list(wanted[:length])
        self.truncate(length)

    def _fork(self, leaf: Node, length: int) -> bool:
        """Begin a sequence that shares the start of a leaf's; False if there is no room for both."""
        if not self._free and len(self._tree) == 1:
            return False
        sequence = self._take_free(spared=leaf)
        while True:
            try:
                self._ledger.fork(leaf.sequence or 0, sequence, length)
                break
            except OutOfBlocksError:
                victim = self._tree.victim(spared=leaf)
                if victim is None:
                    self._free.append(sequence)
                    return False
                self._evict(victim)
        if not self._backend.sequence_copy(leaf.sequence or 0, sequence, 0, length):
            self._empty(sequence)
            return False
        self._sequence = sequence
        return True

    def _restore(self, wanted: tuple[int, ...], found: Match, stable_tokens: int) -> bool:
        """Take what the disk holds into use, if that is worth more than what the tree holds."""
        if self._disk is None:
            return False
        gain, is_restored = 0, False
        while not is_restored:
            entry, length = self._disk.find(wanted)
            gain = length - found.length
            is_worth_it = entry is not None and gain >= max(_LEAST_GAIN_TOKENS, _RESTORE_COST * len(entry.tokens))
            if entry is None or not is_worth_it or len(entry.tokens) > self._backend.capabilities.context_tokens:
                break
            is_restored = self._load(entry, length)
            if not is_restored and self._disk.holds(entry.tokens):
                break  # it is sound, and has no room; behind a damaged one, which is gone, there may be another
        if found.length < stable_tokens - 1:
            self._disk.count_lookup(gain if is_restored else 0)
        return is_restored

    def _load(self, entry: Entry, length: int) -> bool:
        assert self._disk is not None
        state = self._disk.read(entry)
        if state is None:
            return False
        self._sequence = self._take_free(spared=None)
        try:
            self.reserve(len(entry.tokens))
        except OutOfBlocksError:
            self._give_back()
            return False
        is_whole = self._backend.restore_sequence(self._sequence, state)
        if not is_whole or self._backend.sequence_length(self._sequence) != len(entry.tokens):
            self._give_back()
            if not len(self._tree):  # there was room: it is the file that cannot be used
                self._disk.discard(entry)
            return False
        self.extend(entry.tokens)
        self.truncate(length)
        return True

    def _give_back(self) -> None:
        self._empty(self.sequence)
        self._sequence, self._tokens = None, []

    def _worth_writing(self, path: tuple[int, ...]) -> tuple[tuple[int, ...], Node | None]:
        """Return what is held of a path and a leaf that holds it; no leaf if it is too little, or written already."""
        assert self._writer is not None
        found = self._tree.match(path)
        held = path[: found.length]
        if found.length < _LEAST_KEPT_TOKENS:
            return (), None
        return held, None if self._writer.holds(held) else found.leaf

    def _hand_over(self, leaf: Node, held: tuple[int, ...], is_tail: bool, goes_on: Callable[[], bool]) -> bool:
        """Have the beginning ``held`` of a leaf's path written; False if ``goes_on`` said no."""
        assert self._writer is not None
        assert leaf.sequence is not None
        is_part = leaf.end > len(held)
        if is_part and not self._backend.sequence_copy(leaf.sequence, self._copies, 0, len(held)):
            return True  # the model cannot go on from such a part, so that it is of no use
        sequence = self._copies if is_part else leaf.sequence
        try:
            memory = fresh_memory(self._backend.sequence_bytes(sequence), goes_on)
            if memory is None:
                return False
            self._writer.write(held, self._backend.sequence_state(sequence, memory), is_tail=is_tail)
            return True
        except (OSError, MemoryError):  # there is no memory for a copy: it will be read again
            return True
        finally:
            if is_part:
                self._backend.sequence_remove(self._copies, 0)

    def _take_free(self, spared: Node | None) -> int:
        """Return a sequence that is in no use, evicting one if there is none."""
        if not self._free:
            victim = self._tree.victim(spared=spared)
            assert victim is not None, "every sequence is either free, in use or a leaf's"
            self._evict(victim)
        return self._free.pop(0)

    def _keep_within_limits(self) -> None:
        most_tokens = self._most_tokens()
        while len(self._tree) > self._limits.sequences or self._ledger.used_tokens > most_tokens:
            victim = self._tree.victim(spared=self._latest) or self._tree.victim()
            if victim is None:
                return
            self._evict(victim)

    def _most_tokens(self) -> float:
        """Return the limit in tokens, which that in bytes may lower: by the size of the cells as the library has it."""
        most = math.inf if self._limits.tokens is None else self._limits.tokens
        if self._limits.bytes is None:
            return most
        # What a state holds besides its cells counts least in the longest.
        longest = max(self._tree.leaves(), key=lambda leaf: leaf.end, default=None)
        if longest is None or longest.sequence is None:
            return most
        return min(most, self._limits.bytes * longest.end // self._backend.sequence_bytes(longest.sequence))

    def _evict(self, leaf: Node) -> None:
        self._empty(self._tree.remove(leaf))

    def _empty(self, sequence: int) -> None:
        self._backend.sequence_remove(sequence, 0)
        self._ledger.release(sequence)
        self._free.append(sequence)
