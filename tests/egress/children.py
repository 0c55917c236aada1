"""Children that lock themselves, loopback sockets that listen to them, and code that tries to get out."""

import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="a Linux kernel's own mechanisms")

ROOT = Path(__file__).parent.parent.parent
LOCK = "from khepri import egress; tier = egress.lock()"


def run_child(
    code: str, *arguments: str, lock: bool = True, pass_fds: Sequence[int] = (), before: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run ``code`` in a fresh interpreter, after ``before`` and the lock."""
    program = "\n".join((textwrap.dedent(before), LOCK if lock else "", textwrap.dedent(code)))
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        pass_fds=pass_fds,
        cwd=ROOT,
    )


def succeed(code: str, *arguments: str, pass_fds: Sequence[int] = (), before: str = "", lock: bool = True) -> str:
    """Run ``code`` like ``run_child``, assert that it ended well, and return what it printed."""
    done = run_child(code, *arguments, pass_fds=pass_fds, before=before, lock=lock)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@dataclass
class Listener:
    """A loopback socket that tells whether anything has reached it."""

    server: socket.socket

    @property
    def port(self) -> str:
        return str(self.server.getsockname()[1])

    def has_heard(self) -> bool:
        """Return whether a connection or a datagram has arrived; loopback delivers before the sender's call ends."""
        try:
            if self.server.type == socket.SOCK_DGRAM:
                self.server.recv(100)
            else:
                self.server.accept()[0].close()
        except BlockingIOError:
            return False
        return True


def listen(family: socket.AddressFamily, kind: socket.SocketKind) -> Iterator[Listener]:
    with socket.socket(family, kind) as server:
        try:
            server.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        except OSError:
            pytest.skip("no such loopback address here")
        if kind == socket.SOCK_STREAM:
            server.listen(5)
        server.setblocking(False)
        yield Listener(server)


# ctypes at its rawest: no Python socket object, so no audit event; a failed call exits with status 9.
C_PRELUDE = """
import ctypes, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def check(result):
    if result < 0:
        print(os.strerror(ctypes.get_errno()), file=sys.stderr)
        os._exit(9)
    return result
port = int(sys.argv[1])
address = struct.pack("=H", socket.AF_INET) + struct.pack(">H4s8x", port, bytes([127, 0, 0, 1]))
"""
C_CONNECT = C_PRELUDE + "check(libc.connect(check(libc.socket(2, 1, 0)), address, 16))"
C_SENDTO = C_PRELUDE + "check(libc.sendto(check(libc.socket(2, 2, 0)), b'secret', 6, 0, address, 16))"


HOOK_ONLY = "import sys; sys.platform = 'plan9'"


THREAD_BEFORE = f"""
import threading
start, done, codes = threading.Event(), threading.Event(), []
def late():
    import os, sys
    start.wait()
    source = {C_CONNECT!r}.replace("os._exit(9)", "codes.append(9)")
    exec(source, {{"codes": codes}})
    done.set()
thread = threading.Thread(target=late)
thread.start()
"""
