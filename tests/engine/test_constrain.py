import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from khepri.agent.protocol import CALL_END, TRIGGER, parse, tool_grammar
from khepri.engine.backend import LoadOptions, Vocabulary
from khepri.engine.backends.llama_cpp import LlamaCppBackend
from khepri.engine.constrain import Completion, Constraint, GrammarCompiler
from khepri.engine.request import ToolCallGrammar
from khepri.errors import KhepriError
from khepri.tools.registry import Registry
from tests.support.scripted_backend import END, TOOL_CALL, ByteVocabulary

FILES = (
    "src/app.py",
    "src/app_test.py",
    'odd "name".py',
    "tab\there.py",
    "back\\slash.py",
    "日本/é 🐞.py",
    "</tool_call>.md",
)
FOLDERS = ("src", "日本")
BYTES = ByteVocabulary()


@pytest.fixture(scope="module")
def vocabulary(tiny_model: Path) -> Iterator[Vocabulary]:
    backend = LlamaCppBackend(LoadOptions(tiny_model, 256, 1))
    yield backend.vocabulary
    backend.close()


@pytest.fixture(scope="module", params=["byte vocabulary", "the model's vocabulary"])
def compiler(request: pytest.FixtureRequest, vocabulary: Vocabulary) -> tuple[GrammarCompiler, Vocabulary]:
    chosen = vocabulary if request.param == "the model's vocabulary" else BYTES
    return GrammarCompiler(chosen), chosen


@pytest.fixture(scope="module")
def byte_compiler() -> GrammarCompiler:
    return GrammarCompiler(BYTES)


def grammar(*, window: int = 8, forced: bool = False) -> ToolCallGrammar:
    lark = tool_grammar(Registry.load().manifests, FILES, FOLDERS)
    return ToolCallGrammar(TRIGGER, lark, window, forced)


def call(name: str, **arguments: object) -> str:
    body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"\n{body}\n{CALL_END}"


def may_come(constraint: Constraint, token: int, size: int = ByteVocabulary.size) -> bool:
    return bool(np.isfinite(constraint.restrict(np.zeros(size, dtype=np.float32))[token]))


def say(constraint: Constraint, tokens: Sequence[int], size: int = ByteVocabulary.size) -> int:
    """Commit tokens as long as they are allowed, and return how many were."""
    for count, token in enumerate(tokens):
        if constraint.is_complete or not may_come(constraint, token, size):
            return count
        constraint.commit(token)
    return len(tokens)


@pytest.mark.parametrize("path", FILES)
def test_a_call_with_a_path_of_any_characters_is_complete_at_its_end_and_never_before(
    compiler: tuple[GrammarCompiler, Vocabulary], path: str
) -> None:
    constraint = compiler[0].start(grammar(forced=True))
    text = call("read", path=path)
    tokens = compiler[1].tokenize(text)
    for token in tokens:
        assert not constraint.is_complete
        allowed = constraint.allowed()
        assert allowed is not None
        assert allowed[token]
        constraint.commit(token)
    assert constraint.is_complete
    written = parse(TRIGGER + text, ["read"])
    assert written is not None
    assert written.arguments == {"path": path}


@pytest.mark.parametrize(
    "text",
    [
        call("remove", path="src/app.py"),
        call("read", path="src/none.py"),
        call("read", path="src"),
        call("read", path="../src/app.py"),
        call("read"),
        call("read", path="src/app.py", extra=1),
        call("read", path="src/app.py", start=0),
        call("read", path="src/app.py", start="1"),
        call("search", pattern=""),
        call("search", pattern="x", context=11),
        "free text",
        "",
    ],
)
def test_a_call_that_the_tools_do_not_take_cannot_be_written(byte_compiler: GrammarCompiler, text: str) -> None:
    constraint = byte_compiler.start(grammar(forced=True))
    tokens = BYTES.tokenize(text)
    assert say(constraint, tokens) < len(tokens) or not tokens
    assert not constraint.is_complete


def test_free_text_is_not_constrained(byte_compiler: GrammarCompiler) -> None:
    constraint = byte_compiler.start(grammar(window=100))
    tokens = BYTES.tokenize("I will look. <tool_cal <tool")
    assert say(constraint, tokens) == len(tokens)
    assert not constraint.is_active
    assert constraint.allowed() is None


