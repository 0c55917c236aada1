"""The grammar of the calls that plan a change, held to what is there.

A small model decides well between few things that exist and badly between things that it makes up. So it is shown the
definitions that its task names, and a call can name no others.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from khepri.agent.new_names import new_function
from khepri.agent.new_paths import new_paths
from khepri.agent.protocol import CALL_END, TRIGGER, folders_of
from khepri.agent.task_parts import is_only_rename, renamed_parameter, renaming
from khepri.agent.task_reading import (
    Candidate,
    destination,
    is_called,
    is_destination,
    named,
    names_path,
    patterns,
    possible_names,
    replacing,
    tools_spoken_of,
)
from khepri.tools.base import JsonValue, Manifest

_MOST_STRING: Final = 120
_MOST_FILES: Final = 500
_LEFT_TO_THE_MODEL: Final = frozenset({"parameter", "extract"})
"""Tools for Python; in other languages a model can write what they do, within one function."""
_LATER: Final = frozenset({"start", "end"})
"""Parameters that are asked for once the code has been seen."""
_NEW_FILE: Final = r"([A-Za-z0-9_-]{1,40}\/){0,4}[A-Za-z0-9_-]{1,40}\.[a-z]{1,6}"
_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]{0,60}"


def plan_grammar(manifests: Sequence[Manifest], found: Sequence[Candidate], files: Sequence[str], task: str) -> str:
    """Return the Lark grammar of one call whose target exists.

    Only tools that the words of the task speak of are among the choices, and a new name can only be one that the task
    holds: a small model chooses well among few things, and invents where it may.

    Args:
        manifests: The tools that change something.
        found: The definitions that a call may name.
        files: The files that a call may name where it names no definition.
        task: What the user asked for.
    """
    said = renaming(task)
    meant = [each for each in found if said is not None and is_called(each, said[0])]
    found = [*meant, *(each for each in named(found, task) if each not in meant)]
    rules = ["start: call"]
    alternatives = []
    names = possible_names(task, found)
    offered = tools_spoken_of(manifests, task)
    if is_only_rename(task, found):
        offered = [manifest for manifest in offered if manifest.name == "rename"] or offered
    elif _is_about_a_new_member(task, found) and any(manifest.name == "add" for manifest in offered):
        # Written anew, the class would mostly come back as it is.
        offered = [manifest for manifest in offered if manifest.name != "rewrite"]
    kinds = [(manifest, *kind) for manifest in offered for kind in _kinds_of_calls(manifest)]
    for number, (manifest, required, properties) in enumerate(kinds):
        fitting = [each for each in found if not manifest.kinds or not each.symbol or each.kind in manifest.kinds]
        if manifest.name in _LEFT_TO_THE_MODEL:
            fitting = [each for each in fitting if each.path.endswith((".py", ".pyi"))]
        new_names = names
        if manifest.name == "rename" and said is not None:
            # Taken the other way round, a rename that was done before would be taken back.
            fitting, new_names = [each for each in fitting if is_called(each, said[0])], [said[1]]
        elif manifest.name == "move" and (goal := destination(task)):
            fitting = [each for each in fitting if not is_destination(each.path, task)] or fitting
            properties = {**properties, "destination": {"enum": [*_goals(goal, fitting, files)]}}
        elif "new_name" in required and (parameter := renamed_parameter(task)):
            properties = {**properties, "name": {"enum": [parameter[0]]}}
            new_names = [parameter[1]]
        if "symbol" in required and not any(each.symbol for each in fitting):
            continue
        if "new_name" in required and not new_names:
            continue
        sequence = []
        for name, schema in properties.items():
            if name in _LATER or name == "symbol" or not isinstance(schema, dict):
                continue
            rule = f"{manifest.name}_{number}_{name}"
            if schema.get("format") == "file" and name in required:
                rules.append(f"{rule}: {_places(fitting, files, needs_symbol='symbol' in required)}")
                sequence.append(rule)
                continue
            if name == "pattern" and (written := patterns(task)):
                schema = {"enum": [*written]}
            elif name in ("pattern", "replacement") and (pair := replacing(task)):
                schema = {"enum": [pair[name == "replacement"]]}
            if name == "path" and schema.get("format") == "path":
                schema = {"enum": [path for path in (*folders_of(files)[1:], *files) if names_path(path, task)]}
                if not schema["enum"]:
                    continue
            if schema.get("format") == "new_file" and (
                fresh := new_paths(task, [(each.path, each.symbol) for each in found], files)
            ):
                schema = {"enum": [*fresh]}
            rules.append(f"{rule}: {_value(name, schema, new_names)}")
            comma = ", " if sequence else ""
            piece = f"{_literal(f'{comma}{_json(name)}: ')} {rule}"
            sequence.append(piece if name in required else f"({piece})?")
        alternatives.append(f'"\\"{manifest.name}\\", \\"arguments\\": {{" {" ".join(sequence)} "}}"')
    rules.append(f'call: "{TRIGGER}\\n{{\\"name\\": " choice "}}\\n{CALL_END}"')
    rules.append("choice: " + " | ".join(alternatives))
    return "\n".join(rules)


def _is_about_a_new_member(task: str, found: Sequence[Candidate]) -> bool:
    """Tell if a task names a method that is not there, and of what is there nothing but classes."""
    there = [each for each in found if each.symbol]
    is_new = bool(new_function(task, {each.symbol.rpartition(".")[2] for each in there}))
    return is_new and bool(there) and all(each.kind == "class" for each in there)


def _kinds_of_calls(manifest: Manifest) -> list[tuple[Sequence[JsonValue], Mapping[str, JsonValue]]]:
    """Return the required parameters and all parameters of each kind of call that a tool takes.

    They are one kind, unless a parameter says that some of its values need other parameters (``needs``).
    """
    required, properties = manifest.parameters.get("required"), manifest.parameters.get("properties")
    assert isinstance(properties, dict)
    assert isinstance(required, list)
    for name, schema in properties.items():
        if isinstance(schema, dict) and isinstance(needs := schema.get("needs"), dict):
            values = schema.get("enum")
            assert isinstance(values, list)
            others = {**properties, name: {**schema, "enum": [value for value in values if value not in needs]}}
            kinds: list[tuple[Sequence[JsonValue], Mapping[str, JsonValue]]] = [(required, others)]
            for value, needed in needs.items():
                assert isinstance(needed, list)
                kinds.append(([*required, *needed], {**properties, name: {**schema, "enum": [value]}}))
            return kinds
    return [(required, properties)]


def _places(found: Sequence[Candidate], files: Sequence[str], *, needs_symbol: bool) -> str:
    """Return the alternatives for what is named: path and symbol are one choice, since they belong together."""
    places = [f'"path": {_json(each.path)}, "symbol": {_json(each.symbol)}' for each in found if each.symbol]
    if not needs_symbol:
        places += [f'"path": {_json(each.path)}' for each in found if not each.symbol]
    if not places:
        places = [f'"path": {_json(path)}' for path in files[:_MOST_FILES]]
    return " | ".join(_literal(place) for place in dict.fromkeys(places))


def _goals(written: str, found: Sequence[Candidate], files: Sequence[str]) -> list[str]:
    """Return the files that a task may mean by the one that it moves something to: one that is there, or a new one."""
    there = [path for path in files if path == written] or [path for path in files if path.endswith(f"/{written}")]
    folders = [each.path.rpartition("/")[0] for each in found if each.symbol] if "/" not in written else []
    beside = [f"{folder}/{written}" for folder in folders if folder and written.endswith(".py")]
    return list(dict.fromkeys(there or [*beside, written]))


def _value(name: str, schema: Mapping[str, JsonValue], names: Sequence[str]) -> str:
    if schema.get("format") == "name":
        return " | ".join(_literal(_json(each)) for each in names) if names else f'"\\"" /{_NAME}/ "\\""'
    if schema.get("format") == "new_file" and "enum" not in schema:
        return f'"\\"" /{_NEW_FILE}/ "\\""'
    options = schema.get("enum")
    if isinstance(options, list):
        return " | ".join(_literal(_json(option)) for option in options)
    return "%json " + json.dumps({"type": "string", "minLength": 1, "maxLength": _MOST_STRING})


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
