"""Landlock: the kernel's own list of what TCP may do, empty here. A second layer below the seccomp filter.

It holds where a filter on numbers cannot: a TCP socket that was opened before the lock can neither connect nor bind,
and no process outside the sandbox can be traced or written to through ``/proc``.

Scopes for abstract UNIX sockets (ABI 6) are left alone on purpose: path-named sockets would stay reachable, so little
is gained, and X11 programs (a clipboard tool that a user's command starts) reach their server by an abstract name.

References:
    ``landlock(7)``; ``Documentation/userspace-api/landlock.rst`` in the Linux sources.
"""

import ctypes
import os

from khepri.egress.libc import KernelCalls

# The same numbers on every architecture.
_CREATE_RULESET = 444
_RESTRICT_SELF = 446

_FLAG_VERSION = 1
_NET_BIND_TCP = 1
_NET_CONNECT_TCP = 2

FIRST_NETWORK_ABI = 4


class _Ruleset(ctypes.Structure):
    _fields_ = (("handled_access_fs", ctypes.c_uint64), ("handled_access_net", ctypes.c_uint64))


def abi(kernel: KernelCalls) -> int:
    """Return the version of Landlock in this kernel, 0 if there is none. Changes nothing."""
    try:
        return kernel.syscall(_CREATE_RULESET, 0, 0, _FLAG_VERSION)
    except OSError:
        return 0


def install(kernel: KernelCalls) -> None:
    """Deny every TCP connect and bind to the calling thread and to what it starts from now on.

    Raises:
        OSError: The kernel refused; nothing is installed.
    """
    rules = _Ruleset(0, _NET_BIND_TCP | _NET_CONNECT_TCP)
    descriptor = kernel.syscall(_CREATE_RULESET, ctypes.addressof(rules), ctypes.sizeof(rules), 0)
    try:
        kernel.forbid_new_privileges()
        kernel.syscall(_RESTRICT_SELF, descriptor, 0)
    finally:
        os.close(descriptor)
