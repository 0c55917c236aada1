"""What the machine offers is read from the system, whatever the system tells."""

import os
import sys
from pathlib import Path

import pytest

from khepri.engine import hardware
from khepri.engine.hardware import Cpu, available_memory_bytes, describe_cpu, total_memory_bytes

X86 = """processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Some: CPU @ 2.00GHz
flags\t\t: fpu AVX2 avx2 amx_tile

processor\t: 1
model name\t: Another CPU
flags\t\t: fpu
"""
ARM = "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd sve\n\nprocessor\t: 1\nFeatures\t: fp\n"


def cpu_of(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cpu:
    (tmp_path / "cpuinfo").write_text(text, encoding="utf-8")
    monkeypatch.setattr(hardware, "_CPUINFO", tmp_path / "cpuinfo")
    return describe_cpu()


def test_this_machine_has_a_name_a_core_and_memory() -> None:
    cpu = describe_cpu()
    assert cpu.name
    assert 1 <= cpu.physical_cores <= (os.cpu_count() or 1)
    assert 0 < available_memory_bytes() <= total_memory_bytes()


def test_the_first_processor_of_an_intel_or_amd_machine_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu = cpu_of(X86, tmp_path, monkeypatch)
    assert cpu.name == "Some: CPU @ 2.00GHz"
    assert cpu.features == {"fpu", "avx2", "amx_tile"}


def test_an_arm_machine_has_features_and_some_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = cpu_of(ARM, tmp_path, monkeypatch)
    assert cpu.features == {"fp", "asimd", "sve"}
    assert cpu.name


@pytest.mark.parametrize("text", ["", "\n\n\n", "no colon here", "\0\0:\0", "flags:"])
def test_a_system_that_tells_nothing_leaves_a_nameable_processor(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu = cpu_of(text, tmp_path, monkeypatch)
    assert cpu.name
    assert cpu.features == frozenset()


def test_a_system_without_the_file_is_described_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "_CPUINFO", tmp_path / "missing")
    assert describe_cpu().name


def test_the_fingerprint_changes_with_name_and_features_and_with_nothing_else() -> None:
    cpu = Cpu("A", frozenset({"x", "y"}), 4)
    assert cpu.fingerprint == Cpu("A", frozenset({"y", "x"}), 8).fingerprint
    assert cpu.fingerprint != Cpu("B", frozenset({"x", "y"}), 4).fingerprint
    assert cpu.fingerprint != Cpu("A", frozenset({"x"}), 4).fingerprint


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason=f"{sys.platform} does not pin processes")
def test_a_process_that_is_pinned_to_one_processor_has_one_core() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert describe_cpu().physical_cores == 1
    finally:
        os.sched_setaffinity(0, before)
