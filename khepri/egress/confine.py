"""Runs a program that may write into some folders only: ``python -P -m khepri.egress.confine FOLDER… -- PROGRAM …``.

Landlock denies every write beside those folders, to the program and all that it starts; reading stays as it is, and so
does the network lock, which is inherited. From ABI 6 on it denies signals to other programs and their UNIX sockets
without a path as well. Sockets with a path can be opened, and modes and times changed, wherever the user may. Where the
kernel has no Landlock the program is not run: whoever wants it run without confinement does so without this.
"""

import ctypes
import os
import sys
from collections.abc import Sequence

from khepri.egress import landlock
from khepri.egress.libc import KernelCalls

_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_RULE_PATH_BENEATH = 1

_WRITE_FILE = 1 << 1
_ALWAYS = sum(1 << bit for bit in (1, 4, 5, 6, 7, 8, 9, 10, 11, 12))
"""Write a file, remove, and make what a folder can hold; all of ABI 1."""
_REFER = 1 << 13
"""Rename or link from one folder to another; from ABI 2 on. Denied wherever it is not allowed, handled or not."""
_TRUNCATE = 1 << 14
"""From ABI 3 on."""

_SCOPED = 1 << 0 | 1 << 1
"""UNIX sockets without a path, and signals: only of programs that are confined together; from ABI 6 on."""
_FIRST_SCOPED_ABI = 6

UNAVAILABLE = 120
"""Exit status when the kernel cannot confine; the program was not started."""
NOT_STARTED = 127
"""Exit status when the program does not exist or cannot be started, as a shell has it."""


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


_OLD_RULESET_BYTES = ctypes.sizeof(ctypes.c_uint64)
"""What older kernels take of it."""


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def is_available() -> str:
    """Return what confines on this machine, such as ``landlock ABI 7``; empty if nothing does. Changes nothing."""
    if not sys.platform.startswith("linux"):
        return ""
    try:
        version = landlock.abi(KernelCalls())
    except OSError:
        return ""
    return f"landlock ABI {version}" if version else ""


def confine_writes(folders: Sequence[str]) -> None:
    """Allow this thread and what it starts to write below ``folders``, and to devices, and nowhere else.

    Raises:
        OSError: The kernel refused, or a folder does not exist; nothing is confined then.
    """
    kernel = KernelCalls()
    version = landlock.abi(kernel)
    if not version:
        raise OSError("this kernel has no Landlock")
    handled = _ALWAYS | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    is_scoped = version >= _FIRST_SCOPED_ABI
    rules = _Ruleset(handled, 0, _SCOPED if is_scoped else 0)
    size = ctypes.sizeof(rules) if is_scoped else _OLD_RULESET_BYTES
    descriptor = kernel.syscall(_CREATE_RULESET, ctypes.addressof(rules), size, 0)
    try:
        for folder in folders:
            _allow(kernel, descriptor, folder, handled)
        # Programs write to /dev/null, /dev/tty and the like; nothing can be made there.
        _allow(kernel, descriptor, "/dev", handled & (_WRITE_FILE | _TRUNCATE))
        kernel.forbid_new_privileges()
        kernel.syscall(_RESTRICT_SELF, descriptor, 0)
    finally:
        os.close(descriptor)


def _allow(kernel: KernelCalls, ruleset: int, folder: str, access: int) -> None:
    place = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = _PathBeneath(access, place)
        kernel.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.addressof(rule), 0)
    finally:
        os.close(place)


def main(arguments: Sequence[str]) -> int:
    """Confine this process and become the program; return the exit status if that cannot be."""
    divider = arguments.index("--")
    folders, program = arguments[:divider], arguments[divider + 1 :]
    try:
        confine_writes(folders)
    except OSError as error:
        print(f"khepri: cannot confine: {error}", file=sys.stderr)
        return UNAVAILABLE
    try:
        os.execvp(program[0], list(program))
    except OSError as error:
        print(f"{program[0]}: {error.strerror}", file=sys.stderr)
        return NOT_STARTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
