import json
import sys
from pathlib import Path

import pytest

from khepri.errors import ModelFileError, NoModelError
from khepri.models import stores
from khepri.models.catalogue import DEFAULT_TARGET
from khepri.models.gguf_header import read_header
from khepri.models.layouts import Store
from tests.models.tiny import write_gguf


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own; Khepri's folder is ``models(home)``."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


def models(home: Path) -> Path:
    return home / "data" / "khepri" / "models"


def found(home: Path, **environ: str) -> dict[str, stores.Model]:
    listed = [model for model in stores.discover(environ, home) if model.path.is_relative_to(home)]
    assert len({model.name for model in listed}) == len(listed)
    return {model.name: model for model in listed}


def put_ollama(root: Path, manifest: str, model: Path | None, *, layers: object = None) -> None:
    digest = "ab" * 32
    if model is not None:
        (root / "blobs").mkdir(parents=True, exist_ok=True)
        digest = f"{len(list((root / 'blobs').iterdir())):064x}"
        model.rename(root / "blobs" / f"sha256-{digest}")
    path = root / "manifests" / manifest
    path.parent.mkdir(parents=True, exist_ok=True)
    default = [
        {"mediaType": "application/vnd.ollama.image.template", "digest": f"sha256:{'0' * 64}"},
        {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}"},
    ]
    path.write_text(json.dumps({"schemaVersion": 2, "layers": default if layers is None else layers}))


def put_catalogue_default(path: Path) -> Path:
    """Write a file that looks like the default target from outside: its header, its size, and no weights."""
    write_gguf(path, architecture="qwen2", file_type=15)
    with path.open("r+b") as file:
        file.truncate(DEFAULT_TARGET.size_bytes)
    return path


def test_an_empty_machine_has_no_models(home: Path) -> None:
    assert found(home) == {}


def test_khepris_own_folder_is_listed_without_its_unfinished_pulls(home: Path) -> None:
    path = write_gguf(models(home) / "mine.gguf", file_type=15)
    write_gguf(models(home) / ".partial" / "other" / "hub.gguf")
    (models(home) / "notes.txt").write_text("not a model")
    model = found(home)["mine"]
    assert model == stores.Model("mine", path, path.stat().st_size, "Q4_K_M", "llama", Store.KHEPRI, is_default=False)
    assert set(found(home)) == {"mine"}


def test_ollama_models_are_found_through_their_manifests(home: Path) -> None:
    root = home / ".ollama" / "models"
    put_ollama(root, "registry.ollama.ai/library/qwen2.5-coder/1.5b", write_gguf(home / "a.gguf"))
    put_ollama(root, "registry.ollama.ai/someone/theirs/latest", write_gguf(home / "b.gguf", seed=1))
    put_ollama(root, "hf.co/owner/Repo-GGUF/Q4_K_M", write_gguf(home / "c.gguf", seed=2))
    listed = found(home)
    assert set(listed) == {"qwen2.5-coder:1.5b", "someone/theirs:latest", "hf.co/owner/Repo-GGUF:Q4_K_M"}
    assert listed["qwen2.5-coder:1.5b"].path.name.startswith("sha256-")
    assert {model.source for model in listed.values()} == {Store.OLLAMA}
    assert stores.find("someone/theirs", {}, home).name == "someone/theirs:latest"