@pytest.mark.parametrize(
    "opening",
    [
        [TOOL_CALL],
        list(TRIGGER.encode()),
        [*b"Let me see: ", TOOL_CALL],
        [*b"<<tool_<tool_call", ord(">")],
        [*"é<tool_call>".encode()],
    ],
    ids=["one token", "byte by byte", "after text", "after a false start", "after a split character"],
)
def test_the_trigger_wakes_the_constraint_however_it_is_split(
    byte_compiler: GrammarCompiler, opening: list[int]
) -> None:
    constraint = byte_compiler.start(grammar(window=100))
    assert say(constraint, opening[:-1]) == len(opening) - 1
    assert constraint.allowed() is None
    assert say(constraint, opening[-1:]) == 1
    assert constraint.is_active
    text = BYTES.tokenize(call("outline", path="src"))
    assert say(constraint, text) == len(text)
    assert constraint.is_complete


class _Joined(ByteVocabulary):
    """A vocabulary with a token that holds the end of the trigger and the beginning of the call."""

    size = ByteVocabulary.size + 2

    def piece(self, token: int, *, special: bool = False) -> bytes:
        index = token - ByteVocabulary.size
        return (b'call>\n{"na', b"call>!")[index] if index >= 0 else super().piece(token, special=special)


def test_a_token_over_the_edge_of_the_trigger_counts_as_the_beginning_of_the_call() -> None:
    vocabulary = _Joined()
    constraint = GrammarCompiler(vocabulary).start(grammar(window=100))
    rest = call("outline", path="src").removeprefix('\n{"na')
    tokens = [*b"<tool_", ByteVocabulary.size, *vocabulary.tokenize(rest)]
    assert say(constraint, tokens, vocabulary.size) == len(tokens)
    assert constraint.is_complete


def test_a_token_over_the_edge_that_begins_no_call_leaves_the_text_free_and_the_constraint_whole() -> None:
    vocabulary = _Joined()
    constraint = GrammarCompiler(vocabulary).start(grammar(window=100))
    assert say(constraint, [*b"<tool_", ByteVocabulary.size + 1], vocabulary.size) == 7
    assert not constraint.is_active
    tokens = [TOOL_CALL, *vocabulary.tokenize(call("outline", path="src"))]
    assert say(constraint, tokens, vocabulary.size) == len(tokens)
    assert constraint.is_complete


@pytest.mark.parametrize("window", [0, 1, 5])
def test_after_the_window_no_call_can_start(byte_compiler: GrammarCompiler, window: int) -> None:
    constraint = byte_compiler.start(grammar(window=window))
    assert say(constraint, [ord("x")] * window) == window
    assert not may_come(constraint, TOOL_CALL)
    assert say(constraint, list(TRIGGER.encode())) == len(TRIGGER) - 1
    assert not constraint.is_active
    assert say(constraint, [*b" > and on"]) == 9


def test_within_the_window_a_call_may_start(byte_compiler: GrammarCompiler) -> None:
    constraint = byte_compiler.start(grammar(window=3))
    assert say(constraint, [*b"xx", TOOL_CALL]) == 3
    assert constraint.is_active


def test_no_end_token_can_break_off_a_call(compiler: tuple[GrammarCompiler, Vocabulary]) -> None:
    constraint = compiler[0].start(grammar(forced=True))
    for token in compiler[1].tokenize(call("search", pattern="<|im_end|> x")):
        allowed = constraint.allowed()
        assert allowed is not None
        assert not any(allowed[end] for end in compiler[1].end_ids)
        constraint.commit(token)
    assert constraint.is_complete


class _WordyEnd(ByteVocabulary):
    """A vocabulary whose file declares its end tokens as ordinary text, and names no single one."""

    eos_id = None
    end_ids = frozenset({END, TOOL_CALL + 1})

    def piece(self, token: int, *, special: bool = False) -> bytes:
        return b"</s>" if token in self.end_ids else super().piece(token, special=special)


def test_an_end_token_that_looks_like_text_cannot_break_off_a_string() -> None:
    constraint = GrammarCompiler(_WordyEnd()).start(grammar(forced=True))
    text = BYTES.tokenize('\n{"name": "search", "arguments": {"pattern": "a')
    assert say(constraint, text) == len(text)
    allowed = constraint.allowed()
    assert allowed is not None
    assert allowed[ord("<")]
    assert not any(allowed[end] for end in _WordyEnd.end_ids)


