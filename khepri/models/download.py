"""Brings one file over HTTP to the end of a ``PartFile``: trust, proxies, resumption, refusals in words.

The lower half of ``khepri.models.pull`` and imported by nothing else. What the bytes mean is not known here.
"""

import queue
import re
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus

import requests
import truststore
from requests.adapters import HTTPAdapter
from urllib3.exceptions import ConnectTimeoutError, MaxRetryError, NameResolutionError, NewConnectionError
from urllib3.util.retry import Retry

from khepri import __version__
from khepri.models.partial import PartFile

CONNECT_S = 3.0
"""Seconds within which a host must accept a connection."""
READ_S = 30.0
"""Seconds within which the next bytes must arrive."""

# What has arrived of a chunk is lost when the connection breaks off.
_CHUNK_BYTES = 1 << 16
_MOST_RETRIES = 4
_BUSY = (429, 500, 502, 503, 504)


class DownloadError(Exception):
    """A server did not deliver; the text says why, without address or password."""


class _SystemTrustAdapter(HTTPAdapter):
    """Trusts the certificates that the operating system trusts, also through a proxy."""

    def init_poolmanager(self, *arguments: object, **options: object) -> None:
        options["ssl_context"] = _trust()
        super().init_poolmanager(*arguments, **options)  # type: ignore[arg-type]

    def proxy_manager_for(self, proxy: str, **options: object) -> object:
        options["ssl_context"] = _trust()
        return super().proxy_manager_for(proxy, **options)


def _trust() -> ssl.SSLContext:
    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def open_session() -> requests.Session:
    """Return a session with the system's trust, the environment's proxies and patience with busy servers.

    A host that refuses, hangs up on a handshake or has no address is not asked again.
    """
    policy = Retry(
        total=_MOST_RETRIES,
        connect=0,
        read=1,
        other=0,
        backoff_factor=0.5,
        status_forcelist=_BUSY,
        raise_on_status=False,
    )
    session = requests.Session()
    session.headers["User-Agent"] = f"khepri/{__version__}"
    for scheme in ("https://", "http://"):
        session.mount(scheme, _SystemTrustAdapter(max_retries=policy))
    return session


def require_answer(url: str, within_s: float) -> None:
    """Make sure that the host of ``url`` says anything at all in time.

    The HTTP library's own time limits hold for each address of a host, of which there may be a dozen, and not for the
    look-up of its name; behind a firewall that swallows packets they add up to a minute.

    Raises:
        DownloadError: The host cannot be reached, or not in time.
    """
    outcomes: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def ask() -> None:
        try:
            with open_session() as session:
                session.head(url, timeout=(CONNECT_S, within_s))
            outcomes.put(None)
        except requests.RequestException as error:
            outcomes.put(_reason(error))

    threading.Thread(target=ask, name="reachability", daemon=True).start()
    try:
        reason = outcomes.get(timeout=within_s)
    except queue.Empty as error:
        raise DownloadError(f"no answer within {within_s:.0f} s") from error
    if reason is not None:
        raise DownloadError(reason)


@contextmanager
def network_words() -> Iterator[None]:
    """Turn what the HTTP library raises into a ``DownloadError``.

    Raises:
        DownloadError: The block raised an error of the HTTP library.
    """
    try:
        yield
    except requests.RequestException as error:
        raise DownloadError(_reason(error)) from error


