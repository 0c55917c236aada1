"""Every place on disk that Khepri uses, one function each.

Nothing here creates or reads anything: callers create what they need, and treat a folder that cannot be written as a
missing cache, never as a failure.
"""

import hashlib
import os
from pathlib import Path

import platformdirs

_APP = "khepri"


def user_config_dir() -> Path:
    """Return the folder of the user's own configuration, prompts and command tools."""
    return Path(platformdirs.user_config_dir(_APP, appauthor=False))


def user_config_file() -> Path:
    """Return the user's configuration file."""
    return user_config_dir() / "config.toml"


def user_tools_dir() -> Path:
    """Return the folder of the user's own command tools (never a repository's)."""
    return user_config_dir() / "tools"


def repository_config_file(root: Path) -> Path:
    """Return the configuration file of the repository at ``root``."""
    return root / ".khepri" / "config.toml"


def models_dir() -> Path:
    """Return the folder that holds the models which Khepri pulled or added."""
    return Path(platformdirs.user_data_dir(_APP, appauthor=False)) / "models"


def state_dir() -> Path:
    """Return the folder of what Khepri remembers about the user's repositories and cannot make again."""
    return Path(platformdirs.user_state_dir(_APP, appauthor=False))


def plans_dir() -> Path:
    """Return the folder of the changes that were interrupted and can be gone on with."""
    return state_dir() / "plans"


def confirmed_checks_file() -> Path:
    """Return the file of the check commands that the user has confirmed for a repository."""
    return state_dir() / "checks.json"


def user_permissions_file() -> Path:
    """Return the file of the user's own permission rules."""
    return user_config_dir() / "permissions.toml"


def repository_permissions_file(root: Path) -> Path:
    """Return the file of the permission rules of the repository at ``root``, which can only forbid."""
    return root / ".khepri" / "permissions.toml"


def checkpoints_dir() -> Path:
    """Return the folder of the changes that can be taken back."""
    return state_dir() / "checkpoints"


def sessions_dir(root: Path) -> Path:
    """Return the folder of the conversations about the repository at ``root``."""
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
    return state_dir() / "sessions" / f"{root.name or 'root'}-{digest}"


def composer_history_file() -> Path:
    """Return the file of the messages that the user wrote, newest last."""
    return state_dir() / "history.jsonl"


def keys_file() -> Path:
    """Return the user's file of keys that differ from the defaults."""
    return user_config_dir() / "keys.toml"


def theme_file() -> Path:
    """Return the file that holds the name of the theme that was chosen last."""
    return state_dir() / "theme"


def cache_dir() -> Path:
    """Return the folder of everything that can be made again."""
    return Path(platformdirs.user_cache_dir(_APP, appauthor=False))


def map_cache_dir() -> Path:
    """Return the folder of cached symbols, by content."""
    return cache_dir() / "symbols"


def drafts_cache_dir() -> Path:
    """Return the folder of the repositories' tokens and of the indices over them."""
    return cache_dir() / "drafts"


def prefixes_dir() -> Path:
    """Return the folder of keys and values that outlive a process."""
    return cache_dir() / "prefixes"


def pass_costs_file() -> Path:
    """Return the file of what passes of models cost on this machine."""
    return cache_dir() / "pass-costs.json"


def exactness_file() -> Path:
    """Return the file of the models for which exact decoding was proven on this machine."""
    return cache_dir() / "exact.txt"


def backend_choice_file() -> Path:
    """Return the file of which library runs which model on this machine."""
    return cache_dir() / "backends.json"


def probe_cache_file() -> Path:
    """Return the file of the verdicts on (library build, CPU) pairs."""
    return cache_dir() / "probe.json"
