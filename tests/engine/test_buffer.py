import threading
from dataclasses import FrozenInstanceError

import pytest

from khepri.engine.buffer import JobState, TokenBuffer


def test_what_is_appended_shows_with_the_next_publish() -> None:
    buffer = TokenBuffer()
    buffer.append("one ")
    assert buffer.read(0) == ("", 0)
    buffer.append("two")
    buffer.publish(completion_tokens=2)
    text, cursor = buffer.read(0)
    assert text == "one two"
    assert buffer.read(cursor) == ("", cursor)
    assert buffer.snapshot.completion_tokens == 2


def test_each_reader_keeps_a_place_of_its_own() -> None:
    buffer = TokenBuffer()
    buffer.append("a")
    buffer.publish()
    _, early = buffer.read(0)
    buffer.append("b")
    buffer.publish()
    assert buffer.read(early)[0] == "b"
    assert buffer.read(0)[0] == "ab"


def test_a_snapshot_does_not_change_after_it_was_taken() -> None:
    buffer = TokenBuffer()
    before = buffer.snapshot
    buffer.publish(state=JobState.DECODE, prefilled_tokens=3)
    assert (before.state, before.prefilled_tokens) == (JobState.QUEUED, 0)
    with pytest.raises(FrozenInstanceError):
        before.pieces = 7  # type: ignore[misc]


def test_a_counter_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError):
        TokenBuffer().publish(no_such_counter=1)


def test_readers_beside_a_writer_lose_and_repeat_nothing() -> None:
    buffer = TokenBuffer()
    pieces = [f"{number} " for number in range(20_000)]
    read: list[str] = []
    counts_agree: list[bool] = []

    def read_to_the_end() -> None:
        parts, cursor, agree = [], 0, True
        while True:
            snapshot = buffer.snapshot
            piece, cursor = buffer.read(cursor)
            parts.append(piece)
            agree &= cursor >= snapshot.pieces == snapshot.completion_tokens
            if snapshot.state is JobState.DONE:
                break
        read.append("".join(parts))
        counts_agree.append(agree)

    readers = [threading.Thread(target=read_to_the_end) for _ in range(4)]
    for reader in readers:
        reader.start()
    for number, piece in enumerate(pieces, start=1):
        buffer.append(piece)
        buffer.publish(completion_tokens=number)
    buffer.publish(state=JobState.DONE)
    for reader in readers:
        reader.join()
    assert read == ["".join(pieces)] * 4
    assert all(counts_agree)
