from dataclasses import dataclass

from khepri.repo.delegation import followed
from khepri.repo.facts import Facts
from khepri.repo.symbols import outline


@dataclass(frozen=True)
class Stretch:
    path: str
    first_line: int = 1
    last_line: int = 40


AREA = "class Area:\n    def undo(self):\n        self.history.pop_undo()\n"
HISTORY = "class History:\n    def pop_undo(self):\n        return self.stack.pop()\n"
OTHER = "class Cart:\n    def pop_undo(self):\n        pass\n"


def order(texts: dict[str, str], *terms: str) -> list[str]:
    facts = {path: Facts(outline(path, text), {}) for path, text in texts.items()}
    return [place.path for place in followed([Stretch(path) for path in texts], facts, texts, terms)]


def test_what_is_called_comes_before_what_calls_it() -> None:
    assert order({"area.py": AREA, "history.py": HISTORY}, "undo") == ["history.py", "area.py"]


def test_a_place_that_stands_first_already_stays_there() -> None:
    assert order({"history.py": HISTORY, "area.py": AREA}, "undo") == ["history.py", "area.py"]


def test_a_call_whose_name_has_nothing_to_do_with_the_question_is_not_followed() -> None:
    assert order({"area.py": AREA, "history.py": HISTORY}, "save") == ["area.py", "history.py"]


def test_a_name_that_two_files_define_is_not_followed() -> None:
    assert order({"area.py": AREA, "history.py": HISTORY, "cart.py": OTHER}, "undo")[0] == "area.py"


def test_a_definition_is_no_call_and_a_class_no_function() -> None:
    texts = {"a.py": "def undo():\n    return Undo()\n", "b.py": "class Undo:\n    pass\n", "c.py": "def undo(): ...\n"}
    assert order(texts, "undo") == list(texts)


def test_only_what_is_shown_of_a_place_counts() -> None:
    texts = {"area.py": "\n" * 50 + AREA, "history.py": HISTORY}
    assert order(texts, "undo") == ["area.py", "history.py"]


def test_places_that_call_each_other_keep_one_order_and_all_of_them_stay() -> None:
    texts = {
        "a.py": "def undo_a():\n    undo_b()\n",
        "b.py": "def undo_b():\n    undo_a()\n",
        "c.py": "def other(): ...\n",
    }
    assert sorted(order(texts, "undo")) == sorted(texts)
    assert order(texts, "undo") == order(texts, "undo")
