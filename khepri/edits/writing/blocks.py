"""Makes a change out of search/replace blocks: some lines as they are, and the lines that come in their place."""

import re
from typing import Final

from khepri.edits.change import FileChange
from khepri.edits.exact import replace_text
from khepri.edits.guard import check_changed, check_complete, check_kept, check_syntax
from khepri.edits.locate import Target
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.writing.bounds import check_bounds

_BLOCK: Final = re.compile(
    r"^<{5,9} ?SEARCH[^\n]*\n(?P<search>.*?)^={5,9}[^\n]*\n(?P<replace>.*?)^>{5,9} ?REPLACE", re.MULTILINE | re.DOTALL
)


def with_blocks(target: Target, written: str, task: str, failure: str = "") -> FileChange:
    """Return the change that the blocks in ``written`` make in a target, one after the other.

    Raises:
        EditRefusedError: There is no block, its lines are not in the target or are there more than once, or a guard
            refuses the result.
    """
    source = target.source
    blocks = list(_BLOCK.finditer(written))
    if not blocks:
        raise EditRefusedError(
            Refusal.MALFORMED, "there is no complete block", "write <<<<<<< SEARCH, =======, >>>>>>> REPLACE"
        )
    part = target.text
    for block in blocks:
        part = _replaced_once(part, block["search"], block["replace"], target.label)
    lines = source.text.split("\n")
    lines[target.start_line - 1 : target.end_line] = part.split("\n")
    text = "\n".join(lines) if target.symbol else part
    check_changed(source.text, text)
    check_complete(source.text, text, task)
    check_syntax(source.path, source.text, text)
    check_kept(source.path, source.text, text, task)
    check_bounds(target, part, text, task, failure)
    return FileChange(source.path, source.data, replace_text(source.data, text, source.path))


def _replaced_once(text: str, search: str, replacement: str, label: str) -> str:
    if not search.strip():
        raise EditRefusedError(Refusal.MALFORMED, "a block searches for nothing", "copy the lines that are to change")
    lines = text.split("\n")
    wanted = search.strip("\n").split("\n")
    places = [
        place
        for place in range(len(lines) - len(wanted) + 1)
        if [line.rstrip() for line in lines[place : place + len(wanted)]] == [line.rstrip() for line in wanted]
    ]
    if not places:
        raise EditRefusedError(
            Refusal.NO_TARGET, f"{label} has no lines like {wanted[0].strip()[:60]!r}", "copy the lines exactly"
        )
    if len(places) > 1:
        raise EditRefusedError(
            Refusal.AMBIGUOUS, f"{wanted[0].strip()[:60]!r} is there {len(places)} times", "copy more lines around it"
        )
    new = replacement.strip("\n").split("\n") if replacement.strip("\n") else []
    lines[places[0] : places[0] + len(wanted)] = new
    return "\n".join(lines)
