"""How Markdown is cut while it comes: never differently for its bits, never into long pieces, nothing lost."""

from hypothesis import given
from hypothesis import strategies as st

from khepri.tui.markdown_blocks import MarkdownBlocks, Piece, code_of, cut

WORDS = st.sampled_from(
    [
        "# Head\n",
        "words ",
        "\n",
        "\n\n",
        "- one\n",
        "  more\n",
        "```py\n",
        "```\n",
        "~~~\n",
        "|a|b|\n",
        "x" * 900,
        "é🐞",
    ]
)
TEXTS = st.lists(WORDS, max_size=30).map("".join)


def cut_in_bits(text: str, size: int) -> list[Piece]:
    blocks = MarkdownBlocks()
    pieces = [piece for start in range(0, len(text), size) for piece in blocks.push(text[start : start + size])]
    tail = blocks.tail()
    return [*pieces, tail] if tail is not None else pieces


@given(TEXTS, st.integers(1, 50))
def test_how_a_text_is_cut_does_not_depend_on_the_bits_it_comes_in(text: str, size: int) -> None:
    assert cut_in_bits(text, size) == cut(text)


@given(TEXTS)
def test_nothing_but_fences_and_blank_space_is_lost(text: str) -> None:
    def letters(said: str) -> str:
        return "".join(letter for letter in said if not letter.isspace() and letter not in "`~py")

    assert "".join(letters(piece.source) for piece in cut(text)) == letters(text)


def test_a_code_block_is_a_piece_with_its_language_and_without_its_fence() -> None:
    assert cut("Do:\n```python\nx = 1\n\ny = 2\n```\nDone.") == [
        Piece("Do:"),
        Piece("x = 1\n\ny = 2", "python"),
        Piece("Done."),
    ]


def test_a_fence_in_a_list_loses_its_indentation() -> None:
    assert cut("1. Run:\n   ```sh\n   ls\n   ```\n")[1] == Piece("ls", "sh")


def test_a_code_block_that_is_not_closed_yet_is_code() -> None:
    assert cut("```rust\nfn main() {") == [Piece("fn main() {", "rust")]


def test_a_loose_list_stays_together_where_its_items_are_indented() -> None:
    assert cut("- one\n\n  more of one\n\nAfter.") == [Piece("- one\n\n  more of one"), Piece("After.")]


def test_a_long_list_is_cut_between_its_own_items_not_between_those_inside_one() -> None:
    item = "- outer\n" + "".join(f"    - inner {number}\n" for number in range(6))
    pieces = cut(item * 40)
    assert len(pieces) > 2
    assert all(piece.source.startswith("- outer") for piece in pieces)


def test_no_piece_of_a_very_long_answer_is_long() -> None:
    table = "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 3000
    wide = f"{'| h ' * 60}|\n{'|---' * 60}|\n" + f"{'| 1 ' * 60}|\n" * 200
    for text in (
        wide,
        "```js\n" + f"{'x' * 1000}\n" * 100,
        "word " * 20_000,
        "x" * 100_000,
        "```py\n" + "x = 1\n" * 5000,
        "line\n" * 20_000,
        table,
    ):
        pieces = cut(text)
        assert max(len(piece.source) for piece in pieces) <= 5000
        assert max(piece.source.count("\n") for piece in pieces) < 60
        assert max(piece.source.count("|") for piece in pieces) < 400
        assert all(piece.continues for piece in pieces[1:])


def test_code_is_copied_whole_although_it_is_drawn_in_parts() -> None:
    code = "\n".join(f"x = {number}" for number in range(500))
    assert code_of(f"First:\n```py\n{code}\n```\nThen:\n```\nls\n```\n") == [code, "ls"]


def test_long_code_is_cut_at_blank_lines_where_it_has_any() -> None:
    function = "def f():\n" + "    call()\n" * 12 + "\n"
    pieces = cut("```py\n" + function * 40 + "```\n")
    assert len(pieces) > 5
    assert all(piece.source.startswith("def f():") for piece in pieces)


def test_each_piece_of_a_long_table_is_a_table_with_its_head() -> None:
    head = "| a | b |\n|---|:-:|\n"
    pieces = cut(head + "| 1 | 2 |\n" * 2000)
    assert len(pieces) > 3
    assert all(piece.source.startswith(head) for piece in pieces)
    assert sum(piece.source.count("| 1 | 2 |") for piece in pieces) == 2000
