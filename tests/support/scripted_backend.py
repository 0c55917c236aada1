"""A backend in plain Python that is exact: held to the same conformance suite as the native one.

A cell of its cache carries a digest of everything its sequence held when it was evaluated, and logits are a pure
function of the cells that a token sees. A cell that is taken from another context, lost, doubled or out of place
changes the logits, so that a mistake of the code above shows.
"""

import hashlib
import pickle
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from khepri.engine.backend import BackendName, Batch, Capabilities, Logits
from khepri.errors import CancelledError, ContextFullError, DecodeError, KhepriError

END = 256
OPEN = 257
TOOL_CALL = 258
WORDS = (b"<|im_end|>", b"<|im_start|>", b"<tool_call>", b"the", b" a", b'">', b'{"', b"call>{", "é".encode())
CONTROL = frozenset({END, OPEN})

Script = Callable[[Sequence[int]], Mapping[int, float]]
"""From the tokens a position sees to what is added to the logits after it: still a pure function of the context."""


class ByteVocabulary:
    """The 256 bytes and a few words; ``tokenize`` takes the longest word at each place."""

    size = 256 + len(WORDS)
    chat_template: str | None = None
    begins_with_bos = False
    bos_id: int | None = None
    eos_id: int | None = END
    end_ids = frozenset({END})

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        data, tokens, place = text.encode("utf-8", "surrogatepass"), [], 0
        words = sorted(
            ((word, 256 + index) for index, word in enumerate(WORDS) if special or 256 + index not in CONTROL),
            key=lambda entry: -len(entry[0]),
        )
        while place < len(data):
            word, token = next(
                (w for w in words if data.startswith(w[0], place)), (data[place : place + 1], data[place])
            )
            tokens.append(token)
            place += len(word)
        return tokens

    def piece(self, token: int, *, special: bool = False) -> bytes:
        if not 0 <= token < self.size:
            raise KhepriError(f"there is no token {token}")
        if token < 256:
            return bytes([token])
        return b"" if token in CONTROL and not special else WORDS[token - 256]


@dataclass(eq=False)
class _Cell:
    token: int
    position: int
    digest: bytes
    """Of all that its sequence held up to here when the cell was evaluated."""
    sequences: set[int]


