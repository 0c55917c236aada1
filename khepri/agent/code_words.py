"""Says which words of a program, and what of its input, are code that it runs: of interpreters, sed, at and make.

Code is not read, but for the words in it that look like commands. Where it is not even seen, anything may be run.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

from khepri.agent.interpreters import CODE_FIRST, CODE_MODULES, INTERPRETERS, RUNS_LATER, Interpreter
from khepri.agent.known_programs import RUNS_FOLDERS, TAKES_VARIABLES, is_harmless_output, loads_more, runs_own_value
from khepri.agent.option_words import after_options
from khepri.agent.readings import OPAQUE, Clarity, Reading, hidden, suffixes
from khepri.agent.shell_words import Assignment, Word
from khepri.agent.wrappers import Wrapper

_INPUT: Final = re.compile(r"-|-\w*f-|--?[\w-]+=-|.*/(?:dev/(?:stdin|fd)|proc)\b.*")
"""A word that names the standard input, or an open file."""
_CODE_OPTION: Final = re.compile(r"--(?:eval|print|execute|run)\b")
_VARIABLE: Final = re.compile(r"([\w.]+)\s*[:?+]*=\s*(.*)", re.DOTALL)
_INFORMATION: Final = frozenset({"-V", "-VV", "--version", "-h", "--help"})
_SED: Final = Wrapper(
    flags="nErsuz",
    valued="el",
    attached="i",
    long_flags=frozenset(
        "--quiet --silent --regexp-extended --in-place --sandbox --posix --separate --null-data --unbuffered".split()
    ),
    long_valued=frozenset({"--expression", "--line-length"}),
    line_options=frozenset({"-e", "--expression"}),
)
_MARKS: Final = re.compile(r"[/|,#:@!%_~+]")
_ADDRESS: Final = r"(?:\d+(?:~\d+)?|\$|/(?:\\.|[^/\\\[\n])*/[IM]*)"
_SED_COMMAND: Final = re.compile(
    rf"[\s;]*(?:{_ADDRESS}(?:\s*,\s*(?:{_ADDRESS}|[+~]\d+))?\s*!?\s*)?"
    r"(?:(?:s(?P<mark>[/|,#:@!%_~+])(?:\\.|\[(?:(?!(?P=mark))[^\]\\\n])*\]|(?!(?P=mark))[^\\\[\n])*(?P=mark)"
    r"(?:\\.|(?!(?P=mark))[^\\\n])*(?P=mark)[gpiImM\d]*"
    r"|[dDgGhHlnNpPqQxz=]\d*)[^\S\n]*(?=[;\n}]|$)|[{}])|[\s;]+$"
)
"""A command of sed that neither runs something nor reads or writes a file."""


def code_of(name: str, words: Sequence[Word], given: Word | None) -> Reading | None:
    """Return what is run because words or the input of a program are code; None if it runs no code of that kind.

    Args:
        name: The program, without its folder.
        words: The command, its name first.
        given: What it is given on its standard input.
    """
    if (known := INTERPRETERS.get(name.rstrip("0123456789."))) is not None:
        return _interpreted(known, words, given)
    if (read := _READERS.get(name)) is not None:
        return read(words, given)
    if name in CODE_FIRST:
        return Reading(guesses=suffixes([*words[1:], *([given] if given else [])]), clarity=Clarity.PARTLY)
    return None


def _interpreted(known: Interpreter, words: Sequence[Word], given: Word | None) -> Reading | None:
    """Return what an interpreter runs: code among its words or in its input, or a script, which is not followed."""
    code = Reading(guesses=suffixes(words[1:]), clarity=Clarity.PARTLY)
    place = 1
    while place < len(words):
        word = words[place]
        if not word.is_literal:
            return OPAQUE
        if word.text == "-" or not word.text.startswith("-"):
            break
        place += 1
        if word.text == "--":
            break
        if word.text.startswith("--"):
            if _CODE_OPTION.match(word.text):
                return code
            continue
        for at, letter in enumerate(word.text[1:], start=2):
            if letter in known.code:
                return code
            if letter in known.modules:
                rest = [Word(word.text[at:], True), *words[place:]] if word.text[at:] else words[place:]
                module = rest[0].text if rest else ""
                if module in CODE_MODULES:
                    return code
                return _module(rest) + ((_made(rest, given) if module in RUNS_FOLDERS else None) or Reading())
            if letter in known.valued:
                place += not word.text[at:]
                break
    script = words[place] if place < len(words) else None
    if script is None and any(word.text in _INFORMATION | known.information for word in words[1:]):
        return None
    if script is None or _INPUT.fullmatch(script.text):
        return _unseen(given)
    return None if script.is_literal and stays_inside(script) else _elsewhere(script)


def _module(words: Sequence[Word]) -> Reading:
    """Return what a module is that is run, and one that it is told to run: mostly the program of the same name."""
    if not words:
        return Reading()
    if not words[0].is_literal:
        return OPAQUE
    begins = [0, *(place for place in range(1, len(words)) if words[place - 1].text == "-m")]
    return Reading(guesses=tuple((Word(words[at].text.partition(".")[0], True), *words[at + 1 :]) for at in begins))


def _elsewhere(script: Word) -> Reading:
    return Reading(clarity=Clarity.PARTLY) if script.is_literal else OPAQUE


def _unseen(given: Word | None) -> Reading:
    """Return what a program runs that takes its input for code."""
    if given is None or not given.is_literal:
        return OPAQUE
    return Reading(guesses=suffixes([given]), clarity=Clarity.PARTLY)


def _edited(words: Sequence[Word], given: Word | None) -> Reading | None:
    """Return what a script of sed runs: it may have ``e``, as a command or behind ``s/a/b/``."""
    rest, scripts, is_known = after_options(_SED, words[1:])
    scripts = scripts or list(rest[:1])
    if is_known and all(script.is_literal and _is_plain_edit(script.text) for script in scripts):
        return None
    apart = [Word(_MARKS.sub(" ", script.text), True) for script in scripts]
    return Reading(guesses=suffixes([*words[1:], *apart, *([given] if given else [])]), clarity=Clarity.PARTLY)


def _is_plain_edit(script: str) -> bool:
    place = 0
    while place < len(script):
        command = _SED_COMMAND.match(script, place)
        if command is None or command.end() == place:
            return False
        place = command.end()
    return True


def _postponed(words: Sequence[Word], given: Word | None) -> Reading | None:
    """Return what is run later by another process: lines of the input, or a file, which is not followed."""
    name, texts = words[0].text.rpartition("/")[2], [word.text for word in words[1:]]
    if texts == ["-l"]:
        return Reading()
    is_file = any(re.match(r"-\w*f", text) for text in texts)
    if name == "crontab":
        is_file = any(not text.startswith("-") for text in texts)
    return Reading(clarity=Clarity.PARTLY) if is_file and given is None else _unseen(given)


def _made(words: Sequence[Word], given: Word | None) -> Reading | None:
    """Return what is run besides what the files of the repository say; None if there is nothing."""
    name = words[0].text.rpartition("/")[2]
    if any(_INPUT.fullmatch(word.text) for word in words[1:]):
        return _unseen(given)
    is_elsewhere = any(word.is_literal and not stays_inside(word) for word in words[1:])
    variables = [match for word in words[1:] if name in TAKES_VARIABLES and (match := _VARIABLE.match(word.text))]
    is_told = runs_own_value(name, words) or any(
        loads_more(Assignment(match[1], Word(match[2], True))) for match in variables
    )
    return Reading(guesses=hidden(words[1:]), clarity=Clarity.PARTLY) if is_elsewhere or is_told else None


def stays_inside(option: Word) -> bool:
    """Return False for an option or a word with a file outside of the repository."""
    value = re.sub(r"\A-(?:-[\w-]+=|[A-Za-z]+(?=[/~.]))", "", option.text)
    return is_harmless_output(Word(value, option.is_literal))


_READERS: Final[dict[str, Callable[[Sequence[Word], Word | None], Reading | None]]] = {
    **dict.fromkeys(("sed", "gsed"), _edited),
    **dict.fromkeys(RUNS_LATER, _postponed),
    **dict.fromkeys(RUNS_FOLDERS, _made),
}
