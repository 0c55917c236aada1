"""The configuration: who wins, what is refused, and whether the message leads to the spot."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from khepri import config, paths
from khepri.config import (
    Backend,
    Config,
    Decoding,
    Draft,
    EditForm,
    ExtraBuffers,
    KvType,
    NetworkLock,
    Permission,
    Source,
)
from khepri.config.files import ConfigFile, read_user_file
from khepri.config.loader import Origin
from khepri.errors import ConfigError


class Places:
    """A user's and a repository's configuration on disk."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.user_file = paths.user_config_file()
        self.repository_file = paths.repository_config_file(root)
        self.user_file.parent.mkdir(parents=True)
        self.repository_file.parent.mkdir(parents=True)

    def user(self, text: str) -> None:
        self.user_file.write_text(text, encoding="utf-8")

    def repository(self, text: str) -> None:
        self.repository_file.write_text(text, encoding="utf-8")

    def load(
        self, flags: Mapping[str, config.Value] | None = None, environ: Mapping[str, str] | None = None
    ) -> config.Loaded:
        return config.load(self.root, flags or {}, environ or {})

    def error(
        self, flags: Mapping[str, config.Value] | None = None, environ: Mapping[str, str] | None = None
    ) -> ConfigError:
        with pytest.raises(ConfigError) as caught:
            self.load(flags, environ)
        return caught.value


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    return Places(tmp_path / "repository")


def test_without_any_source_every_value_is_the_default(places: Places) -> None:
    loaded = places.load()
    assert loaded.config == Config()
    assert {origin.where for origin in loaded.origins.values()} == {"default"}
    assert list(loaded.origins) == list(config.keys())


def test_without_a_repository_only_its_file_is_left_out(places: Places) -> None:
    places.user("steps = 3")
    places.repository("steps = 4")
    assert config.load(None, {}, {}).config.steps == 3


def test_each_source_overrides_the_weaker_ones_and_is_named(places: Places) -> None:
    expected = [(8, Source.DEFAULT, "default")]
    seen = [places.load()]
    places.user("steps = 3")
    expected.append((3, Source.USER, str(places.user_file)))
    seen.append(places.load())
    places.repository("steps = 4")
    expected.append((4, Source.REPOSITORY, str(places.repository_file)))
    seen.append(places.load())
    expected.append((5, Source.ENVIRONMENT, "KHEPRI_STEPS"))
    seen.append(places.load(environ={"KHEPRI_STEPS": "5"}))
    expected.append((6, Source.FLAG, "--steps"))
    seen.append(places.load(flags={"steps": 6}, environ={"KHEPRI_STEPS": "5"}))
    assert [loaded.config.steps for loaded in seen] == [value for value, _, _ in expected]
    origins = [loaded.origins["steps"] for loaded in seen]
    assert [(origin.value, origin.source, origin.where) for origin in origins] == expected


def test_a_flag_that_was_not_given_and_an_empty_variable_change_nothing(places: Places) -> None:
    assert (
        places.load(flags={"seed": None, "model": None}, environ={"KHEPRI_MODEL": "", "PATH": "/bin"}).config
        == Config()
    )


def test_every_key_can_be_set_in_the_users_file(places: Places) -> None:
    places.user("""
        model = "/models/my model.gguf"
        context_tokens = 4_096
        threads = 2
        batch_tokens = 64
        temperature = 1
        top_k = 40
        top_p = 0.9
        min_p = 0.05
        seed = 7
        max_tokens = 10
        steps = 1
        observation_tokens = 100
        map_tokens = 0
        instructions_tokens = 0
        draft = "all"
        draft_model = "small"
        gamma = 3
        decoding = "exact"
        backend = "ik_llama"
        kv_type = "q8_0"
        cache_conversations = 3
        cache_tokens = 9000
        cache_mb = 300
        cache_disk_mb = 0
        extra_buffers = "off"
        network_lock = "required"
        permission_read = "deny"
        permission_git = "deny"
        permission_command = "allow"
        edit_form = "blocks"
        check = "pytest"
        repairs = 0
        check_seconds = 9
    """)
    assert places.load().config == Config(
        "/models/my model.gguf", 4096, 2, 64, 1.0, 40, 0.9, 0.05, 7, 10, 1, 100, 0, 0,
        Draft.ALL, "small", 3, Decoding.EXACT, Backend.IK_LLAMA, KvType.Q8_0, 3, 9000, 300, 0, ExtraBuffers.OFF,
        NetworkLock.REQUIRED, Permission.DENY, Permission.DENY, Permission.ALLOW, EditForm.BLOCKS, "pytest", 0, 9,
    )  # fmt: skip


