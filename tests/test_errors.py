"""The tree of errors: every class is in the drawing, and every error carries its words."""

import copy
import inspect
import pickle
import re

import pytest

from khepri import errors
from khepri.errors import ContextFullError, KhepriError


def error_classes() -> list[type[KhepriError]]:
    return [value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, KhepriError)]


def drawn_tree() -> dict[str, str]:
    """Return the parent of each class as the module's docstring draws it."""
    parents, trail = {}, [""]
    for line in inspect.getdoc(errors).splitlines():  # type: ignore[union-attr]
        found = re.match(r"([ │├└─]*)([A-Z]\w+Error) ", line)
        if found:
            depth = len(found[1]) // 4 - 1
            del trail[depth + 1 :]
            parents[found[2]] = trail[depth]
            trail.append(found[2])
    return parents


def test_the_drawing_shows_every_error_beneath_its_parent() -> None:
    bases = {error.__name__: error.__bases__[0].__name__ for error in error_classes()}
    assert {name: parent or "Exception" for name, parent in drawn_tree().items()} == bases


@pytest.mark.parametrize("error", [error for error in error_classes() if not issubclass(error, ContextFullError)])
def test_every_error_keeps_its_message_and_its_hint(error: type[KhepriError]) -> None:
    raised = error("what happened", "what to do")
    assert (str(raised), raised.message, raised.hint) == ("what happened", "what happened", "what to do")
    assert error("alone").hint == ""


def test_a_full_context_keeps_the_exact_counts() -> None:
    raised = ContextFullError("too long", needed_tokens=9000, context_tokens=8192)
    assert (raised.needed_tokens, raised.context_tokens, raised.hint) == (9000, 8192, "")


def test_every_error_says_when_it_is_raised() -> None:
    assert all(inspect.getdoc(error) for error in error_classes())


@pytest.mark.parametrize("clone", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_survives_a_copy_and_a_process_boundary(clone: object) -> None:
    assert callable(clone)
    again = clone(KhepriError("what happened", "what to do"))
    assert (again.message, again.hint) == ("what happened", "what to do")
