"""The network lock, tried from inside a locked child against loopback listeners that must hear nothing.

Every attempt also runs without the lock and must then be heard, so that a broken attempt cannot pass for a held lock.
"""

import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from khepri import egress
from khepri.egress import Level, Tier, landlock, seccomp
from khepri.egress.libc import KernelCalls
from khepri.errors import UsageError

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="a Linux kernel's own mechanisms")

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
        timeout=60,
        check=False,
        pass_fds=pass_fds,
        cwd=Path(__file__).parent.parent,
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


@pytest.fixture
def tcp() -> Iterator[Listener]:
    yield from listen(socket.AF_INET, socket.SOCK_STREAM)


@pytest.fixture
def tcp6() -> Iterator[Listener]:
    yield from listen(socket.AF_INET6, socket.SOCK_STREAM)


@pytest.fixture
def udp() -> Iterator[Listener]:
    yield from listen(socket.AF_INET, socket.SOCK_DGRAM)


@pytest.fixture
def udp6() -> Iterator[Listener]:
    yield from listen(socket.AF_INET6, socket.SOCK_DGRAM)


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


@pytest.mark.parametrize("lock", [True, False])
def test_a_thread_started_before_the_lock_is_locked_too(tcp: Listener, lock: bool) -> None:
    succeed("start.set(); assert done.wait(20); thread.join()", tcp.port, before=THREAD_BEFORE, lock=lock)
    assert tcp.has_heard() is not lock


@linux_only
def test_a_lock_after_a_thread_is_strong_and_says_that_landlock_holds_for_one_thread() -> None:
    code = "print(tier.describe()); start.set(); thread.join()"
    described = succeed(code, "9", before=THREAD_BEFORE.replace("exec(source", "(source"))
    assert described.startswith("network lock: strong (seccomp")
    if landlock.abi(KernelCalls()) >= landlock.FIRST_NETWORK_ABI:
        assert "of the calling thread" in described


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


