import pytest
from hypothesis import given
from hypothesis import strategies as st

from khepri.repo.words import question_stems, stem, stems_of, subwords


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("max_retries", ["max", "retries"]),
        ("HTTPServerError", ["http", "server", "error"]),
        ("getURL2", ["get", "url", "2"]),
        ("__init__", ["init"]),
        ("größeÄndern", ["größeändern"]),
    ],
)
def test_names_are_split_at_case_and_underscores(name: str, words: list[str]) -> None:
    assert subwords(name) == words


@pytest.mark.parametrize(
    "forms",
    [
        ("retry", "retries", "retried"),
        ("cache", "cached", "caching", "caches"),
        ("limit", "limits", "limiting"),
        ("stop", "stopped", "stopping"),
        ("parse", "parser", "parsing"),
        ("redirect", "redirects", "redirection"),
        ("cancel", "cancelled", "cancels"),
    ],
)
def test_forms_of_a_word_share_their_stem(forms: tuple[str, ...]) -> None:
    assert len({stem(form) for form in forms}) == 1


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=24))
def test_a_stem_is_the_beginning_of_its_word(word: str) -> None:
    found = stem(word)
    assert word.startswith(found)
    assert len(found) >= min(3, len(word))


def test_a_name_has_the_stems_of_its_words_and_of_all_of_it() -> None:
    assert set(stems_of("copyToClipboard")) >= {"clipboard", stem("copy")}
    assert stems_of("retry") == ("retr",)
    assert stem("datatable") in stems_of("DataTable")


def test_a_question_keeps_what_tells_something() -> None:
    assert question_stems("Where is the retry logic and what limits it?").keys() >= {stem("retry"), stem("limit")}
    assert "wher" not in question_stems("Where is the retry logic?")
    assert question_stems("What is it?") == {}
    assert question_stems("") == {}


def test_both_spellings_count_alike_and_synonyms_less() -> None:
    stems = question_stems("How are colours of a config chosen?")
    assert stems[stem("colour")] == stems[stem("color")] == 1.0
    assert 0 < stems[stem("settings")] < 1
