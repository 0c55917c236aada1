"""One writer and many readers, at full speed and without a lock, lose and repeat nothing."""

import threading
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from khepri.engine.buffer import JobState, Snapshot, TokenBuffer


def test_a_fresh_buffer_is_queued_and_empty() -> None:
    buffer = TokenBuffer()
    assert buffer.snapshot == Snapshot()
    assert buffer.snapshot.state is JobState.QUEUED
    assert buffer.read(0) == ("", 0)


def test_what_is_appended_shows_at_the_next_publish() -> None:
    buffer = TokenBuffer()
    buffer.append("a")
    assert buffer.read(0) == ("", 0)
    buffer.publish()
    buffer.append("b")
    assert buffer.read(0) == ("a", 1)


def test_publishing_changes_what_is_named_and_keeps_the_rest() -> None:
    buffer = TokenBuffer()
    buffer.publish(state=JobState.PREFILL, prompt_tokens=7, cached_tokens=3)
    earlier = buffer.snapshot
    buffer.publish(state=JobState.DECODE, completion_tokens=1)
    assert earlier.state is JobState.PREFILL
    assert buffer.snapshot == Snapshot(JobState.DECODE, prompt_tokens=7, cached_tokens=3, completion_tokens=1)


def test_a_snapshot_cannot_be_changed_by_its_reader() -> None:
    with pytest.raises(FrozenInstanceError):
        TokenBuffer().snapshot.pieces = 3  # type: ignore[misc]


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError):
        TokenBuffer().publish(progress=1)


@given(st.lists(st.one_of(st.text(max_size=3), st.none(), st.just("read"))))
def test_a_reader_gets_the_published_text_in_order_however_it_polls(steps: list[str | None]) -> None:
    buffer = TokenBuffer()
    written, published, got, cursor = "", "", "", 0
    for step in steps:
        if step is None:
            buffer.publish()
            published = written
        elif step == "read":
            text, cursor = buffer.read(cursor)
            got += text
            assert got == published
        else:
            buffer.append(step)
            written += step
    buffer.publish(state=JobState.DONE)
    assert got + buffer.read(cursor)[0] == written


def test_a_writer_and_several_readers_lose_and_repeat_nothing() -> None:
    buffer = TokenBuffer()
    words = [f"{number} " for number in range(20_000)]
    heard = [""] * 4
    start = threading.Barrier(len(heard) + 1)

    def listen(index: int) -> None:
        cursor, parts = 0, []
        start.wait()
        is_last = False
        while not is_last:
            # The state is read before the text: what was published with the last state is then read too.
            is_last = buffer.snapshot.state is JobState.DONE
            text, cursor = buffer.read(cursor)
            parts.append(text)
        heard[index] = "".join(parts)

    readers = [threading.Thread(target=listen, args=(index,)) for index in range(len(heard))]
    for reader in readers:
        reader.start()
    start.wait()
    for number, word in enumerate(words):
        buffer.append(word)
        buffer.publish(completion_tokens=number + 1)
    buffer.append("end")
    buffer.publish(state=JobState.DONE)
    for reader in readers:
        reader.join()
    assert set(heard) == {"".join(words) + "end"}