class _Endless(ByteVocabulary):
    eos_id = None
    end_ids = frozenset()


def test_a_model_without_an_end_token_is_refused_in_words() -> None:
    with pytest.raises(KhepriError, match="end-of-generation"):
        GrammarCompiler(_Endless())


def test_a_token_that_was_not_allowed_is_an_error(byte_compiler: GrammarCompiler) -> None:
    constraint = byte_compiler.start(grammar(forced=True))
    with pytest.raises(KhepriError):
        constraint.commit(ord("x"))
    assert not constraint.is_complete
    with pytest.raises(KhepriError):
        constraint.allowed()


def test_a_grammar_that_is_none_is_refused_and_nothing_is_printed(
    byte_compiler: GrammarCompiler, capfd: pytest.CaptureFixture[str]
) -> None:
    for lark in ("start: nothing", "start: (", "", "start: %json {"):
        with pytest.raises(KhepriError, match="grammar"):
            byte_compiler.start(ToolCallGrammar(TRIGGER, lark, 1))
    constraint = byte_compiler.start(grammar(forced=True))
    with pytest.raises(KhepriError):
        constraint.commit(ord("x"))
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_two_constraints_of_one_compiler_do_not_touch(byte_compiler: GrammarCompiler) -> None:
    first, second = byte_compiler.start(grammar(forced=True)), byte_compiler.start(grammar(forced=True))
    text = BYTES.tokenize(call("outline", path="src"))
    assert say(first, text) == len(text)
    assert not second.is_complete
    assert say(second, text) == len(text)


def test_a_mask_is_the_callers_to_change(byte_compiler: GrammarCompiler) -> None:
    constraint = byte_compiler.start(grammar(forced=True))
    mask = constraint.allowed()
    assert mask is not None
    before = mask.copy()
    mask[:] = False
    again = constraint.allowed()
    assert again is not None
    assert np.array_equal(again, before)


@pytest.mark.parametrize("name", ["caf\udce9.py", "line\nbreak.py", "nul\0.py", "x" * 4000])
def test_a_repository_with_strange_names_has_a_grammar_all_the_same(byte_compiler: GrammarCompiler, name: str) -> None:
    lark = tool_grammar(Registry.load().manifests, [name, "src/app.py"], [])
    constraint = byte_compiler.start(ToolCallGrammar(TRIGGER, lark, 1, forced=True))
    tokens = BYTES.tokenize(call("read", path="src/app.py"))
    assert say(constraint, tokens) == len(tokens)
    assert constraint.is_complete


def test_a_token_that_would_complete_the_trigger_after_the_window_is_no_choice_however_it_is_cut() -> None:
    vocabulary = _Joined()
    for said in range(len(TRIGGER)):
        constraint = GrammarCompiler(vocabulary).start(grammar(window=0))
        beginning = TRIGGER.encode()[:said]
        assert say(constraint, list(beginning), vocabulary.size) == said
        row = constraint.restrict(np.zeros(vocabulary.size, dtype=np.float32))
        for token in range(vocabulary.size):
            completes = TRIGGER.encode() in beginning + vocabulary.piece(token)
            assert np.isfinite(row[token]) != completes


def test_a_row_that_may_go_on_in_any_way_is_handed_back_and_others_are_left_as_they_are(
    byte_compiler: GrammarCompiler,
) -> None:
    row = np.zeros(BYTES.size, dtype=np.float32)
    assert byte_compiler.start(grammar(window=3)).restrict(row) is row
    assert byte_compiler.start(grammar(window=0)).restrict(row) is not row
    assert byte_compiler.start(grammar(forced=True)).restrict(row) is not row
    assert not row.any()


def test_forced_tokens_are_the_canonical_ones_and_the_only_ones_allowed(
    compiler: tuple[GrammarCompiler, Vocabulary],
) -> None:
    constraint = compiler[0].start(grammar(forced=True))
    tokens = compiler[1].tokenize(call("read", path="src/app.py", symbol="App.run"))
    forced_tokens, place = 0, 0
    while not constraint.is_complete:
        forced = constraint.forced()
        assert list(forced) == tokens[place : place + len(forced)]
        for token in forced or tokens[place : place + 1]:
            allowed = constraint.allowed()
            assert allowed is not None
            assert allowed[token]
            assert not forced or allowed.sum() == 1
            constraint.commit(token)
            place += 1
        forced_tokens += len(forced)
    assert place == len(tokens)
    assert forced_tokens > len(tokens) / 3


