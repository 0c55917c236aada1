"""Refuses a move into a file that would import, as it runs, what the old file has for type checkers alone."""

import ast

from khepri.edits.change import ChangeSet
from khepri.edits.moving.circles import running_imports
from khepri.edits.python.bare_names import bare_name
from khepri.edits.python.binding import stored_in
from khepri.edits.python.imports import Modules, imports_in, parsed
from khepri.edits.refusal import EditRefusedError, Refusal


def refuse_type_only(changes: ChangeSet, modules: Modules, home: str, place: str) -> None:
    """Refuse a move after which an import fails since only ``if TYPE_CHECKING`` gives the old file what it asks for.

    Args:
        changes: The move.
        modules: The modules as they are proposed.
        home: The file that the definition was in.
        place: The file that it is in now.

    Raises:
        EditRefusedError: One would.
    """
    trees = {each.path: parsed(each.after or b"") or ast.Module([], []) for each in changes.files}
    body = trees[home].body
    checked = [each for each in body if isinstance(each, ast.If) and bare_name(each.test) == "TYPE_CHECKING"]
    given = stored_in([each for each in body if each not in checked]) | stored_in(
        [inner for each in checked for inner in each.orelse]
    )
    only = stored_in([inner for each in checked for inner in each.body]) - given
    running = ast.Module([*running_imports(trees[place].body)], [])
    asked = {each.name for each in imports_in(running, modules.package(place)) if each.module == modules.name(home)}
    if missing := sorted(asked & only):
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"{place} would import {missing[0]}, which {home} has for type checkers alone (if TYPE_CHECKING)",
            f"define {missing[0]} outside of that, or in a file of its own, first",
        )