def test_every_key_can_be_set_by_its_variable(places: Places) -> None:
    loaded = places.load(
        environ={
            "KHEPRI_MODEL": "~/m.gguf",
            "KHEPRI_TEMPERATURE": "0.5",
            "KHEPRI_SEED": "3",
            "KHEPRI_EXTRA_BUFFERS": "on",
            "KHEPRI_PERMISSION_READ": "deny",
        }
    )
    values = loaded.config
    assert (values.model, values.temperature, values.seed) == ("~/m.gguf", 0.5, 3)
    assert (values.extra_buffers, values.permission_read) == (ExtraBuffers.ON, Permission.DENY)


def test_a_flag_may_be_a_text_or_have_its_type_already(places: Places) -> None:
    loaded = places.load(flags={"temperature": 1, "max_tokens": "12"})
    assert (loaded.config.temperature, loaded.config.max_tokens) == (1.0, 12)


BAD_VALUES = [
    ("temperature = -0.1", "a number from 0 to 10"),
    ("temperature = nan", "a number from 0 to 10"),
    ("temperature = inf", "a number from 0 to 10"),
    ("temperature = true", "a number from 0 to 10"),
    ('temperature = "0.5"', "a number from 0 to 10"),
    ("top_p = 0", "a number above 0 and at most 1"),
    ("top_p = 1.01", "a number above 0 and at most 1"),
    ("min_p = -1", "a number from 0 to 1"),
    ("steps = 0", "an integer from 1 to 100"),
    ("steps = 8.0", "an integer from 1 to 100"),
    ("steps = true", "an integer from 1 to 100"),
    ("steps = [8]", "an integer from 1 to 100"),
    ("steps.most = 8", "an integer from 1 to 100"),
    ("seed = -1", "an integer from 0"),
    ("seed = 2020-01-01", "an integer from 0"),
    ("context_tokens = 1", "an integer from 512 to 1048576"),
    ("threads = -1", "an integer from 0 to 1024"),
    ("model = 1", "printable text"),
    ('model = "a\\u0000b"', "printable text"),
    ('model = "\\u001b[31m"', "printable text"),
    ('extra_buffers = "yes"', '"auto" or "on" or "off"'),
    ("extra_buffers = true", '"auto" or "on" or "off"'),
    ('network_lock = "off"', '"on" or "required"'),
    ("network_lock = false", '"on" or "required"'),
    ('permission_git = ["allow"]', '"allow" or "deny"'),
]


@pytest.mark.parametrize(("line", "accepted"), BAD_VALUES)
def test_a_bad_value_names_the_file_the_line_and_what_is_accepted(places: Places, line: str, accepted: str) -> None:
    places.user(f"# mine\nmax_tokens = 5\n\n  {line}\nmap_tokens = 5\n")
    message = places.error().message
    assert message.startswith(f"{places.user_file}, line 4: {line.split()[0].split('.')[0]} is ")
    assert accepted in message
    assert message.isprintable()


@pytest.mark.parametrize(
    ("text", "variable"),
    [
        ("warm", "KHEPRI_TEMPERATURE"),
        ("8.5", "KHEPRI_STEPS"),
        ("OFF", "KHEPRI_NETWORK_LOCK"),
        ("9" * 5000, "KHEPRI_SEED"),
    ],
)
def test_a_bad_variable_is_named(places: Places, text: str, variable: str) -> None:
    message = places.error(environ={variable: text}).message
    assert message.startswith(f"environment variable {variable}: ")
    assert "must be" in message
    assert len(message) < 300


def test_a_bad_flag_is_named(places: Places) -> None:
    message = places.error(flags={"max_tokens": 0}).message
    assert message == "flag --max-tokens: max_tokens is 0, and must be an integer from 1 to 1048576"


def test_an_unknown_key_names_the_line_and_the_nearest_key(places: Places) -> None:
    places.repository("steps = 3\ntemprature = 0.5\n")
    error = places.error()
    assert error.message == f"{places.repository_file}, line 2: unknown key 'temprature'; did you mean temperature?"
    assert "context_tokens, threads" in error.hint


def test_an_unknown_table_names_its_line(places: Places) -> None:
    places.repository('steps = 3\n[tools.evil]\ncommand = "curl"\n')
    assert places.error().message == f"{places.repository_file}, line 2: unknown key 'tools'"


