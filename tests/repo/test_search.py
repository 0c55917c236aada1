from pathlib import Path

import pytest

from khepri.errors import ToolError
from khepri.repo.root import Repository
from khepri.repo.search import SearchResult, search


def write(root: Path, **files: str | bytes) -> None:
    for name, content in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def rows(result: SearchResult) -> list[tuple[str, int, str]]:
    return [(file.path, line.number, line.text) for file in result.files for line in file.lines]


def test_matches_come_sorted_by_path_with_line_and_column(tmp_path: Path) -> None:
    write(tmp_path, b_dot_py="x\n  needle\n", a_dot_py="needle needle\n", c_dot_py="hay\n")
    result = search(Repository.open(tmp_path), "needle")
    assert rows(result) == [("a.py", 1, "needle needle"), ("b.py", 2, "  needle")]
    assert [line.column for file in result.files for line in file.lines] == [0, 2]
    assert (result.matches, result.shown, result.searched_files, result.is_cut) == (2, 2, 3, False)


def test_a_literal_is_no_regular_expression(tmp_path: Path) -> None:
    write(tmp_path, a="f(x) = a.b*\nfoo\n")
    repository = Repository.open(tmp_path)
    assert search(repository, "(x) = a.b*").matches == 1
    assert search(repository, "f.o", literal=True).matches == 0
    assert search(repository, "f.o$", literal=False).matches == 1
    assert search(repository, "-e", literal=True).matches == 0
    assert search(repository, "--files", literal=True).matches == 0


def test_case_is_smart_unless_told(tmp_path: Path) -> None:
    write(tmp_path, a="Needle\nneedle\n")
    repository = Repository.open(tmp_path)
    assert search(repository, "needle").matches == 2
    assert search(repository, "Needle").matches == 1
    assert search(repository, "needle", case_sensitive=True).matches == 1
    assert search(repository, "NEEDLE", case_sensitive=False).matches == 2


def test_path_and_glob_narrow_the_search(tmp_path: Path) -> None:
    write(tmp_path, a_dot_py="x\n", src__a_dot_py="x\n", src__b_dot_ts="x\n")
    repository = Repository.open(tmp_path)
    assert [file.path for file in search(repository, "x", path="src/").files] == ["src/a.py", "src/b.ts"]
    assert [file.path for file in search(repository, "x", path="src", glob="*.py").files] == ["src/a.py"]
    with pytest.raises(ToolError, match="outside"):
        search(repository, "x", path="../..")


def test_context_lines_are_told_from_matches(tmp_path: Path) -> None:
    write(tmp_path, a="1\n2\nneedle\n4\n5\n")
    file = search(Repository.open(tmp_path), "needle", context=1).files[0]
    assert [(line.number, line.column >= 0) for line in file.lines] == [(2, False), (3, True), (4, False)]


def test_a_cap_counts_everything_and_hides_no_file(tmp_path: Path) -> None:
    write(tmp_path, a="needle\n" * 500, b="needle\n" * 2, c="needle\n" * 30)
    result = search(Repository.open(tmp_path), "needle", max_matches=20)
    assert [(file.path, file.matches, len(file.lines)) for file in result.files] == [
        ("a", 500, 9),
        ("b", 2, 2),
        ("c", 30, 9),
    ]
    assert (result.matches, result.shown, result.is_cut) == (532, 20, True)


def test_a_cap_below_the_number_of_files_still_names_all(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"f{number:02}").write_text("needle\n")
    result = search(Repository.open(tmp_path), "needle", max_matches=5)
    assert (len(result.files), result.matches, result.shown) == (30, 30, 5)


def test_what_is_hidden_is_not_searched(tmp_path: Path) -> None:
    write(tmp_path, seen="needle", _dot_env="needle", build__x="needle", own="needle", pipe_target="")
    (tmp_path / ".gitignore").write_text("build/\n")
    (tmp_path / ".khepriignore").write_text("own\n")
    (tmp_path / "link").symlink_to("/etc")
    assert [file.path for file in search(Repository.open(tmp_path), "needle").files] == ["seen"]


