"""A call names only what exists, is of a tool that the task speaks of, and takes new names from the task."""

from pathlib import Path

import pytest

from khepri.agent.call_grammar import plan_grammar
from khepri.agent.change_setup import edit_tools
from khepri.agent.task_reading import candidates
from khepri.engine.constrain import GrammarCompiler
from khepri.engine.request import ToolCallGrammar
from khepri.repo.root import Repository
from tests.support.changing import planned, write_namesakes
from tests.support.scripted_backend import ByteVocabulary

MANIFESTS = [tool.manifest for tool in edit_tools()]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_namesakes(tmp_path)


def allows(root: Path, task: str, call: str) -> bool:
    repository = Repository.open(root)
    grammar = plan_grammar(MANIFESTS, candidates(repository, task, None), repository.files(), task)
    vocabulary = ByteVocabulary()
    constraint = GrammarCompiler(vocabulary).start(ToolCallGrammar("<tool_call>", grammar, 0, forced=True))
    for token in vocabulary.tokenize(call):
        if constraint.complete([token], 1).tokens != (token,):
            return False
        constraint.commit(token)
    return constraint.is_complete


def offers(root: Path, task: str, tool: str) -> bool:
    repository = Repository.open(root)
    return f'\\"{tool}\\"' in plan_grammar(MANIFESTS, candidates(repository, task, None), repository.files(), task)


def test_a_call_names_only_what_exists(root: Path) -> None:
    task = "rename Session to Talk in src/net.py"
    assert allows(root, task, planned("rename", path="src/net.py", symbol="Session", new_name="Talk"))
    assert not allows(root, task, planned("rename", path="src/net.py", symbol="Sessions", new_name="Talk"))
    assert not allows(root, task, planned("rename", path="src/no.py", symbol="Session", new_name="Talk"))
    assert not allows(root, task, planned("rename", path="src/net.py", symbol="Session", new_name="Invented"))


@pytest.mark.parametrize(
    ("task", "tool", "is_offered"),
    [
        ("rename fetch to get", "rename", True),
        ("fetch should raise an error", "rename", False),
        ("fetch should raise an error", "rewrite", True),
        ("move fetch to src/io.py", "move", True),
        ("fetch is slow", "move", False),
        ("add a parameter timeout to fetch", "parameter", True),
        ("Replace f($A) with g($A)", "rewrite", False),
    ],
)
def test_only_tools_that_the_task_speaks_of_are_offered(root: Path, task: str, tool: str, is_offered: bool) -> None:
    assert offers(root, task, tool) is is_offered


def test_a_pattern_that_the_task_writes_is_taken_as_it_stands(root: Path) -> None:
    task = "Replace every call hex($X)[2:].upper() with format($X, 'X')"
    assert allows(root, task, planned("replace", pattern="hex($X)[2:].upper()", replacement="format($X, 'X')"))
    assert not allows(root, task, planned("replace", pattern="hex($$$X)", replacement="format($X)"))


@pytest.mark.parametrize(
    "task",
    [
        "replace `time.time()` with `time.monotonic()`",
        "Replace every call of `time.time()` everywhere by `time.monotonic()`, please",
        "use `time.monotonic()` instead of `time.time()`",
    ],
)
def test_code_that_is_to_be_replaced_is_taken_as_it_stands(root: Path, task: str) -> None:
    assert allows(root, task, planned("replace", pattern="time.time()", replacement="time.monotonic()"))
    assert not allows(root, task, planned("replace", pattern="time.monotonic()", replacement="time.time()"))
    assert not allows(root, task, planned("replace", pattern="time()", replacement="monotonic()"))


def test_a_tool_is_kept_back_where_the_task_asks_for_more_than_it_does(root: Path) -> None:
    assert offers(root, "Add a parameter timeout to fetch with default 5", "parameter")
    assert not offers(root, "Give fetch a second parameter timeout and use it for the request", "parameter")
    assert not offers(root, "Give fetch a parameter tries, default 1, and repeat it so many times", "parameter")
    assert not offers(root, "Give fetch a parameter loud, and leave the text out when it is False", "parameter")


def test_a_class_is_not_written_anew_for_a_method_that_it_is_to_get(root: Path) -> None:
    task = "Session needs a method __len__(self) that returns how many lines it fetched"
    assert offers(root, task, "add")
    assert not offers(root, task, "rewrite")
    assert offers(root, "Session needs a better method", "rewrite")


