"""``khepri config``: every setting, its value, and where the value came from; and the README's table of settings.

What the settings do is not known here.
"""

import ast
import inspect
import json
import os
import sys
from pathlib import Path

from khepri import config, paths
from khepri.config import Config, Loaded, Value
from khepri.repo.root import Repository
from khepri.repo.text import printable

_NARROWEST_TABLE = 60


def run(cwd: Path, as_json: bool) -> None:
    """Print the configuration in force in ``cwd``: a table on a terminal, aligned text in a pipe, or JSON.

    Raises:
        UsageError: ``cwd`` is no folder to work in.
        ConfigError: A source of the configuration cannot be used.
    """
    loaded = config.load(Repository.open(cwd).root, {}, os.environ)
    if as_json:
        print(json.dumps(_as_mapping(loaded), indent=2))
    elif sys.stdout.isatty():
        _print_table(loaded)
    else:
        print(as_text(loaded))


def markdown_table() -> str:
    """Return every setting as a Markdown table: key, default, accepted values, and the sentence of its field."""
    sentences = _field_sentences()
    rows = [
        f"| `{key.name}` | `{_shown(key.default)}` | {key.accepted} | {sentences[key.name]} |"
        for key in config.keys().values()
    ]
    return "\n".join(["| key | default | accepted | meaning |", "|---|---|---|---|", *rows])


def _as_mapping(loaded: Loaded) -> dict[str, dict[str, Value]]:
    return {
        name: {"value": origin.value, "source": origin.source, "where": origin.where}
        for name, origin in loaded.origins.items()
    }


def _rows(loaded: Loaded) -> list[tuple[str, str, str]]:
    return [(name, _shown(origin.value), printable(origin.where)) for name, origin in loaded.origins.items()]


def as_text(loaded: Loaded) -> str:
    """Return every setting with its value and where that came from, a line each."""
    rows = _rows(loaded)
    name_width, value_width = (max(len(row[column]) for row in rows) for column in (0, 1))
    return "\n".join(f"{name:<{name_width}}  {value:<{value_width}}  {where}" for name, value, where in rows)


def as_answer(loaded: Loaded) -> str:
    """Return the settings as a conversation shows them: with where to change them."""
    return f"{as_text(loaded)}\n\nChange them in {paths.user_config_file()}, a line each, such as: max_tokens = 2048"


def _print_table(loaded: Loaded) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if console.width < _NARROWEST_TABLE:
        # Lines that the terminal wraps keep every word; columns of three letters do not.
        print(as_text(loaded))
        return
    table = Table("setting", "value", "from")
    for (name, value, where), origin in zip(_rows(loaded), loaded.origins.values(), strict=True):
        style = "dim" if origin.source is config.Source.DEFAULT else "bold"
        table.add_row(
            Text(name, overflow="fold"),
            Text(value, style=style, overflow="fold"),
            Text(where, style=style, overflow="fold"),
        )
    console.print(table)


def _shown(value: Value) -> str:
    """Return a value as it would be written in the file."""
    return "auto" if value is None else json.dumps(value, ensure_ascii=False)


def _field_sentences() -> dict[str, str]:
    (definition,) = ast.parse(inspect.getsource(Config)).body
    assert isinstance(definition, ast.ClassDef)
    sentences = {}
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            sentences[field.target.id] = ast.literal_eval(below.value)
    return sentences
