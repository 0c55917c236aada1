"""macOS: start the program again under ``sandbox-exec`` with the network denied.

The profile is set for a process before it runs, so the only way in is a new start; a variable in the environment keeps
a sandbox that does not hold from starting us for ever.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping

from khepri.egress import inherited
from khepri.egress.tier import HOOK_MECHANISM, Tier, graded, hook_only

GUARD = "_KHEPRI_SANDBOXED"
"""Environment variable of the second start. It stops a loop and proves nothing: ``is_network_denied`` does."""

_SANDBOX_EXEC = "/usr/bin/sandbox-exec"

# The last rule that matches wins: everything, but no network, but UNIX sockets, but not the name resolver's, which
# would carry a look-up out on our behalf.
_PROFILE = """\
(version 1)
(allow default)
(deny network*)
(allow network* (local unix-socket))
(allow network* (remote unix-socket))
(deny network-outbound (literal "/private/var/run/mDNSResponder"))
"""

_TRIAL_TIMEOUT_S = 10


def lock(environ: Mapping[str, str]) -> Tier:
    """Return the tier reached; outside the sandbox, start the program again inside it and do not return.

    Never raises: where the sandbox cannot be used, the audit hook is left, and the tier says why.
    """
    if is_network_denied():
        return graded(("sandbox-exec", HOOK_MECHANISM), inherited.describe_exits())
    if GUARD in environ:
        return hook_only("sandbox-exec started Khepri and does not hold")
    if not works():
        return hook_only("sandbox-exec cannot be used here")
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execve(_SANDBOX_EXEC, command(sys.executable, sys.orig_argv[1:]), {**environ, GUARD: "1"})
    except OSError as error:
        return hook_only(f"sandbox-exec could not be started: {error.strerror}")


def probe() -> Tier:
    """Return the tier that ``lock`` is expected to reach. Changes nothing."""
    if is_network_denied() or works():
        return graded(("sandbox-exec", HOOK_MECHANISM), inherited.describe_exits())
    return hook_only("sandbox-exec cannot be used here")


def is_network_denied() -> bool:
    """Return whether the kernel refuses a network address to this process. Sends nothing.

    Connecting a UDP socket only notes the address of the other end, here this machine's discard port.
    """
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sample:
            sample.connect(("127.0.0.1", 9))
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def works() -> bool:
    """Return whether a program can be started under the profile here (not inside another sandbox, for example)."""
    try:
        trial = subprocess.run(
            command("/usr/bin/true", []),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TRIAL_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return trial.returncode == 0


def command(executable: str, arguments: list[str]) -> list[str]:
    """Return the command that starts ``executable`` with ``arguments`` under the profile."""
    return [_SANDBOX_EXEC, "-p", _PROFILE, executable, *arguments]
