"""Renames a name with rope, but for what means a parameter, which is a binding of its own."""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from rope.base.change import ChangeContents, ChangeSet
from rope.refactor.occurrences import create_finder
from rope.refactor.rename import Rename, _is_local, rename_in_module

from khepri.edits.python.fields import copies_with
from khepri.edits.python.keyword_owners import is_of_unknown
from khepri.edits.python.parameter_scopes import ParameterScopes

if TYPE_CHECKING:
    from rope.base.resources import File
    from rope.refactor.occurrences import Occurrence


def rename_found(
    refactoring: Rename,
    new_name: str,
    files: "list[File]",
    *,
    in_hierarchy: bool,
    is_field: bool,
    unsure: "Callable[[Occurrence], bool] | None",
    left: "Callable[[Occurrence], None]",
) -> ChangeSet:
    """Return rope's change by which a definition, an attribute or a module, but no parameter, is renamed.

    Args:
        refactoring: What is renamed.
        new_name: What it is called then.
        files: Where it may be used.
        in_hierarchy: True to rename a method with those that it overrides or that override it.
        is_field: True if it is an argument of its class as well.
        unsure: Decides of a use of which rope does not know what it means; None leaves all of them.
        left: Is told of each use that rope takes for what something else in the repository defines, and of each
            argument of what Python itself has.

    Raises:
        RopeError: rope refuses.
    """
    old = refactoring.get_old_name()

    @cache
    def parameters(text: str) -> ParameterScopes:
        return ParameterScopes(text, old)

    is_module = refactoring._is_renaming_a_module()

    def refuse_other(occurrence: "Occurrence") -> bool | None:
        text, (place, end) = occurrence.tools.pymodule.source_code, occurrence.get_word_range()
        if text[end : end + 1] in ("'", '"'):
            return False  # The letter before a string, such as the f of f"…".
        found = parameters(text)
        # ``import pkg.retry`` loads the module, whatever else the package has by that name.
        if not is_module and found.is_loaded_module(place):
            return False
        # Beside a variable of the name, rope takes ``replace(x, name=name)`` for two uses of it.
        if copies_with(text, place) and is_of_unknown(occurrence, found):
            return unsure(occurrence) if unsure is not None else False
        # What is passed by name is a parameter of what is called, whatever is called so around it.
        is_passed = found.is_keyword(place) and not is_field and not copies_with(text, place)
        return False if is_passed or place in found else None

    def tell_left(occurrence: "Occurrence") -> None:
        meant = occurrence.get_pyname()
        # What Python itself has, such as an argument of ``dict``, is defined nowhere.
        location = meant.get_definition_location() if meant is not None else None
        module = location[0] if location is not None else None
        is_ours = module is not None and module.get_resource() is not None
        # An argument of a function of ours is that one's, and an attribute of what Python has is none of ours.
        if is_ours != occurrence.is_function_keyword_parameter():
            left(occurrence)

    refactoring.validate_changes(new_name)
    finder = create_finder(
        refactoring.project,
        old,
        refactoring.old_pyname,
        unsure=unsure,
        instance=refactoring.old_instance,
        in_hierarchy=in_hierarchy and refactoring.is_method(),
    )
    finder.filters.insert(0, refuse_other)
    finder.filters.append(tell_left)
    changes = ChangeSet(f"Renaming <{old}> to <{new_name}>")
    for file in [refactoring.resource] if _is_local(refactoring.old_pyname) else files:
        text = rename_in_module(finder, new_name, resource=file)
        if text is not None:
            changes.add_change(ChangeContents(file, text))
    if refactoring._is_renaming_a_module():
        resource = refactoring.old_pyname.get_object().get_resource()
        if refactoring._is_allowed_to_move(files, resource):
            refactoring._rename_module(resource, new_name, changes)
    return changes
