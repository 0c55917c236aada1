"""Renames a Python name everywhere it is meant, with rope, and what rope does not follow with ``unfollowed``."""

import keyword
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from khepri.edits.change import ChangeSet
from khepri.edits.locate import Source, Target, read_python
from khepri.edits.python.class_relations import Classes, relatives, sharing_classes
from khepri.edits.python.common_names import library_uses
from khepri.edits.python.fields import copies_with, is_argument, is_key
from khepri.edits.python.foreign import Foreign
from khepri.edits.python.hidden_modules import refuse_hidden_modules
from khepri.edits.python.imports import Modules, check_imports, check_passed_on
from khepri.edits.python.inference import Inference
from khepri.edits.python.other_files import note_on_module, note_on_name
from khepri.edits.python.outside_bases import check_outside
from khepri.edits.python.overriding import check_no_override
from khepri.edits.python.private_names import is_inside_owner, is_private
from khepri.edits.python.reflection import loaded_uses
from khepri.edits.python.rope_project import RopeProject
from khepri.edits.python.super_uses import is_super_use
from khepri.edits.python.variables import find_definition_or_variable, variables
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.rename.accessors import is_accessor
from khepri.edits.rename.class_names import notes_on_class_name
from khepri.edits.rename.class_patterns import is_pattern_keyword, with_class_patterns
from khepri.edits.rename.composed_names import notes_on_composed
from khepri.edits.rename.enum_notes import notes_on_member
from khepri.edits.rename.filled_texts import notes_on_filled, notes_on_shown
from khepri.edits.rename.handed_modules import notes_on_aliased, notes_on_handed
from khepri.edits.rename.known_uses import KnownUses
from khepri.edits.rename.last_of_name import is_last_of_name
from khepri.edits.rename.local_names import find_local, local_change, notes_on_local
from khepri.edits.rename.look_alikes import notes_on_look_alikes
from khepri.edits.rename.own_calls import notes_on_made
from khepri.edits.rename.own_names import notes_on_own_name
from khepri.edits.rename.rename_notes import is_passed_at, note_on_uses, notes_on_inferred, notes_on_rest, shown
from khepri.edits.rename.set_names import notes_on_set
from khepri.edits.rename.split_imports import SplitImports, note_on_split_members
from khepri.edits.rename.unfollowed import with_mentions, with_other_uses
from khepri.edits.rename.unfollowed_bases import notes_on_unfollowed
from khepri.edits.soundness import check_sound
from khepri.edits.workspace import Workspace
from khepri.repo.symbols import outline

if TYPE_CHECKING:
    from rope.base.change import ChangeSet as RopeChanges
    from rope.refactor.occurrences import Occurrence

_SPECIAL: Final = re.compile(r"__\w*[^\W_]__")


@dataclass(frozen=True)
class Refactoring:
    """What a refactoring would change, and what the user should know of it."""

    changes: ChangeSet
    notes: tuple[str, ...] = ()
    """Uses and mentions that were left because nobody can tell what they mean, and the like."""


def rename(workspace: Workspace, path: str, symbol: str, new_name: str) -> Refactoring:
    """Rename a definition, an attribute, a variable or, without ``symbol``, a module, in every file that means it.

    A member of a class is renamed with those that stand for it in other classes. A call on an object of unknown type
    is renamed if no other definition of the repository has that name; otherwise it is left and noted. So are strings
    and comments that hold the name and do not clearly mean it.

    Raises:
        EditRefusedError: There is no such name, the new one is none or is taken, or rope refuses.
    """
    source = read_python(workspace, path)
    check_name(new_name)
    local = find_local(source, symbol)
    if local is not None:
        return _renamed_local(workspace, local, new_name)
    target = find_definition_or_variable(source, symbol) if symbol else None
    if target is None:
        return _renamed(workspace, source, None, new_name)
    with Inference(workspace) as inference:
        return _in_family(workspace, target, new_name, inference)


