import pytest

from khepri.repo.roles import Role, role_of


@pytest.mark.parametrize(
    ("path", "role"),
    [
        ("src/app/session.py", Role.SOURCE),
        ("pkg/__main__.py", Role.ENTRY),
        ("cmd/server/main.go", Role.ENTRY),
        ("src/index.ts", Role.ENTRY),
        ("tests/test_session.py", Role.TEST),
        ("pkg/session_test.go", Role.TEST),
        ("src/app.spec.ts", Role.TEST),
        ("src/SessionTest.java", Role.TEST),
        ("src/latest.py", Role.SOURCE),
        ("src/contest.py", Role.SOURCE),
        ("docs/conf.py", Role.DOC),
        ("README.md", Role.DOC),
        ("shop/migrations/0001_initial.py", Role.MIGRATION),
        ("vendor/lib/a.go", Role.FOREIGN),
        ("web/node_modules/x/index.js", Role.FOREIGN),
        ("api/user_pb2.py", Role.FOREIGN),
        ("static/app.min.js", Role.FOREIGN),
        ("pyproject.toml", Role.OTHER),
        (".gitignore", Role.OTHER),
        ("Makefile", Role.OTHER),
    ],
)
def test_a_path_tells_the_role(path: str, role: Role) -> None:
    assert role_of(path) is role


def test_own_source_outweighs_everything_but_entry_points() -> None:
    assert [role.name for role in sorted(Role, key=lambda role: -role.weight)][:2] == ["ENTRY", "SOURCE"]
