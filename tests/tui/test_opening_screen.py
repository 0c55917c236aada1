"""What stands on the terminal before the app draws."""

import subprocess
import sys

ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


def shown_by(code: str) -> str:
    program = f"from khepri.tui.opening_screen import opening_screen\n{code}"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300).stderr


def test_a_line_is_shown_before_what_draws_is_loaded_and_stays_for_the_app_to_draw_over() -> None:
    code = "import sys\nwith opening_screen('khepri  /a\\x1b[2Jb'): print('textual' in sys.modules, file=sys.stderr)"
    shown = shown_by(code)
    assert shown.startswith(ENTER)
    assert shown.count("\x1b[2J") == 1, "what a folder is called does nothing to the terminal"
    assert shown.endswith("False\n")
    assert LEAVE not in shown


def test_what_goes_wrong_before_the_app_draws_is_said_on_the_screen_from_before() -> None:
    shown = shown_by("with opening_screen('khepri'): raise ValueError('no')")
    assert 0 < shown.index(LEAVE) < shown.index("ValueError: no")
