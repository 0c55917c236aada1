"""Rules: what they match, which of them wins, and that a command cannot hide behind another."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from khepri.agent.permission_rules import load_rules
from khepri.agent.permissions import Permissions, Rule, Verdict, commands_in
from khepri.errors import ConfigError


def rule(verdict: Verdict, words: str) -> Rule:
    action, _, pattern = words.partition(" ")
    return Rule(verdict, action, pattern, "test")


DENY_RM = [rule(Verdict.ALLOW, "command *"), rule(Verdict.DENY, "command rm")]


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf x",
        "/bin/rm -rf x",
        "env rm x",
        "env -i A=b rm x",
        "env -u HOME -C /tmp rm x",
        "env -S 'rm x'",
        "A=b rm x",
        "sudo rm x",
        "sudo -u root -- rm x",
        "timeout 5 rm x",
        "timeout -s KILL 5 rm x",
        "nice -n 5 rm x",
        "nohup setsid rm x",
        "sh -c 'rm x'",
        "bash -lc 'cd y && rm x'",
        'sudo sh -c "env timeout 3 rm x"',
        "true && rm x",
        "true; rm x",
        "true | xargs rm",
        "true || rm x",
        "(rm x)",
        "true & rm x",
        "true\nrm x",
        "eval rm x",
        "command rm x",
        "echo $(rm x)",
        "echo `rm x`",
        "r'm' x",
        "xargs -n 1 rm",
    ],
)
def test_a_denied_command_is_found_behind_everything(command: str) -> None:
    assert Permissions(DENY_RM).command(command).verdict is Verdict.DENY
    assert Permissions(DENY_RM, is_approved=True).command(command).verdict is Verdict.DENY


@pytest.mark.parametrize("command", ["pytest -q", "rmdir x", "echo rm", "grep rm x", "npm run test"])
def test_other_commands_are_not(command: str) -> None:
    assert Permissions(DENY_RM).command(command).verdict is Verdict.ALLOW


@pytest.mark.parametrize("command", ["$X y", "sh -c", "echo 'open", "cat <<E", "pytest $(cat x)"])
def test_what_cannot_be_understood_is_never_allowed_by_a_rule(command: str) -> None:
    assert commands_in(command) is None
    assert Permissions([rule(Verdict.ALLOW, "command *")]).command(command).verdict is Verdict.ASK


def test_every_part_of_a_line_has_to_be_allowed() -> None:
    rules = Permissions([rule(Verdict.ALLOW, "command pytest"), rule(Verdict.ALLOW, "command ruff *")])
    assert rules.command("pytest -q && ruff check").verdict is Verdict.ALLOW
    assert rules.command("pytest -q && make").verdict is Verdict.ASK
    assert rules.command("pytestx").verdict is Verdict.ASK


@pytest.mark.parametrize(
    ("path", "verdict"),
    [
        ("docs/a.md", Verdict.ALLOW),
        ("docs/secret/a.md", Verdict.DENY),
        ("src/a.py", Verdict.ASK),
        ("x.py", Verdict.ASK),
    ],
)
def test_the_strictest_rule_for_a_file_decides(path: str, verdict: Verdict) -> None:
    rules = [
        rule(Verdict.DENY, "edit docs/secret/**"),
        rule(Verdict.ALLOW, "edit docs/**"),
        rule(Verdict.ASK, "edit src/**"),
        rule(Verdict.ALLOW, "edit src/**"),
    ]
    ruling = Permissions(rules).edit(path)
    assert ruling.verdict is verdict
    assert ruling.reason
    approved = Permissions(rules, is_approved=True).edit(path).verdict
    assert approved is (Verdict.DENY if verdict is Verdict.DENY else Verdict.ALLOW)


@given(st.text(alphabet="rm x;&|()'\"$`\\-=\n<>", max_size=30))
def test_no_line_breaks_the_reader(command: str) -> None:
    assert isinstance(Permissions(DENY_RM).command(command).verdict, Verdict)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "config" / "khepri").mkdir(parents=True)
    (tmp_path / "repository" / ".khepri").mkdir(parents=True)
    return tmp_path


def write(home: Path, user: str = "", repository: str = "") -> None:
    (home / "config" / "khepri" / "permissions.toml").write_text(user, encoding="utf-8")
    (home / "repository" / ".khepri" / "permissions.toml").write_text(repository, encoding="utf-8")


def test_a_repository_can_tighten(home: Path) -> None:
    write(home, 'allow = ["edit **", "command pytest"]', 'deny = ["edit migrations/**"]\nask = ["command pytest"]')
    rules = Permissions(load_rules(home / "repository"))
    assert rules.edit("a.py").verdict is Verdict.ALLOW
    assert rules.edit("migrations/1.py").verdict is Verdict.DENY
    assert rules.command("pytest").verdict is Verdict.ASK


@pytest.mark.parametrize(
    ("user", "repository"),
    [
        ("", 'allow = ["edit **"]'),
        ('permit = ["edit **"]', ""),
        ('deny = "edit **"', ""),
        ('deny = ["write **"]', ""),
        ('deny = ["edit"]', ""),
        ("deny = [1]", ""),
    ],
)
def test_a_rule_that_is_none_is_an_error_and_a_repository_cannot_loosen(home: Path, user: str, repository: str) -> None:
    write(home, user, repository)
    with pytest.raises(ConfigError):
        load_rules(home / "repository")
