"""Whether a function that was made of some lines does in its place what the lines did.

The library passes what the lines read and returns what they bound. That is not the same where a name may be unbound,
where an error comes between two of them, or where a function inside sees the names themselves.
"""

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from khepri.edits.change import FileChange
from khepri.edits.exact import replace_text
from khepri.edits.locate import Source
from khepri.edits.moving.extracted import Function, Made, made_of
from khepri.edits.python.bare_names import bare_name
from khepri.edits.python.binding import stored_in, surely_bound, surely_bound_before
from khepri.edits.python.imports import Modules
from khepri.edits.python.inline_names import top_level_names
from khepri.edits.python.mentions import public_names, uses_of
from khepri.edits.python.trees import all_nodes, tree_of
from khepri.edits.workspace import Workspace
from khepri.repo.text import decode, text_or_nothing

_CLASS_METHODS: Final = ("__new__", "__init_subclass__", "__class_getitem__")
"""Class methods that nothing says so of."""
_FINISHING: Final = frozenset("all any dict frozenset join list max min set sorted sum tuple".split())
_NESTED: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def called_on_class(change: FileChange, name: str) -> FileChange:
    """Return a change in which a class method that was extracted is called on what its caller was called on.

    The library calls it on the class that it stands in, and passes the other one besides.
    """
    made = made_of(change, name)
    if made is None or change.after is None or not made.parameters:
        return change
    own, *others = made.parameters
    is_class_method = any(ast.unparse(each) == "classmethod" for each in made.function.decorator_list)
    if not is_class_method or own not in made.passed or [each for each in made.passed if each != own] != others:
        return change
    rows = decode(change.after).text.encode().split(b"\n")
    call = made.call
    if call.end_lineno != call.lineno:
        return change
    row = rows[call.lineno - 1]
    written = f"{own}.{name}({', '.join(others)})".encode()
    rows[call.lineno - 1] = row[: call.col_offset] + written + row[call.end_col_offset :]
    return FileChange(change.path, change.before, replace_text(change.after, b"\n".join(rows).decode(), change.path))


def unlike(change: FileChange, name: str) -> str:
    """Return why a function that was extracted is not what its lines were; empty if it is."""
    made = made_of(change, name)
    if made is None:
        return ""
    return _misfit(made, name) or _unbound(made) or _carried(made) or _interrupted(made) or _seen(made)


def misshapen(before: str, after: str) -> str:
    """Return why lines did not stay what they were where they are now: their blocks, or the texts in them."""
    try:
        texts = _texts(after)
    except (SyntaxError, ValueError, RecursionError):
        return "the lines cannot be indented as they have to be there"
    changed = _texts(before) - texts
    return "a string over several lines would be another one there" if changed else ""


def taken_away(workspace: Workspace, source: Source, after: str) -> str:
    """Return which name of a module would be gone that another file may have from there; empty for none."""
    own = [top_level_names(tree_of(text)) for text in (source.text, after)]
    stem = Modules(workspace).name(source.path).rpartition(".")[2]
    for name in sorted(own[0] - own[1]):
        if name in public_names(source.text):
            return f"{name} of its __all__ would be gone"
        for path in workspace.files():
            data = workspace.read(path) if path.endswith(".py") and path != source.path else None
            text = text_or_nothing(data) if data is not None and name.encode() in data and stem.encode() in data else ""
            if lines := uses_of(text, name):
                return f"{name} would be gone from the module, and {path}:{lines[0]} may have it from there"
    return ""


def _texts(text: str) -> Counter[str]:
    nodes = (node for node in all_nodes(tree_of(text)) if isinstance(node, ast.Constant))
    return Counter(repr(node.value) for node in nodes if isinstance(node.value, str | bytes))


def _misfit(made: Made, name: str) -> str:
    """Return why the call does not pass what the function takes."""
    parameters = made.parameters
    decorators = [ast.unparse(each) for each in made.function.decorator_list]
    if isinstance(made.call.func, ast.Attribute) and "staticmethod" not in decorators:
        receiver = ast.unparse(made.call.func.value)
        if made.caller is not None and made.caller.name in _CLASS_METHODS and not decorators:
            return f"{made.caller.name} is called on the class, and {name} would not be"
        is_bound = "classmethod" in decorators or receiver in parameters[:1]
        if not is_bound:
            return f"{name} would be called on {receiver} and is no method of it"
        parameters = parameters[1:]
    return "" if made.passed == parameters else f"the call of {name} would not pass what it takes"