def download(
    session: requests.Session,
    url: str,
    part: PartFile,
    *,
    expected_bytes: int | None,
    most_bytes: int,
    received: Callable[[int], None],
) -> None:
    """Append the rest of the file at ``url`` to ``part``, resuming as often as the connection breaks off.

    Gives up at once on a server that cannot be reached, and after four further tries that bring nothing new on one
    that could.

    Args:
        session: A session of ``open_session``.
        url: The file's address.
        part: What is there already; a server that cannot resume makes it start over.
        expected_bytes: Size of the file; None takes the server's word.
        most_bytes: Size at which a server that keeps sending is stopped.
        received: Called with the size of ``part`` as it grows.

    Raises:
        DownloadError: The server cannot be reached, refuses, or sends something of another size or kind.
        PullError: The disk is full or failed.
    """
    patience = Retry(total=_MOST_RETRIES, backoff_factor=0.5)
    furthest = part.size_bytes
    answered = False
    received(part.size_bytes)
    while expected_bytes is None or part.size_bytes < expected_bytes:
        reason = "the connection broke off"
        try:
            with _ask(session, url, part.size_bytes) as response:
                answered = True
                if response.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and part.size_bytes:
                    part.restart()
                else:
                    expected_bytes = _check_answer(response, part, expected_bytes)
                    for chunk in response.iter_content(_CHUNK_BYTES):
                        if part.size_bytes + len(chunk) > most_bytes:
                            raise DownloadError(f"sends more than the {most_bytes} bytes that were expected")
                        part.append(chunk)
                        received(part.size_bytes)
                    if expected_bytes is None:
                        return
        except requests.RequestException as error:
            reason = _reason(error)
            if not answered:
                raise DownloadError(reason) from error
        if part.size_bytes > furthest:
            furthest = part.size_bytes
            patience = Retry(total=_MOST_RETRIES, backoff_factor=0.5)
        elif expected_bytes is None or part.size_bytes < expected_bytes:
            try:
                patience = patience.increment("GET", url)
            except MaxRetryError as error:
                raise DownloadError(f"{reason}, again and again") from error
            patience.sleep()


def _ask(session: requests.Session, url: str, offset: int) -> requests.Response:
    # Compressed transfer would make byte ranges mean something else.
    headers = {"Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
    return session.get(url, headers=headers, stream=True, timeout=(CONNECT_S, READ_S))


def _check_answer(response: requests.Response, part: PartFile, expected_bytes: int | None) -> int | None:
    """Make ``part`` ready for the body, and return the size of the whole file if it is known."""
    status = response.status_code
    if status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
        raise DownloadError(f"answered {status} {response.reason or ''}".rstrip())
    kind = response.headers.get("Content-Type", "")
    if kind.startswith("text/"):
        raise DownloadError(f"sent a page ({kind}) in place of the file")
    ranged = re.fullmatch(r"bytes (\d+)-\d+/(?:\d+|\*)", response.headers.get("Content-Range", ""))
    if status == HTTPStatus.PARTIAL_CONTENT and (ranged is None or int(ranged[1]) != part.size_bytes):
        raise DownloadError("answered a request for the rest of the file with another part of it")
    if status == HTTPStatus.OK and part.size_bytes:
        part.restart()
    length = response.headers.get("Content-Length", "")
    if not length.isdecimal():
        return expected_bytes
    announced_bytes = part.size_bytes + int(length)
    if expected_bytes is not None and announced_bytes != expected_bytes:
        raise DownloadError(f"has a file of {announced_bytes} bytes where {expected_bytes} were expected")
    return announced_bytes


def _reason(error: requests.RequestException) -> str:
    cause: object = error.args[0] if error.args else error
    if isinstance(cause, MaxRetryError):
        cause = cause.reason
    if isinstance(error, requests.exceptions.ProxyError):
        return "the proxy does not let it through"
    if isinstance(error, requests.exceptions.SSLError):
        return f"its certificate is not trusted by this system ({cause})"
    if isinstance(cause, NameResolutionError):
        return "its name cannot be resolved (offline?)"
    if isinstance(cause, NewConnectionError):
        return "it cannot be reached"
    if isinstance(cause, ConnectTimeoutError):
        return f"no answer within {CONNECT_S:.0f} s"
    if isinstance(error, requests.exceptions.InvalidURL | requests.exceptions.InvalidSchema):
        return "its address is not one of the web"
    if isinstance(error, requests.exceptions.HTTPError) and error.response is not None:
        return f"answered {error.response.status_code} {error.response.reason or ''}".rstrip()
    return "the connection broke off"
