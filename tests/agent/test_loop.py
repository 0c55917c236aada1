"""The loop over a backend that says what a test wants: calls, answers, and everything a small model does wrong."""

import threading
import time
from pathlib import Path

import pytest

from khepri.agent.events import (
    AnswerDelta,
    Event,
    Finished,
    Notice,
    PrefillProgress,
    Thinking,
    ToolFinished,
    ToolStarted,
)
from khepri.agent.protocol import ToolCall
from khepri.errors import ContextFullError, DecodeError, StepLimitError
from tests.support.scripted_backend import TOOL_CALL
from tests.support.talk import Conversation, call

# The promise is 300 ms, and is held to it with real models; this only tells a cancel from a wait on a busy machine.
MOST_CANCEL_S = 1.0
LIST = call("list", path=".")
READ = call("read", path="src/app.py")
LOOK = ToolCall("read", {"path": "src/app.py"})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text("def retry():\n    return 3\n", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("nothing\n", encoding="utf-8")
    return tmp_path


def answer_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, AnswerDelta))


def tools_of(finished: Finished) -> list[str]:
    return [step.tool for step in finished.steps]


def test_an_answer_without_tools_streams_and_ends(root: Path) -> None:
    with Conversation(root, ["It is in the code."], use_tools=False) as talk:
        finished = talk.run()
    assert finished.answer == "It is in the code." == answer_of(talk.events)
    assert (finished.stop_reason, finished.steps) == ("answered", ())
    assert finished.usage.completion_tokens == len("It is in the code.") + 1


def test_a_call_is_run_and_its_result_leads_to_the_answer(root: Path) -> None:
    with Conversation(root, [READ, "In `src/app.py`, it is `retry`."]) as talk:
        finished = talk.run()
    assert tools_of(finished) == ["read"]
    assert finished.answer == "In `src/app.py`, it is `retry`." == answer_of(talk.events)
    assert "return 3" in finished.steps[0].text
    kinds = [type(event) for event in talk.events if isinstance(event, ToolStarted | ToolFinished | AnswerDelta)]
    assert kinds[:3] == [ToolStarted, ToolFinished, AnswerDelta]


@pytest.mark.parametrize(
    ("question", "last_words", "answer"),
    [
        ("Where is the limit?", "call one more tool instead.", "In `src/app.py`, here."),
        ("Où se trouve la limite ?", "call one more tool instead. Answer in French.", "Dans `src/app.py`, voici."),
    ],
)
def test_the_model_is_told_last_in_which_language_to_answer_if_that_is_not_english(
    root: Path, question: str, last_words: str, answer: str
) -> None:
    with Conversation(root, [READ, answer], question=question) as talk:
        talk.run()
        told = b"".join(talk.worker.vocabulary.piece(token) for token in talk.prompt.ids).decode()
    _, reminder, rest = told.partition(f"The question was: {question}")
    assert reminder
    assert rest.partition("<|im_end|>")[0].partition("assistant")[0].rstrip().endswith(last_words)


def test_a_call_that_goes_in_circles_is_no_answer(root: Path) -> None:
    circles = call("search", pattern="x").replace('"x"', '"' + "(a|b)+.*" * 14)
    with Conversation(root, [circles, "It is there."], max_tokens=100) as talk:
        finished = talk.run()
    assert finished.answer == answer_of(talk.events) == "It is there."


def test_nothing_of_a_call_is_ever_shown_as_an_answer(root: Path) -> None:
    with Conversation(root, [READ, "In `src/app.py`, done."]) as talk:
        talk.run()
    assert "tool_call" not in answer_of(talk.events)


@pytest.mark.parametrize(
    "written",
    [
        f"I look. {READ}",
        '<tools>{"name": "read", "arguments": {"path": "src/app.py"}}</tools>',
        '```json\n{"name": "read", "arguments": {"path": "src/app.py"}}\n```',
        '{"name": "read", "arguments": {"path": "src/app.py"}}',
    ],
    ids=["preface", "tools", "fence", "bare"],
)
def test_every_wrapper_is_a_call(root: Path, written: str) -> None:
    with Conversation(root, [written, "In `src/app.py`, found."]) as talk:
        finished = talk.run()
    assert tools_of(finished) == ["read"]
    assert finished.answer == answer_of(talk.events) == "In `src/app.py`, found."


