"""What the kernel denies beneath every library, by raw system calls."""

import os
import signal

import pytest

from khepri.egress import landlock, seccomp
from khepri.egress.libc import KernelCalls
from tests.egress.children import linux_only, run_child, succeed


@linux_only
@pytest.mark.parametrize("index", range(7))
def test_the_calls_that_go_round_socket_are_denied(index: int) -> None:
    machine = seccomp.architecture()
    assert machine is not None
    code = f"""
    from khepri.egress.libc import KernelCalls
    try:
        KernelCalls().syscall({machine.denied[index]}, -1, -1, -1, -1, -1, -1)
    except PermissionError:
        print("denied")
    """
    assert succeed(code) == "denied"


FAMILIES = {"netlink": 16, "packet": 17, "CAN": 29, "TIPC": 30, "Bluetooth": 31, "ALG": 38, "vsock": 40, "XDP": 44}


@linux_only
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_but_unix_is_denied_by_the_kernel(family: str) -> None:
    code = f"""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    for kind in (1, 2, 3, 5):
        print(libc.socket({FAMILIES[family]}, kind, 0), ctypes.get_errno())
        pair = (ctypes.c_int * 2)()
        print(libc.socketpair({FAMILIES[family]}, kind, 0, pair), ctypes.get_errno())
    """
    assert set(succeed(code).splitlines()) == {"-1 13"}


@linux_only
def test_the_upper_half_of_the_family_register_does_not_fool_the_filter() -> None:
    machine = seccomp.architecture()
    assert machine is not None
    code = f"""
    import os
    from khepri.egress.libc import KernelCalls
    kernel = KernelCalls()
    os.close(kernel.syscall({machine.sockets[0]}, 1 + (7 << 32), 1, 0))
    try:
        kernel.syscall({machine.sockets[0]}, 2 + (1 << 32), 1, 0)
    except PermissionError:
        print("denied")
    """
    assert succeed(code) == "denied"


@linux_only
def test_a_process_outside_the_lock_cannot_be_written_to_through_proc() -> None:
    if landlock.abi(KernelCalls()) < landlock.FIRST_NETWORK_ABI:
        pytest.skip("this kernel's Landlock has no network rules")
    before = "import subprocess; outside = subprocess.Popen(['sleep', '60'])"
    code = """
    inside = subprocess.Popen(["sleep", "60"])
    for process in (inside, outside):
        try:
            open(f"/proc/{process.pid}/mem", "r+b").close()
            print("opened")
        except PermissionError:
            print("denied")
    for process in (inside, outside):
        process.kill()
        process.wait()
    """
    assert succeed(code, before=before).split() == ["opened", "denied"]


# mov eax, 20 (getpid in the 32-bit table); int 0x80; ret
INT80 = """
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex("b814000000cd80c3"))
print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))())
"""


@linux_only
def test_a_32_bit_system_call_ends_the_process() -> None:
    machine = seccomp.architecture()
    if machine is None or not machine.has_x32:
        pytest.skip("machine code for x86-64")
    if run_child(INT80, lock=False).returncode != 0:
        pytest.skip("this kernel takes no 32-bit calls")
    assert run_child(INT80).returncode == -signal.SIGSYS


@linux_only
def test_an_x32_system_call_does_not_exist() -> None:
    machine = seccomp.architecture()
    if machine is None or not machine.has_x32:
        pytest.skip("x86-64 only")
    code = f"""
    import errno
    from khepri.egress.libc import KernelCalls
    for number in ({machine.sockets[0]}, 39):
        try:
            KernelCalls().syscall(0x40000000 | number, 2, 1, 0)
        except OSError as error:
            print(errno.errorcode[error.errno])
    """
    assert succeed(code) == "ENOSYS\nENOSYS"


MACHINES = {
    "x86_64": seccomp.Architecture(0xC000003E, 317, (41, 53), (425, 426, 427, 438, 101, 311, 249), has_x32=True),
    "aarch64": seccomp.Architecture(0xC00000B7, 277, (198, 199), (425, 426, 427, 438, 117, 271, 218), has_x32=False),
}


def judge(machine: seccomp.Architecture, audit: int, number: int, family: int) -> str:
    """Run the filter as the kernel's BPF machine does, so that the other architecture's is tested too."""
    data = {0: number, 4: audit, 16: family}
    program, at, word = seccomp.build_filter(machine), 0, 0
    while True:
        code, if_true, if_false, operand = program[at]
        at += 1
        match code:
            case 0x20:
                word = data[operand]
            case 0x15:
                at += if_true if word == operand else if_false
            case 0x35:
                at += if_true if word >= operand else if_false
            case 0x06:
                return {0x7FFF0000: "allow", 0x80000000: "kill"}.get(operand) or os.strerror(operand & 0xFFFF)
            case _:
                raise AssertionError(code)


@pytest.mark.parametrize("name", MACHINES)
def test_the_filter_of_each_architecture_denies_what_it_must_and_no_more(name: str) -> None:
    machine = MACHINES[name]
    special = {*machine.sockets, *machine.denied}
    for number in range(600):
        for family in (0, 1, 2, 10, 16, 17, 38, 40, 0xFFFFFFFF):
            verdict = judge(machine, machine.audit, number, family)
            if number in machine.denied:
                assert verdict == "Operation not permitted"
            elif number in machine.sockets and family != 1:
                assert verdict == "Permission denied"
            else:
                assert verdict == "allow"
                assert number not in special or family == 1
        assert judge(machine, machine.audit ^ 0x80000000, number, 1) == "kill"


@linux_only
def test_the_running_architecture_is_one_of_those_tested() -> None:
    assert seccomp.architecture() in MACHINES.values()