def test_a_tool_is_offered_only_what_it_can_work_on(root: Path) -> None:
    (root / "src" / "limits.py").write_text("MOST = 3\n\n\ndef cut(): ...\n", encoding="utf-8")
    task = "Add a parameter most to cut, default MOST"
    assert allows(root, task, planned("parameter", path="src/limits.py", symbol="cut", action="add", name="most"))
    assert not allows(root, task, planned("parameter", path="src/limits.py", symbol="MOST", action="add", name="most"))


def test_another_languages_parameters_are_left_to_the_model(root: Path) -> None:
    (root / "src" / "cut.go").write_text("package cut\n\nfunc Cut(a int) {}\n", encoding="utf-8")
    assert not offers(root, "Give Cut a parameter most", "parameter")
    assert offers(root, "Give Cut a parameter most", "rewrite")


def test_a_new_name_is_no_target_and_an_ordinal_no_name(root: Path) -> None:
    (root / "src" / "quoting.py").write_text("def quote(): ...\n\n\ndef unquote(value): ...\n", encoding="utf-8")
    task = "Give unquote a second parameter quote"
    call = planned("parameter", path="src/quoting.py", symbol="unquote", action="add", name="second")
    assert not allows(root, task, call)
    assert not allows(root, task, planned("rewrite", path="src/quoting.py", symbol="quote"))
    assert allows(root, task, planned("rewrite", path="src/quoting.py", symbol="unquote"))


def test_a_parameter_is_renamed_to_something(root: Path) -> None:
    task = "Rename the parameter count of fetch to size"
    given = {"path": "src/net.py", "symbol": "fetch"}
    assert allows(root, task, planned("parameter", **given, action="rename", name="count", new_name="size"))
    assert not allows(root, task, planned("parameter", **given, action="rename", name="count"))
    assert not allows(root, task, planned("parameter", **given, action="rename", name="size", new_name="count"))
    assert not allows(root, task, planned("parameter", **given, action="rename", name="size", new_name="size"))
    assert allows(root, task, planned("parameter", **given, action="remove", name="count"))


def test_a_rename_is_never_taken_the_other_way_round(root: Path) -> None:
    task = "rename Session to fetch"
    assert allows(root, task, planned("rename", path="src/net.py", symbol="Session", new_name="fetch"))
    assert not allows(root, task, planned("rename", path="src/net.py", symbol="fetch", new_name="Session"))
    assert not offers(root, "rename Gone to fetch", "rename")


@pytest.mark.parametrize(
    ("task", "is_rewrite_offered"),
    [
        ("rename Session to Talk everywhere, tests included", False),
        ("Rename fetch to get in src/net.py and all its callers", False),
        ("rename Session to Talk and give it a docstring", True),
        ("rename Gone to Talk", True),
        ("add a docstring to fetch, and rename Session to Talk", True),
    ],
)
def test_a_rename_that_is_all_of_a_task_is_left_to_the_library(root: Path, task: str, is_rewrite_offered: bool) -> None:
    assert offers(root, task, "rewrite") is is_rewrite_offered


def test_the_subject_of_a_task_is_what_it_is_about(root: Path) -> None:
    (root / "tests").mkdir(exist_ok=True)
    (root / "tests" / "test_net.py").write_text("def test_fetch(): ...\n", encoding="utf-8")
    call = planned("rewrite", path="tests/test_net.py", symbol="test_fetch")
    assert not allows(root, "fetch should raise ValueError if there is no url", call)
    assert allows(root, "test_fetch should look at the url", call)


@pytest.mark.parametrize(
    ("task", "goal", "is_allowed"),
    [
        ("move fetch to other.py", "src/other.py", True),
        ("move fetch to other.py", "other.py", False),
        ("move fetch to fresh.py", "src/fresh.py", True),
        ("move fetch to src/fresh.py", "src/fresh.py", True),
        ("move fetch to src/fresh.py", "src/net.py", False),
    ],
)
def test_a_move_goes_where_the_task_says(root: Path, task: str, goal: str, is_allowed: bool) -> None:
    assert allows(root, task, planned("move", path="src/net.py", symbol="fetch", destination=goal)) is is_allowed


def test_what_moves_is_not_in_the_file_that_it_moves_to(root: Path) -> None:
    task = "move Session to src/other.py"
    assert allows(root, task, planned("move", path="src/net.py", symbol="Session", destination="src/other.py"))
    assert not allows(root, task, planned("move", path="src/other.py", symbol="Session", destination="src/other.py"))