def test_encodings_line_ends_and_binaries(tmp_path: Path) -> None:
    write(
        tmp_path,
        binary=b"needle\n\0\nneedle\n",
        crlf="a needle\r\n",
        latin="é needle\n".encode("latin-1"),
        wide=b"\xff\xfe" + "needle\n".encode("utf-16-le"),
    )
    repository = Repository.open(tmp_path)
    assert rows(search(repository, "needle")) == [
        ("crlf", 1, "a needle"),
        ("latin", 1, "é needle"),
        ("wide", 1, "needle"),
    ]
    assert search(repository, "needle$", literal=False).matches == 3


@pytest.mark.parametrize("name", ["with space", "-rf", "quote'\"", "🪲", "colon:1:x", "*"])
def test_odd_names_are_searched(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("needle\n")
    assert rows(search(Repository.open(tmp_path), "needle")) == [(name, 1, "needle")]


@pytest.mark.parametrize(
    ("pattern", "literal", "message"),
    [
        ("", True, "empty"),
        ("\n", True, "empty"),
        ("(foo", False, "unclosed group"),
        ("[z-a]", False, "not a regular expression"),
        ("(?<=x)y", False, "look-around"),
        ("a\nb", True, "line end"),
        ("a\\nb", False, "line end"),
        ("a{9999}{9999}", False, "not a regular expression"),
        ("nul\0", True, "NUL"),
    ],
)
def test_a_bad_pattern_is_refused_in_few_words(tmp_path: Path, pattern: str, literal: bool, message: str) -> None:
    write(tmp_path, a="x")
    with pytest.raises(ToolError, match=message) as caught:
        search(Repository.open(tmp_path), pattern, literal=literal)
    assert len(caught.value.message) < 200


def test_a_file_that_vanished_does_not_spoil_the_others(tmp_path: Path) -> None:
    write(tmp_path, a="needle\n", b="needle\n")
    repository = Repository.open(tmp_path)
    assert repository.files() == ("a", "b")
    (tmp_path / "a").unlink()
    assert [file.path for file in search(repository, "needle").files] == ["b"]


def test_a_log_of_fifty_megabytes_and_a_line_of_five_are_searched(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"nothing of interest in this line\n" * 1_500_000 + b"needle\n")
    (tmp_path / "min.js").write_bytes(b"x" * 5_000_000 + b"needle" + b"y" * 100)
    result = search(Repository.open(tmp_path), "needle")
    assert [(file.path, file.lines[0].number, file.lines[0].column) for file in result.files] == [
        ("log", 1_500_001, 0),
        ("min.js", 1, 5_000_000),
    ]


def test_more_files_than_a_command_line_holds_are_all_searched(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40) / ("name" * 40)
    folder.mkdir(parents=True)
    for number in range(3000):
        (folder / f"module{number:04}.py").write_text("needle\n")
    result = search(Repository.open(tmp_path), "needle", max_matches=10)
    assert (result.matches, len(result.files), result.shown) == (3000, 3000, 10)


def test_a_text_that_is_not_ascii_is_found_in_every_encoding_that_is_read(tmp_path: Path) -> None:
    line = "  # café [1.5] (rétry)\n"
    write(
        tmp_path, plain=line, latin=line.encode("latin-1"), wide=b"\xff\xfe" + line.encode("utf-16-le"), other="cafe\n"
    )
    repository = Repository.open(tmp_path)
    for text in ("café", "café [1.5] (ré", "rétry)"):
        assert rows(search(repository, text)) == [(name, 1, line.rstrip("\n")) for name in ("latin", "plain", "wide")]
    assert search(repository, "CAFÉ", case_sensitive=True).matches == 0
    assert search(repository, "日本").matches == 0
