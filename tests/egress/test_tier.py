"""The tier that is reported: what was reached, what is missing, and nothing that was only assumed."""

import socket
import sys

import pytest

from khepri import egress
from khepri.egress import Level, Tier, landlock
from khepri.egress.libc import KernelCalls
from khepri.errors import UsageError
from tests.egress.children import HOOK_ONLY, LOCK, THREAD_BEFORE, linux_only, succeed


def test_locking_twice_installs_once_and_gives_the_same_tier() -> None:
    code = (
        """
    assert egress.lock() is tier
    assert egress.probe() is tier
    print(*[line.split()[1] for line in open("/proc/self/status") if line.startswith("Seccomp_filters")])
    """
        if sys.platform == "linux"
        else "assert egress.lock() is tier; print(1)"
    )
    assert succeed(code) in ("1", "")


def test_a_child_that_locks_again_is_strong_too() -> None:
    code = f"""
    import subprocess, sys
    print(tier.level, subprocess.check_output([sys.executable, "-c", {LOCK + "; print(tier.level)"!r}], text=True))
    """
    first, second = succeed(code).split()
    assert first == second


def test_probing_foretells_the_tier_and_changes_nothing() -> None:
    code = """
    from khepri import egress
    import socket
    expected = egress.probe()
    socket.socket(socket.AF_INET).close()
    assert egress.lock() == expected, expected
    """
    succeed(code, lock=False)


@linux_only
def test_a_lock_after_a_thread_is_strong_and_says_that_landlock_holds_for_one_thread() -> None:
    code = "print(tier.describe()); start.set(); thread.join()"
    described = succeed(code, "9", before=THREAD_BEFORE.replace("exec(source", "(source"))
    assert described.startswith("network lock: strong (seccomp")
    if landlock.abi(KernelCalls()) >= landlock.FIRST_NETWORK_ABI:
        assert "of the calling thread" in described


@pytest.mark.parametrize("where", ["inherited", "opened"])
def test_a_network_socket_that_was_open_before_makes_the_tier_partial_and_is_named(where: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as held:
        report = "print(tier.level, tier.reason)"
        if where == "inherited":
            printed = succeed(report, pass_fds=[held.fileno()])
            assert f"descriptor {held.fileno()} (AF_INET socket)" in printed
        else:
            printed = succeed(report, before="import socket; early = socket.socket()", lock=True)
            assert "(AF_INET socket)" in printed
        assert printed.startswith("partial open before the lock")


def test_an_inherited_unix_socket_is_no_way_out() -> None:
    left, right = socket.socketpair()
    with left, right:
        assert "AF_UNIX" not in succeed("print(tier.reason)", pass_fds=[left.fileno()])


def test_where_there_is_no_sandbox_the_tier_says_so() -> None:
    described = succeed("print(tier.describe())", before=HOOK_ONLY)
    assert described == (
        "network lock: hook (audit hook): native code and child processes are not held, "
        "because Khepri knows no sandbox for plan9"
    )


@linux_only
def test_an_unknown_processor_keeps_landlock_and_says_what_is_missing() -> None:
    described = succeed("print(tier.describe())", before="import platform; platform.machine = lambda: 'riscv64'")
    assert "seccomp" not in described
    assert "of this processor are not known" in described
    assert described.startswith(("network lock: partial (landlock", "network lock: hook"))


def test_requiring_the_strong_tier_refuses_a_weaker_one_with_its_reason() -> None:
    egress.require_strong(Tier(Level.STRONG, ("seccomp",)))
    with pytest.raises(UsageError, match="the hook one: because"):
        egress.require_strong(Tier(Level.HOOK, ("audit hook",), "because"))
