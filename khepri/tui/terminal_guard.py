"""Gives the terminal back when the app could not: a small process that outlives it.

A process that is killed outright restores nothing. The guard waits on a pipe whose other end only the app holds; when
that end closes without a farewell, it puts the terminal's modes back and leaves the alternate screen. It is a shell
under a name of its own, so that what kills Khepri by name does not kill it too.

A shell around a script that ran Khepri takes the modes that it finds when the script ends for its own, which may be
before the guard has run, and sets them again for each command. The modes of its next line show that. The guard then
waits for a command and puts the modes back under it, where the shell takes them once more.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_PLAIN: Final = r"\033[?2004l"  # bracketed paste off
_SCREEN: Final = (
    r"\033[?1000l\033[?1002l\033[?1003l\033[?1006l\033[?1015l\033[?1016l"  # mouse off
    r"\033[?1004l\033[?2048l"  # reports of focus and size off
    r"\033[<u"  # plain keys
    r"\033[?7h\033[?25h"  # wrapped lines, visible cursor
    r"\033[?1049l\033[0m"  # the screen from before
)
# The shell may have written its prompt on the screen that is gone.
_WORDS: Final = r"\r\nkhepri was killed; the terminal is restored, press Enter\r\n"
# A process in a session of its own may set the modes of a terminal whoever is in the foreground. Of the shells only one
# with readline takes what it finds. Its lines are told by both: no key that quotes, which is readline's, and no input
# extensions, which is the app's. Any modes but these mean that something else runs, and the guard ends, and so do ten
# minutes. It looks often only in the first ten seconds, and while it waits for a command.
_WATCH: Final = """
trap '' HUP INT TERM QUIT TSTP TTOU TTIN
read -r farewell && exit
stty "$1" <&2
printf "$2" >&2
ticks=0
spoilt=no
while [ "$ticks" -lt 12000 ]; do
    if [ "$ticks" -lt 200 ] || [ "$spoilt" = yes ]; then
        sleep 0.05
        ticks=$((ticks + 1))
    else
        sleep 0.5
        ticks=$((ticks + 10))
    fi
    [ "$(stty -g <&2)" = "$1" ] && continue
    case "$spoilt $(stty -a <&2)" in
        *"lnext = <undef>"*-iexten*) spoilt=yes ;;
        yes*-isig*-iexten*) stty "$1" <&2; spoilt=no ;;
        *) exit ;;
    esac
done
"""


@contextmanager
def guarded_terminal(*, has_screen: bool = True) -> Iterator[None]:
    """Restore the terminal should this process be killed inside; nothing where there is none, or no ``stty``.

    Args:
        has_screen: The app draws on a screen of its own and hears the mouse, not just lines.
    """
    modes = _modes()
    if not modes:
        yield
        return
    restore = _PLAIN + _SCREEN * has_screen + _WORDS
    guard = subprocess.Popen(
        ["sh", "-c", _WATCH, "terminal-guard", modes, restore],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )
    try:
        yield
    finally:
        assert guard.stdin is not None
        with suppress(OSError):
            guard.stdin.write(b"farewell\n")
            guard.stdin.close()
        guard.wait()


def _modes() -> str:
    """Return the modes of the terminal as ``stty`` reads them; empty if that is not possible."""
    if not os.isatty(2):
        return ""
    try:
        done = subprocess.run(["stty", "-g"], stdin=2, capture_output=True, text=True, check=False, timeout=2)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
