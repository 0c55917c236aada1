"""Looks for ways out that were open before the lock: network sockets and the like among the inherited descriptors.

They are reported, not closed: a descriptor that the user opened on purpose (output redirected to a socket) is theirs.
"""

import os
import socket
import stat

_DESCRIPTOR_FOLDERS = ("/proc/self/fd", "/dev/fd")

# Rings submit work without a system call that a filter could see; a tunnel device carries packets by plain writes.
_OTHER_EXITS = frozenset({"anon_inode:[io_uring]", "/dev/net/tun"})


def describe_exits() -> str:
    """Return a sentence about the open descriptors through which data could leave; empty if there is none.

    A descriptor counts if it is a socket of any family but UNIX, an io_uring, or a tunnel device.
    """
    try:
        exits = _open_exits()
    except OSError as error:
        return f"what was open before the lock is not known: {error.strerror}"
    return f"open before the lock and left open: {', '.join(exits)}" if exits else ""


def _open_exits() -> list[str]:
    folder = next(filter(os.path.isdir, _DESCRIPTOR_FOLDERS), _DESCRIPTOR_FOLDERS[0])
    numbers = sorted(map(int, os.listdir(folder)))
    return [f"descriptor {number} ({kind})" for number in numbers if (kind := _exit_kind(folder, number))]


def _exit_kind(folder: str, number: int) -> str:
    try:
        if not stat.S_ISSOCK(os.fstat(number).st_mode):
            target = os.readlink(f"{folder}/{number}") if folder.startswith("/proc") else ""
            return target if target in _OTHER_EXITS else ""
        with socket.socket(fileno=os.dup(number)) as duplicate:
            family = duplicate.family
    except OSError:
        # The descriptor of the listing itself is closed by now.
        return ""
    if family == socket.AF_UNIX:
        return ""
    return f"{family.name} socket" if isinstance(family, socket.AddressFamily) else f"socket of family {family}"