def _renamed_local(workspace: Workspace, target: Target, new_name: str) -> Refactoring:
    _refuse_same(target.name, new_name)
    refuse_special(target.name)
    changes = local_change(workspace, target, new_name)
    notes = check_sound(changes, renamed=(target.name, new_name))
    return Refactoring(changes, (*notes, *notes_on_shown(changes, new_name), *notes_on_local(target)))


def _in_family(workspace: Workspace, target: Target, new_name: str, inference: Inference) -> Refactoring:
    """Rename a definition, and if it is a member of a class, those that stand for it in other classes."""
    refuse_special(target.name)
    _refuse_same(target.name, new_name)
    classes = Classes(workspace)
    others = relatives(workspace, target, classes)
    outside = check_outside(classes, target, new_name, others)
    check_no_override(classes, target, new_name, others)
    sharing = sharing_classes(target, others)
    first = _renamed(workspace, target.source, target, new_name, sharing, inference)
    forked, changes, notes = workspace.fork(), first.changes, first.notes
    forked.take(changes)
    followed = []
    for each in others:
        try:
            other = find_definition_or_variable(read_python(forked, each.path), each.symbol)
        except EditRefusedError as error:
            if error.reason is Refusal.NO_TARGET:
                continue  # It is renamed already.
            raise
        following = _renamed(forked, other.source, other, new_name, sharing, inference)
        forked.take(following.changes)
        # What was left before may be renamed now, so that the last notes are the ones to tell.
        changes, notes = changes.merged(following.changes), following.notes
        followed.append(f"{each.path} {each.symbol}")
    notes = (*notes, *notes_on_inferred(workspace, changes, target, sharing, inference))
    notes = (*notes, *note_on_split_members(workspace, target))
    if followed:
        also = f"{shown(followed)} {'is' if len(followed) == 1 else 'are'} renamed too: an object has one of them"
        notes = (also, *notes)
    notes = (*notes, *notes_on_look_alikes(classes, target, others), *notes_on_unfollowed(classes, target, others))
    if target.is_member:
        notes = (*notes, *notes_on_filled(workspace, changes, target.name, new_name))
        notes = (*notes, *notes_on_set(workspace, changes, target, new_name))
        notes = (*notes, *notes_on_member(workspace, changes, classes, target, new_name))
        if is_argument(classes, target):
            notes = (*notes, *notes_on_made(workspace, changes, target, new_name))
    notes = (
        *notes,
        *notes_on_shown(changes, new_name),
        *notes_on_own_name(workspace, target, new_name),
        *notes_on_class_name(workspace, target, new_name),
        *notes_on_composed(workspace, changes, target, new_name, others),
    )
    return Refactoring(changes, (*outside, *notes))


