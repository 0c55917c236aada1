"""The one word by which an expression names something: ``d`` for ``a.b.d``, and with what is asked of it left away."""

import ast


def bare_name(node: ast.expr) -> str:
    """Return the word of a name or an attribute; empty for anything else."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def called_name(node: ast.expr) -> str:
    """Return the word of a name, an attribute, or of what is called, as in ``f(1)(2)``; empty for anything else."""
    return called_name(node.func) if isinstance(node, ast.Call) else bare_name(node)


def base_name(node: ast.expr) -> str:
    """Return what ``called_name`` does, of what has arguments in brackets as well, as in ``Generic[T]``."""
    match node:
        case ast.Call(func=inner) | ast.Subscript(value=inner):
            return base_name(inner)
    return bare_name(node)
