"""Hunks, and what is left of a change when some of them are refused."""

from hypothesis import given
from hypothesis import strategies as st

from khepri.edits.change import ChangeSet, FileChange, change_set, split_lines

_LINES = st.lists(st.sampled_from([b"a\n", b"b\r\n", b"c\n", b"\n", b"d\x0ce\n"]), max_size=12)


@st.composite
def changes(draw: st.DrawFn) -> FileChange:
    before, after = b"".join(draw(_LINES)), b"".join(draw(_LINES))
    if draw(st.booleans()):
        after = after.removesuffix(b"\n")
    return FileChange("a.txt", before, after)


@given(changes())
def test_all_hunks_make_the_new_file_and_none_makes_nothing(change: FileChange) -> None:
    everything = change.keep([hunk.number for hunk in change.hunks])
    assert (everything.after if everything else change.before) == change.after
    assert change.keep([]) is None


@given(changes(), st.data())
def test_the_accepted_hunks_and_the_refused_ones_are_all_the_hunks(change: FileChange, data: st.DataObject) -> None:
    numbers = [hunk.number for hunk in change.hunks]
    accepted = data.draw(st.sets(st.sampled_from(numbers))) if numbers else set()
    kept = change.keep(accepted)
    middle = kept.after if kept is not None and kept.after is not None else change.before
    assert middle is not None
    assert change.after is not None
    lines = split_lines(middle)
    # Applying the refused hunks on top, from the last one up, gives the whole change.
    shift = {
        hunk.number: sum(
            len(h.new_lines) - len(h.old_lines) for h in change.hunks[: hunk.number] if h.number in accepted
        )
        for hunk in change.hunks
    }
    for hunk in reversed(change.hunks):
        if hunk.number not in accepted:
            start = hunk.old_start - 1 + shift[hunk.number]
            assert tuple(lines[start : start + len(hunk.old_lines)]) == hunk.old_lines
            lines[start : start + len(hunk.old_lines)] = hunk.new_lines
    assert b"".join(lines) == change.after


def test_a_new_file_is_one_decision() -> None:
    new = FileChange("new.py", None, b"x\n")
    assert new.keep({0}) == new
    assert new.keep(set()) is None
    assert (new.added_lines, new.removed_lines) == (1, 0)


def test_an_edited_text_keeps_the_line_ends_of_the_file() -> None:
    change = FileChange("a.py", b"a\r\nb\r\n", b"a\r\nB\r\n")
    edited = change.with_text("a\nC\n")
    assert edited is not None
    assert edited.after == b"a\r\nC\r\n"
    assert change.with_text("a\nb\n") is None


def test_shown_text_is_harmless() -> None:
    change = FileChange("a.txt", b"\x1b[31mred\n", b"\0\1\2")
    assert change.old_text == "red\n"
    assert "binary" in change.new_text


def test_changes_of_one_file_merge_into_one() -> None:
    first = change_set("one", [FileChange("a", b"1", b"2"), FileChange("b", b"1", b"2")])
    second = change_set("two", [FileChange("a", b"2", b"3"), FileChange("b", b"2", b"1")])
    assert first.merged(second) == ChangeSet("one", (FileChange("a", b"1", b"3"),))