def _renamed(
    workspace: Workspace,
    source: Source,
    target: Target | None,
    new_name: str,
    sharing: frozenset[tuple[str, str]] = frozenset(),
    inference: Inference | None = None,
) -> Refactoring:
    old = target.name if target else Modules(workspace).name(source.path).rpartition(".")[2]
    _refuse_same(old, new_name)
    refuse_special(old)
    if target is not None:
        _refuse_taken(target, new_name)
    split = SplitImports(workspace, target) if target is not None and "." not in target.symbol else None
    shown_files, seen = workspace, target
    if target is not None and split is not None:
        split.refuse_split_modules()
        shown_files = split.veiled()
        seen = find_definition_or_variable(read_python(shown_files, source.path), target.symbol)
    project = RopeProject(shown_files, hides_async=True)
    unsure: dict[str, None] = {}
    passed: dict[str, None] = {}
    doubtful: dict[str, None] = {}
    inferred: dict[str, None] = {}
    classes = Classes(workspace)
    has_arguments = target is not None and is_argument(classes, target) is not False
    is_in_dictionary = target is not None and is_key(classes, target)
    foreign = Foreign(workspace)
    known = KnownUses(workspace, target, sharing, inference) if target is not None and target.is_member else None

    @cache
    def foreign_ends(file: str, text: str) -> frozenset[int]:
        return foreign.ends(file, text, old)

    @cache
    def doubtful_ends(file: str, text: str) -> frozenset[int]:
        return foreign.doubtful_ends(file, text, old)

    @cache
    def library_ends(text: str) -> frozenset[int]:
        return library_uses(text, old)

    def decide(occurrence: "Occurrence", *, is_meant: bool) -> bool:
        if is_accessor(occurrence.tools.pymodule.source_code, *occurrence.get_word_range()):
            return False
        if is_pattern_keyword(occurrence.tools.pymodule.source_code, occurrence.get_word_range()[0], old):
            return False
        if target is not None and is_private(old):
            # What others call so is an attribute of their own.
            return is_inside_owner(target, occurrence.resource.path, occurrence.lineno)
        place = occurrence.get_word_range()[1]
        if place in foreign_ends(occurrence.resource.path, occurrence.tools.pymodule.source_code):
            return False
        at = f"{occurrence.resource.path}:{occurrence.lineno}"
        if place in doubtful_ends(occurrence.resource.path, occurrence.tools.pymodule.source_code):
            doubtful[at] = None
            return False
        is_keyword = occurrence.is_function_keyword_parameter()
        if is_keyword and not copies_with(occurrence.tools.pymodule.source_code, occurrence.offset):
            # An argument of a call that nobody knows belongs to something else, whoever else has the name.
            if has_arguments:
                passed[at] = None
            return False
        before = occurrence.tools.pymodule.source_code[: occurrence.get_word_range()[0]]
        if not is_keyword and (is_in_dictionary or not before.rstrip().endswith(".")):
            # An attribute is used behind a dot; alone, it is a variable that rope does not know.
            return False
        if known is not None:
            said = known.is_meant(occurrence.resource.path, occurrence.tools.pymodule.source_code, place)
            if said is not None:
                return said
        if place in library_ends(occurrence.tools.pymodule.source_code):
            doubtful[at] = None
            return False
        unsure[at] = None
        return is_meant

    def tell_left(occurrence: "Occurrence") -> None:
        # What a library infers of another class is left, and may be of several: what a factory returns, for one.
        file, text, (start, end) = (
            occurrence.resource.path,
            occurrence.tools.pymodule.source_code,
            occurrence.get_word_range(),
        )
        if occurrence.is_function_keyword_parameter():
            if has_arguments:
                passed[f"{file}:{occurrence.lineno}"] = None
            return
        is_attribute = text[:start].rstrip().endswith(".") and not occurrence.is_in_import_statement()
        if known is not None and is_attribute and not is_private(old):
            if end not in known.said_ends(file, text) and known.is_meant(file, text, end) is not False:
                inferred[f"{file}:{occurrence.lineno}"] = None

    title = f"rename {old} to {new_name}"

    def run(*, is_meant: bool) -> ChangeSet:
        chosen = partial(decide, is_meant=is_meant)
        found = project.change_of(
            title,
            lambda: _rope_rename(
                project, source.path, seen, new_name, sharing, chosen, tell_left, has_arguments=has_arguments
            ),
        )
        return split.unveiled(found, new_name) if split is not None else found

    changes = run(is_meant=False)
    is_unique = False
    if unsure:
        # What the class lists as a text is renamed later on.
        listed = with_class_patterns(workspace, changes, target, new_name) if target and target.is_member else changes
        is_unique = is_last_of_name(workspace, project, listed, old)
    if is_unique:
        changes = run(is_meant=True)
    if not changes.files:
        raise EditRefusedError(Refusal.NOT_POSSIBLE, f"{title}: no use of {old} was found that could be renamed")
    keeping = split.paths if split is not None else ()
    changes = with_mentions(workspace, changes, source.path, target, old, new_name, keeping)
    if target is not None:
        changes = with_other_uses(workspace, changes, target, new_name)
    check_imports(workspace, changes)
    check_passed_on(workspace, changes)
    refuse_hidden_modules(workspace, changes)
    notes = list(check_sound(changes, renamed=(old, new_name)))
    notes += split.note() if split is not None else ()
    if doubtful:
        notes.append(note_on_uses(old, list(doubtful), is_unique=False))
    if unsure and is_unique:
        notes.append(note_on_uses(old, list(unsure), is_unique=True))
    if left := dict.fromkeys((*(() if is_unique else unsure), *inferred)):
        notes.append(note_on_uses(old, list(left), is_unique=False))
    if still := [at for at in passed if is_passed_at(changes, at, old)]:
        notes.append(f"{old} is passed by name to what nobody knows at {shown(still)}, and was left there")
    module = Modules(workspace).name(source.path)
    if target is not None and "." not in target.symbol and (loaded := loaded_uses(workspace, changes, module, old)):
        notes.append(f"{shown(loaded)} loads {module} by a text and may have {old} from there, which was left")
    if target is not None and "." not in target.symbol:
        notes += notes_on_handed(workspace, changes, module, old)
        notes += notes_on_aliased(workspace, changes, old)
    elsewhere = (
        note_on_name(workspace, changes, module, old)
        if target is not None
        else note_on_module(workspace, changes, source.path, module)
    )
    rest = notes_on_rest(workspace, project, changes, source.path, old, is_module=target is None)
    return Refactoring(changes, (*notes, *rest, *elsewhere))


