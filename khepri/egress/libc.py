"""Raw system calls through ``ctypes``, for the few that Python does not wrap. Linux only."""

import ctypes
import os

PR_SET_NO_NEW_PRIVS = 38


class KernelCalls:
    """The C library's ``syscall`` and ``prctl``, with failures as ``OSError``.

    Raises:
        OSError: The C library cannot be reached from this interpreter (a static build).
    """

    def __init__(self) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        try:
            self._syscall = library.syscall
            self._prctl = library.prctl
        except AttributeError as error:
            raise OSError(str(error)) from error
        self._syscall.restype = ctypes.c_long
        self._prctl.restype = ctypes.c_int

    def syscall(self, number: int, *arguments: int) -> int:
        """Make a system call and return its result, which is never negative.

        Pointers are passed as addresses; the caller keeps what they point at alive.

        Raises:
            OSError: The call failed.
        """
        # Every argument is widened to a register: a C int in a variadic call leaves the upper half undefined.
        result = int(self._syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)))
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result

    def forbid_new_privileges(self) -> None:
        """Give up set-uid programs for this thread and its children, which an unprivileged filter requires.

        Raises:
            OSError: The kernel refused.
        """
        one, zero = ctypes.c_ulong(1), ctypes.c_ulong(0)
        if self._prctl(ctypes.c_int(PR_SET_NO_NEW_PRIVS), one, zero, zero, zero) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