@pytest.mark.parametrize("variable", ["KHEPRI_TEMPRATURE", "KHEPRI_Temperature"])
def test_an_unknown_variable_is_refused_as_it_was_written_with_the_nearest_one(places: Places, variable: str) -> None:
    error = places.error(environ={variable: "1"})
    assert error.message == f"unknown environment variable {variable}; did you mean KHEPRI_TEMPERATURE?"
    assert "KHEPRI_MODEL, KHEPRI_CONTEXT_TOKENS" in error.hint


def test_an_unknown_variable_that_resembles_none_is_named_alone(places: Places) -> None:
    assert places.error(environ={"KHEPRI_NOPE": "1"}).message == "unknown environment variable KHEPRI_NOPE"


def test_variables_of_ours_that_are_no_settings_are_left_alone(places: Places) -> None:
    assert (
        places.load(environ={"KHEPRI_DEBUG": "1", "KHEPRI_WHEELS": "/w", "_KHEPRI_SANDBOXED": "1"}).config == Config()
    )


def test_an_unknown_flag_is_refused(places: Places) -> None:
    assert places.error(flags={"step": 1}).message == "command line: unknown key 'step'; did you mean steps?"


def test_a_syntax_error_names_the_file_and_the_line(places: Places) -> None:
    places.user("steps = 3\nmodel = \n")
    message = places.error().message
    assert message.startswith(f"{places.user_file}: not TOML: ")
    assert "line 2" in message


def test_a_key_that_is_set_twice_is_a_syntax_error(places: Places) -> None:
    places.user("steps = 3\nsteps = 4\n")
    assert "line 2" in places.error().message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("steps = 0", 1),
        ("\r\n\r\nsteps = 0\r\n", 3),
        ("# steps = 1\n'steps' = 0", 2),
        ('"st\\u0065ps" = 0', 1),
        ('model = """\nsteps = 1\n"""\nsteps = 0', 4),
        ('model = """\\\n  x"""\n\n\nsteps = [\n 1,\n]\n', 5),
        ("model = 'a\u2028b\x0c'\nsteps = 0".replace("\x0c", ""), 2),
    ],
)
def test_the_line_is_that_of_the_statement_and_not_of_a_look_alike(text: str, line: int) -> None:
    file = ConfigFile(Path("config.toml"), text, tomllib.loads(text))
    assert file.where("steps") == f"config.toml, line {line}"


@given(
    st.lists(st.sampled_from(["", "# steps = 1", "{} = 1", "{} = '''\nsteps = 9\n'''", "{} = [\n  1,\n]"]), max_size=8)
)
def test_the_line_is_right_after_any_statements(statements: list[str]) -> None:
    before = "".join(f"{statement.format(f'key{n}')}\n" for n, statement in enumerate(statements))
    text = f"{before}steps = 0\n"
    file = ConfigFile(Path("c"), text, tomllib.loads(text))
    assert file.where("steps") == f"c, line {before.count(chr(10)) + 1}"


def test_a_value_without_end_in_sight_costs_no_time_and_still_names_the_file(places: Places) -> None:
    places.repository("steps = [\n" + "1,\n" * 5000 + "]\n")
    assert places.error().message.startswith(f"{places.repository_file}: steps is [1, 1, ")


def test_a_byte_order_mark_is_no_part_of_the_first_key(places: Places) -> None:
    places.user("\ufeffsteps = 3\n")
    assert places.load().config.steps == 3


# What a repository may not do.


