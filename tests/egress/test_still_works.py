"""What Khepri itself needs, under the lock."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.egress.children import ROOT, succeed

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
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
