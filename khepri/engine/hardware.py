"""What the machine offers: the processor, its cores and features, and memory."""

import hashlib
import os
import platform
from dataclasses import dataclass
from pathlib import Path

import psutil

_CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Cpu:
    """The processor as the operating system describes it."""

    name: str
    features: frozenset[str]
    """Feature flags, lower case; empty where the system does not tell."""
    physical_cores: int
    """Physical cores that this process may use."""

    @property
    def fingerprint(self) -> str:
        """Return a short hash that changes when the name or the features change."""
        text = f"{platform.machine()}|{self.name}|{' '.join(sorted(self.features))}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def describe_cpu() -> Cpu:
    """Return the processor of this machine."""
    fields = _cpuinfo()
    name = fields.get("model name") or fields.get("hardware") or platform.processor() or platform.machine()
    features = frozenset((fields.get("flags") or fields.get("features") or "").lower().split())
    return Cpu(name=name, features=features, physical_cores=_physical_cores())


def available_memory_bytes() -> int:
    """Return the memory that a program can take without swapping, in bytes."""
    return int(psutil.virtual_memory().available)


def total_memory_bytes() -> int:
    """Return the memory of the machine, in bytes."""
    return int(psutil.virtual_memory().total)


def _cpuinfo() -> dict[str, str]:
    """Return the fields of the first processor in ``/proc/cpuinfo``; empty where there is none."""
    try:
        first = _CPUINFO.read_text(encoding="utf-8", errors="replace").split("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines() if ":" in line)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def _physical_cores() -> int:
    """Return the physical cores, or the processors this process is pinned to when those are fewer."""
    cores = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = min(cores, len(os.sched_getaffinity(0)))
    return max(1, cores)
