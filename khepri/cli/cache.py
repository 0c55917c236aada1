"""``khepri cache``: what is kept on disk of the tokens that models have read, and how to be rid of it."""

import json
import os
from dataclasses import asdict
from pathlib import Path

from khepri import config, paths
from khepri.engine import disk
from khepri.errors import UsageError
from khepri.repo.root import Repository


def run(cwd: Path, as_json: bool) -> None:
    """Print size, entries and hit rate on standard output.

    Args:
        cwd: Folder whose configuration sets the cap.
        as_json: Print one JSON object.

    Raises:
        UsageError: The folder or a setting cannot be used.
    """
    folder = paths.prefixes_dir()
    used, counted = disk.usage(folder), disk.read_statistics(folder)
    most_mb = config.load(Repository.open(cwd).root, {}, os.environ).config.cache_disk_mb
    hit_rate = counted.hits / counted.lookups if counted.lookups else None
    if as_json:
        found = {
            "folder": str(folder),
            **asdict(used),
            "most_bytes": most_mb * 1_000_000,
            **asdict(counted),
            "hit_rate": hit_rate,
        }
        print(json.dumps(found, indent=2))
        return
    print(f"folder    {folder}")
    print(f"size      {used.bytes / 1e6:,.1f} MB of at most {most_mb:,} MB (cache_disk_mb)")
    print(f"entries   {used.entries}")
    if hit_rate is None:
        print("hit rate  nothing was looked for yet")
    else:
        print(
            f"hit rate  {hit_rate:.0%} ({counted.hits} of {counted.lookups} conversations began with what was on disk; "
            f"{counted.restored_tokens:,} tokens were not evaluated again)"
        )


def clear(as_json: bool) -> None:
    """Delete all of it, and print how much that was.

    Raises:
        UsageError: A file cannot be deleted.
    """
    folder = paths.prefixes_dir()
    try:
        deleted = disk.clear(folder)
    except OSError as error:
        raise UsageError(f"cannot delete {error.filename}: {error.strerror}", f"delete the folder {folder}") from error
    if as_json:
        print(json.dumps(asdict(deleted)))
    else:
        print(f"deleted {deleted.entries} entries, {deleted.bytes / 1e6:,.1f} MB")