def test_a_preface_is_held_back_until_it_is_known_to_be_the_answer(root: Path) -> None:
    text = "This text is longer than what may come before a call, and so it is the answer."
    with Conversation(root, [text], seconds_per_token=0.005) as talk:
        finished = talk.run()
    first = next(event for event in talk.events if isinstance(event, AnswerDelta))
    assert len(first.text) > 32
    assert any(isinstance(event, Thinking) for event in talk.events)
    assert answer_of(talk.events) == text == finished.answer


def test_calls_made_in_the_models_name_come_first(root: Path) -> None:
    with Conversation(root, ["", "In `src/app.py`, three times."]) as talk:
        finished = talk.run([LOOK])
    assert tools_of(finished) == ["read"]
    assert finished.answer == "In `src/app.py`, three times."
    assert talk.prompt.ids.count(TOOL_CALL) == 1


def test_after_reading_an_answer_begins_with_a_file_that_was_read(root: Path) -> None:
    with Conversation(root, [READ, "The answer."]) as talk, pytest.raises(StepLimitError):
        talk.run()
    assert answer_of(talk.events) == "In `src/app.py`,"


def test_a_model_that_only_calls_is_told_to_answer_and_does(root: Path) -> None:
    calls = [call("list", path="."), call("list", path="src"), call("read", path="notes.txt")]
    with Conversation(root, [*calls, "In `notes.txt`, nothing."], steps=3) as talk:
        finished = talk.run()
    assert len(finished.steps) == 3
    assert finished.answer == "In `notes.txt`, nothing."


def test_a_model_that_writes_a_call_instead_of_its_answer_has_no_answer(root: Path) -> None:
    bare = '{"name": "list", "arguments": {"path": "src"}}'
    with Conversation(root, [LIST, bare], steps=1) as talk, pytest.raises(StepLimitError, match="after 1 step"):
        talk.run()
    assert answer_of(talk.events) == ""


def test_a_model_that_says_nothing_has_no_answer(root: Path) -> None:
    with Conversation(root, ["  \n"], use_tools=False) as talk, pytest.raises(StepLimitError):
        talk.run()


def test_a_model_that_falls_silent_after_the_file_it_had_to_name_has_no_answer(root: Path) -> None:
    with Conversation(root, ["", "In `src/app.py`,"]) as talk, pytest.raises(StepLimitError) as failure:
        talk.run([LOOK])
    assert "--steps" not in failure.value.hint


def test_the_same_call_again_is_refused_and_no_third_one_is_made(root: Path) -> None:
    with Conversation(root, [LIST, LIST, "It is listed above."], steps=8) as talk:
        finished = talk.run()
    assert [step.is_error for step in finished.steps] == [False, True]
    assert finished.steps[1].summary == "the same call again"
    assert finished.answer == "It is listed above."


def test_a_call_that_the_tool_refuses_becomes_an_observation(root: Path) -> None:
    with Conversation(root, [call("search", pattern="["), call("list", path="."), "It is there."]) as talk:
        finished = talk.run()
    assert tools_of(finished)[0] == "search"
    assert finished.stop_reason == "answered"


def test_half_a_call_is_no_answer_and_the_model_is_told_to_answer(root: Path) -> None:
    with Conversation(root, [READ, "It is there."], max_tokens=20) as talk:
        finished = talk.run()
    assert finished.answer == answer_of(talk.events) == "It is there."
    assert finished.steps == ()


def test_after_reading_a_call_has_room_whatever_the_answer_may_have(root: Path) -> None:
    with Conversation(root, ["", LIST, "In `src/app.py`, it is."], max_tokens=20) as talk:
        finished = talk.run([LOOK])
    assert tools_of(finished) == ["read", "list"]


