import json
from collections.abc import Callable
from pathlib import Path

import pytest

from khepri import assets
from khepri.errors import ConfigError
from khepri.repo.root import Repository
from khepri.tools.base import Arguments, JsonValue, Manifest, Observation, ToolContext
from khepri.tools.registry import ModuleTool, Registry, read_manifest

Call = Callable[..., Observation]


def count_tokens(text: str) -> int:
    return (len(text) + 3) // 4


def registry_of(text: str, permissions: dict[str, str] | None = None) -> Registry:
    def run(context: ToolContext, arguments: Arguments) -> Observation:
        return Observation(text=text, tokens=0, summary="said", paths=("a.py",))

    manifest = Manifest(name="say", description="Say", permission="read", parameters={}, example={})
    return Registry([ModuleTool(manifest, run)], permissions)


def test_every_manifest_has_its_code_and_a_sound_example() -> None:
    everything = {"edit": "allow"}
    names = [manifest.name for manifest in Registry.load(everything, user_dir=Path("/nowhere")).manifests]
    assert names == sorted(path.stem for path in assets.tools_dir().glob("*.toml"))
    assert {"git", "list", "search"} <= set(names)


def test_the_tools_cost_the_model_few_tokens() -> None:
    manifests = Registry.load(user_dir=Path("/nowhere")).manifests
    described = [
        json.dumps({"name": each.name, "description": each.description, "parameters": each.parameters})
        for each in manifests
    ]
    assert sum(count_tokens(each) for each in described) < 450


def test_an_unknown_tool_names_the_nearest(call: Call) -> None:
    observation = call("serch", {"pattern": "x"})
    assert observation.is_error
    assert "did you mean search?" in observation.text


def test_a_refusal_is_an_observation_that_says_what_to_do(call: Call) -> None:
    observation = call("list", {"path": "../.."})
    assert observation.is_error
    assert observation.text == "error: ../.. is outside the repository; name a path from the repository's root"
    assert observation.summary == "../.. is outside the repository"


def test_whatever_a_tool_says_fits_and_is_harmless(tmp_path: Path) -> None:
    context = ToolContext(Repository.open(tmp_path), count_tokens, 20)
    observation = registry_of("\x1b[2Jrow\x07\n" * 1000).run(context, "say", {})
    assert observation.text.split("\n")[0] == "row\\x07"
    assert "[cut: " in observation.text
    assert observation.tokens == count_tokens(observation.text) <= 20
    assert observation.paths == ("a.py",)


def test_permissions_hold_by_kind_and_by_name(tmp_path: Path) -> None:
    context = ToolContext(Repository.open(tmp_path), count_tokens, 50)
    for permissions, allowed in (({}, True), ({"read": "deny"}, False), ({"read": "deny", "say": "allow"}, True)):
        registry = registry_of("x", permissions)
        assert (len(registry.manifests) == 1) is allowed
        assert registry.run(context, "say", {}).is_error is not allowed


def write_tool(folder: Path, **changes: str) -> Path:
    lines = {
        "name": 'name = "test"',
        "description": 'description = "Run the tests"',
        "permission": 'permission = "command"',
        "command": 'command = ["echo", "{path}"]',
        "parameters": '[parameters]\ntype = "object"\nproperties.path = { type = "string" }',
        "example": '[example]\npath = "tests"',
    }
    path = folder / "test.toml"
    path.write_text("\n".join({**lines, **changes}.values()))
    return path


def test_a_command_tool_of_the_user_is_loaded_but_denied_until_allowed(tmp_path: Path) -> None:
    write_tool(tmp_path)
    assert "test" not in [each.name for each in Registry.load(user_dir=tmp_path).manifests]
    allowed = Registry.load({"command": "allow"}, user_dir=tmp_path)
    assert "test" in [each.name for each in allowed.manifests]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": 'name = "other"'}, "names its tool other"),
        ({"name": ""}, "has no name"),
        ({"description": 'description = "a\\nb"'}, "more than one line"),
        ({"permission": 'permission = "all"'}, "unknown permission all"),
        ({"permission": 'permission = "read"'}, "runs a program but asks for read"),
        ({"command": ""}, "has no command"),
        ({"command": 'command = "rm -rf"'}, "list of texts"),
        ({"command": 'command = ["{path}"]'}, "program itself must be fixed"),
        ({"command": 'command = ["echo", "{other}"]'}, "is no parameter"),
        ({"example": "[example]\nnone = 1"}, "no argument none"),
        ({"example": "[example]\npath = 2026-01-01"}, "JSON"),
        ({"parameters": "parameters = 1"}, "parameters must be a table"),
        ({"extra": "[extra]"}, "unknown key extra"),
        ({"extra": "= broken"}, "cannot be read"),
    ],
)
def test_a_bad_manifest_is_named_with_its_fault(tmp_path: Path, changes: dict[str, str], words: str) -> None:
    path = write_tool(tmp_path, **changes)
    with pytest.raises(ConfigError, match=words) as caught:
        Registry.load(user_dir=tmp_path)
    assert str(path) in caught.value.message


def test_a_user_cannot_replace_a_tool_by_accident(tmp_path: Path) -> None:
    write_tool(tmp_path, name='name = "git"').rename(tmp_path / "git.toml")
    with pytest.raises(ConfigError, match="takes the name"):
        Registry.load(user_dir=tmp_path)


def test_a_repository_cannot_add_a_tool(tmp_path: Path) -> None:
    (tmp_path / ".khepri" / "tools").mkdir(parents=True)
    (tmp_path / "tools").mkdir()
    for folder in (tmp_path / ".khepri" / "tools", tmp_path / "tools"):
        write_tool(folder)
    registry = Registry.load({"command": "allow"}, user_dir=tmp_path / "user")
    assert "test" not in [manifest.name for manifest in registry.manifests]


def test_manifests_that_ship_hold_no_command() -> None:
    for path in assets.tools_dir().glob("*.toml"):
        manifest, command = read_manifest(path)
        assert (command, manifest.permission in {"read", "git", "edit"}) == ((), True)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read", {"path": "src/a_file_of_some_length.py"}),
        ("read", {"path": "src/a_file_of_some_length.py", "symbol": "missing"}),
        ("outline", {"path": "src/a_file_of_some_length.py"}),
        ("outline", {"path": "src"}),
        ("list", {"path": "src"}),
    ],
)
def test_what_has_no_room_for_a_line_says_so_and_claims_none(
    tmp_path: Path, call: Call, name: str, arguments: dict[str, JsonValue]
) -> None:
    (tmp_path / "src").mkdir()
    code = "def a_function_of_some_length(value):\n    return value\n"
    (tmp_path / "src" / "a_file_of_some_length.py").write_text(code, encoding="utf-8")
    observation = call(name, arguments, budget=6)
    assert observation.is_error
    assert observation.text.startswith("error: no room")
    assert (observation.summary[:11], observation.paths) == ("no room for", ())
