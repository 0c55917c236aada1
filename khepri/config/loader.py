"""The one loader: defaults < user file < repository file < environment < flags.

A repository is not the user. Its file may make Khepri more careful, never less; what it may not say is in
``_refusal``.
"""

import difflib
import math
import os
import re
import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from khepri import paths
from khepri.config.files import ConfigFile, read_repository_file, read_user_file
from khepri.config.schema import Backend, Config, Decoding, Draft, ExtraBuffers, KvType, NetworkLock, Permission
from khepri.config.values import Key, Value, bad_value, keys, unknown_key
from khepri.errors import ConfigError

_VARIABLE_PREFIX = "KHEPRI_"
# Ours by name, but no settings: one shows tracebacks, the other belongs to the set-up of a checkout.
_OTHER_VARIABLES = frozenset({"KHEPRI_DEBUG", "KHEPRI_WHEELS"})
_ROOM = frozenset(
    {"context_tokens", "batch_tokens", "cache_conversations", "cache_tokens", "cache_mb", "threads", "kv_type", "draft"}
)
_MODELS = {Draft.OFF: 1, Draft.SUFFIX: 1, Draft.MODEL: 2, Draft.ALL: 2}
_WIDTHS = {KvType.Q8_0: 1, KvType.AUTO: 2, KvType.F16: 2}
_MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+-]*")


class Source(StrEnum):
    """The kinds of places a value can come from, weakest first."""

    DEFAULT = "default"
    USER = "user"
    REPOSITORY = "repository"
    ENVIRONMENT = "environment"
    FLAG = "flag"


@dataclass(frozen=True)
class Origin:
    """A value and where it came from."""

    value: Value
    """The value in force."""
    source: Source
    """Kind of place."""
    where: str
    """The place itself: ``default``, a file's path, a variable or a flag."""


@dataclass(frozen=True)
class Loaded:
    """The configuration in force."""

    config: Config
    """Every value."""
    origins: Mapping[str, Origin]
    """Where each value came from, by the name of the field, in the order of ``Config``."""


def load(root: Path | None, flags: Mapping[str, Value], environ: Mapping[str, str]) -> Loaded:
    """Read every source and return the configuration in force.

    Args:
        root: Root of the repository, whose file is read; None if there is no repository.
        flags: What the command line says, by the name of the field; None stands for a flag that was not given.
        environ: The environment. An empty variable counts as not set.

    Raises:
        ConfigError: A file cannot be used, a key is unknown, a value is not accepted, or the repository's file says
            what a repository may not.
    """
    known = keys()
    origins = {name: Origin(key.default, Source.DEFAULT, "default") for name, key in known.items()}
    user_file = read_user_file(paths.user_config_file())
    if user_file:
        origins.update(_from_file(user_file, Source.USER, known))
    repository_file = read_repository_file(paths.repository_config_file(root), root) if root else None
    if repository_file:
        found = dict(_from_file(repository_file, Source.REPOSITORY, known))
        current = {name: origin.value for name, origin in origins.items()}
        for name, origin in found.items():
            _check_repository_may(name, origin.value, current, repository_file)
        origins.update(found)
    origins.update(_from_environment(environ, known))
    origins.update(_from_flags(flags, known))
    # The fields are those the keys were made from, and each value has passed its key.
    config = Config(**{name: origin.value for name, origin in origins.items()})  # type: ignore[arg-type]
    return Loaded(config, MappingProxyType(origins))


def _from_file(file: ConfigFile, source: Source, known: Mapping[str, Key]) -> Iterator[tuple[str, Origin]]:
    for name, raw in file.table.items():
        key = known.get(name)
        if key is None:
            raise unknown_key(name, known, file.where(name))
        try:
            yield name, Origin(key.parse(raw), source, str(file.path))
        except ValueError as error:
            raise bad_value(key, raw, file.where(name)) from error


