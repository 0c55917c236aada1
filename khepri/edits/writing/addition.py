"""Puts a new definition that a model wrote into a class or at the end of a file, beside what is there already."""

import re
from typing import Final

from khepri.edits.change import FileChange
from khepri.edits.exact import replace_text
from khepri.edits.guard import check_complete, check_syntax
from khepri.edits.locate import Target
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.writing.around import refuse_beside
from khepri.edits.writing.indentation import in_style_of, moved_to
from khepri.edits.writing.rewrite import split_imports, with_imports, with_missing
from khepri.edits.writing.undefined import refuse_undefined
from khepri.repo.symbols import outline

_CLOSING: Final = re.compile(r"^\s*(?:\};?|end)\s*$")


def added(target: Target, written: str) -> FileChange:
    r"""Return the change that adds what was written to a class, as its last member, or to a file, at its end.

    Args:
        target: A class, or a file.
        written: The new definitions alone, lines ending in ``\n``, without the fence.

    Raises:
        EditRefusedError: A definition of that name is there already, nothing is defined, or a guard refuses it.
    """
    source = target.source
    imports, code = split_imports(target, written.strip("\n"))
    code = in_style_of(source.text, _unwrapped(target, code))
    if not code.strip():
        raise EditRefusedError(Refusal.MALFORMED, "no code was written", "write the new definition")
    check_complete("", code)
    lines = source.text.removesuffix("\n").split("\n")
    end = target.end_line if target.symbol else len(lines)
    if target.symbol and _CLOSING.match(lines[end - 1]):
        end -= 1
    indent = _member_indent(target) if target.symbol else ""
    gap = [""] if target.symbol or not source.path.endswith((".py", ".pyi")) else ["", ""]
    start = end + (len(gap) if any(lines[:end]) else 0)
    lines[end:end] = [*(gap if any(lines[:end]) else []), *moved_to(indent, code).split("\n")]
    if target.symbol and source.path.endswith((".py", ".pyi")) and not any(map(str.strip, lines[end + 1 :])):
        lines = "\n".join(lines).rstrip("\n").split("\n")
    text = "\n".join(lines) + "\n" * source.text.endswith("\n")
    whole = with_missing(source.path, source.text, with_imports(text, imports))
    check_syntax(source.path, source.text, whole)
    name = _check_new(target, code)
    refuse_beside(source.path, text, range(start + 1, start + 2 + code.count("\n")), name)
    refuse_undefined(source.path, source.text, whole)
    return FileChange(source.path, source.data, replace_text(source.data, whole, source.path))


def names_within(target: Target) -> frozenset[str]:
    """Return what a class or a file defines itself, by name."""
    defined = outline(target.source.path, target.source.text)
    if target.symbol:
        return frozenset(each.name for each in defined if each.qualified_name == f"{target.symbol}.{each.name}")
    return frozenset(each.name for each in defined if "." not in each.qualified_name)


def _unwrapped(target: Target, code: str) -> str:
    """Take off the line of the class again, if the model has written it around the new members."""
    first, _, rest = code.partition("\n")
    if target.symbol and re.match(rf"\s*(?:export\s+)?class\s+{re.escape(target.name)}\b", first):
        kept = rest.rstrip("\n").split("\n")
        if kept and _CLOSING.match(kept[-1]) and first.rstrip().endswith("{"):
            kept.pop()
        return "\n".join(kept).strip("\n")
    return code


def _check_new(target: Target, code: str) -> str:
    """Return the name of the first definition of the code.

    Raises:
        EditRefusedError: There is none, or one of the name is there already.
    """
    path = target.source.path
    # Without its class a method may be no valid code in its language.
    wrapped = (
        f"class {target.name} {{\n{code}\n}}" if not path.endswith((".py", ".pyi", ".rb")) and target.symbol else code
    )
    found = [each for each in outline(path, moved_to("", wrapped)) if each.name != target.name]
    if not found:
        raise EditRefusedError(
            Refusal.MALFORMED, "the code defines nothing new", "write the new definition, and nothing else"
        )
    there = names_within(target)
    known = [each.name for each in found if each.name in there and each.qualified_name.count(".") <= 1]
    if known:
        raise EditRefusedError(
            Refusal.AMBIGUOUS, f"{known[0]} is there already", "write the new definition alone, under a name of its own"
        )
    return found[0].name


def _member_indent(target: Target) -> str:
    lines = target.text.split("\n")
    depth = len(lines[0]) - len(lines[0].lstrip())
    own = next((line for line in lines[1:] if line.strip() and len(line) - len(line.lstrip()) > depth), "")
    return own[: len(own) - len(own.lstrip())] or lines[0][:depth] + "    "
