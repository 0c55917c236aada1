"""A child process that ends with the one that started it, also when that one was killed. Linux only; elsewhere none."""

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends. Harmless where the kernel cannot.

    References:
        prctl(2), PR_SET_PDEATHSIG.
    """
    if sys.platform == "linux":
        prctl = getattr(ctypes.CDLL(None), "prctl", None)
        if prctl is not None:
            prctl(ctypes.c_int(_PR_SET_PDEATHSIG), ctypes.c_ulong(signal.SIGKILL))