def _from_environment(environ: Mapping[str, str], known: Mapping[str, Key]) -> Iterator[tuple[str, Origin]]:
    for variable, text in environ.items():
        if not variable.startswith(_VARIABLE_PREFIX) or variable in _OTHER_VARIABLES or not text:
            continue
        key = known.get(variable.removeprefix(_VARIABLE_PREFIX).lower())
        if key is None or key.variable != variable:
            raise _unknown_variable(variable, known)
        try:
            yield key.name, Origin(key.parse_text(text), Source.ENVIRONMENT, variable)
        except ValueError as error:
            raise bad_value(key, text, f"environment variable {variable}") from error


def _from_flags(flags: Mapping[str, Value], known: Mapping[str, Key]) -> Iterator[tuple[str, Origin]]:
    for name, raw in flags.items():
        key = known.get(name)
        if key is None:
            raise unknown_key(name, known, "command line")
        if raw is None:
            continue
        try:
            value = key.parse_text(raw) if isinstance(raw, str) else key.parse(raw)
        except ValueError as error:
            raise bad_value(key, raw, f"flag {key.flag}") from error
        yield name, Origin(value, Source.FLAG, key.flag)


def _unknown_variable(variable: str, known: Mapping[str, Key]) -> ConfigError:
    near = difflib.get_close_matches(variable.removeprefix(_VARIABLE_PREFIX).lower(), known, n=1)
    suggestion = f"; did you mean {known[near[0]].variable}?" if near else ""
    written = variable if variable.isprintable() else ascii(variable)
    accepted = ", ".join(key.variable for key in known.values())
    return ConfigError(f"unknown environment variable {written}{suggestion}", f"accepted variables: {accepted}")


def _check_repository_may(name: str, value: Value, current: Mapping[str, Value], file: ConfigFile) -> None:
    refusal = _refusal(name, value, current)
    if refusal:
        raise ConfigError(
            f"{file.where(name)}: a repository's configuration cannot {refusal}",
            f"remove {name} there, or set it yourself in {paths.user_config_file()}",
        )


def _refusal(name: str, value: Value, values: Mapping[str, Value]) -> str:
    """Return what the repository attempted and may not do; empty if it may.

    Args:
        name: The key.
        value: What the repository says.
        values: What holds without it.
    """
    current = values[name]
    if name == "network_lock" and (value, current) == (NetworkLock.ON, NetworkLock.REQUIRED):
        return "loosen the network lock, which you require"
    if name == "decoding" and (value, current) == (Decoding.FAST, Decoding.EXACT):
        return "take back that answers are exact"
    if name.startswith("permission_") and (value, current) == (Permission.ALLOW, Permission.DENY):
        return f"widen a permission: {name} is {current}"
    if name in _ROOM and _room(name, value, values) > _room(name, current, values):
        return f"take more room than you allow: {name} is {current}"
    if name == "cache_disk_mb":
        return "say how much your repositories keep on the disk together"
    if name == "extra_buffers" and value == ExtraBuffers.ON:
        return "overrule the probe of your machine"
    if name == "backend" and value == Backend.IK_LLAMA != current:
        return "choose a library that was not compared on your machine"
    if name == "check":
        return "name a command that runs on your machine"
    if name in ("model", "draft_model") and value and not _is_model_name(str(value)):
        return f"point at a file: {name} may only be the plain name of a model there, not {reprlib.repr(value)}"
    return ""


def _room(name: str, value: Value, values: Mapping[str, Value]) -> float:
    """Return how much of the machine a value takes, comparable with other values of the same key."""
    match name:
        case "draft":
            return _MODELS[Draft(str(value))]
        case "kv_type":
            return _WIDTHS[KvType(str(value))]
        case "cache_mb" if value == 0:
            return math.inf
        case "cache_tokens" if value == 0:
            return int(str(values["context_tokens"]))
        case "threads" if value == 0:
            return os.cpu_count() or 1
        case _:
            return int(str(value))


def _is_model_name(model: str) -> bool:
    # A bare file name would be looked up in the working folder, which is the repository's.
    return _MODEL_NAME.fullmatch(model) is not None and not model.lower().endswith(".gguf")