def test_nothing_is_forced_in_free_text_and_after_the_end(byte_compiler: GrammarCompiler) -> None:
    constraint = byte_compiler.start(grammar(window=3))
    assert constraint.forced() == ()
    text = [TOOL_CALL, *BYTES.tokenize(call("outline", path="src"))]
    assert say(constraint, text) == len(text)
    assert constraint.is_complete
    assert constraint.forced() == ()


def test_a_draft_is_cut_where_the_grammar_parts_from_it_and_completed_with_what_it_forces(
    byte_compiler: GrammarCompiler,
) -> None:
    constraint = byte_compiler.start(grammar(forced=True))
    text = BYTES.tokenize(call("outline", path="src"))
    assert say(constraint, text[:20]) == 20
    whole = constraint.complete(text[20:], 100)
    assert list(whole.tokens) == text[20:]
    # Nothing but the name of the parameter can follow, and a path can go on in more than one way.
    assert {True, False} == set(whole.certain)
    assert constraint.complete([*text[20:24], 7, 7], 100).tokens[:4] == tuple(text[20:24])
    assert constraint.complete(text[20:], 5) == Completion(whole.tokens[:5], whole.certain[:5])
    # Asking changes nothing.
    assert say(constraint, text[20:]) == len(text) - 20
    assert constraint.complete([7], 100) == Completion(())
    assert byte_compiler.start(grammar(window=0)).complete([7, 8, 9], 2) == Completion((7, 8))


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_what_completes_a_draft_is_what_plain_decoding_would_be_left_with(
    byte_compiler: GrammarCompiler, data: st.DataObject
) -> None:
    constraint = byte_compiler.start(grammar(forced=True))
    text = BYTES.tokenize(call("outline", path="src"))
    start = data.draw(st.integers(0, len(text)))
    assert say(constraint, text[:start]) == start
    guess = text[start : start + data.draw(st.integers(0, 30))] + data.draw(st.lists(st.integers(32, 126), max_size=3))
    completion = constraint.complete(guess, data.draw(st.integers(0, 60)))
    for token, is_certain in zip(completion.tokens, completion.certain, strict=True):
        allowed = constraint.allowed()
        assert allowed is not None
        assert allowed[token]
        assert not is_certain or allowed.sum() == 1
        constraint.commit(token)


class QuotingVocabulary(ByteVocabulary):
    """A few longer tokens around quotes, as real vocabularies have them."""

    words = (b' "', b' "x', b'":', b'",', b'"}')
    size = ByteVocabulary.size + len(words)

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        tokens: list[int] = []
        for byte in text.encode():
            joined = self.piece(tokens[-1]) + bytes([byte]) if tokens else b""
            if joined in self.words:
                tokens[-1] = ByteVocabulary.size + self.words.index(joined)
            else:
                tokens.append(byte)
        return tokens

    def piece(self, token: int, *, special: bool = False) -> bytes:
        own = token - ByteVocabulary.size
        return self.words[own] if 0 <= own < len(self.words) else super().piece(token, special=special)


def test_a_text_that_must_come_is_likely_in_its_usual_tokens_unless_they_join_with_what_follows() -> None:
    vocabulary = QuotingVocabulary()
    lark = 'start: "a: " "\\"" /[a-z]*/ "\\"" (","|"}") "z"'
    constraint = GrammarCompiler(vocabulary).start(ToolCallGrammar(TRIGGER, lark, 8, forced=True))
    while forced := constraint.forced():
        for token in forced:
            constraint.commit(token)
    quote, comma = vocabulary.tokenize(' "'), vocabulary.tokenize('",')
    # Together with an x they would be one token, which the grammar allows as well.
    assert constraint.likely() == tuple(quote)
    assert constraint.likely() == tuple(quote), "asking changes nothing"
    constraint.commit(quote[0])
    assert constraint.likely() == (), "any letter may come"
    constraint.commit(ord("b"))
    assert constraint.likely() == ()
    constraint.commit(comma[0])
    assert constraint.forced() or constraint.likely() == (ord("z"),)


def test_nothing_is_likely_in_free_text(byte_compiler: GrammarCompiler) -> None:
    assert byte_compiler.start(grammar(window=3)).likely() == ()
