"""Checks the arguments of a tool call against the tool's schema, forgiving the slips that small models make.

The schemas are the part of JSON Schema that ``tools/`` uses: an object of ``string``, ``integer``, ``number``,
``boolean`` and ``array`` properties with ``enum``, ``minimum``, ``maximum`` and ``required``. What an argument means
is not known here.
"""

import difflib
from collections.abc import Mapping

from khepri.errors import ToolError
from khepri.tools.base import Arguments, JsonValue, Manifest


def check_arguments(manifest: Manifest, arguments: Arguments) -> dict[str, JsonValue]:
    """Return the arguments with the types that the schema asks for; empty optional ones are left out.

    ``"10"`` for 10, ``["x"]`` for ``"x"``, ``"x"`` for ``["x"]``, ``"true"`` for true and ``Log`` for ``log`` are
    understood; numbers are brought into their range.

    Raises:
        ToolError: An argument is unknown, missing or of another type.
    """
    properties = _object(manifest.parameters.get("properties"))
    required = manifest.parameters.get("required")
    needed = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    checked: dict[str, JsonValue] = {}
    for name, value in arguments.items():
        if name not in properties:
            raise ToolError(f"{manifest.name} has no argument {name}", _suggest(name, list(properties)))
        if value is None or (value in ("", []) and name not in needed):
            continue
        checked[name] = _coerce(f"{manifest.name}.{name}", value, _object(properties[name]))
    missing = [name for name in needed if name not in checked]
    if missing:
        example = ", ".join(f"{key}={value!r}" for key, value in manifest.example.items())
        raise ToolError(f"{manifest.name} needs {', '.join(missing)}", f"for example {manifest.name}({example})")
    return checked


def _coerce(label: str, value: JsonValue, schema: Mapping[str, JsonValue]) -> JsonValue:
    kind = schema.get("type")
    if isinstance(value, list) and kind != "array" and len(value) == 1:
        value = value[0]
    match kind:
        case "string":
            return _string(label, value, schema)
        case "integer" | "number":
            return _number(label, value, schema, whole=kind == "integer")
        case "boolean":
            return _boolean(label, value)
        case "array":
            items = _object(schema.get("items"))
            return [_coerce(label, item, items) for item in (value if isinstance(value, list) else [value])]
        case _:
            return value


def _string(label: str, value: JsonValue, schema: Mapping[str, JsonValue]) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ToolError(f"{label} must be a text", "write it in quotes")
    # JSON can spell half of a surrogate pair, which no file name and no program takes.
    text = str(value).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    options = schema.get("enum")
    if isinstance(options, list) and text not in options:
        folded = [option for option in options if isinstance(option, str) and option == text.strip().lower()]
        if not folded:
            names = [str(option) for option in options]
            raise ToolError(f"{label} cannot be {text[:40]!r}", _suggest(text, names))
        return folded[0]
    return text


def _number(label: str, value: JsonValue, schema: Mapping[str, JsonValue], *, whole: bool) -> int | float:
    number: float | None = None
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            number = None
    if number is None or number != number or abs(number) > 1e15:
        raise ToolError(f"{label} must be a number", "write it without quotes")
    low, high = schema.get("minimum"), schema.get("maximum")
    if isinstance(low, int | float):
        number = max(number, low)
    if isinstance(high, int | float):
        number = min(number, high)
    return int(number) if whole else number


def _boolean(label: str, value: JsonValue) -> bool:
    known = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    found = known.get(str(value).strip().lower()) if isinstance(value, str | int) else None
    if found is None:
        raise ToolError(f"{label} must be true or false", "write true or false")
    return found


def _object(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _suggest(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.5)
    options = "it knows " + ", ".join(known) if known else "it takes none"
    return f"did you mean {near[0]}? {options}" if near else options