def check_name(name: str) -> None:
    """Make sure that something can be called ``name`` in Python.

    Raises:
        EditRefusedError: Nothing can.
    """
    if not name.isidentifier() or keyword.iskeyword(name):
        raise EditRefusedError(Refusal.NOT_POSSIBLE, f"{name[:60]!r} is no name in Python", "choose another one")


def _rope_rename(
    project: RopeProject,
    path: str,
    target: Target | None,
    new_name: str,
    sharing: frozenset[tuple[str, str]],
    decide: Callable[["Occurrence"], bool],
    tell_left: Callable[["Occurrence"], None],
    *,
    has_arguments: bool,
) -> "RopeChanges":
    from rope.refactor.rename import Rename

    from khepri.edits.rename.rope_rename import rename_found

    offset = project.offset(target) if target else None
    refactoring = Rename(project.project, project.file(path), offset)
    files = project.candidates(refactoring.get_old_name())
    if target is None:
        files.append(project.file(path))
    is_method = target is not None and target.is_member

    def is_meant(occurrence: "Occurrence") -> bool:
        return is_super_use(occurrence, refactoring.old_pyname, lambda: sharing) or decide(occurrence)

    return rename_found(
        refactoring,
        new_name,
        files,
        in_hierarchy=is_method and not is_private(refactoring.get_old_name()),
        is_field=has_arguments,
        unsure=is_meant if is_method else None,
        left=tell_left,
    )


def refuse_special(
    name: str,
    why: str = "cannot have another one",
    hint: str = "leave it, and add a definition with the new name that it calls or that calls it",
) -> None:
    """Refuse a name that gives a definition its meaning, such as ``__init__`` or the module ``__main__``.

    Raises:
        EditRefusedError: It is one.
    """
    if _SPECIAL.fullmatch(name):
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"{name} is a special name: Python and its tools find it by this name, so it {why}",
            hint,
        )


def _refuse_same(old: str, new: str) -> None:
    if old == new:
        raise EditRefusedError(Refusal.NO_OP, f"{old} has that name already")


def _refuse_taken(target: Target, new_name: str) -> None:
    scope = target.symbol.rpartition(".")[0]
    wanted = f"{scope}.{new_name}" if scope else new_name
    symbols = outline(target.source.path, target.source.text)
    lines = {symbol.qualified_name: symbol.start_line for symbol in symbols}
    lines |= {each.symbol: each.start_line for each in variables(target.source) if each.symbol not in lines}
    if wanted in lines:
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"{target.source.path} defines {wanted} already, at line {lines[wanted]}",
            "choose another name",
        )
    if not scope and re.search(rf"^(?:from .* )?import .*\b{re.escape(new_name)}\b", target.source.text, re.MULTILINE):
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE, f"{target.source.path} imports another {new_name}", "choose another name"
        )
