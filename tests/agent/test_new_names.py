"""The name that a task gives to what is to be written, and how the code is held to it."""

import pytest

from khepri.agent.new_names import new_function, opening_rule
from khepri.engine.constrain import GrammarCompiler
from khepri.engine.request import ToolCallGrammar
from tests.support.scripted_backend import ByteVocabulary


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("Add a method peek(self, count) to the class Buffer", "peek"),
        ("Section needs a method __len__(self) that counts its keys", "__len__"),
        ("Session needs a method close that returns 2", "close"),
        ("add a function called total to app.py", "total"),
        ("add a helper `split` to app.py", "split"),
        ("add a method parse_all to Reader", "parse_all"),
        ("add a method that returns 2 to Session", ""),
        ("add a method for closing to Session", ""),
        ("add a method returning that sum", ""),
        ("add a method open(self) to Session", ""),
        ("add a method first(self) and a method last(self) to Session", ""),
        ("fetch should raise an error", ""),
    ],
)
def test_a_new_name_is_what_a_task_says_outright_and_nobody_has(task: str, name: str) -> None:
    assert new_function(task, {"open", "send"}) == name


@pytest.mark.parametrize(
    ("code", "kind", "is_allowed"),
    [
        ("def peek(self):\n", "method", True),
        ("def peek[T](self: T) -> T:\n", "function", True),
        ("# Looks ahead.\n@final\nclass peek:\n", "class", True),
        ("class peek(Base):\n", "class", True),
        ("def peek(self):\n", "class", False),
        ('"""Look ahead."""\ndef peek(self):\n', "function", False),
        ("    async def peek(self):\n", "method", True),
        ("import os\n\n    @property\n    def peek(self):\n", "method", True),
        ("class Buffer:\n    def peek(self):\n", "method", False),
        ("    def __init__(self):\n", "method", False),
        ("    def peeking(self):\n", "method", False),
    ],
)
def test_code_begins_with_the_head_that_is_known(code: str, kind: str, is_allowed: bool) -> None:
    grammar = f"start: opening body\n{opening_rule('peek', kind)}\nbody: /(.|\\n)*/"
    vocabulary = ByteVocabulary()
    constraint = GrammarCompiler(vocabulary).start(ToolCallGrammar("<tool_call>", grammar, 0, forced=True))
    taken = True
    for token in vocabulary.tokenize(code):
        taken = taken and constraint.complete([token], 1).tokens == (token,)
        if taken:
            constraint.commit(token)
    assert taken is is_allowed
