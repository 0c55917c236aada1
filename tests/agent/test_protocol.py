"""What counts as a call, and what the grammar lets a model write."""

import json
import time

import pytest

from khepri.agent.language import ENGLISH, language_of
from khepri.agent.protocol import CALL_END, TRIGGER, may_be_call, opening_grammar, parse, tool_grammar
from khepri.engine.constrain import Constraint, GrammarCompiler
from khepri.engine.request import ToolCallGrammar
from khepri.tools.base import Manifest
from khepri.tools.registry import Registry
from tests.support.scripted_backend import ByteVocabulary

TOOLS = ("read", "search")
CALL = '{"name": "read", "arguments": {"path": "a.py"}}'
MOST_COMPILE_S = 1.0


def arguments_in(text: str) -> object:
    call = parse(text, TOOLS)
    assert call is not None
    assert call.name == "read"
    return dict(call.arguments)


@pytest.mark.parametrize(
    "text",
    [
        f"<tool_call>\n{CALL}\n</tool_call>",
        f"<tool_call>{CALL}",
        f"I look at it.\n<tool_call>\n{CALL}\n</tool_call>",
        f"<tools>\n{CALL}\n</tools>",
        f"```json\n{CALL}\n```",
        f"```tool_call\n{CALL}\n```",
        f"```\n{CALL}\n```",
        f"  \n{CALL}",
        f"{CALL} and then some words",
        '{"function": {"name": "read", "arguments": {"path": "a.py"}}}',
        '{"type": "function", "function": {"name": "read", "parameters": {"path": "a.py"}}}',
        '{"name": "read", "arguments": "{\\"path\\": \\"a.py\\"}"}',
        '{"name": "read", "parameters": {"path": "a.py"}}',
        f'```json\n{{"name": "unknown", "arguments": {{}}}}\n```\n```json\n{CALL}\n```',
        f"```json\n{{broken\n```\n<tool_call>{CALL}",
    ],
)
def test_calls_in_every_wrapper_are_read(text: str) -> None:
    assert arguments_in(text) == {"path": "a.py"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The answer is {x}.",
        "Call read with a.py.",
        '{"name": "delete", "arguments": {}}',
        '{"name": ["read"], "arguments": {}}',
        '{"name": "read", "arguments": ["a.py"]}',
        '{"name": "read", "arguments": "no JSON"}',
        '{"name": "read", "arguments": null}',
        '<tool_call>\n{"name": "read", "arguments": {"path": "a.p',
        "<tool_call>\n[1, 2]",
        '{"name": "read", "arguments": {"start": NaN}}',
        '{"name": "read", "arguments": {"start": 1e999}}',
        '{"name": "read", "arguments": {"start": ' + "9" * 5000 + "}}",
        "<tool_call>" + '{"a":' * 100_000,
        "<tool_call>" + '{"name": "read", "arguments": {"path": ' + "[" * 100_000,
        f"Some words before {CALL}",
    ],
)
def test_everything_else_is_no_call(text: str) -> None:
    assert parse(text, TOOLS) is None


def test_a_call_without_arguments_is_a_call() -> None:
    assert arguments_in('{"name": "read"}') == {}


def test_raw_line_ends_inside_strings_are_understood() -> None:
    assert arguments_in('{"name": "read", "arguments": {"path": "a\nb"}}') == {"path": "a\nb"}


def test_half_surrogates_do_not_leave_the_reader() -> None:
    assert arguments_in('{"name": "read", "arguments": {"path": "\\ud800x", "é": "\\ud83d\\udc1e"}}') == {
        "path": "?x",
        "é": "🐞",
    }


def test_equal_calls_have_equal_identities() -> None:
    one = parse('{"name": "read", "arguments": {"path": "a", "start": 1}}', TOOLS)
    two = parse('<tools>{"name": "read", "arguments": {"start": 1, "path": "a"}}', TOOLS)
    other = parse('{"name": "read", "arguments": {"path": "a", "start": 2}}', TOOLS)
    assert one is not None
    assert two is not None
    assert other is not None
    assert one.identity == two.identity != other.identity


@pytest.mark.parametrize("text", ["", " ", "<", "<tool", "<tool_call>{", "```", "```js", "```json\n{", "{", '{"name'])
def test_a_beginning_that_may_become_a_call_is_held_back(text: str) -> None:
    assert may_be_call(text)


@pytest.mark.parametrize("text", ["T", "The", "< 3", "```py", "`{`", "[1]", "<toolbar>"])
def test_a_beginning_that_cannot_become_a_call_is_not(text: str) -> None:
    assert not may_be_call(text)


def constraint_of(lark: str) -> Constraint:
    return GrammarCompiler(ByteVocabulary()).start(ToolCallGrammar(TRIGGER, lark, 0, forced=True))


def accepts(lark: str, text: str) -> bool:
    """Return True if the grammar lets exactly ``text`` be written, in whatever tokens it allows."""
    constraint, vocabulary, rest = constraint_of(lark), ByteVocabulary(), text.encode()
    while rest and not constraint.is_complete:
        allowed = constraint.allowed()
        assert allowed is not None
        pieces = {token: vocabulary.piece(token) for token in range(vocabulary.size) if allowed[token]}
        fitting = [token for token, piece in pieces.items() if piece and rest.startswith(piece)]
        if not fitting:
            return False
        token = max(fitting, key=lambda token: len(pieces[token]))
        constraint.commit(token)
        rest = rest[len(pieces[token]) :]
    return constraint.is_complete and not rest


