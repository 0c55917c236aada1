"""The network lock: from ``lock()`` on, nothing that this process or its children do opens a network connection.

Standard library only. It runs before any thread or native library starts, in every command but ``khepri models pull``.

The boundary, honestly:

- **Held by the kernel** (level ``strong``): every socket that is not a UNIX socket, IPv4 and IPv6, TCP and UDP, raw,
  packet, netlink, vsock and all others; io_uring; 32-bit and x32 system calls; tracing or writing into a process that
  is not locked, or taking a descriptor out of it (writing through ``/proc`` only where there is Landlock). For this
  process, all its threads, and all that it starts.
- **Held in Python only**: name look-ups. A resolver daemon (nscd, systemd-resolved) may be reached by a UNIX socket
  and ask the network for us; Python's look-ups are denied by the audit hook, a native library's or a child's are not.
- **Not held**: UNIX sockets, because terminals, event loops and process pools need them; so a local daemon that talks
  to the network (a container engine, a session bus) could be asked to, and a willing one could hand over a socket.
  Network sockets that were open before the lock: these are looked for, and the tier is then ``partial`` and names
  them. Files on a network file system. Programs that are not locked and later read a file that was written here.
  Root, who can change the machine itself.

A locked process has also given up set-uid programs (``sudo``, ``ping``) and debuggers, and so have its children.
"""

import os
import sys

from khepri.egress import audit, linux, sandbox_exec
from khepri.egress.tier import Level, Tier, hook_only
from khepri.errors import UsageError

__all__ = ["Level", "Tier", "lock", "probe", "require_strong"]


def lock() -> Tier:
    """Deny the network to this process and its children, for good, and return the tier that was reached.

    Call it once, first, from the main thread. A later call changes nothing and returns the same tier. Threads that run
    already are brought under the seccomp filter, not under Landlock. On macOS the first call starts the program again
    inside a sandbox and does not return. Never raises: where the kernel offers nothing, the audit hook is left, and
    the tier says why.
    """
    tier = audit.installed_tier()
    if tier is None:
        tier = _lock_kernel(sys.platform)
        audit.install(tier)
    return tier


def probe() -> Tier:
    """Return the tier in force or, without a lock, the one that ``lock`` is expected to reach. Changes nothing."""
    return audit.installed_tier() or _probe_kernel(sys.platform)


def require_strong(tier: Tier) -> None:
    """Refuse to go on with less than the strong tier.

    Raises:
        UsageError: The tier is not strong.
    """
    if not tier.is_strong:
        raise UsageError(
            f"the configuration requires the strong network lock, and this is the {tier.level} one: {tier.reason}",
            'set network_lock = "on" to go on without it; `khepri doctor` shows what is missing',
        )


def _lock_kernel(system: str) -> Tier:
    match system:
        case "linux":
            return linux.lock()
        case "darwin":
            return sandbox_exec.lock(os.environ)
        case _:
            return _no_sandbox(system)


def _probe_kernel(system: str) -> Tier:
    match system:
        case "linux":
            return linux.probe()
        case "darwin":
            return sandbox_exec.probe()
        case _:
            return _no_sandbox(system)


def _no_sandbox(system: str) -> Tier:
    return hook_only(f"Khepri knows no sandbox for {system}")
