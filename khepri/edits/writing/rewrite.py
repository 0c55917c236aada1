"""Makes a change out of the code that a model wrote for one definition or one file.

The model is a small one: it leaves an indentation off, puts an import before the function that needs it, or adds a
function of its own. What can be understood without doubt is put right here; the rest is refused with a reason.
"""

import ast
import re
from typing import Final

from khepri.edits.change import FileChange
from khepri.edits.exact import replace_text
from khepri.edits.guard import check_changed, check_complete, check_kept, check_syntax
from khepri.edits.locate import Target
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.writing.around import with_other_imports, without_known
from khepri.edits.writing.bounds import check_bounds
from khepri.edits.writing.indentation import in_style_of, indented_as
from khepri.edits.writing.neighbours import refuse_second, without_copies, without_frame
from khepri.edits.writing.undefined import missing_imports
from khepri.repo.symbols import outline

_IMPORT: Final = re.compile(r"^(?:from\s+[\w.]+\s+import\s+[\w*, ()]+|import\s+[\w., ]+)\s*(?:#.*)?$")


def rewritten(target: Target, written: str, task: str, failure: str = "") -> FileChange:
    r"""Return the change that puts ``written`` in the place of a definition or of a whole file.

    Args:
        target: What was shown to the model.
        written: What it wrote, lines ending in ``\n``, without the fence.
        task: What the user asked for.
        failure: What a check says that may ask for another head of a definition, besides the task.

    Raises:
        EditRefusedError: A guard refuses it; the words tell the model what to do better.
    """
    code = written.strip("\n")
    if not code.strip():
        raise EditRefusedError(Refusal.MALFORMED, "no code was written", "write the whole new code")
    source = target.source
    if not target.symbol:
        code = in_style_of(source.text, code)
        new_text = code + ("\n" if source.text.endswith("\n") or not source.text else "")
        check_changed(source.text, new_text)
        check_complete(source.text, new_text, task)
        check_syntax(source.path, source.text, new_text)
        new_text = with_missing(source.path, source.text, new_text)
        check_kept(source.path, source.text, new_text, task)
        check_bounds(target, code, new_text, task, failure)
    else:
        imports, code = split_imports(target, code)
        code = without_copies(target, indented_as(target.text, without_frame(target, code)))
        other_imports, code = without_known(target, code)
        # An import that the old code lacks is a change of its own.
        if not other_imports and not any(_serves(line, code) for line in imports):
            check_changed(target.text, code)
        check_complete(target.text, code, task)
        lines = source.text.split("\n")
        lines[target.start_line - 1 : target.end_line] = code.split("\n")
        new_text = with_other_imports(source.path, with_imports("\n".join(lines), imports), other_imports)
        check_syntax(source.path, source.text, new_text)
        new_text = with_missing(source.path, source.text, new_text)
        _refuse_other(target, code)
        refuse_second(target, new_text)
        check_kept(source.path, target.text, code, task)
        check_bounds(target, code, new_text, task, failure)
    after = replace_text(source.data, new_text, source.path)
    if after == source.data:
        raise EditRefusedError(Refusal.NO_OP, "nothing would change", "make the change that the task asks for")
    return FileChange(source.path, source.data, after)


def with_missing(path: str, old: str, new: str) -> str:
    """Return a new text of a file with what it needs of the standard library imported; see ``undefined``."""
    imports = missing_imports(path, old, new)
    return with_other_imports(path, new, imports) if path.endswith(".go") else with_imports(new, imports)


def split_imports(target: Target, code: str) -> tuple[list[str], str]:
    """Return the imports that stand before a Python definition which had none before it, and the rest."""
    if not target.source.path.endswith((".py", ".pyi")):
        return [], code
    lines = code.split("\n")
    imports = []
    while lines and (not lines[0].strip() or _IMPORT.match(lines[0].strip())):
        line = lines.pop(0).strip()
        if line:
            imports.append(line)
    return (imports, "\n".join(lines)) if lines else ([], code)


def _serves(statement: str, code: str) -> bool:
    """Return True for an import that binds a name of the code, or what cannot be told."""
    try:
        node = ast.parse(statement).body[0]
    except (SyntaxError, IndexError):
        return True
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.ImportFrom) and (node.module == "__future__" or node.names[0].name == "*"):
        return True
    names = (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    return any(re.search(rf"\b{re.escape(name)}\b", code) for name in names)


def _refuse_other(target: Target, code: str) -> None:
    """Refuse code that is not a new version of the definition."""
    found = [symbol for symbol in outline(target.source.path, code) if symbol.name == target.name]
    # Setter and getter, or overloads, are one definition here and two in the outline.
    before = [symbol for symbol in outline(target.source.path, target.text) if symbol.name == target.name]
    if before and not found:
        raise EditRefusedError(
            Refusal.MALFORMED,
            f"the code does not define {target.name}",
            f"write the new version of {target.name}, under the same name",
        )
    outer = [symbol for symbol in found if "." not in symbol.qualified_name]
    if before and len(outer) > max(1, len([s for s in before if "." not in s.qualified_name])):
        raise EditRefusedError(
            Refusal.AMBIGUOUS,
            f"the code defines {target.name} more than once",
            "write it once, without the old version",
        )


def with_imports(text: str, imports: list[str]) -> str:
    """Return a Python file with imports that are not there yet behind the last one of it."""
    lines = text.split("\n")
    missing = [line for line in imports if line not in lines]
    if not missing:
        return text
    last = -1
    depth = 0
    for number, line in enumerate(lines):
        if depth or re.match(r"(?:import|from)\s", line):
            last = number
            depth += line.count("(") - line.count(")")
        elif re.match(r"(?:async\s+def|def|class|@|if\s)", line):
            break
    if last < 0:
        last = _after_header(lines)
    future = [line for line in missing if line.startswith("from __future__")]
    lines[last + 1 : last + 1] = [line for line in missing if line not in future]
    header = _after_header(lines)
    lines[header + 1 : header + 1] = future
    return "\n".join(lines)


def _after_header(lines: list[str]) -> int:
    """Return the last line of what stands before the code of a file without imports: comments and the docstring."""
    place = -1
    while place + 1 < len(lines) and lines[place + 1].startswith("#"):
        place += 1
    try:
        body = ast.parse("\n".join(lines)).body
    except (SyntaxError, ValueError, RecursionError):
        return place
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        return (body[0].end_lineno or 1) - 1
    return place