def written(name: str, arguments: dict[str, object]) -> str:
    return f"\n{json.dumps({'name': name, 'arguments': arguments}, ensure_ascii=False)}\n{CALL_END}"


HOSTILE = (
    "plain.py",
    "with space.py",
    'it\'s "quoted".py',
    "back\\slash.py",
    "ünïcödé/日本語/🐞.py",
    "a{b}|c*.py",
    "tab\there.py",
    "%json.py",
    "</tool_call>.py",
)


@pytest.mark.parametrize("path", HOSTILE)
def test_a_real_path_can_be_written_whatever_its_name(path: str) -> None:
    lark = tool_grammar(Registry.load().manifests, HOSTILE, ["."])
    assert accepts(lark, written("read", {"path": path}))


@pytest.mark.parametrize("path", ["plain.p", "other.py", "", "../plain.py", "plain.py "])
def test_a_path_that_does_not_exist_cannot_be_written(path: str) -> None:
    lark = tool_grammar(Registry.load().manifests, HOSTILE, ["."])
    assert not accepts(lark, written("read", {"path": path}))


def test_the_example_of_every_manifest_can_be_written() -> None:
    manifests = Registry.load().manifests
    paths = sorted({str(value) for each in manifests for value in each.example.values()})
    lark = tool_grammar(manifests, paths, ["."])
    for manifest in manifests:
        assert accepts(lark, written(manifest.name, dict(manifest.example))), manifest.name


def test_a_tool_that_does_not_exist_cannot_be_called() -> None:
    lark = tool_grammar(Registry.load().manifests, ["a.py"], ["."])
    assert not accepts(lark, written("delete", {"path": "a.py"}))


def test_names_that_are_no_text_are_left_out_of_the_grammar() -> None:
    lark = tool_grammar(Registry.load().manifests, ["bad\udce9.py", "good.py"], ["."])
    assert accepts(lark, written("read", {"path": "good.py"}))


def test_a_repository_without_files_has_a_grammar() -> None:
    assert constraint_of(tool_grammar(Registry.load().manifests, [], ["."])).allowed() is not None


def many(count: int) -> list[str]:
    return [f"src/package_{index % 50}/sub/module_{index}_é'\".py" for index in range(count)]


@pytest.mark.parametrize("count", [5_000, 100_000])
def test_the_grammar_of_a_large_repository_is_ready_in_time(count: int) -> None:
    started = time.process_time()
    lark = tool_grammar(Registry.load().manifests, many(count), ["."])
    compiler = GrammarCompiler(ByteVocabulary())
    compiler.start(ToolCallGrammar(TRIGGER, lark, 0, forced=True)).allowed()
    assert time.process_time() - started < MOST_COMPILE_S


def test_with_too_many_files_a_path_is_any_short_string() -> None:
    lark = tool_grammar(Registry.load().manifests, many(5_001), ["."])
    assert accepts(lark, written("read", {"path": "src/new.py"}))
    assert not accepts(lark, written("read", {"path": "x" * 121}))


@pytest.mark.parametrize("path", HOSTILE)
def test_an_opening_names_a_file_that_was_read(path: str) -> None:
    lark = opening_grammar("", HOSTILE)
    assert accepts(lark, f"In `{path}`,")
    assert not accepts(lark, "In `other.py`,")


@pytest.mark.parametrize(
    ("question", "opening"),
    [
        ("Where is it?", "In `a.py`,"),
        ("Où se trouve la logique ?", "Dans `a.py`,"),
    ],
)
def test_an_opening_is_in_the_language_of_the_question(question: str, opening: str) -> None:
    lark = opening_grammar("", ["a.py"], language_of(question))
    assert accepts(lark, opening)
    assert ENGLISH is language_of(question) or not accepts(lark, "In `a.py`,")


def test_an_opening_may_be_a_call_while_calls_are_allowed() -> None:
    lark = opening_grammar(tool_grammar(Registry.load().manifests, ["a.py"], ["."]), ["a.py"])
    call = written("read", {"path": "a.py"})
    assert accepts(lark, f"{TRIGGER}{call}")
    assert accepts(lark, "In `a.py`,")
    assert not accepts(opening_grammar("", ["a.py"]), f"{TRIGGER}{call}")


def test_a_manifest_of_the_users_may_have_any_schema() -> None:
    manifest = Manifest(
        name="deploy",
        description="Deploy",
        parameters={
            "type": "object",
            "properties": {"where": {"type": "string", "enum": ['a"b', "ü"]}, "count": {"type": "integer"}},
            "required": ["where"],
        },
        permission="command",
        example={"where": "ü"},
    )
    lark = tool_grammar([manifest], [], [])
    assert accepts(lark, written("deploy", {"where": 'a"b', "count": 3}))
    assert not accepts(lark, written("deploy", {"count": 3}))
