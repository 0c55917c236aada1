from pathlib import Path

import pytest

from khepri.cli.task_input import attach
from khepri.errors import UsageError


def test_a_loop_of_links_is_refused_as_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UsageError, match="--file loop"):
        attach(tmp_path, Path("loop"))
