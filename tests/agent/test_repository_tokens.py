from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from khepri.agent import repository_tokens
from khepri.agent.repository_tokens import RepositoryTokens
from khepri.agent.token_cache import TokenCache
from khepri.repo.root import Repository
from tests.support.scripted_backend import ByteVocabulary


class CountingVocabulary(ByteVocabulary):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        assert not special
        self.texts.append(text)
        return list(text.encode())


def source_of(root: Path, cache: TokenCache, vocabulary: ByteVocabulary) -> RepositoryTokens:
    return RepositoryTokens(Repository.open(root), vocabulary, cache, lambda: None)


def texts(root: Path, cache: TokenCache, max_tokens: int = 10_000) -> tuple[list[str], int]:
    """Return the texts that are drafted from, in order, and how many were tokenized for it."""
    vocabulary = CountingVocabulary()
    source = source_of(root, cache, vocabulary)
    contents = source.contents(source.files(), max_tokens)
    found = [bytes(source.tokens(content, file).tolist()).decode() for content, file in contents.items()]
    return found, len(vocabulary.texts)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name, text in {
        "src/big.py": "big = 1\n" * 4,
        "src/small.py": "small = 1\n",
        "tests/test_small.py": "assert small\n",
        "README.md": "# Small\n",
        "vendor/lib.py": "lib = 1\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_source_comes_first_and_vendored_files_last(project: Path) -> None:
    with TokenCache(None) as cache:
        found, _ = texts(project, cache)
    assert found == ["small = 1\n", "big = 1\n" * 4, "assert small\n", "# Small\n", "lib = 1\n"]


def test_what_does_not_fit_is_left_out_from_the_end(project: Path) -> None:
    with TokenCache(None) as cache:
        assert texts(project, cache, 55)[0] == ["small = 1\n", "big = 1\n" * 4, "assert small\n"]
        assert texts(project, cache, 30)[0] == ["small = 1\n"]
        assert texts(project, cache, 0)[0] == []


def test_only_what_is_new_is_tokenized(project: Path) -> None:
    with TokenCache(None) as cache:
        assert texts(project, cache)[1] == 5
        assert texts(project, cache)[1] == 0
        (project / "src/small.py").write_text("small = 2\n")
        assert texts(project, cache) == (
            ["small = 2\n", "big = 1\n" * 4, "assert small\n", "# Small\n", "lib = 1\n"],
            1,
        )
        (project / "src/small.py").rename(project / "src/other.py")
        assert texts(project, cache)[1] == 0


def test_a_content_that_two_files_have_is_taken_once(project: Path) -> None:
    (project / "src/copy.py").write_text("small = 1\n")
    with TokenCache(None) as cache:
        assert texts(project, cache)[0].count("small = 1\n") == 1


def test_secret_ignored_binary_empty_and_huge_files_are_left_out(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository_tokens, "MAX_FILE_BYTES", 100)
    (project / ".env").write_text("KEY=secret\n")
    (project / ".khepriignore").write_text("hidden.py\n")
    (project / "hidden.py").write_text("hidden = 1\n")
    (project / "binary.py").write_bytes(b"\0\1\2" * 9)
    (project / "empty.py").write_text("")
    (project / "huge.py").write_text("x = 1\n" * 100)
    with TokenCache(None) as cache:
        found, _ = texts(project, cache)
        assert not any("secret" in text or "hidden = 1" in text or "x = 1\n" * 9 in text for text in found)
        assert "small = 1\n" in found
        assert texts(project, cache)[1] == 0


def test_a_damaged_row_is_tokenized_anew(project: Path) -> None:
    with TokenCache(None) as cache:
        expected, _ = texts(project, cache)
        cache._connection.execute("UPDATE tokens SET ids = x'00'")
        assert texts(project, cache) == (expected, 5)


def test_a_file_that_changes_between_listing_and_reading_does_no_harm(project: Path) -> None:
    with TokenCache(None) as cache:
        texts(project, cache)
        source = source_of(project, cache, ByteVocabulary())
        contents = source.contents(source.files(), 10_000)
        cache._connection.execute("DELETE FROM tokens")
        (project / "src/small.py").write_text("small = 2\n")
        (project / "src/big.py").unlink()
        sizes = [source.tokens(content, file).size for content, file in contents.items()]
        assert sizes[:2] == [0, 0]
        assert all(sizes[2:])


def test_work_ends_where_the_check_says_so(project: Path) -> None:
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls == 8:
            raise InterruptedError

    with TokenCache(None) as cache:
        source = RepositoryTokens(Repository.open(project), CountingVocabulary(), cache, check)
        with pytest.raises(InterruptedError):
            source.contents(source.files(), 10_000)
        assert texts(project, cache)[1] == 4  # one of five files had been done


@given(st.text(alphabet="ab\n", max_size=60), st.integers(1, 9))
def test_a_text_is_cut_into_short_pieces_at_line_ends_and_nothing_is_lost(text: str, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repository_tokens, "_PIECE_CHARS", most)
        pieces = list(repository_tokens._pieces(text))
    assert "".join(pieces) == text
    assert all(0 < len(piece) <= most for piece in pieces)
    assert all(piece.endswith("\n") or "\n" not in piece for piece in pieces[:-1])
