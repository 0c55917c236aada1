"""Puts a patch on stdout, for ``git apply``, and says where it has to be applied."""

import sys
from pathlib import Path

from khepri.edits.change import ChangeSet
from khepri.edits.patch import patch_of


def write_patch(changes: ChangeSet, root: Path, cwd: Path) -> None:
    """Write the patch of a change to stdout.

    In a folder below the root git leaves out what a patch does elsewhere, and says nothing; so it is said here.

    Args:
        changes: The change.
        root: Real path of the repository's root, which the paths of the patch begin at.
        cwd: Where the user is.
    """
    sys.stdout.flush()
    sys.stdout.buffer.write(patch_of(changes))
    sys.stdout.buffer.flush()
    here = cwd.resolve()
    outside = [path for path in changes.paths if not (root / path).is_relative_to(here)]
    if outside:
        print(
            f"khepri: the patch changes {outside[0]} outside this folder, which git apply leaves out here: "
            f"apply it at the root, with git -C {root} apply",
            file=sys.stderr,
        )
