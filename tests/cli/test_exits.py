"""Every error has one exit code and its words, said once."""

import json

import pytest

from khepri import errors
from khepri.cli import exits
from khepri.errors import BrokenPromiseError, NoModelError

CODES = {
    errors.KhepriError("x"): 1,
    ZeroDivisionError("x"): 1,
    OSError("x"): 1,
    errors.UsageError("x"): 2,
    errors.ConfigError("x"): 2,
    errors.ToolError("x"): 2,
    errors.NoModelError("x"): 3,
    errors.ModelError("x"): 4,
    errors.ModelFileError("x"): 4,
    errors.ModelLoadError("x"): 4,
    errors.OutOfMemoryError("x"): 4,
    errors.DecodeError("x"): 4,
    errors.PullError("x"): 4,
    errors.ContextFullError("x", needed_tokens=2, context_tokens=1): 5,
    errors.OutOfBlocksError("x", needed_tokens=2, context_tokens=1): 5,
    errors.StepLimitError("x"): 6,
    errors.BrokenPromiseError("x"): 7,
    errors.RefusedError("x"): 9,
    errors.CancelledError("x"): 130,
    KeyboardInterrupt(): 130,
    BrokenPipeError(): 141,
}


@pytest.mark.parametrize(("error", "code"), CODES.items(), ids=lambda value: type(value).__name__)
def test_each_error_has_its_code(error: BaseException, code: int) -> None:
    assert exits.exit_code(error) == code


def test_every_kind_of_error_is_tried() -> None:
    kinds = {kind for kind in vars(errors).values() if isinstance(kind, type)}
    assert kinds <= {type(error) for error in CODES}


def test_every_code_is_in_the_help() -> None:
    for code in {0, *CODES.values(), exits.HUNG_UP, exits.TERMINATED}:
        assert f" {code} " in exits.HELP


def test_words_come_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    exits.say(errors.NoModelError("there is no model", "fetch one"))
    exits.say(errors.UsageError("wrong"))
    exits.say(FileNotFoundError(2, "No such file", "a.py"))
    exits.say(KeyboardInterrupt())
    exits.say(BrokenPipeError())
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "khepri: there is no model",
        "  fetch one",
        "khepri: wrong",
        "khepri: No such file: a.py",
        "khepri: interrupted",
    ]


def test_what_was_not_foreseen_is_called_a_defect(capsys: pytest.CaptureFixture[str]) -> None:
    exits.say(ZeroDivisionError("division by zero"))
    assert capsys.readouterr().err.startswith("khepri: ZeroDivisionError: division by zero\n  this is a defect")


def test_a_script_gets_an_error_as_an_object_and_one_only(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NoModelError), exits.told_as_json(["ask", "--json"]):
        raise NoModelError("there is no model", "fetch one: khepri models pull")
    said = json.loads(capsys.readouterr().out)
    assert said["error"]["message"] == "there is no model"
    assert said["exit_code"] == exits.NO_MODEL
    with pytest.raises(BrokenPromiseError), exits.told_as_json(["ask", "--json"]):
        raise BrokenPromiseError("2 of 100 tokens differ")
    with pytest.raises(NoModelError), exits.told_as_json(["ask", "--", "--json"]):
        raise NoModelError("there is no model")
    assert capsys.readouterr().out == ""
