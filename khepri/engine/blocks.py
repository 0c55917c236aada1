"""The block ledger: which sequences use how much of the KV cache, in blocks of 16 tokens.

It accounts and refuses; keys and values are moved by the backend alone. Sequences that share a prefix share its whole
blocks, which are counted by reference. The rest of a block at a fork is a block of each sequence's own, so that the
ledger never promises more than there is; that both are in the same cells is known as well, and counts for the
fragmentation.

References:
    Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from khepri.errors import OutOfBlocksError

BLOCK_TOKENS: Final = 16
"""Tokens of a block."""


@dataclass(eq=False)
class _Block:
    """Room for ``BLOCK_TOKENS`` tokens. Only the last block of a table may be partly filled, and it is never shared."""

    cells: list[int] = field(default_factory=list)
    """The cells of its tokens, by numbers that are never given again."""
    references: int = 1

    @property
    def tokens(self) -> int:
        return len(self.cells)


@dataclass
class _Table:
    """The blocks of one sequence, in order."""

    blocks: list[_Block] = field(default_factory=list)
    tokens: int = 0


class BlockLedger:
    """Block tables of all sequences over a fixed number of cells. One thread."""

    def __init__(self, cells: int) -> None:
        """Account for ``cells`` cells, all of them free."""
        self._cells = cells
        self._most_blocks = -(-cells // BLOCK_TOKENS)
        self._tables: dict[int, _Table] = {}
        self._used_blocks = 0
        self._used_tokens = 0
        self._holders: Counter[int] = Counter()
        self._next_cell = 0

    @property
    def cells(self) -> int:
        """Cells that are accounted for."""
        return self._cells

    @property
    def used_blocks(self) -> int:
        """Blocks in use, a shared one counted once."""
        return self._used_blocks

    @property
    def used_tokens(self) -> int:
        """Tokens in these blocks."""
        return self._used_tokens

    @property
    def used_cells(self) -> int:
        """Cells that hold them: fewer, where blocks of several sequences share a beginning."""
        return len(self._holders)

    def length(self, sequence: int) -> int:
        """Return the tokens of a sequence; one that is not known has none."""
        return self._tables[sequence].tokens if sequence in self._tables else 0

    def fragmentation(self) -> float:
        """Return the share of the room in used blocks that no cell in use stands for, from 0 to 1."""
        room = self._used_blocks * BLOCK_TOKENS
        return 1 - self.used_cells / room if room else 0.0

    def has_room(self, sequence: int, tokens: int) -> bool:
        """True if ``append`` would take so many tokens."""
        return self._admits(tokens, self._blocks_for(sequence, tokens))

    def append(self, sequence: int, tokens: int) -> None:
        """Commit tokens at the end of a sequence, which begins if it is not known.

        Raises:
            OutOfBlocksError: There is no room; nothing has changed.
        """
        self._require(tokens, self._blocks_for(sequence, tokens))
        self._next_cell += tokens
        self._put(sequence, range(self._next_cell - tokens, self._next_cell))

    def most_kept(self, sequence: int, length: int) -> int:
        """Return to how many tokens, at most ``length``, a sequence can be rolled back.

        These are fewer, by less than a block, if the new end lies inside a shared block and there is no room for a
        block of its own.
        """
        return length if self._admits(*self._needs(sequence, length)) else length - length % BLOCK_TOKENS

    def truncate(self, sequence: int, length: int) -> None:
        """Roll a sequence back to its first ``length`` tokens; what nothing refers to any more is free at once.

        Raises:
            OutOfBlocksError: The new end lies inside a shared block, and there is none for the part that stays, see
                ``most_kept``. This cannot happen to tokens that were appended after the last fork. Nothing has changed.
        """
        table = self._tables.get(sequence)
        if table is None or length >= table.tokens:
            return
        self._require(*self._needs(sequence, length))
        whole, rest = divmod(length, BLOCK_TOKENS)
        kept = table.blocks[whole].cells[:rest] if rest else []
        for block in table.blocks[whole:]:
            self._drop(block)
        del table.blocks[whole:]
        table.tokens = whole * BLOCK_TOKENS
        if kept:
            self._put(sequence, kept)
        elif not length:
            del self._tables[sequence]

    def fork(self, source: int, target: int, length: int) -> None:
        """Let a new sequence share the first ``length`` tokens of another.

        Raises:
            OutOfBlocksError: The part of a block at the end needs a block of its own, and there is none.
        """
        assert target not in self._tables, "a fork begins a sequence"
        assert length <= self.length(source), "only what is there can be shared"
        whole, rest = divmod(length, BLOCK_TOKENS)
        self._require(rest, 1 if rest else 0)
        blocks = self._tables[source].blocks if length else []
        for block in blocks[:whole]:
            block.references += 1
        self._tables[target] = _Table(blocks[:whole], whole * BLOCK_TOKENS)
        self._put(target, blocks[whole].cells[:rest] if rest else [])

    def release(self, sequence: int) -> None:
        """Forget a sequence and free what it alone used."""
        self.truncate(sequence, 0)
        self._tables.pop(sequence, None)

    def check_integrity(self) -> None:
        """Assert that counts, references and fills agree with the tables."""
        references: dict[_Block, int] = {}
        for sequence, table in self._tables.items():
            fills = [block.tokens for block in table.blocks]
            assert sum(fills) == table.tokens, f"sequence {sequence} has {table.tokens} tokens, its blocks {fills}"
            assert all(fill == BLOCK_TOKENS for fill in fills[:-1]), "only the last block may be partly filled"
            assert not fills or 0 < fills[-1] <= BLOCK_TOKENS, "no block is empty or too full"
            for block in table.blocks:
                references[block] = references.get(block, 0) + 1
        for block, count in references.items():
            assert block.references == count, f"a block is referred to {count} times, {block.references} are noted"
            assert count == 1 or block.tokens == BLOCK_TOKENS, "a block that is partly filled is shared"
        assert self._used_blocks == len(references) <= self._most_blocks, "the count of blocks is wrong"
        assert self._used_tokens == sum(block.tokens for block in references) <= self._cells, "the tokens are wrong"
        held = Counter(cell for block in references for cell in block.cells)
        assert self._holders == held, "a cell has another number of holders"

    def _needs(self, sequence: int, length: int) -> tuple[int, int]:
        """Return the tokens and blocks that a rollback needs beyond those it frees: none if no shared block is cut."""
        table = self._tables.get(sequence)
        whole, rest = divmod(length, BLOCK_TOKENS)
        if table is None or length >= table.tokens or not rest or table.blocks[whole].references == 1:
            return 0, 0
        freed = [block for block in table.blocks[whole:] if block.references == 1]
        return rest - sum(block.tokens for block in freed), 1 - len(freed)

    def _blocks_for(self, sequence: int, tokens: int) -> int:
        """Return how many new blocks ``tokens`` at the end of a sequence would need."""
        return -(-max(0, tokens - -self.length(sequence) % BLOCK_TOKENS) // BLOCK_TOKENS)

    def _admits(self, tokens: int, blocks: int) -> bool:
        return self._used_blocks + blocks <= self._most_blocks and self._used_tokens + tokens <= self._cells

    def _require(self, tokens: int, blocks: int) -> None:
        if not self._admits(tokens, blocks):
            raise OutOfBlocksError(
                f"{tokens} more tokens do not fit: {self._used_tokens} of {self._cells} cells are in use",
                "raise context_tokens or cache_tokens",
                needed_tokens=self._used_tokens + tokens,
                context_tokens=self._cells,
            )

    def _put(self, sequence: int, cells: Sequence[int]) -> None:
        """Put cells at the end of a sequence, for which there is room."""
        table = self._tables.setdefault(sequence, _Table())
        table.tokens += len(cells)
        self._used_tokens += len(cells)
        self._holders.update(cells)
        placed = 0
        while placed < len(cells):
            if not table.blocks or table.blocks[-1].tokens == BLOCK_TOKENS:
                table.blocks.append(_Block())
                self._used_blocks += 1
            taken = cells[placed : placed + BLOCK_TOKENS - table.blocks[-1].tokens]
            table.blocks[-1].cells.extend(taken)
            placed += len(taken)

    def _drop(self, block: _Block) -> None:
        block.references -= 1
        if not block.references:
            self._used_blocks -= 1
            self._used_tokens -= block.tokens
            for cell in block.cells:
                self._holders[cell] -= 1
                if not self._holders[cell]:
                    del self._holders[cell]
