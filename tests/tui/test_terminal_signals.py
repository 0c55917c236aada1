"""The terminal after signals that come close together."""

import pytest

from tests.tui.real_terminal import end_of


@pytest.mark.parametrize(("number", "code"), [("SIGTERM", 143), ("SIGHUP", 129)])
@pytest.mark.parametrize("pause_s", [0.0, 0.01, 0.03, 0.1])
def test_an_app_that_is_told_to_end_and_to_continue_ends_and_gives_the_terminal_back(
    number: str, code: int, pause_s: float
) -> None:
    ended, is_restored, written = end_of(f"send(signal.{number}, signal.SIGCONT, pause_s={pause_s})")
    assert ended == code, written
    assert is_restored
    assert written.rfind("\x1b[?1049l") > written.rfind("\x1b[?1049h")


@pytest.mark.parametrize("number", ["SIGTSTP", "SIGSTOP"])
def test_a_stopped_app_that_is_told_to_end_ends_when_it_continues_behind_the_shell(number: str) -> None:
    ended, is_restored, written = end_of(f"stop(signal.{number}); send(signal.SIGTERM, signal.SIGCONT)")
    assert ended == 143, written
    assert is_restored
    assert written.rfind("\x1b[?1049l") > written.rfind("\x1b[?1049h")


@pytest.mark.parametrize("number", ["SIGTSTP", "SIGSTOP"])
def test_a_stopped_app_that_hears_of_the_end_only_after_it_continues_ends_all_the_same(number: str) -> None:
    # Signals that come together are heard in any order, as any thread may take any of them.
    ended, is_restored, written = end_of(f"stop(signal.{number}); send(signal.SIGCONT, signal.SIGTERM)")
    assert ended == 143, written
    assert is_restored
    assert written.rfind("\x1b[?1049l") > written.rfind("\x1b[?1049h")


@pytest.mark.parametrize("pause_s", [0.01, 0.03, 0.1])
def test_an_app_that_is_left_and_stopped_meanwhile_goes_on_to_end(pause_s: float) -> None:
    stopped = f"send(signal.SIGINT); time.sleep({pause_s}); send(signal.SIGSTOP, signal.SIGCONT, pause_s=0.1)"
    ended, is_restored, written = end_of(stopped)
    assert ended == 0, written
    assert is_restored
    assert written.rfind("\x1b[?1049l") > written.rfind("\x1b[?1049h")