def test_an_answer_has_no_more_tokens_than_allowed(root: Path) -> None:
    with Conversation(root, ["", "In `src/app.py`," + " word" * 50], max_tokens=40) as talk:
        finished = talk.run([LOOK])
    assert finished.stop_reason == "max_tokens"
    assert finished.usage.completion_tokens == 40
    assert finished.answer == answer_of(talk.events)


def test_an_answer_that_goes_in_circles_is_stopped_and_said_so(root: Path) -> None:
    reply = "Here is the code again. " * 80
    # The loop looks thirty times a second: the answer has to take longer than a few of its looks.
    with Conversation(root, [reply], max_tokens=1500, use_tools=False, seconds_per_token=0.002) as talk:
        finished = talk.run()
    assert finished.stop_reason == "loop"
    assert finished.usage.completion_tokens < 1500
    assert finished.notices == ("the model began to repeat itself and was stopped",)
    assert Notice(finished.notices[0], is_warning=True) in talk.events


def test_a_cancel_before_the_first_pass_ends_at_once(root: Path) -> None:
    with Conversation(root, ["never said"], use_tools=False) as talk:
        talk.loop.cancel()
        finished = talk.run()
    assert (finished.stop_reason, finished.answer) == ("interrupted", "")


def test_a_cancel_during_the_prefill_ends_at_once(root: Path) -> None:
    with Conversation(root, ["never said"], use_tools=False, question="x" * 500, seconds_per_token=0.05) as talk:
        took_s = cancel_when(talk, lambda: any(isinstance(event, PrefillProgress) for event in talk.events))
    assert took_s < MOST_CANCEL_S


def test_a_cancel_during_the_answer_keeps_what_was_said(root: Path) -> None:
    with Conversation(root, ["A long answer. " * 30], use_tools=False, seconds_per_token=0.01) as talk:
        took_s = cancel_when(talk, lambda: "answer" in answer_of(talk.events))
        answer = answer_of(talk.events)
    assert took_s < MOST_CANCEL_S
    assert answer.startswith("A long answer")


def test_a_cancel_in_the_middle_of_a_call_leaves_no_piece_of_it(root: Path) -> None:
    with Conversation(root, [READ], seconds_per_token=0.02) as talk:
        finished: list[Finished] = []
        cancel_when(talk, lambda: any(isinstance(event, Thinking) for event in talk.events), finished)
    assert (finished[0].stop_reason, finished[0].answer) == ("interrupted", "")
    assert answer_of(talk.events) == ""


def cancel_when(talk: Conversation, condition: object, outcome: list[Finished] | None = None) -> float:
    """Run the loop, cancel it once ``condition`` holds, and return how long it took to end."""
    assert callable(condition)
    finished = outcome if outcome is not None else []
    thread = threading.Thread(target=lambda: finished.append(talk.run()))
    thread.start()
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)
    started = time.monotonic()
    talk.loop.cancel()
    thread.join(20)
    took_s = time.monotonic() - started
    assert finished[0].stop_reason == "interrupted"
    return took_s


def test_a_nearly_full_context_is_answered_instead_of_looked_further(root: Path) -> None:
    with Conversation(root, ["It is not shown."], context_tokens=420) as talk:
        finished = talk.run([LOOK])
    assert (finished.answer, finished.steps) == ("It is not shown.", ())


def test_a_context_that_runs_full_in_the_answer_keeps_what_was_said(root: Path) -> None:
    with Conversation(root, ["word " * 100], use_tools=False, context_tokens=150, max_tokens=1000) as talk:
        finished = talk.run()
    assert finished.stop_reason == "context_full"
    assert len(finished.answer) > 40
    assert len(talk.prompt) <= 151


def test_a_prompt_that_fills_the_context_is_refused_with_exact_counts(root: Path) -> None:
    with Conversation(root, ["x"], use_tools=False, question="q" * 300, context_tokens=256) as talk:
        with pytest.raises(ContextFullError) as caught:
            talk.run()
        tokens = len(talk.prompt)
    assert caught.value.needed_tokens > tokens
    assert caught.value.context_tokens == 256
    assert "256" in caught.value.message