@pytest.mark.parametrize("where", ["inherited", "opened"])
def test_a_network_socket_that_was_open_before_makes_the_tier_partial_and_is_named(where: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as held:
        report = "print(tier.level, tier.reason)"
        if where == "inherited":
            printed = succeed(report, pass_fds=[held.fileno()])
            assert f"descriptor {held.fileno()} (AF_INET socket)" in printed
        else:
            printed = succeed(report, before="import socket; early = socket.socket()", lock=True)
            assert "(AF_INET socket)" in printed
        assert printed.startswith("partial open before the lock")


def test_an_inherited_unix_socket_is_no_way_out() -> None:
    left, right = socket.socketpair()
    with left, right:
        assert "AF_UNIX" not in succeed("print(tier.reason)", pass_fds=[left.fileno()])


@linux_only
@pytest.mark.parametrize("index", range(7))
def test_the_calls_that_go_round_socket_are_denied(index: int) -> None:
    machine = seccomp.architecture()
    assert machine is not None
    code = f"""
    from khepri.egress.libc import KernelCalls
    try:
        KernelCalls().syscall({machine.denied[index]}, -1, -1, -1, -1, -1, -1)
    except PermissionError:
        print("denied")
    """
    assert succeed(code) == "denied"


FAMILIES = {"netlink": 16, "packet": 17, "CAN": 29, "TIPC": 30, "Bluetooth": 31, "ALG": 38, "vsock": 40, "XDP": 44}


@linux_only
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_but_unix_is_denied_by_the_kernel(family: str) -> None:
    code = f"""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    for kind in (1, 2, 3, 5):
        print(libc.socket({FAMILIES[family]}, kind, 0), ctypes.get_errno())
        pair = (ctypes.c_int * 2)()
        print(libc.socketpair({FAMILIES[family]}, kind, 0, pair), ctypes.get_errno())
    """
    assert set(succeed(code).splitlines()) == {"-1 13"}


@linux_only
def test_the_upper_half_of_the_family_register_does_not_fool_the_filter() -> None:
    machine = seccomp.architecture()
    assert machine is not None
    code = f"""
    import os
    from khepri.egress.libc import KernelCalls
    kernel = KernelCalls()
    os.close(kernel.syscall({machine.sockets[0]}, 1 + (7 << 32), 1, 0))
    try:
        kernel.syscall({machine.sockets[0]}, 2 + (1 << 32), 1, 0)
    except PermissionError:
        print("denied")
    """
    assert succeed(code) == "denied"


@linux_only
def test_a_process_outside_the_lock_cannot_be_written_to_through_proc() -> None:
    if landlock.abi(KernelCalls()) < landlock.FIRST_NETWORK_ABI:
        pytest.skip("this kernel's Landlock has no network rules")
    before = "import subprocess; outside = subprocess.Popen(['sleep', '60'])"
    code = """
    inside = subprocess.Popen(["sleep", "60"])
    for process in (inside, outside):
        try:
            open(f"/proc/{process.pid}/mem", "r+b").close()
            print("opened")
        except PermissionError:
            print("denied")
    for process in (inside, outside):
        process.kill()
        process.wait()
    """
    assert succeed(code, before=before).split() == ["opened", "denied"]


# mov eax, 20 (getpid in the 32-bit table); int 0x80; ret
INT80 = """
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex("b814000000cd80c3"))
print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))())
"""


@linux_only
def test_a_32_bit_system_call_ends_the_process() -> None:
    machine = seccomp.architecture()
    if machine is None or not machine.has_x32:
        pytest.skip("machine code for x86-64")
    if run_child(INT80, lock=False).returncode != 0:
        pytest.skip("this kernel takes no 32-bit calls")
    assert run_child(INT80).returncode == -signal.SIGSYS


@linux_only
def test_an_x32_system_call_does_not_exist() -> None:
    machine = seccomp.architecture()
    if machine is None or not machine.has_x32:
        pytest.skip("x86-64 only")
    code = f"""
    import errno
    from khepri.egress.libc import KernelCalls
    for number in ({machine.sockets[0]}, 39):
        try:
            KernelCalls().syscall(0x40000000 | number, 2, 1, 0)
        except OSError as error:
            print(errno.errorcode[error.errno])
    """
    assert succeed(code) == "ENOSYS\nENOSYS"


MACHINES = {
    "x86_64": seccomp.Architecture(0xC000003E, 317, (41, 53), (425, 426, 427, 438, 101, 311, 249), has_x32=True),
    "aarch64": seccomp.Architecture(0xC00000B7, 277, (198, 199), (425, 426, 427, 438, 117, 271, 218), has_x32=False),
}


def judge(machine: seccomp.Architecture, audit: int, number: int, family: int) -> str:
    """Run the filter as the kernel's BPF machine does, so that the other architecture's is tested too."""
    data = {0: number, 4: audit, 16: family}
    program, at, word = seccomp.build_filter(machine), 0, 0
    while True:
        code, if_true, if_false, operand = program[at]
        at += 1
        match code:
            case 0x20:
                word = data[operand]
            case 0x15:
                at += if_true if word == operand else if_false
            case 0x35:
                at += if_true if word >= operand else if_false
            case 0x06:
                return {0x7FFF0000: "allow", 0x80000000: "kill"}.get(operand) or os.strerror(operand & 0xFFFF)
            case _:
                raise AssertionError(code)


@pytest.mark.parametrize("name", MACHINES)
def test_the_filter_of_each_architecture_denies_what_it_must_and_no_more(name: str) -> None:
    machine = MACHINES[name]
    special = {*machine.sockets, *machine.denied}
    for number in range(600):
        for family in (0, 1, 2, 10, 16, 17, 38, 40, 0xFFFFFFFF):
            verdict = judge(machine, machine.audit, number, family)
            if number in machine.denied:
                assert verdict == "Operation not permitted"
            elif number in machine.sockets and family != 1:
                assert verdict == "Permission denied"
            else:
                assert verdict == "allow"
                assert number not in special or family == 1
        assert judge(machine, machine.audit ^ 0x80000000, number, 1) == "kill"


@linux_only
def test_the_running_architecture_is_one_of_those_tested() -> None:
    assert seccomp.architecture() in MACHINES.values()


def test_locking_twice_installs_once_and_gives_the_same_tier() -> None:
    code = (
        """
    assert egress.lock() is tier
    assert egress.probe() is tier
    print(*[line.split()[1] for line in open("/proc/self/status") if line.startswith("Seccomp_filters")])
    """
        if sys.platform == "linux"
        else "assert egress.lock() is tier; print(1)"
    )
    assert succeed(code) in ("1", "")


def test_a_child_that_locks_again_is_strong_too() -> None:
    code = f"""
    import subprocess, sys
    print(tier.level, subprocess.check_output([sys.executable, "-c", {LOCK + "; print(tier.level)"!r}], text=True))
    """
    first, second = succeed(code).split()
    assert first == second


def test_probing_foretells_the_tier_and_changes_nothing() -> None:
    code = """
    from khepri import egress
    import socket
    expected = egress.probe()
    socket.socket(socket.AF_INET).close()
    assert egress.lock() == expected, expected
    """
    succeed(code, lock=False)


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


HOOK_ONLY = "import sys; sys.platform = 'plan9'"


@pytest.mark.parametrize(
    "name", [name for name, (_, code) in ATTEMPTS.items() if "CDLL" not in code and name != "bash"]
)
def test_where_there_is_no_sandbox_python_code_is_still_denied(name: str, request: pytest.FixtureRequest) -> None:
    fixture, attempt = ATTEMPTS[name]
    listener: Listener = request.getfixturevalue(fixture)
    done = run_child(attempt, listener.port, before=HOOK_ONLY)
    assert "Khepri's network lock denies" in done.stderr
    assert not listener.has_heard()


def test_where_there_is_no_sandbox_the_tier_says_so() -> None:
    described = succeed("print(tier.describe())", before=HOOK_ONLY)
    assert described == (
        "network lock: hook (audit hook): native code and child processes are not held, "
        "because Khepri knows no sandbox for plan9"
    )


@linux_only
def test_an_unknown_processor_keeps_landlock_and_says_what_is_missing() -> None:
    described = succeed("print(tier.describe())", before="import platform; platform.machine = lambda: 'riscv64'")
    assert "seccomp" not in described
    assert "of this processor are not known" in described
    assert described.startswith(("network lock: partial (landlock", "network lock: hook"))


def test_requiring_the_strong_tier_refuses_a_weaker_one_with_its_reason() -> None:
    egress.require_strong(Tier(Level.STRONG, ("seccomp",)))
    with pytest.raises(UsageError, match="the hook one: because"):
        egress.require_strong(Tier(Level.HOOK, ("audit hook",), "because"))


STILL_WORKING = {
    "UNIX streams, named and abstract": """
        import socket, sys, tempfile
        names = [tempfile.mkdtemp() + "/s"] + (["\\0khepri-test"] if sys.platform == "linux" else [])
        for name in names:
            with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
                server.bind(name)
                server.listen()
                client.connect(name)
                with server.accept()[0] as peer:
                    client.sendall(b"hello")
                    assert peer.recv(9) == b"hello"
        """,
    "UNIX datagrams with an address": """
        import socket, tempfile
        name = tempfile.mkdtemp() + "/s"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one, socket.socket(
            socket.AF_UNIX, socket.SOCK_DGRAM
        ) as other:
            one.bind(name)
            other.sendto(b"a", name)
            other.sendmsg([b"b"], [], 0, name)
            assert one.recv(9) + one.recv(9) == b"ab"
        """,
    "socketpair": """
        import socket
        left, right = socket.socketpair()
        with left, right:
            left.send(b"x")
            assert right.recv(1) == b"x"
        """,
    "asyncio with a subprocess and a thread": """
        import asyncio, sys
        async def main():
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", "print('child')", stdout=asyncio.subprocess.PIPE)
            assert (await process.communicate())[0].split() == [b"child"]
            assert await asyncio.to_thread(lambda: 7) == 7
        asyncio.run(main())
        """,
    "a model's numeric library": """
        import numpy
        assert (numpy.ones((200, 200)) @ numpy.ones((200, 200)))[0, 0] == 200
        """,
    "git": """
        import subprocess
        assert subprocess.run(["git", "--version"], capture_output=True, check=True).stdout
        """,
    "a Textual app": """
        import asyncio
        from textual.app import App
        from textual.widgets import Input
        class Small(App):
            def compose(self):
                yield Input()
        async def main():
            app = Small()
            async with app.run_test() as pilot:
                await pilot.press("h", "i")
                assert app.query_one(Input).value == "hi"
        asyncio.run(main())
        """,
}


@pytest.mark.parametrize("name", STILL_WORKING)
def test_what_khepri_needs_still_works_under_the_lock(name: str) -> None:
    succeed(STILL_WORKING[name])


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_multiprocessing_still_works_under_the_lock(method: str, tmp_path: Path) -> None:
    script = tmp_path / "pool.py"
    script.write_text(
        textwrap.dedent(f"""
        import multiprocessing
        from khepri import egress
        if __name__ == "__main__":
            egress.lock()
            context = multiprocessing.get_context({method!r})
            with context.Pool(2) as pool:
                assert pool.map(abs, [-1, -2]) == [1, 2]
            with context.Manager() as manager:
                assert manager.list([1])[0] == 1
        """)
    )
    root = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"PYTHONPATH": str(root)},
    )
    assert done.returncode == 0, done.stderr
