"""The seccomp filter: no socket but a UNIX one, for this process, its threads and its children.

The filter decides on numbers in registers alone; it cannot follow a pointer. That is why it stops ``socket`` (whose
family is a number) and not ``connect`` (whose address is behind a pointer).

References:
    ``seccomp(2)``; ``Documentation/userspace-api/seccomp_filter.rst`` in the Linux sources.
"""

import ctypes
import errno
import platform
import sys
from dataclasses import dataclass
from itertools import starmap

from khepri.egress.libc import KernelCalls

_AF_UNIX = 1

_SET_MODE_FILTER = 1
_GET_ACTION_AVAILABLE = 2
_FLAG_TSYNC = 1

_RET_KILL_PROCESS = 0x80000000
_RET_ERRNO = 0x00050000
_RET_ALLOW = 0x7FFF0000

# Classic BPF: load a 32-bit word, jump if equal, jump if greater or equal, return a constant.
_LOAD = 0x20
_JUMP_EQUAL = 0x15
_JUMP_AT_LEAST = 0x35
_RETURN = 0x06

# Offsets in struct seccomp_data. The kernel reads the family of socket() as a C int, so its low word decides; both
# architectures below are little-endian.
_OFFSET_NUMBER = 0
_OFFSET_ARCHITECTURE = 4
_OFFSET_FAMILY = 16

_X32_BIT = 0x40000000


@dataclass(frozen=True)
class Architecture:
    """The numbers that one processor architecture gives to what the filter looks at."""

    audit: int
    """``AUDIT_ARCH_*``, by which the kernel says whose system call table a call uses."""
    seccomp: int
    """Number of ``seccomp``."""
    sockets: tuple[int, ...]
    """Numbers of ``socket`` and ``socketpair``, allowed for UNIX sockets only."""
    denied: tuple[int, ...]
    """Numbers that are always denied: see ``architecture``."""
    has_x32: bool
    """True if a second table of calls hides behind the same audit value (x86-64's x32)."""


def architecture() -> Architecture | None:
    """Return the numbers of this machine, or None if they are not known or the process is not 64-bit.

    Denied outright are, in this order: ``io_uring_setup``, ``io_uring_enter`` and ``io_uring_register`` (which make
    sockets without ``socket``); ``pidfd_getfd``, ``ptrace`` and ``process_vm_writev`` (which borrow the sockets or the
    hands of a process that is not locked); ``request_key`` (which can make the kernel start a name look-up).
    """
    if sys.maxsize <= 2**32 or sys.byteorder != "little":
        return None
    io_uring = (425, 426, 427)
    match platform.machine():
        case "x86_64":
            return Architecture(0xC000003E, 317, (41, 53), (*io_uring, 438, 101, 311, 249), has_x32=True)
        case "aarch64":
            return Architecture(0xC00000B7, 277, (198, 199), (*io_uring, 438, 117, 271, 218), has_x32=False)
        case _:
            return None


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("k", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


def build_filter(machine: Architecture) -> list[tuple[int, int, int, int]]:
    """Return the filter as (code, jump if true, jump if false, operand) quadruples."""
    deny = _RET_ERRNO | errno.EPERM
    program = [
        (_LOAD, 0, 0, _OFFSET_ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, machine.audit),
        # A call through another table (32-bit code) has other numbers; an errno there would leave a program that
        # cannot even exit.
        (_RETURN, 0, 0, _RET_KILL_PROCESS),
        (_LOAD, 0, 0, _OFFSET_NUMBER),
    ]
    if machine.has_x32:
        program += [(_JUMP_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, _RET_ERRNO | errno.ENOSYS)]
    for number in machine.denied:
        program += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, deny)]
    socket, socketpair = machine.sockets
    return [
        *program,
        (_JUMP_EQUAL, 1, 0, socket),
        (_JUMP_EQUAL, 0, 3, socketpair),
        (_LOAD, 0, 0, _OFFSET_FAMILY),
        (_JUMP_EQUAL, 1, 0, _AF_UNIX),
        (_RETURN, 0, 0, _RET_ERRNO | errno.EACCES),
        (_RETURN, 0, 0, _RET_ALLOW),
    ]


def is_available(kernel: KernelCalls, machine: Architecture) -> bool:
    """Return whether the kernel has filters that can answer with an error. Changes nothing."""
    action = ctypes.c_uint32(_RET_ERRNO)
    try:
        kernel.syscall(machine.seccomp, _GET_ACTION_AVAILABLE, 0, ctypes.addressof(action))
    except OSError:
        return False
    return True


def install(kernel: KernelCalls, machine: Architecture) -> bool:
    """Install the filter for all threads of the process, or for the calling one if the others cannot follow.

    Returns:
        True if every thread is under the filter; False if only the calling thread (and what it starts) is.

    Raises:
        OSError: The kernel refused the filter; nothing is installed.
    """
    quadruples = build_filter(machine)
    instructions = (_Instruction * len(quadruples))(*starmap(_Instruction, quadruples))
    program = _Program(len(quadruples), instructions)
    kernel.forbid_new_privileges()
    address = ctypes.addressof(program)
    # A positive result is the id of a thread with a filter of its own, which cannot take over this one.
    try:
        if kernel.syscall(machine.seccomp, _SET_MODE_FILTER, _FLAG_TSYNC, address) == 0:
            return True
    except OSError as error:
        # Before Linux 3.17 there is no seccomp call at all, and a sandbox around us may refuse the flag only.
        if error.errno not in (errno.EINVAL, errno.ESRCH):
            raise
    kernel.syscall(machine.seccomp, _SET_MODE_FILTER, 0, address)
    return False