def test_a_failed_pass_is_a_typed_error_and_the_engine_goes_on(root: Path) -> None:
    with Conversation(root, ["It works."], use_tools=False) as talk:
        talk.backend.fail_at[len(talk.prompt) + 3] = DecodeError("the pass failed")
        with pytest.raises(DecodeError):
            talk.run()
        assert talk.run().answer == "It works."


def test_in_a_small_context_the_answers_share_leaves_room_for_what_is_looked_at(root: Path) -> None:
    with Conversation(root, ["", "In `src/app.py`, three."], context_tokens=1000, max_tokens=1024) as talk:
        finished = talk.run([LOOK])
    assert "return 3" in finished.steps[0].text


def test_as_many_files_are_looked_at_as_there_is_room_to_show(root: Path) -> None:
    names = ("a.py", "b.py", "c.py")
    for name in names:
        (root / name).write_text("v = 1\n", encoding="utf-8")
    with Conversation(root, ["", "In `a.py`, one."], context_tokens=850, max_tokens=1024) as talk:
        finished = talk.run([ToolCall("read", {"path": name}) for name in names])
    assert [step.arguments["path"] for step in finished.steps] == ["a.py", "b.py"]
    assert finished.notices == (
        "not looked at: c.py; the context has no room for it: ask about fewer files, or begin anew",
    )
    assert all("v = 1" in step.text for step in finished.steps)


@pytest.mark.parametrize(
    ("bounds", "reason"),
    [
        (
            {"steps": 2},
            "one question looks at 2 things at most (steps = 2): ask about the others in the next one, "
            "or raise steps (/config says where)",
        ),
        (
            {"observation_tokens": 200},
            "200 tokens are shown at once (observation_tokens), which is enough for 2: "
            "ask about the others in the next question, or raise it (/config says where)",
        ),
    ],
)
def test_where_a_setting_and_not_the_context_bounds_what_is_looked_at_the_setting_is_named(
    root: Path, bounds: dict[str, int], reason: str
) -> None:
    names = ("a.py", "b.py", "c.py")
    for name in names:
        (root / name).write_text("v = 1\n", encoding="utf-8")
    with Conversation(root, ["", "In `a.py`, one."], **bounds) as talk:  # type: ignore[arg-type]
        finished = talk.run([ToolCall("read", {"path": name}) for name in names])
    assert [step.arguments["path"] for step in finished.steps] == ["a.py", "b.py"]
    assert finished.notices == (f"not looked at: c.py; {reason}",)


def test_a_file_that_is_named_and_for_which_there_is_no_room_at_all_is_told(root: Path) -> None:
    with Conversation(root, ["It is not shown."], context_tokens=700, question="q" * 200) as talk:
        finished = talk.run([LOOK, ToolCall("read", {"path": "guessed.py", "start": 1, "end": 2})])
    assert not finished.steps
    assert finished.notices == (
        "not looked at: src/app.py; the context has no room for it: ask about fewer files, or begin anew",
    )


def test_a_look_without_room_for_a_line_says_so_and_is_not_answered_from(root: Path) -> None:
    (root / "src" / "app.py").write_text("value = 1" * 40 + "\n", encoding="utf-8")
    with Conversation(root, ["", "It is not shown."], context_tokens=800, max_tokens=1024) as talk:
        finished = talk.run([LOOK])
    assert finished.steps[0].summary == "no room for a line of src/app.py"
    assert finished.steps[0].is_error
    assert finished.answer == "It is not shown."


def test_what_is_looked_at_leaves_room_for_a_long_question_that_follows_it(root: Path) -> None:
    (root / "src" / "app.py").write_text("value = 1\n" * 100, encoding="utf-8")
    with Conversation(root, ["", "It is not shown."], context_tokens=1300) as talk:
        finished = talk.loop.run([LOOK], "scripted", 0.0, 0.0, untold="q" * 600)
    assert finished.answer == "It is not shown."
