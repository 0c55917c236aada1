"""The corpus is complete, the same every time, and made of texts that are what they claim to be."""

import ast
import itertools
import re
from pathlib import Path

import pytest

from khepri.agent.protocol import TRIGGER, parse
from khepri.assets import assets_root
from khepri.cli.bench.corpus import Item, TaskClass, load_corpus
from khepri.cli.bench.figures import PROMISED_RATIOS
from khepri.engine.constrain import GrammarCompiler
from tests.support.scripted_backend import TOOL_CALL, ByteVocabulary

BYTES = ByteVocabulary()
TEXTS = sorted((assets_root() / "prompts" / "bench").glob("*.md"))


@pytest.fixture(scope="module")
def corpus() -> tuple[Item, ...]:
    return load_corpus(BYTES)


def text_of(item: Item) -> str:
    return b"".join(BYTES.piece(token, special=True) for token in item.prompt).decode()


def test_every_class_of_work_is_there(corpus: tuple[Item, ...]) -> None:
    assert {item.class_ for item in corpus} == set(TaskClass)


def test_items_that_show_the_same_file_follow_one_another(corpus: tuple[Item, ...]) -> None:
    shown = [
        text.group() if (text := re.search(r"```python.*?```", text_of(item), re.DOTALL)) else "" for item in corpus
    ]
    assert len(list(itertools.groupby(filter(None, shown)))) == len(set(filter(None, shown)))


def test_the_brief_part_has_work_with_every_promise(corpus: tuple[Item, ...]) -> None:
    brief = {item.class_ for item in corpus if item.is_brief}
    assert brief < set(TaskClass)
    others = {PROMISED_RATIOS[each] for each in TaskClass if each is not TaskClass.DOCSTRING}
    assert {PROMISED_RATIOS[each] for each in brief} == others


def test_it_is_the_same_every_time(corpus: tuple[Item, ...]) -> None:
    assert load_corpus(BYTES) == corpus
    assert len({item.name for item in corpus}) == len(corpus)


def test_every_item_opens_the_turn_of_the_assistant(corpus: tuple[Item, ...]) -> None:
    for item in corpus:
        opening = "<|im_start|>assistant\n"
        assert text_of(item).endswith(opening + TRIGGER if item.grammar else opening)


def test_calls_alone_are_constrained_and_their_prompt_ends_with_the_trigger(corpus: tuple[Item, ...]) -> None:
    for item in corpus:
        is_call = item.class_ is TaskClass.TOOL_CALL
        assert (item.grammar is not None) == is_call
        assert (item.prompt[-1] == TOOL_CALL) == is_call


def test_the_grammar_holds_a_call_to_the_tools_and_to_the_listed_paths(corpus: tuple[Item, ...]) -> None:
    grammar = next(item.grammar for item in corpus if item.grammar)
    call = '{"name": "read", "arguments": {"path": "billing/payments/reconciliation.py"}}'
    constraint = GrammarCompiler(BYTES).start(grammar)
    for token in BYTES.tokenize(f"\n{call}\n</tool_call>"):
        assert (allowed := constraint.allowed()) is not None
        assert allowed[token]
        constraint.commit(token)
    assert constraint.is_complete
    assert parse(call, ["read"]) is not None
    assert "billing/payments/reconciliation.py" in grammar.lark
    assert "src/app.py" not in grammar.lark


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_the_python_in_the_texts_is_python(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    for block in blocks:
        assert ast.parse(block).body
    assert len(blocks) == text.count("```") // 2


def test_every_text_is_used(corpus: tuple[Item, ...]) -> None:
    assert {path.stem for path in TEXTS} == {item.name for item in corpus} | {"system", "system_with_tools", "files"}
