import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from khepri.engine.blocks import BLOCK_TOKENS, BlockLedger
from khepri.errors import ContextFullError, OutOfBlocksError

CELLS = 20 * BLOCK_TOKENS


class LedgerMachine(RuleBasedStateMachine):
    """Any order of growing, forking, rolling back and releasing, beside a dictionary of lengths."""

    sequences = Bundle("sequences")

    @initialize(target=sequences)
    def begin(self) -> int:
        self.ledger = BlockLedger(CELLS)
        self.lengths = {0: 0}
        self.new = 1
        return 0

    @rule(target=sequences)
    def another(self) -> int:
        self.new += 1
        self.lengths[self.new] = 0
        return self.new

    @rule(sequence=sequences, tokens=st.integers(0, 70))
    def append(self, sequence: int, tokens: int) -> None:
        has_room = self.ledger.has_room(sequence, tokens)
        try:
            self.ledger.append(sequence, tokens)
        except OutOfBlocksError:
            assert not has_room
        else:
            assert has_room
            self.lengths[sequence] += tokens

    @rule(sequence=sequences, tokens=st.integers(0, 40))
    def roll_back_what_was_appended(self, sequence: int, tokens: int) -> None:
        if self.ledger.has_room(sequence, tokens):
            self.ledger.append(sequence, tokens)
            self.ledger.truncate(sequence, self.lengths[sequence])

    @rule(sequence=sequences, share=st.floats(0, 1))
    def truncate(self, sequence: int, share: float) -> None:
        length = int(share * self.lengths[sequence])
        kept = self.ledger.most_kept(sequence, length)
        assert length - BLOCK_TOKENS < kept <= length
        if kept < length:
            with pytest.raises(OutOfBlocksError):
                self.ledger.truncate(sequence, length)
            assert self.ledger.length(sequence) == self.lengths[sequence], "nothing has changed"
        self.ledger.truncate(sequence, kept)
        self.lengths[sequence] = kept

    @rule(target=sequences, source=sequences, share=st.floats(0, 1))
    def fork(self, source: int, share: float) -> int:
        length = int(share * self.lengths[source])
        self.new += 1
        try:
            self.ledger.fork(source, self.new, length)
        except OutOfBlocksError:
            length = 0
        self.lengths[self.new] = length
        return self.new

    @rule(target=sequences, sequence=consumes(sequences))
    def release(self, sequence: int) -> object:
        self.ledger.release(sequence)
        del self.lengths[sequence]
        return multiple()

    @invariant()
    def nothing_is_lost_or_promised_twice(self) -> None:
        self.ledger.check_integrity()
        assert {sequence: self.ledger.length(sequence) for sequence in self.lengths} == self.lengths
        assert self.ledger.used_cells <= self.ledger.used_tokens <= sum(self.lengths.values())
        assert 0 <= self.ledger.fragmentation() < 1


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_what_two_sequences_share_is_counted_once() -> None:
    ledger = BlockLedger(CELLS)
    ledger.append(0, 10 * BLOCK_TOKENS)
    ledger.fork(0, 1, 10 * BLOCK_TOKENS)
    assert (ledger.used_blocks, ledger.used_tokens) == (10, 10 * BLOCK_TOKENS)
    ledger.append(1, 1)
    assert ledger.used_blocks == 11
    ledger.release(0)
    assert ledger.used_blocks == 11
    ledger.release(1)
    assert ledger.used_blocks == ledger.used_tokens == 0


def test_a_fork_inside_a_block_takes_a_block_of_its_own() -> None:
    ledger = BlockLedger(CELLS)
    ledger.append(0, 20)
    ledger.fork(0, 1, 18)
    ledger.append(1, 3)
    ledger.truncate(0, 17)
    assert (ledger.length(0), ledger.length(1), ledger.used_blocks) == (17, 21, 3)
    ledger.check_integrity()


def test_running_out_is_a_typed_error_and_changes_nothing() -> None:
    ledger = BlockLedger(32)
    ledger.append(0, 30)
    for sequence in (0, 1):
        with pytest.raises(OutOfBlocksError) as full:
            ledger.append(sequence, 3)
        assert isinstance(full.value, ContextFullError)
        assert (full.value.needed_tokens, full.value.context_tokens) == (33, 32)
    assert ledger.length(1) == 0
    ledger.check_integrity()
    ledger.append(0, 2)


@settings(deadline=None)
@given(st.integers(1, 200))
def test_one_sequence_can_use_every_cell(cells: int) -> None:
    ledger = BlockLedger(cells)
    ledger.append(0, cells)
    assert not ledger.has_room(0, 1)
    ledger.check_integrity()


def test_rolling_a_draft_back_frees_its_blocks_at_once() -> None:
    ledger = BlockLedger(CELLS)
    ledger.append(0, 14)
    before = ledger.used_blocks
    for gamma in range(1, 40):
        ledger.append(0, gamma)
        ledger.truncate(0, 14)
        assert (ledger.used_blocks, ledger.used_tokens) == (before, 14)


def test_fragmentation_is_the_share_of_the_blocks_that_is_empty() -> None:
    ledger = BlockLedger(CELLS)
    assert ledger.fragmentation() == 0.0
    ledger.append(0, 8)
    assert ledger.fragmentation() == 0.5
    ledger.append(0, 8)
    assert ledger.fragmentation() == 0.0
    ledger.fork(0, 1, 8)
    assert (ledger.used_tokens, ledger.used_cells) == (24, 16)
    assert ledger.fragmentation() == 0.5, "what both have at the fork is in the same cells"
    ledger.append(1, 8)
    assert ledger.fragmentation() == 0.25
    ledger.release(0)
    assert (ledger.used_cells, ledger.fragmentation()) == (16, 0.0)