def _unbound(made: Made) -> str:
    """Return which name may be without a value when the function returns it or is given it."""
    last = made.function.body[-1]
    body = made.function.body
    if isinstance(last, ast.Return) and last.value is not None and isinstance(made.statement, ast.Assign):
        returned = last.value.elts if isinstance(last.value, ast.Tuple) else [last.value]
        bound = surely_bound(body[:-1], frozenset(made.parameters))
        for each in returned:
            if isinstance(each, ast.Name) and bound is not None and each.id not in bound:
                return f"{each.id} may have no value at the end of the lines"
    if made.caller is None:
        return _unbound_at_once(made)
    known = frozenset(each.arg for each in ast.walk(made.caller.args) if isinstance(each, ast.arg))
    local = known | stored_in(made.caller.body)
    bound = surely_bound_before(made.caller.body, made.statement, known)
    for name in made.passed:
        if name in local - bound and not _is_read_at_once(made.function, name):
            return f"{name} may have no value before the lines, and is not always needed in them"
    return ""


def _unbound_at_once(made: Made) -> str:
    """Return which name of a module, or of a class body, is one of the function where it has no value yet."""
    body, own = made.function.body, frozenset(made.parameters)
    stored = stored_in(body) - {each for node in ast.walk(made.function) for each in _declared(node)} - own
    stored -= _bound_on_the_way(body)
    for name, statement in _reads(body):
        if name in stored and name not in surely_bound_before(body, statement, own):
            return f"{name} has its value from before the lines, and would be another one there"
    return ""


def _is_read_at_once(function: Function, name: str) -> bool:
    for statement in function.body:
        parts: list[ast.AST] = [statement]
        if isinstance(statement, ast.If | ast.While):
            parts = [statement.test]
        elif isinstance(statement, ast.For | ast.AsyncFor):
            parts = [statement.iter]
        elif isinstance(statement, ast.With | ast.AsyncWith):
            parts = [*statement.items]
        elif isinstance(statement, (ast.Try, ast.Match, ast.Return, *_NESTED)):
            parts = []
        if name in _read(parts):
            return True
    return False


def _carried(made: Made) -> str:
    """Return which name has in the lines, or before them, the value of the pass before of a loop around them."""
    if made.loop is None:
        return ""
    body = made.function.body
    declared = {each for node in ast.walk(made.function) for each in _declared(node)}
    stored = stored_in(body) - declared - _bound_on_the_way(body)
    last = body[-1]
    returned = _read([last]) if isinstance(last, ast.Return) else frozenset()
    for name, statement in _reads(body[:-1] if isinstance(last, ast.Return) else body):
        if name in stored - {*made.parameters}:
            if name not in surely_bound_before(body, statement, frozenset(made.parameters)):
                return f"{name} may have its value from the pass before"
    loop = made.loop
    known = stored_in([loop.target]) if isinstance(loop, ast.For | ast.AsyncFor) else frozenset()
    conditions = _read([loop.test]) if isinstance(loop, ast.While) else frozenset()
    before = {
        name
        for name, statement in _reads(loop.body)
        if statement is not made.statement and name not in surely_bound_before(loop.body, statement, known)
    }
    lost = (stored - returned) & (before | conditions)
    return f"{min(lost)} is needed in the next pass" if lost else ""


