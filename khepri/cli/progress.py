"""Progress of commands that work for minutes, on standard error."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

Progress = Callable[[str, int, int], None]
"""Told what runs next, how much is done, and of how much."""


@contextmanager
def shown_progress(doing: str) -> Iterator[Progress]:
    """Yield a function that shows what runs where that can vanish; elsewhere say once that it takes a while.

    The bar is drawn between runs only: a thread that draws would take time from what is measured.

    Args:
        doing: What the command does, in a word or a few.
    """
    if not sys.stderr.isatty():
        print(f"khepri: {doing}; this takes some minutes", file=sys.stderr)
        yield lambda what, done, total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), auto_refresh=False, transient=True) as bar:
        task = bar.add_task("")

        def show(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)
            bar.refresh()

        yield show
