import pytest

from khepri.errors import ToolError
from khepri.tools.arguments import check_arguments
from khepri.tools.base import Arguments, JsonValue, Manifest

MANIFEST = Manifest(
    name="look",
    description="Look",
    permission="read",
    parameters={
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "depth": {"type": "integer", "minimum": 1, "maximum": 9},
            "ratio": {"type": "number"},
            "deep": {"type": "boolean"},
            "names": {"type": "array", "items": {"type": "string"}},
            "action": {"type": "string", "enum": ["log", "show"]},
        },
        "required": ["path"],
    },
    example={"path": "src"},
)


@pytest.mark.parametrize(
    ("given", "understood"),
    [
        ({}, {}),
        ({"depth": "3"}, {"depth": 3}),
        ({"depth": 3.0}, {"depth": 3}),
        ({"depth": [3]}, {"depth": 3}),
        ({"depth": 0}, {"depth": 1}),
        ({"depth": 99}, {"depth": 9}),
        ({"ratio": "0.5"}, {"ratio": 0.5}),
        ({"deep": "True"}, {"deep": True}),
        ({"deep": 0}, {"deep": False}),
        ({"names": "a"}, {"names": ["a"]}),
        ({"names": ["a", 1]}, {"names": ["a", "1"]}),
        ({"action": "LOG "}, {"action": "log"}),
        ({"action": ["log"]}, {"action": "log"}),
        ({"action": None, "names": ["\ud83e\udeb2 \ud83e"]}, {"names": ["🪲 \ufffd"]}),
        ({"depth": None, "action": "", "names": []}, {}),
    ],
)
def test_slips_are_understood(given: Arguments, understood: Arguments) -> None:
    assert check_arguments(MANIFEST, {"path": "x", **given}) == {"path": "x", **understood}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "look needs path"),
        ({"path": None}, "look needs path"),
        ({"path": "x", "pth": "y"}, "no argument pth"),
        ({"path": {"a": 1}}, "must be a text"),
        ({"path": True}, "must be a text"),
        ({"path": ["a", "b"]}, "must be a text"),
        ({"path": "x", "depth": "many"}, "must be a number"),
        ({"path": "x", "depth": "nan"}, "must be a number"),
        ({"path": "x", "depth": "inf"}, "must be a number"),
        ({"path": "x", "depth": True}, "must be a number"),
        ({"path": "x", "deep": "perhaps"}, "must be true or false"),
        ({"path": "x", "deep": 1.5}, "must be true or false"),
        ({"path": "x", "action": "push"}, "cannot be 'push'"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_advice(given: dict[str, JsonValue], words: str) -> None:
    with pytest.raises(ToolError, match=words) as caught:
        check_arguments(MANIFEST, given)
    assert caught.value.hint


def test_advice_names_the_nearest_argument_and_an_example() -> None:
    with pytest.raises(ToolError) as caught:
        check_arguments(MANIFEST, {"path": "x", "dept": 1})
    assert caught.value.hint.startswith("did you mean depth?")
    with pytest.raises(ToolError) as caught:
        check_arguments(MANIFEST, {})
    assert caught.value.hint == "for example look(path='src')"
