"""Programs that run code which they are given: among their words, in their input, or at another time."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Interpreter:
    """A program that runs a script, its input where there is none, or code among its words."""

    code: str
    """Letters of the options that take code."""
    valued: str = ""
    """Letters of other options that take a value, attached or as the next word."""
    modules: str = ""
    """Letters of the options that take a module to run."""
    information: frozenset[str] = frozenset()
    """Options that make it tell something and run nothing, besides those that all have."""


_PYTHON: Final = Interpreter("c", "WXQ", "m")
_TELLS_VERSION: Final = frozenset({"-v"})
INTERPRETERS: Final = {
    "python": _PYTHON,
    "pypy": _PYTHON,
    "perl": Interpreter("eE", "I", information=_TELLS_VERSION),
    "ruby": Interpreter("e", "ICr", information=_TELLS_VERSION),
    "node": Interpreter("ep", "rC", information=_TELLS_VERSION),
    "deno": Interpreter("ep"),
    "bun": Interpreter("ep", information=_TELLS_VERSION),
    "php": Interpreter("rBRE", "cdz", information=_TELLS_VERSION),
    "lua": Interpreter("e", "l", information=_TELLS_VERSION),
    "luajit": Interpreter("e", "l", information=_TELLS_VERSION),
    "osascript": Interpreter("e", "l"),
    "Rscript": Interpreter("e"),
    "tclsh": Interpreter(""),
}
"""By their names without a version."""
CODE_FIRST: Final = frozenset(
    (
        # Their words are programs, and these may start others.
        "awk gawk mawk nawk parallel runuser expect octave julia R ghci "
        # Editors, debuggers and clients whose words and input are commands of their own, with one that starts others.
        "vi vim nvim view ex ed red emacs gdb lldb dc m4 sqlite3 psql mysql tmux screen"
    ).split()
)
"""Programs whose own words and input are code."""
RUNS_LATER: Final = frozenset({"at", "batch", "crontab"})
"""Programs that have lines run later by another process, which no lock of Khepri's holds."""
CODE_MODULES: Final = frozenset({"timeit", "code", "asyncio", "pdb"})
"""Modules of Python whose own words or input are code."""