def _bound_on_the_way(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names that are bound by what is no statement of its own, right before they are read."""
    found: set[str] = set()
    for node in (each for top in body for each in ast.walk(top)):
        match node:
            case ast.NamedExpr(target=ast.Name(id=name)):
                found.add(name)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                found.add(name)
            case ast.comprehension(target=target):
                found |= {each.id for each in ast.walk(target) if isinstance(each, ast.Name)}
    return found


def _reads(body: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the names that statements read, each with the innermost statement that reads it."""
    queue: list[tuple[ast.AST, ast.stmt]] = [(each, each) for each in body]
    while queue:
        node, statement = queue.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id, statement
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, statement
        queue += [(child, child if isinstance(child, ast.stmt) else statement) for child in ast.iter_child_nodes(node)]


def _interrupted(made: Made) -> str:
    """Return which name would be lost where an error comes after it was bound."""
    if made.caller is None:
        return ""
    body = [each for each in made.function.body if not isinstance(each, ast.Return)]
    # What the last statement binds is bound only if nothing more can go wrong.
    early = stored_in(body if len(body) == 1 and hasattr(body[0], "body") else body[:-1])
    for node in ast.walk(made.caller):
        if not isinstance(node, ast.Try) or not any(each is made.call for top in node.body for each in ast.walk(top)):
            continue
        later: list[ast.AST] = [*node.handlers, *node.finalbody]
        if any(surely_bound(each.body) is not None for each in node.handlers):
            end = node.end_lineno or 0
            later += [each for each in ast.walk(made.caller) if isinstance(each, ast.stmt) and each.lineno > end]
        lost = early & _read(later)
        if lost:
            return f"{min(lost)} is needed where an error comes after it has its value"
    return ""


def _parted(made: Made) -> str:
    """Return which name the lines and the rest of their function can only share in one function."""
    assert made.caller is not None
    used = {each.id for each in ast.walk(made.caller) if isinstance(each, ast.Name)}
    own = stored_in(made.function.body)
    inner = [each for each in ast.walk(made.function) if isinstance(each, _NESTED) and each is not made.function]
    inside = {id(node) for each in inner for node in ast.walk(each)}
    for node in ast.walk(made.function):
        if isinstance(node, ast.Global | ast.Nonlocal):
            shared = {*node.names} & used & ({*made.parameters, *own} if id(node) in inside else {*node.names})
            if shared:
                return f"the lines say whose {min(shared)} is, which is used beside them as well"
    for node in ast.walk(made.caller):
        if isinstance(node, ast.Call) and own:
            called = bare_name(node.func)
            if called in ("eval", "exec") or (called in ("locals", "vars", "dir") and not node.args):
                return f"{called}() beside the lines may look for {min(own)}"
    start = made.statement.lineno
    early = [each for each in _unfinished(made.caller) if each.lineno < start]
    late = _read([*early]) & own
    return f"a generator before the lines reads {min(late)} later on" if late else ""


def _unfinished(inside: ast.AST) -> list[ast.GeneratorExp]:
    """Return the generator expressions that may be run to their end later than where they stand."""
    calls = (node for node in ast.walk(inside) if isinstance(node, ast.Call) and bare_name(node.func) in _FINISHING)
    done = {id(each) for call in calls for each in call.args}
    return [each for each in ast.walk(inside) if isinstance(each, ast.GeneratorExp) and id(each) not in done]


def _seen(made: Made) -> str:
    """Return which name a function inside shares with the lines, or the lines take away."""
    stored = stored_in(made.function.body) - {each for node in ast.walk(made.function) for each in _declared(node)}
    for node in ast.walk(made.function):
        if isinstance(node, ast.Delete):
            gone = {each.id for each in node.targets if isinstance(each, ast.Name)}
            if gone:
                return f"the lines delete {min(gone)}"
        if isinstance(node, ast.Call) and not node.args and bare_name(node.func) in ("locals", "vars", "dir"):
            return f"{bare_name(node.func)}() means the function that it stands in"
    if made.caller is None:
        return ""
    if why := _parted(made):
        return why
    for node in ast.walk(made.caller):
        if isinstance(node, _NESTED) and node is not made.caller and node is not made.function:
            shared = _read([node]) & stored
            shared |= {name for each in ast.walk(node) for name in _declared(each)} & {*made.parameters, *stored}
            if shared:
                return f"a function inside {made.caller.name} uses {min(shared)} as well"
    later = stored_in(
        [each for each in ast.walk(made.caller) if getattr(each, "lineno", 0) > (made.statement.end_lineno or 0)]
    )
    inner = [each for each in ast.walk(made.function) if isinstance(each, _NESTED) and each is not made.function]
    changed = _read([*inner, *_unfinished(made.function)]) & {*made.parameters, *stored} & later
    return f"a function in the lines uses {min(changed)}, which changes after them" if changed else ""


def _declared(node: ast.AST) -> list[str]:
    return node.names if isinstance(node, ast.Global | ast.Nonlocal) else []


def _read(nodes: list[ast.AST]) -> frozenset[str]:
    return frozenset(
        node.id
        for top in nodes
        for node in ast.walk(top)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    )


def class_around(text: str, start_line: int, end_line: int) -> str:
    """Return the class in whose body some lines stand, in none of its methods; empty if they stand elsewhere."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    scopes = (node for node in all_nodes(tree_of(text)) if isinstance(node, kinds))
    around = [each for each in scopes if each.lineno < start_line and end_line <= (each.end_lineno or 0)]
    innermost = max(around, key=lambda each: each.lineno, default=None)
    return innermost.name if isinstance(innermost, ast.ClassDef) else ""
