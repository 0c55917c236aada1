"""A task that names a file to be renamed is one call, or is refused with the reason."""

import pytest

from khepri.agent.module_renames import module_rename
from khepri.agent.task_reading import Candidate
from khepri.edits.refusal import EditRefusedError

FILES = ["app.py", "pkg/__init__.py", "pkg/logging.py", "pkg/net.py", "other/net.py", "web/main.ts", "README.md"]
FOUND = [Candidate("app.py", "Session", "class", 1), Candidate("app.py", "Session.send", "method", 2)]


@pytest.mark.parametrize(
    "task",
    [
        "rename pkg/logging.py to pkg/logs.py",
        "Rename `pkg/logging.py` to `logs.py`.",
        "rename logging.py to logs.py and update all imports",
        "rename the module logging in pkg to logs",
        "rename the module logging of the package pkg to logs everywhere",
        "rename module pkg.logging to pkg.logs",
        "rename the file pkg/logging.py into logs",
        "rename the logging module to logs",
        "please rename ./pkg/logging.py to ./pkg/logs.py, tests included",
        "in pkg, rename logging.py to logs.py",
        "move pkg/logging.py to pkg/logs.py",
        "git mv pkg/logging.py pkg/logs.py",
    ],
)
def test_a_task_that_renames_a_module_is_one_call(task: str) -> None:
    call = module_rename(task, FILES, FOUND)
    assert call is not None
    assert (call.name, call.arguments) == ("rename", {"path": "pkg/logging.py", "symbol": "", "new_name": "logs"})


@pytest.mark.parametrize(
    "task",
    [
        "rename Session to Talk",
        "rename Session.send to Session.post",
        "rename Session in app.py to Talk",
        "rename the class Session of the module app to Talk",
        "rename the module attribute LIMIT to MOST",
        "rename the constant LIMIT of net.py to MOST",
        "rename load in utils to read",
        "move Session to pkg/net.py",
        "move Session from app.py to pkg/net.py",
        "rename the file size parameter to bytes",
        "change logging.py to use logs",
    ],
)
def test_a_task_about_what_lies_in_a_file_is_no_rename_of_the_file(task: str) -> None:
    assert module_rename(task, FILES, FOUND) is None


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ("rename net.py to web.py", "net.py may be pkg/net.py, other/net.py"),
        ("rename pkg/nothing.py to pkg/some.py", "no file here is called"),
        ("rename the module nothing to some", "no file here is called"),
        ("rename web/main.ts to web/start.ts", "no Python module"),
        ("rename pkg/logging.py to other/logs.py", "another folder"),
        ("move pkg/logging.py to other", "another folder"),
        ("rename pkg/logging.py to logs.ts", "no Python module"),
        ("rename the package pkg to lib", "cannot be renamed here"),
        ("rename pkg/logging.py to logs.py and add a docstring to get", "asks for more"),
        ("add a docstring to get and rename pkg/logging.py to logs.py", "asks for more"),
    ],
)
def test_a_file_that_cannot_be_renamed_soundly_is_refused(task: str, why: str) -> None:
    with pytest.raises(EditRefusedError, match=why):
        module_rename(task, FILES, FOUND)
