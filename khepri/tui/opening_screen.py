"""What stands on the terminal until the app draws: what draws takes longer to load than a person waits for a sign.

It is a line of text, written before anything of Textual is loaded. What is typed meanwhile reaches the app.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from khepri.repo.text import printable

_ENTER: Final = "\x1b[?1049h\x1b[2J\x1b[H"
"""To the alternate screen, as the app will ask for once more, and to its first cell."""
_LEAVE: Final = "\x1b[?1049l"


@contextmanager
def opening_screen(title: str) -> Iterator[None]:
    """Show ``title`` for the app to draw over, which it has to do after this; what goes wrong inside takes it away."""
    assert sys.__stderr__ is not None
    sys.__stderr__.write(f"{_ENTER}{printable(title)}\r\n\r\n")
    sys.__stderr__.flush()
    try:
        yield
    except BaseException:
        sys.__stderr__.write(_LEAVE)
        sys.__stderr__.flush()
        raise
