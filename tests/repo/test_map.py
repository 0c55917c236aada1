import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import rich

from khepri.repo.map import RepositoryMap, build
from khepri.repo.root import Repository


def count_tokens(text: str) -> int:
    return (len(text) + 3) // 4


def write(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


@pytest.fixture
def project(tmp_path: Path) -> Path:
    uses = "from shop.core import OrderBook, settle_order\nOrderBook().close_day()\nsettle_order()\n"
    return write(
        tmp_path / "project",
        {
            "shop/core.py": "MAX_ORDERS = 3\n\nclass OrderBook:\n    def _x(self): ...\n    def add_order(self): ...\n"
            "    def close_day(self): ...\n\ndef settle_order(): ...\n\ndef unused_thing(): ...\n",
            "shop/a.py": uses + "def run_alpha(): ...\n",
            "shop/b.py": uses + "def run_beta(): ...\n",
            "shop/__main__.py": "from shop.a import run_alpha\nrun_alpha()\n\ndef main(): ...\n",
            "tests/test_core.py": "from shop.core import OrderBook\ndef test_order_book(): ...\n",
            "vendor/big.py": "class OrderBookVendored: ...\n",
            "README.md": "# Shop\n\n## Install\n",
            "data.bin": "x",
        },
    )


def paths(made: RepositoryMap) -> list[str]:
    return [entry.path for entry in made.entries]


def test_what_others_lean_on_and_where_it_starts_come_first(project: Path) -> None:
    ranked = paths(build(Repository.open(project), None))
    assert set(ranked[:2]) == {"shop/core.py", "shop/__main__.py"}
    assert set(ranked[2:4]) == {"shop/a.py", "shop/b.py"}
    assert ranked.index("tests/test_core.py") > 3
    assert ranked[-2:] == ["data.bin", "vendor/big.py"]


def test_a_line_names_the_symbols_that_are_used_most(project: Path) -> None:
    lines = build(Repository.open(project), None).render(count_tokens, 700).split("\n")
    (core,) = [line for line in lines if line.startswith("shop/core.py")]
    assert core == "shop/core.py: OrderBook(close_day, add_order), settle_order, MAX_ORDERS, unused_thing"
    assert "README.md: Shop, Install" in lines
    assert "data.bin" in lines


def test_nothing_is_said_of_files_left_out_when_none_is(project: Path) -> None:
    assert "more files" not in build(Repository.open(project), None).render(count_tokens, 700)


@pytest.mark.parametrize("max_tokens", [0, 1, 5, 10, 20, 40, 80, 700])
def test_a_map_is_never_above_its_budget(project: Path, max_tokens: int) -> None:
    text = build(Repository.open(project), None).render(count_tokens, max_tokens)
    assert count_tokens(text) <= max_tokens
    shown = [line for line in text.split("\n") if line and not line.startswith("…")]
    if text and len(shown) < 8:
        assert f"… {8 - len(shown)} more files: " in text


def test_files_left_out_are_counted_by_folder(tmp_path: Path) -> None:
    files = {f"src/part{part}/sub/m{number}.py": "x = 1\n" for part in range(12) for number in range(5)}
    text = build(Repository.open(write(tmp_path, files)), None).render(count_tokens, 40)
    left = text.split("\n")[-1]
    assert left.startswith("… ")
    assert "src/ " in left
    assert count_tokens(text) <= 40


def test_the_same_files_give_the_same_map(project: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / "copy"
    shutil.copytree(project, copy)
    cache = tmp_path / "cache"
    expected = build(Repository.open(project), None)
    assert build(Repository.open(copy), None) == expected
    assert build(Repository.open(project), cache) == expected
    assert build(Repository.open(project), cache) == expected


@pytest.mark.parametrize("seed", ["0", "1", "77"])
def test_the_map_does_not_depend_on_the_order_of_hashes(project: Path, seed: str) -> None:
    program = (
        "import sys, pathlib\nfrom khepri.repo.map import build\nfrom khepri.repo.root import Repository\n"
        "sys.stdout.write(build(Repository.open(pathlib.Path(sys.argv[1])), None).render(len, 2000))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(project)],
        env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stdout == build(Repository.open(project), None).render(len, 2000)


def test_a_change_reaches_a_cached_map(project: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    build(Repository.open(project), cache)
    (project / "shop/a.py").write_text("def renamed_entirely(): ...\n")
    (project / "new.py").write_text("def newcomer(): ...\n")
    text = build(Repository.open(project), cache).render(count_tokens, 700)
    assert "renamed_entirely" in text
    assert "new.py: newcomer" in text
    assert "run_alpha" not in text


def test_files_that_were_not_parsed_are_counted_and_said(project: Path) -> None:
    (project / "huge.py").write_text("x = 1\n" * 100_000)
    made = build(Repository.open(project), None)
    assert made.unparsed_files == 1
    assert "ranked by path only" in made.render(count_tokens, 700)


def test_an_empty_folder_has_an_empty_map(tmp_path: Path) -> None:
    assert build(Repository.open(tmp_path), None).render(count_tokens, 700) == ""


def test_the_main_files_of_a_real_package_are_in_its_map(tmp_path: Path) -> None:
    shutil.copytree(Path(rich.__file__).parent, tmp_path / "rich", ignore=shutil.ignore_patterns("__pycache__"))
    text = build(Repository.open(tmp_path), None).render(count_tokens, 700)
    shown = {line.partition(":")[0] for line in text.split("\n")}
    assert {"rich/console.py", "rich/text.py", "rich/style.py", "rich/segment.py", "rich/table.py"} <= shown
    assert count_tokens(text) <= 700