@pytest.mark.parametrize(
    ("user", "repository", "what"),
    [
        ('network_lock = "required"', 'network_lock = "on"', "loosen the network lock"),
        ('permission_read = "deny"', 'permission_read = "allow"', "widen a permission"),
        ('permission_git = "deny"', 'permission_git = "allow"', "widen a permission"),
        ("", 'permission_command = "allow"', "widen a permission"),
        ("context_tokens = 4096", "context_tokens = 1048576", "take more room"),
        ("", "cache_tokens = 1048576", "take more room"),
        ("cache_tokens = 100", "cache_tokens = 0", "take more room"),
        ("", "cache_conversations = 9", "take more room"),
        ("", "batch_tokens = 129", "take more room"),
        ('kv_type = "q8_0"', 'kv_type = "f16"', "take more room"),
        ('kv_type = "q8_0"', 'kv_type = "auto"', "take more room"),
        ("", 'draft = "model"', "take more room"),
        ('draft = "off"', 'draft = "all"', "take more room"),
        ('decoding = "exact"', 'decoding = "fast"', "take back that answers are exact"),
        ("", 'backend = "ik_llama"', "choose a library"),
        ("", 'check = "rm x"', "name a command"),
        ("", 'check = ""', "name a command"),
        ("", 'draft_model = "./evil"', "point at a file"),
        ("", "threads = 1000", "take more room"),
        ("threads = 1", "threads = 2", "take more room"),
        ("cache_mb = 500", "cache_mb = 501", "take more room"),
        ("cache_mb = 500", "cache_mb = 0", "take more room"),
        ("", "cache_disk_mb = 1000000", "say how much your repositories keep"),
        ("", "cache_disk_mb = 0", "say how much your repositories keep"),
        ("", 'extra_buffers = "on"', "overrule the probe"),
        ("", 'model = "./evil.gguf"', "point at a file"),
        ("", 'model = "evil.gguf"', "point at a file"),
        ("", 'model = "EVIL.GGUF"', "point at a file"),
        ("", 'model = "/tmp/evil"', "point at a file"),
        ("", 'model = "~/evil"', "point at a file"),
        ("", 'model = ".."', "point at a file"),
        ("", "model = 'a\\b'", "point at a file"),
        ("", 'model = "a b"', "point at a file"),
        ("", 'model = "-rf"', "point at a file"),
    ],
)
def test_a_repository_cannot_make_khepri_less_careful(places: Places, user: str, repository: str, what: str) -> None:
    places.user(user)
    places.repository(f"steps = 2\n{repository}\n")
    error = places.error()
    assert error.message.startswith(f"{places.repository_file}, line 2: a repository's configuration cannot {what}")
    assert str(places.user_file) in error.hint


REPOSITORY_MAY = {
    "model": '"a-name"',
    "context_tokens": "4096",
    "threads": "1",
    "batch_tokens": "64",
    "temperature": "1.5",
    "top_k": "40",
    "top_p": "0.5",
    "min_p": "0.1",
    "seed": "3",
    "max_tokens": "4000",
    "steps": "20",
    "observation_tokens": "2000",
    "map_tokens": "2000",
    "instructions_tokens": "2000",
    "draft": '"off"',
    "draft_model": '"a-name"',
    "gamma": "4",
    "decoding": '"exact"',
    "backend": '"llama_cpp"',
    "kv_type": '"q8_0"',
    "cache_conversations": "1",
    "cache_tokens": "4096",
    "cache_mb": "100",
    "cache_disk_mb": None,
    "extra_buffers": '"off"',
    "network_lock": '"required"',
    "permission_read": '"deny"',
    "permission_git": '"deny"',
    "permission_command": '"deny"',
    "edit_form": '"blocks"',
    "check": None,
    "repairs": "5",
    "check_seconds": "600",
}
"""What a repository may say of each key where the user says nothing: how it is worked on, and less of all else."""


def test_of_every_key_it_is_said_whether_a_repository_may_set_it() -> None:
    assert list(REPOSITORY_MAY) == list(config.keys())


@pytest.mark.parametrize(("key", "value"), REPOSITORY_MAY.items())
def test_a_repository_may_say_how_it_is_worked_on(places: Places, key: str, value: str | None) -> None:
    if value is not None:
        places.repository(f"{key} = {value}")
        assert places.load().origins[key].source is Source.REPOSITORY


def test_a_repository_may_set_a_limit_where_the_user_sets_none(places: Places) -> None:
    places.repository("cache_mb = 500")
    assert places.load().config.cache_mb == 500


def test_a_refusal_holds_even_if_a_stronger_source_would_override_it(places: Places) -> None:
    places.repository('permission_command = "allow"')
    assert "widen a permission" in places.error(environ={"KHEPRI_PERMISSION_COMMAND": "deny"}).message


@pytest.mark.parametrize("key", ["tool_command", "git_path", "rg", "executable", "editor"])
def test_a_repository_cannot_name_an_executable(places: Places, key: str) -> None:
    places.repository(f'{key} = "./evil.sh"')
    assert f"line 1: unknown key '{key}'" in places.error().message


def test_a_repository_may_be_more_careful_and_name_a_model(places: Places) -> None:
    places.user('permission_command = "allow"')
    places.repository("""
        model = "qwen2.5-coder:0.5b"
        network_lock = "required"
        permission_read = "deny"
        permission_command = "deny"
        extra_buffers = "off"
    """)
    values = places.load().config
    assert values.model == "qwen2.5-coder:0.5b"
    assert values.network_lock is NetworkLock.REQUIRED
    assert (values.permission_read, values.permission_command) == (Permission.DENY, Permission.DENY)
    assert values.extra_buffers is ExtraBuffers.OFF


