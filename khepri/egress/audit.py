"""The audit hook: Python's own network calls fail with a sentence that names the lock.

On Linux and macOS it is the second layer, whose task is the clear message; elsewhere it is all there is. It holds for
the calling interpreter, cannot be removed, and sees neither native code nor children.

The hook is also where the interpreter remembers that it is locked: it answers ``installed_tier``, so that no module
has to keep that state.
"""

import errno
import socket
import sys

from khepri.egress.tier import Tier

_QUESTION = "khepri.egress.tier"
_UNKNOWN_FAMILY = -1
_LOOK_UPS = frozenset(
    {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"},
)
_USES = frozenset({"socket.bind", "socket.connect", "socket.sendto", "socket.sendmsg"})
_LOCAL_FAMILY = getattr(socket, "AF_UNIX", None)


def installed_tier() -> Tier | None:
    """Return the tier that the hook was installed with, or None if this interpreter has no hook."""
    answers: list[Tier] = []
    sys.audit(_QUESTION, answers)
    return answers[0] if answers else None


def install(tier: Tier) -> None:
    """Add the hook to this interpreter, for all its threads and for good.

    Args:
        tier: What ``installed_tier`` answers from now on.
    """

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        # Called for every import, open and compile of the process: the common case must leave at once.
        if event.startswith("socket."):
            _judge(event, arguments)
        elif event == _QUESTION and isinstance(arguments[0], list):
            arguments[0].append(tier)

    sys.addaudithook(hook)


def _judge(event: str, arguments: tuple[object, ...]) -> None:
    if event == "socket.__new__":
        # A socket made from a descriptor has no family yet; it is judged when it is used.
        if arguments[1] not in (_LOCAL_FAMILY, _UNKNOWN_FAMILY):
            raise _denial(f"a socket of {_family_name(arguments[1])}")
    elif event in _USES:
        family = getattr(arguments[0], "family", None)
        if family != _LOCAL_FAMILY:
            raise _denial(f"{event.removeprefix('socket.')} on a socket of {_family_name(family)}")
    elif event in _LOOK_UPS and arguments[0] is not None:
        # With some resolvers a look-up travels by a UNIX socket to a daemon that asks the network on our behalf.
        raise _denial(f"a look-up of {arguments[0]!r}")


def _denial(what: str) -> PermissionError:
    return PermissionError(errno.EACCES, f"Khepri's network lock denies {what}")


def _family_name(family: object) -> str:
    try:
        return f"family {socket.AddressFamily(family).name}" if isinstance(family, int) else "unknown family"
    except ValueError:
        return f"family {family}"
