"""What of this process lies in huge pages."""

import re
from pathlib import Path

import pytest

_SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")

needs_huge_pages = pytest.mark.skipif(
    not _SETTING.exists() or "[madvise]" not in _SETTING.read_text(), reason="this system gives them to all, or to none"
)


def huge_kib() -> int:
    """Return how much of this process's own memory lies in huge pages."""
    found = re.search(r"^AnonHugePages:\s+(\d+) kB", Path("/proc/self/smaps_rollup").read_text(), re.MULTILINE)
    assert found
    return int(found[1])