@dataclass
class ScriptedBackend:
    """A deterministic backend. ``interrupt`` takes effect between tokens, and leaves those before it in the cache."""

    context_tokens: int = 256
    batch_tokens: int = 64
    sequences: int = 2
    cells: int = 0
    can_remove_tail: bool = True
    script: Script | None = None
    seconds_per_token: float = 0.0
    """What a token takes; the wait ends early when ``interrupt`` is called."""
    vocabulary: ByteVocabulary = field(default_factory=ByteVocabulary)
    fail_at: dict[int, BaseException] = field(default_factory=dict)
    """Errors to raise, once each, before the cell of a position is evaluated."""
    interrupt_at: set[int] = field(default_factory=set)
    """Positions that are interrupted, once each, while their cell is evaluated."""
    evaluated: list[int] = field(default_factory=list)
    """Every token that was evaluated, in order."""
    quick: bool = False
    """Only keep the books: logits mean nothing."""

    def __post_init__(self) -> None:
        self._cells: list[_Cell] = []
        self._interrupted = threading.Event()
        self.is_closed = False
        self.threads: set[str] = set()
        self.passes: list[tuple[int, int]] = []
        """Position and width of every pass."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            backend=BackendName.LLAMA_CPP,
            library="scripted 1",
            features=(),
            n_vocab=self.vocabulary.size,
            context_tokens=self.context_tokens,
            cells=self.cells or self.context_tokens,
            sequences=self.sequences,
            trained_context_tokens=self.context_tokens,
            can_remove_tail=self.can_remove_tail,
        )

    def decode(self, batch: Batch) -> Logits:
        count, held = len(batch.tokens), self.sequence_length(batch.sequence)
        self.threads.add(threading.current_thread().name)
        if not 0 < count <= self.batch_tokens or not -count <= batch.logits_from < count:
            raise DecodeError("the batch has no tokens, too many, or no such row")
        if any(not 0 <= token < self.vocabulary.size for token in batch.tokens) or batch.position != held:
            raise DecodeError("the batch has a strange token or does not continue its sequence")
        if held + count > self.context_tokens or len(self._cells) + count > self.capabilities.cells:
            raise ContextFullError("no cell is free", needed_tokens=held + count, context_tokens=self.context_tokens)
        self.passes.append((held, count))
        if self.quick:
            self._cells += [_Cell(token, held + at, b"", {batch.sequence}) for at, token in enumerate(batch.tokens)]
            return np.zeros((1, self.vocabulary.size), dtype=np.float32)
        first_row = batch.logits_from % count
        rows = []
        for index, token in enumerate(batch.tokens):
            self._pass_time(held + index)
            self._append(batch.sequence, token)
            if index >= first_row:
                rows.append(self._logits(batch.sequence))
        return np.stack(rows)

    def _pass_time(self, position: int) -> None:
        if position in self.interrupt_at:
            self.interrupt_at.remove(position)
            self.interrupt()
        if self._interrupted.wait(self.seconds_per_token) if self.seconds_per_token else self._interrupted.is_set():
            raise CancelledError("interrupted")
        error = self.fail_at.pop(position, None)
        if error is not None:
            raise error

    def _append(self, sequence: int, token: int) -> None:
        visible = self._visible(sequence)
        digest = _digest(visible, token)
        self._cells.append(_Cell(token, len(visible), digest, {sequence}))
        self.evaluated.append(token)

    def _visible(self, sequence: int) -> list[_Cell]:
        return sorted((cell for cell in self._cells if sequence in cell.sequences), key=lambda cell: cell.position)

    def _logits(self, sequence: int) -> Logits:
        visible = self._visible(sequence)
        seed = int.from_bytes(_digest(visible, 0), "little")
        logits = np.random.default_rng(seed).standard_normal(self.vocabulary.size, dtype=np.float32)
        if self.script is not None:
            for token, extra in self.script([cell.token for cell in visible]).items():
                logits[token] += np.float32(extra)
        return logits

    @property
    def cells_in_use(self) -> int:
        return len(self._cells)

    def interrupt(self) -> None:
        self._interrupted.set()

    def resume(self) -> None:
        self._interrupted.clear()

    def sequence_length(self, sequence: int) -> int:
        self._refuse_stranger(sequence)
        return max((cell.position + 1 for cell in self._cells if sequence in cell.sequences), default=0)

    def sequence_remove(self, sequence: int, start: int, end: int = -1) -> bool:
        length = self.sequence_length(sequence)
        end = length if end < 0 else end
        if not self.can_remove_tail and (start > 0 or end < length) and start < length:
            return False
        for cell in self._cells:
            if start <= cell.position < end:
                cell.sequences.discard(sequence)
        self._cells = [cell for cell in self._cells if cell.sequences]
        return True

    def sequence_copy(self, source: int, target: int, start: int, end: int) -> bool:
        self._refuse_stranger(source)
        self._refuse_stranger(target)
        if not self.can_remove_tail and end < self.sequence_length(source):
            return False
        for cell in self._cells:
            if source in cell.sequences and start <= cell.position < end:
                cell.sequences.add(target)
        return True

    def sequence_bytes(self, sequence: int) -> int:
        return len(self.sequence_state(sequence))

    def sequence_state(self, sequence: int, memory: memoryview | None = None) -> memoryview:
        self._refuse_stranger(sequence)
        body = pickle.dumps([(cell.token, cell.position, cell.digest) for cell in self._visible(sequence)])
        state = hashlib.sha256(body).digest() + body
        if memory is None:
            return memoryview(state)
        memory[: len(state)] = state
        return memory[: len(state)]

    def restore_sequence(self, sequence: int, state: bytes | memoryview) -> bool:
        self._refuse_stranger(sequence)
        if hashlib.sha256(state[32:]).digest() != state[:32]:
            return False
        cells = [_Cell(token, position, digest, {sequence}) for token, position, digest in pickle.loads(state[32:])]
        if len(self._cells) + len(cells) > self.capabilities.cells:
            return False
        self._cells += cells
        return True

    def _refuse_stranger(self, sequence: int) -> None:
        if self.is_closed:
            raise DecodeError("the backend is closed")
        if not 0 <= sequence < self.sequences:
            raise DecodeError(f"there is no sequence {sequence}")

    def close(self) -> None:
        self.is_closed = True


class RoundingBackend(ScriptedBackend):
    """Adds a little to one token's logit in every pass of more than one token."""

    favourite = ord("Z")
    amount = 0.5

    def decode(self, batch: Batch) -> Logits:
        rows = super().decode(batch)
        if len(batch.tokens) > 1:
            rows[:, self.favourite] += np.float32(self.amount)
        return rows


def _digest(visible: Sequence[_Cell], token: int) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for cell in visible:
        digest.update(cell.digest)
        digest.update(cell.position.to_bytes(4, "little"))
    digest.update(token.to_bytes(4, "little"))
    return digest.digest()


def reply_script(prompt_tokens: int, reply: Sequence[int]) -> Script:
    """Return a script under which the likely continuation of a prompt of that length is ``reply``."""

    def script(tokens: Sequence[int]) -> Mapping[int, float]:
        said = len(tokens) - prompt_tokens
        return {reply[said]: 100.0} if 0 <= said < len(reply) else {}

    return script