@pytest.mark.parametrize(
    "layers",
    [
        "rubbish",
        [],
        [{"mediaType": "application/vnd.ollama.image.model"}],
        [{"mediaType": "application/vnd.ollama.image.model", "digest": 7}],
        [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../../../../etc/passwd"}],
        [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:" + "ab" * 32}],
        [7],
    ],
)
def test_a_strange_or_hostile_ollama_manifest_holds_nothing(home: Path, layers: object) -> None:
    put_ollama(home / ".ollama" / "models", "registry.ollama.ai/library/strange/latest", None, layers=layers)
    assert found(home) == {}


def test_a_manifest_that_is_not_json_or_nests_without_end_holds_nothing(home: Path) -> None:
    folder = home / ".ollama" / "models" / "manifests" / "registry.ollama.ai" / "library" / "broken"
    folder.mkdir(parents=True)
    (folder / "a").write_bytes(b"\xff\xfe not json")
    (folder / "b").write_bytes(b"[" * 100_000)
    (folder / "c").mkdir()
    assert found(home) == {}


def test_ollamas_folder_can_be_moved(home: Path) -> None:
    put_ollama(home / "big disk", "registry.ollama.ai/library/moved/latest", write_gguf(home / "a.gguf"))
    assert set(found(home, OLLAMA_MODELS=str(home / "big disk"))) == {"moved:latest"}


@pytest.mark.parametrize("root", [".lmstudio/models", ".cache/lm-studio/models"])
def test_lm_studio_models_are_found_two_folders_deep(home: Path, root: str) -> None:
    write_gguf(home / root / "publisher" / "Model-GGUF" / "model-q8_0.gguf", file_type=7)
    write_gguf(home / root / "publisher" / "Model-GGUF" / "mmproj-model-f16.gguf")
    model = found(home)["model-q8_0"]
    assert (model.source, model.quantization) == (Store.LM_STUDIO, "Q8_0")
    assert len(found(home)) == 1


@pytest.mark.parametrize(
    ("variable", "folder"),
    [("HF_HUB_CACHE", ""), ("HF_HOME", "hub"), ("XDG_CACHE_HOME", "huggingface/hub"), ("", "")],
)
def test_hugging_face_snapshots_are_found_once_whatever_the_revisions(home: Path, variable: str, folder: str) -> None:
    base = home / "elsewhere" / folder if variable else home / ".cache" / "huggingface" / "hub"
    repository = base / "models--Owner--Repo-GGUF"
    blob = write_gguf(repository / "blobs" / "0123abcd")
    for revision in ("aaaa", "bbbb"):
        snapshot = repository / "snapshots" / revision
        snapshot.mkdir(parents=True)
        (snapshot / "model.gguf").symlink_to(f"../../blobs/{blob.name}")
        (snapshot / "gone.gguf").symlink_to("../../blobs/gone")
    environ = {variable: str(home / "elsewhere")} if variable else {}
    assert {name: model.source for name, model in found(home, **environ).items()} == {"model": Store.HUGGING_FACE}


def test_llama_cpp_models_are_found_without_unfinished_downloads(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_gguf(home / ".cache" / "llama.cpp" / "linux.gguf")
    write_gguf(home / ".cache" / "llama.cpp" / "half.gguf.downloadInProgress")
    write_gguf(home / "Library" / "Caches" / "llama.cpp" / "mac.gguf")
    write_gguf(home / "moved" / "moved.gguf")
    monkeypatch.setattr(sys, "platform", "linux")
    assert set(found(home)) == {"linux"}
    monkeypatch.setattr(sys, "platform", "darwin")
    assert set(found(home)) == {"mac"}
    assert set(found(home, LLAMA_CACHE=str(home / "moved"))) == {"moved"}


def test_a_model_in_parts_is_listed_once_and_only_if_complete(home: Path) -> None:
    parts = [write_gguf(models(home) / f"big-0000{n}-of-00003.gguf", tokenizer=n == 1) for n in (1, 2, 3)]
    model = found(home)["big"]
    assert model.path == parts[0]
    assert model.size_bytes == sum(part.stat().st_size for part in parts)
    parts[1].unlink()
    assert found(home) == {}


def test_what_cannot_write_text_is_not_a_model(home: Path) -> None:
    write_gguf(models(home) / "embedding.gguf", architecture="nomic-bert")
    write_gguf(models(home) / "projector.gguf", architecture="clip", tokenizer=False)
    write_gguf(models(home) / "adapter.gguf", kind="adapter")
    assert found(home) == {}


def test_the_same_name_in_two_stores_stays_two_models(home: Path) -> None:
    own = write_gguf(models(home) / "twin.gguf")
    other = write_gguf(home / ".lmstudio" / "models" / "a" / "b" / "twin.gguf", seed=1)
    listed = found(home)
    assert {name: model.path for name, model in listed.items()} == {"twin": own, "lmstudio/a/b/twin": other}
    assert stores.find("twin", {}, home).path == own
    assert stores.find("lmstudio/a/b/twin", {}, home).path == other


def test_one_file_in_two_stores_is_one_model(home: Path) -> None:
    own = write_gguf(models(home) / "shared.gguf")
    linked = home / ".lmstudio" / "models" / "a" / "b" / "shared.gguf"
    linked.parent.mkdir(parents=True)
    linked.symlink_to(own)
    assert [model.path for model in found(home).values()] == [own]


def test_a_folder_that_links_to_itself_is_left_again(home: Path) -> None:
    folder = home / ".lmstudio" / "models" / "a"
    write_gguf(folder / "b" / "model.gguf")
    (folder / "loop").symlink_to(folder)
    assert set(found(home)) == {"model"}


def test_a_damaged_file_is_reported_in_khepris_folder_and_ignored_elsewhere(home: Path) -> None:
    models(home).mkdir(parents=True)
    (models(home) / "broken.gguf").write_text("a text file, renamed")
    (home / ".cache" / "llama.cpp").mkdir(parents=True)
    (home / ".cache" / "llama.cpp" / "foreign.gguf").write_text("a text file, renamed")
    inventory = stores.take_inventory({}, home)
    assert [item.name for item in inventory.damaged] == ["broken"]
    with pytest.raises(ModelFileError, match="a text file") as caught:
        stores.find("broken", {}, home)
    assert caught.value.hint == "remove it with: khepri models remove broken"


def test_a_truncated_model_is_found_out_when_it_is_chosen(home: Path) -> None:
    path = write_gguf(models(home) / "short.gguf")
    expected = read_header(path).expected_bytes
    assert expected is not None
    with path.open("r+b") as file:
        file.truncate(expected - 100)
    with pytest.raises(ModelFileError, match=f"should have {expected} bytes and has {expected - 100}"):
        stores.find("short", {}, home)


def test_a_model_is_found_by_its_path_and_by_its_file_name(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_gguf(home / "with space" / "Größe 🙂.gguf")
    assert stores.find(str(path), {}, home).source is Store.FILE
    monkeypatch.chdir(path.parent)
    assert stores.find(path.name, {}, home).path == Path(path.name)
    write_gguf(models(home) / "own.gguf")
    assert stores.find("own.gguf", {}, home).source is Store.KHEPRI
    assert stores.find("OWN", {}, home).source is Store.KHEPRI


def test_a_file_that_is_named_like_a_model_does_not_hide_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    (home / "mine").write_text("a file of the repository")
    write_gguf(models(home) / "mine.gguf")
    assert stores.find("mine", {}, home).source is Store.KHEPRI


def test_an_unknown_name_is_answered_with_what_there_is(home: Path) -> None:
    with pytest.raises(NoModelError) as caught:
        stores.find("zzz", {}, home)
    assert "there are none yet" in caught.value.hint
    write_gguf(models(home) / "mistral-small.gguf")
    with pytest.raises(NoModelError) as caught:
        stores.find("mistral-smal", {}, home)
    assert "did you mean mistral-small" in caught.value.hint
    with pytest.raises(NoModelError) as caught:
        stores.find("zzz", {}, home)
    assert "there are: mistral-small" in caught.value.hint
    assert "khepri models pull NAME" in caught.value.hint
    with pytest.raises(NoModelError) as caught:
        stores.find("tiny", {}, home)
    assert caught.value.hint == "fetch it with: khepri models pull tiny"


@pytest.mark.parametrize("name", ["", "x" * 5000, "../../etc/passwd", "[red]", "a\x1b[2J"])
def test_an_absurd_name_is_only_an_unknown_one(home: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    with pytest.raises((NoModelError, ModelFileError)):
        stores.find(name, {}, home)


@pytest.mark.parametrize("path", ["/none.gguf", "./missing.gguf", "../missing", "~/missing", "models/b.GGUF", "a.gguf"])
def test_a_path_that_does_not_exist_says_so_and_how_a_model_is_named(home: Path, path: str) -> None:
    write_gguf(models(home) / "missing-not.gguf")
    with pytest.raises(NoModelError, match="there is no file") as caught:
        stores.find(path, {}, home)
    assert Path(path).name in caught.value.message
    assert "name a model as khepri models lists it" in caught.value.hint
    assert "did you mean" not in caught.value.hint


def test_without_the_default_the_user_is_told_how_to_get_it_and_what_else_there_is(home: Path) -> None:
    with pytest.raises(NoModelError) as caught:
        stores.default_model({}, home)
    assert "khepri models pull" in caught.value.hint
    assert "khepri models add FILE" in caught.value.hint
    assert "--model" not in caught.value.hint
    write_gguf(models(home) / "huge.gguf", values=1 << 16)
    write_gguf(models(home) / "small.gguf")
    with pytest.raises(NoModelError) as caught:
        stores.default_model({}, home)
    assert "--model small (khepri models lists all 2)" in caught.value.hint


@pytest.mark.parametrize("place", ["data/khepri/models/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "hub"])
def test_the_default_is_taken_wherever_it_lies(home: Path, place: str) -> None:
    path = home / place
    if place == "hub":
        path = home / ".cache/huggingface/hub/models--Qwen--Q/snapshots/aa/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
    put_catalogue_default(path)
    write_gguf(models(home) / "another.gguf")
    model = stores.default_model({}, home)
    assert (model.path, model.is_default) == (path, True)
    assert stores.find("coder-1.5b", {}, home) == model
    assert [entry.is_default for entry in stores.discover({}, home)].count(True) == 1


def test_a_damaged_default_is_to_be_fetched_again(home: Path) -> None:
    models(home).mkdir(parents=True)
    (models(home) / DEFAULT_TARGET.file_name).write_text("<html>")
    with pytest.raises(ModelFileError) as caught:
        stores.default_model({}, home)
    assert caught.value.hint == "fetch it again with: khepri models pull"


def test_a_bare_word_never_names_a_file_of_the_working_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = home / "repository"
    folder.mkdir()
    write_gguf(folder / "evil.gguf").rename(folder / "evil")
    monkeypatch.chdir(folder)
    with pytest.raises(NoModelError):
        stores.find("evil")
    assert stores.find("./evil").path == Path("evil")
