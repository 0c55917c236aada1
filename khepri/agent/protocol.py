"""How a model calls a tool: the grammar that holds it to the schemas, and the reader of what it wrote.

Models of this size fall into other wrappers than the one they were told; four are understood: ``<tool_call>``,
``<tools>``, a fenced JSON block and bare JSON.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from khepri.agent.language import ENGLISH, Language
from khepri.tools.base import JsonValue, Manifest

TRIGGER = "<tool_call>"
CALL_END = "</tool_call>"
_MAX_ENUMERATED_PATHS = 5000
_MAX_STRING_LENGTH = 120
_OPENERS = (TRIGGER, "<tools>", "```json", "```tool_call", "{")
_WRAPPERS = re.compile(r"<tool_call>|<tools>|```(?:json|tool_call)?[ \t]*\n|\A\s*(?=\{)")


@dataclass(frozen=True)
class ToolCall:
    """A call that the model wrote."""

    name: str
    arguments: Mapping[str, JsonValue]

    @property
    def identity(self) -> str:
        """Return a text that is equal for equal calls."""
        return f"{self.name} {json.dumps(self.arguments, sort_keys=True)}"


def tool_grammar(manifests: Sequence[Manifest], files: Sequence[str], folders: Sequence[str]) -> str:
    """Return the Lark grammar of what follows ``TRIGGER``: one call, compact JSON, closing tag.

    Args:
        manifests: The tools that may be called.
        files: Paths that a parameter of format ``file`` may name.
        folders: Paths that a parameter of format ``path`` may name besides the files. With more paths than a grammar
            can hold, a path is any string, and the tool answers for wrong ones.
    """
    rules = [f'start: "\\n{{\\"name\\": " call "}}\\n{CALL_END}"']
    calls = []
    for index, manifest in enumerate(manifests):
        calls.append(f'"\\"{manifest.name}\\", \\"arguments\\": " arguments_{index}')
        schema = _constrained_schema(manifest.parameters, files, folders)
        rules.append(f"arguments_{index}: %json {json.dumps(schema)}")
    return "\n".join([rules[0], "call: " + " | ".join(calls), *rules[1:]])


def folders_of(files: Sequence[str]) -> tuple[str, ...]:
    """Return every folder that holds a file, at any depth, sorted, with the root as ``.`` first."""
    found = {"."}
    for file in files:
        parts = file.split("/")[:-1]
        found.update("/".join(parts[: depth + 1]) for depth in range(len(parts)))
    return tuple(sorted(found))


def opening_grammar(call_grammar: str, cited: Sequence[str], language: Language = ENGLISH) -> str:
    """Return the Lark grammar of how a reply begins once files were read: with the path of one of them, or a call.

    A small model that must first say which file it speaks of stays with what that file says.

    Args:
        call_grammar: From ``tool_grammar``; empty if no call may be made.
        cited: Paths of the files that were read, at least one.
        language: In which the answer begins; one whose opening is known.
    """
    names = " | ".join(json.dumps(path, ensure_ascii=False) for path in cited if _is_text(path))
    citation = f'citation: "{language.opening} `" ({names}) "`,"'
    if not call_grammar:
        return f"start: citation\n{citation}"
    rules = call_grammar.replace("start:", "tool_call:", 1)
    return f'start: "{TRIGGER}" tool_call | citation\n{citation}\n{rules}'


def _constrained_schema(
    parameters: Mapping[str, JsonValue], files: Sequence[str], folders: Sequence[str]
) -> dict[str, JsonValue]:
    properties = parameters.get("properties")
    assert isinstance(properties, dict), "a manifest's parameters are an object schema"
    narrowed: dict[str, JsonValue] = {
        key: _constrained_property(value, files, folders) for key, value in properties.items()
    }
    return {
        "type": "object",
        "properties": narrowed,
        "required": parameters.get("required", []),
        "additionalProperties": False,
        "x-guidance": {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "},
    }


def _constrained_property(schema: JsonValue, files: Sequence[str], folders: Sequence[str]) -> JsonValue:
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key not in ("description", "format", "default")}
    if schema.get("format") in ("file", "path"):
        named = [*files, *folders] if schema["format"] == "path" else files
        # A name that is no UTF-8 comes as lone surrogates, which a grammar cannot hold.
        paths: list[JsonValue] = [path for path in named if _is_text(path)]
        if 0 < len(paths) <= _MAX_ENUMERATED_PATHS:
            return {"enum": paths}
    if kept.get("type") == "string" and "enum" not in kept:
        kept.setdefault("minLength", 1)
        kept.setdefault("maxLength", _MAX_STRING_LENGTH)
    return kept


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def may_be_call(text: str) -> bool:
    """True while ``text``, the beginning of a turn, may still turn out to be a call in one of the wrappers."""
    start = text.lstrip()
    return any(start.startswith(opener) or opener.startswith(start) for opener in _OPENERS)


def parse(text: str, known_tools: Iterable[str]) -> ToolCall | None:
    """Return the first call of a known tool in ``text``, in any of the four wrappers; None if there is none."""
    names = frozenset(known_tools)
    decoder = json.JSONDecoder(strict=False)
    for wrapper in _WRAPPERS.finditer(text):
        start = text.find("{", wrapper.end())
        if start < 0:
            continue
        try:
            value, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        call = _as_call(value, names)
        if call is not None:
            return call
    return None


def _as_call(value: object, names: frozenset[str]) -> ToolCall | None:
    """Read a decoded object as a call; nested ``function`` objects and arguments written as text count too."""
    if not isinstance(value, dict):
        return None
    inner = value.get("function")
    if isinstance(inner, dict):
        value = inner
    name = value.get("name")
    arguments = value.get("arguments", value.get("parameters", {}))
    try:
        if isinstance(arguments, str):
            arguments = json.loads(arguments)
        if not isinstance(name, str) or name not in names or not isinstance(arguments, dict):
            return None
        # Python reads NaN and half surrogates, which nobody after it could write.
        written = json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    except (ValueError, RecursionError):
        return None
    return ToolCall(name, json.loads(written))
