"""Reads the permission rules of the user and of a repository: TOML, with a list for each verdict.

::

    allow = ["edit docs/**", "command pytest"]
    ask = ["edit src/**"]
    deny = ["edit migrations/**", "command rm"]
"""

from pathlib import Path
from typing import Final

from khepri import paths
from khepri.agent.permissions import Rule, Verdict
from khepri.config.files import ConfigFile, read_repository_file, read_user_file
from khepri.errors import ConfigError

_VERDICTS: Final = {verdict.name.lower(): verdict for verdict in Verdict}
_ACTIONS: Final = ("edit", "command")


def load_rules(root: Path) -> tuple[Rule, ...]:
    """Return the rules of the user and of the repository at ``root``.

    Raises:
        ConfigError: A file is not sound, or the repository's allows something.
    """
    user = read_user_file(paths.user_permissions_file())
    repository = read_repository_file(paths.repository_permissions_file(root), root)
    rules = _rules(user) if user else []
    if repository:
        own = _rules(repository)
        loosened = next((rule for rule in own if rule.verdict is Verdict.ALLOW), None)
        if loosened is not None:
            raise ConfigError(
                f"{repository.where('allow')}: a repository's rules can forbid and ask, but not allow",
                f"remove allow there, or write it yourself in {paths.user_permissions_file()}",
            )
        rules += own
    return tuple(rules)


def _rules(file: ConfigFile) -> list[Rule]:
    rules = []
    for key, lines in file.table.items():
        verdict = _VERDICTS.get(key)
        if verdict is None or not isinstance(lines, list):
            raise ConfigError(f"{file.where(key)}: {key} is none of allow, ask and deny", 'write deny = ["edit x/**"]')
        for line in lines:
            action, _, pattern = line.strip().partition(" ") if isinstance(line, str) else ("", "", "")
            if action not in _ACTIONS or not pattern.strip():
                raise ConfigError(
                    f"{file.where(key)}: {line!r} is no rule",
                    'write "edit src/**" for files, "command pytest" for commands',
                )
            rules.append(Rule(verdict, action, pattern.strip(), str(file.path)))
    return rules
