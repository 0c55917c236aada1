"""Attempts to get out of a locked child to loopback listeners, which must hear nothing.

Every attempt also runs without the lock and must then be heard, so that a broken attempt cannot pass for a held lock.
"""

import pytest

from khepri.egress import landlock
from khepri.egress.libc import KernelCalls
from tests.egress.children import (
    C_CONNECT,
    C_PRELUDE,
    C_SENDTO,
    HOOK_ONLY,
    THREAD_BEFORE,
    Listener,
    linux_only,
    run_child,
    succeed,
)

ATTEMPTS = {
    "a Python TCP connection": ("tcp", "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])))"),
    "a Python TCP connection by IPv6": (
        "tcp6",
        "import socket, sys; s = socket.socket(socket.AF_INET6); s.connect(('::1', int(sys.argv[1])))",
    ),
    "a Python datagram": (
        "udp",
        """
        import socket, sys
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"secret", ("127.0.0.1", int(sys.argv[1])))
        """,
    ),
    "a Python datagram by IPv6": (
        "udp6",
        """
        import socket, sys
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b"secret", ("::1", int(sys.argv[1])))
        """,
    ),
    "the C-level socket type": (
        "tcp",
        "import _socket, sys; s = _socket.socket(); s.connect(('127.0.0.1', int(sys.argv[1])))",
    ),
    "asyncio": (
        "tcp",
        "import asyncio, sys; asyncio.run(asyncio.open_connection('127.0.0.1', int(sys.argv[1])))",
    ),
    "an HTTP request": (
        "tcp",
        """
        import http.client, sys
        connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
        connection.request("GET", "/")
        """,
    ),
    "connect() in C": ("tcp", C_CONNECT),
    "sendto() in C": ("udp", C_SENDTO),
    "connect() in C in a forked child": (
        "tcp",
        f"""
import os, sys
pid = os.fork()
if pid == 0:
    exec({C_CONNECT!r})
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
""",
    ),
    "connect() in C in a Python child": (
        "tcp",
        f"""
import subprocess, sys
subprocess.run([sys.executable, "-I", "-c", {C_CONNECT!r}, sys.argv[1]], check=True)
""",
    ),
    "bash": (
        "tcp",
        """
        import subprocess, sys
        subprocess.run(["bash", "-c", "echo secret > /dev/tcp/127.0.0.1/$0", sys.argv[1]], check=True)
        """,
    ),
}


@pytest.mark.filterwarnings("default::ResourceWarning")
@pytest.mark.parametrize("name", ATTEMPTS)
def test_nothing_is_heard_from_a_locked_process(name: str, request: pytest.FixtureRequest) -> None:
    fixture, attempt = ATTEMPTS[name]
    listener: Listener = request.getfixturevalue(fixture)
    done = run_child(attempt, listener.port)
    assert not listener.has_heard()
    assert done.returncode != 0
    assert "denied" in done.stderr or "network lock denies" in done.stderr or "non-zero exit" in done.stderr


@pytest.mark.parametrize("name", ATTEMPTS)
def test_the_same_attempt_is_heard_without_the_lock(name: str, request: pytest.FixtureRequest) -> None:
    fixture, attempt = ATTEMPTS[name]
    listener: Listener = request.getfixturevalue(fixture)
    run_child(attempt, listener.port, lock=False)
    assert listener.has_heard()


@pytest.mark.parametrize("lock", [True, False])
def test_a_thread_started_before_the_lock_is_locked_too(tcp: Listener, lock: bool) -> None:
    succeed("start.set(); assert done.wait(300); thread.join()", tcp.port, before=THREAD_BEFORE, lock=lock)
    assert tcp.has_heard() is not lock


@linux_only
def test_a_tcp_socket_opened_before_the_lock_cannot_connect_after_it(tcp: Listener) -> None:
    if landlock.abi(KernelCalls()) < landlock.FIRST_NETWORK_ABI:
        pytest.skip("this kernel's Landlock has no network rules")
    before = C_PRELUDE + "early = check(libc.socket(2, 1, 0))"
    connect = "check(libc.connect(early, address, 16))"
    assert run_child(connect, tcp.port, before=before).returncode == 9
    assert not tcp.has_heard()
    succeed(connect, tcp.port, before=before, lock=False)
    assert tcp.has_heard()


@pytest.mark.parametrize(
    "call",
    [
        "socket.socket()",
        "socket.socket(socket.AF_INET6)",
        "socket.getaddrinfo('example.invalid', 80)",
        "socket.gethostbyname('example.invalid')",
        "socket.gethostbyname_ex('example.invalid')",
        "socket.gethostbyaddr('127.0.0.1')",
        "socket.getnameinfo(('127.0.0.1', 1), 0)",
        "socket.create_connection(('127.0.0.1', 1))",
    ],
)
def test_python_code_gets_an_error_that_names_the_lock(call: str) -> None:
    code = f"""
    import socket
    try:
        {call}
    except PermissionError as error:
        print(error.strerror)
    """
    assert succeed(code).startswith("Khepri's network lock denies ")


@pytest.mark.parametrize(
    "name", [name for name, (_, code) in ATTEMPTS.items() if "CDLL" not in code and name != "bash"]
)
def test_where_there_is_no_sandbox_python_code_is_still_denied(name: str, request: pytest.FixtureRequest) -> None:
    fixture, attempt = ATTEMPTS[name]
    listener: Listener = request.getfixturevalue(fixture)
    done = run_child(attempt, listener.port, before=HOOK_ONLY)
    assert "Khepri's network lock denies" in done.stderr
    assert not listener.has_heard()
