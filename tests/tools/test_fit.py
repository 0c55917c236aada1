from hypothesis import given
from hypothesis import strategies as st

from khepri.tools.fit import fit


def count_tokens(text: str) -> int:
    return (len(text) + 3) // 4


def test_what_fits_stays_whole() -> None:
    fitted = fit(["a", "b"], count_tokens, 10)
    assert (fitted.text, fitted.tokens, fitted.kept) == ("a\nb", 1, 2)


def test_what_does_not_fit_ends_with_what_is_missing() -> None:
    fitted = fit(["x" * 39] * 10, count_tokens, 40, lambda kept: f"[cut: {10 - kept} more]", header="top")
    assert fitted.text.split("\n") == ["top", *["x" * 39] * 3, "[cut: 7 more]"]
    assert (fitted.kept, fitted.tokens) == (3, count_tokens(fitted.text))


def test_nothing_fits_and_the_note_remains() -> None:
    fitted = fit(["x" * 999], count_tokens, 10)
    assert (fitted.text, fitted.kept) == ("[cut: 1 more lines]", 0)


def test_a_budget_too_small_for_the_note_still_holds() -> None:
    assert fit(["x" * 999], count_tokens, 2).tokens <= 2
    assert fit([], count_tokens, 0).text == ""


def test_tokens_are_counted_few_times_and_never_of_everything() -> None:
    counted: list[int] = []

    def count(text: str) -> int:
        counted.append(len(text))
        return count_tokens(text)

    fitted = fit(["x" * 79] * 100_000, count, 1000)
    assert fitted.kept == 49
    assert len(counted) < 20
    assert max(counted) < 3 * 4000


@given(
    st.lists(st.text(alphabet="ab \t", max_size=30), max_size=60),
    st.integers(min_value=1, max_value=100),
    st.sampled_from(["", "header"]),
)
def test_the_budget_holds_and_one_more_row_would_break_it(lines: list[str], budget: int, header: str) -> None:
    fitted = fit(lines, count_tokens, budget, lambda kept: "[cut]", header=header)
    assert fitted.tokens == count_tokens(fitted.text) <= budget
    if fitted.kept < len(lines):
        top = [header] if header else []
        last = ["[cut]"] if fitted.kept + 1 < len(lines) else []
        assert count_tokens("\n".join([*top, *lines[: fitted.kept + 1], *last])) > budget or not fitted.kept
