"""Linux: seccomp first, Landlock beneath it, and a grade for what came of both."""

import os
import socket

from khepri.egress import inherited, landlock, seccomp
from khepri.egress.libc import KernelCalls
from khepri.egress.tier import HOOK_MECHANISM, Tier, graded, hook_only

_SECCOMP = "seccomp"


def lock() -> Tier:
    """Install what this kernel has and return the tier reached, the audit hook counted in. Never raises."""
    # Before the filter: looking at an inherited descriptor duplicates it as a socket object.
    leak = inherited.describe_exits()
    try:
        kernel = KernelCalls()
    except OSError as error:
        return hook_only(f"the C library cannot be called from this Python: {error}")
    mechanisms: list[str] = []
    gap = _install_seccomp(kernel)
    if gap is None or gap == _UNSYNCHRONIZED:
        mechanisms.append(_SECCOMP)
    version = landlock.abi(kernel)
    if version >= landlock.FIRST_NETWORK_ABI:
        # Landlock has no way to reach the other threads of a process on the kernels that exist widely.
        scope = " of the calling thread" if _has_threads() else ""
        try:
            landlock.install(kernel)
            mechanisms.append(f"landlock ABI {version}{scope}")
        except OSError as error:
            gap = gap and f"{gap}, and the kernel refused Landlock: {error.strerror}"
    return _grade(mechanisms, gap, leak)


def probe() -> Tier:
    """Return the tier that ``lock`` is expected to reach. Changes nothing."""
    try:
        kernel = KernelCalls()
    except OSError as error:
        return hook_only(f"the C library cannot be called from this Python: {error}")
    mechanisms: list[str] = []
    machine = seccomp.architecture()
    gap: str | None = None
    if machine is None:
        gap = _UNKNOWN_MACHINE
    elif seccomp.is_available(kernel, machine):
        mechanisms.append(_SECCOMP)
    else:
        gap = "this kernel has no seccomp filters"
    version = landlock.abi(kernel)
    if version >= landlock.FIRST_NETWORK_ABI:
        mechanisms.append(f"landlock ABI {version}")
    return _grade(mechanisms, gap, inherited.describe_exits())


_UNKNOWN_MACHINE = "the system call numbers of this processor are not known to Khepri"
_UNSYNCHRONIZED = "a thread that was started before the lock has a filter of its own and is not under this one"


def _install_seccomp(kernel: KernelCalls) -> str | None:
    """Return what is missing, None if nothing is."""
    machine = seccomp.architecture()
    if machine is None:
        return _UNKNOWN_MACHINE
    try:
        everywhere = seccomp.install(kernel, machine)
    except OSError as error:
        return f"the kernel refused the seccomp filter: {error.strerror}"
    if not _is_denied():
        return "the seccomp filter was taken and does not hold here (an emulated kernel?)"
    return None if everywhere else _UNSYNCHRONIZED


def _is_denied() -> bool:
    try:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _has_threads() -> bool:
    try:
        return len(os.listdir("/proc/self/task")) > 1
    except OSError:
        return True


def _grade(mechanisms: list[str], gap: str | None, leak: str) -> Tier:
    if not mechanisms:
        return hook_only(gap or "this kernel has neither seccomp filters nor Landlock's network rules")
    if gap is not None and _SECCOMP not in mechanisms:
        gap = f"only TCP is denied: {gap}"
    return graded((*mechanisms, HOOK_MECHANISM), gap or "", leak)
