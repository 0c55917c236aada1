"""Where prompts and manifests are found, and that a text with a gap is never sent to a model."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from khepri import assets
from khepri.errors import KhepriError

PACKAGE = Path(assets.__file__).parent


@pytest.fixture
def copied_package(tmp_path: Path) -> Path:
    """Return the folder of a copy of the modules that assets needs, without the repository around it."""
    package = tmp_path / "site" / "khepri"
    package.mkdir(parents=True)
    for name in ("__init__.py", "assets.py", "errors.py"):
        shutil.copy(PACKAGE / name, package)
    return package


def evaluate(package: Path, expression: str) -> str:
    program = (
        f"from khepri import assets, errors\ntry: print({expression})\nexcept errors.KhepriError as e: print(e, e.hint)"
    )
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=package.parent,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    ).stdout.strip()


def write_prompt(folder: Path, text: str) -> None:
    (folder / "prompts").mkdir(parents=True, exist_ok=True)
    (folder / "prompts" / "sample.md").write_text(text, encoding="utf-8")


def test_in_a_checkout_the_texts_are_read_from_the_repository_root(copied_package: Path) -> None:
    assert evaluate(copied_package, "assets.assets_root()") == str(copied_package.parent.resolve())


def test_in_a_wheel_the_packed_texts_win(copied_package: Path) -> None:
    write_prompt(copied_package.parent, "from the checkout")
    write_prompt(copied_package / "_assets", "from the wheel")
    assert evaluate(copied_package, "assets.render_prompt('sample.md')") == "from the wheel"
    assert evaluate(copied_package, "assets.tools_dir()") == str(copied_package.resolve() / "_assets" / "tools")


def test_every_variable_is_filled_in_and_a_doubled_dollar_is_one(copied_package: Path) -> None:
    write_prompt(copied_package.parent, "$name pays $$5 to ${other}: é")
    expression = "assets.render_prompt('sample.md', name='A', other='$B', unused='')"
    assert evaluate(copied_package, expression) == "A pays $5 to $B: é"


@pytest.mark.parametrize("text", ["hello $name", "it costs 5$", "${", "${na me}"])
def test_a_variable_that_is_missing_or_malformed_is_an_error_that_names_the_prompt(
    copied_package: Path, text: str
) -> None:
    write_prompt(copied_package.parent, text)
    assert evaluate(copied_package, "assets.render_prompt('sample.md')").startswith(
        "the prompt sample.md cannot be filled in: "
    )


def test_a_prompt_that_is_not_utf8_is_an_error(copied_package: Path) -> None:
    write_prompt(copied_package.parent, "")
    (copied_package.parent / "prompts" / "sample.md").write_bytes(b"caf\xe9")
    assert "cannot be filled in" in evaluate(copied_package, "assets.render_prompt('sample.md')")


def test_a_prompt_that_does_not_exist_is_an_error_with_advice() -> None:
    with pytest.raises(KhepriError, match=r"no-such-prompt\.md is missing") as caught:
        assets.render_prompt("no-such-prompt.md")
    assert caught.value.hint == "reinstall khepri"


def test_this_checkout_is_read_in_place() -> None:
    assert assets.assets_root() == PACKAGE.parent
    assert assets.tools_dir() == PACKAGE.parent / "tools"