@pytest.mark.parametrize(
    ("key", "value"), [("network_lock", "on"), ("permission_read", "allow"), ("model", "on"), ("model", "")]
)
def test_a_repository_may_repeat_what_holds_already(places: Places, key: str, value: str) -> None:
    places.user(f'{key} = "{value}"')
    before = places.load()
    places.repository(f'{key} = "{value}"')
    after = places.load()
    assert after.config == before.config
    assert after.origins[key] == Origin(value, Source.REPOSITORY, str(places.repository_file))


def test_the_user_may_loosen_by_a_variable_what_a_repository_has_tightened(places: Places) -> None:
    places.repository('network_lock = "required"')
    assert places.load(environ={"KHEPRI_NETWORK_LOCK": "on"}).config.network_lock is NetworkLock.ON


# Files that are not what they should be.


def test_a_link_out_of_the_repository_is_refused(places: Places, tmp_path: Path) -> None:
    outside = tmp_path / "secret.toml"
    outside.write_text("steps = 3")
    places.repository_file.symlink_to(outside)
    assert "a link that leads out of the repository" in places.error().message


def test_a_linked_folder_out_of_the_repository_is_refused(places: Places, tmp_path: Path) -> None:
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (outside / "config.toml").write_text("steps = 3")
    places.repository_file.parent.rmdir()
    places.repository_file.parent.symlink_to(outside)
    assert "a link that leads out of the repository" in places.error().message


def test_a_link_within_the_repository_is_followed(places: Places) -> None:
    (places.root / "real.toml").write_text("steps = 3")
    places.repository_file.symlink_to("../real.toml")
    assert places.load().config.steps == 3


def test_a_link_that_leads_nowhere_is_refused(places: Places) -> None:
    places.repository_file.symlink_to("gone.toml")
    assert "leads nowhere" in places.error().message


def test_a_loop_of_links_is_refused(places: Places) -> None:
    places.repository_file.symlink_to("config.toml")
    assert "cannot be read" in places.error().message


def test_the_users_own_file_may_be_a_link(places: Places, tmp_path: Path) -> None:
    (tmp_path / "dotfiles.toml").write_text("steps = 3")
    places.user_file.symlink_to(tmp_path / "dotfiles.toml")
    assert places.load().config.steps == 3


def test_a_folder_a_pipe_and_a_device_are_no_configuration(places: Places) -> None:
    places.repository_file.mkdir()
    assert "is not a regular file" in places.error().message or "cannot be read" in places.error().message
    places.repository_file.rmdir()
    os.mkfifo(places.repository_file)
    assert "is not a regular file" in places.error().message
    places.user_file.symlink_to("/dev/zero")
    assert "is not a regular file" in places.error().message


def test_a_file_in_place_of_the_folder_is_no_configuration(places: Places) -> None:
    places.repository_file.parent.rmdir()
    places.repository_file.parent.write_text("steps = 3")
    assert places.load().config == Config()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_refused(places: Places) -> None:
    places.repository("steps = 3")
    places.repository_file.chmod(0)
    assert "cannot be read: Permission denied" in places.error().message


def test_a_huge_file_is_refused(places: Places) -> None:
    places.repository("#" * 20_000)
    assert "too large for a configuration" in places.error().message


@pytest.mark.parametrize("content", [b"steps = 3\n# caf\xe9\n", "steps = 3\n".encode("utf-16")])
def test_a_file_that_is_not_utf8_is_refused_with_the_line(places: Places, content: bytes) -> None:
    places.repository_file.write_bytes(content)
    message = places.error().message
    assert message.endswith("not UTF-8")
    assert f"line {2 if content.startswith(b'steps') else 1}:" in message


@pytest.mark.parametrize("text", ["x = " + "[" * 10_000, "x" * 10_000, "x = " + "9" * 10_000, "\x00", "x = {" * 3_000])
def test_hostile_toml_is_a_configuration_error(places: Places, text: str) -> None:
    places.repository(text)
    assert places.error().message.startswith(str(places.repository_file))


@given(content=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(content)
    try:
        file = read_user_file(path)
    except ConfigError:
        return
    assert file is not None
    for key in file.table:
        assert file.where(key).startswith(f"{path}, line ")
