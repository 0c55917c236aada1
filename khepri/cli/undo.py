"""``khepri undo``: takes changes back that Khepri wrote, the latest first."""

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from khepri import paths
from khepri.cli import exits
from khepri.cli.patch_output import write_patch
from khepri.edits.apply import reverse, undo
from khepri.edits.change import FileChange, change_set
from khepri.edits.checkpoints import Checkpoint, Checkpoints
from khepri.edits.patch import patch_text
from khepri.edits.refusal import EditRefusedError
from khepri.errors import UsageError
from khepri.repo.root import Repository
from khepri.repo.text import printable


def run(cwd: Path, number: int | None, *, to: bool, lists: bool, is_dry_run: bool, as_json: bool) -> int:
    """Take a change back, or show what can be, and return the exit code."""
    if to and number is None:
        raise UsageError("--to needs the number of a change", "khepri undo --list shows them")
    repository = Repository.open(cwd)
    checkpoints = Checkpoints(repository.root, paths.checkpoints_dir())
    if lists:
        return _list(checkpoints, as_json=as_json)
    if number is not None and checkpoints.is_undone(number):
        return _nothing(f"change {number} has been taken back already", as_json=as_json)
    chosen = _chosen(checkpoints, number, to=to)
    if not chosen:
        return _nothing("there is no change to take back in this repository", as_json=as_json)
    if is_dry_run:
        return _dry_run(repository, chosen, cwd, as_json=as_json)
    return _take_back(repository, checkpoints, chosen, as_json=as_json)


def _take_back(repository: Repository, checkpoints: Checkpoints, chosen: Sequence[Checkpoint], *, as_json: bool) -> int:
    """Take changes back, the latest first; what could not be ends it, and what was by then is told."""
    undone: list[dict[str, object]] = []
    refusal: EditRefusedError | None = None
    for checkpoint in chosen:
        try:
            back = undo(repository, checkpoint, checkpoints)
        except EditRefusedError as error:
            refusal = error
            break
        undone.append({"number": checkpoint.number, "title": checkpoint.changes.title, "paths": list(back.paths)})
        if not as_json:
            what = f"took back {checkpoint.number}" if back.paths else f"nothing is left of {checkpoint.number}"
            print(f"{what}: {printable(checkpoint.changes.title)}")
            for path in back.paths:
                print(f"  {printable(path)}")
    if refusal is not None and not undone:
        raise refusal
    if as_json:
        failure = exits.as_object(refusal) if refusal is not None else {}
        print(json.dumps({"undone": undone, **failure}, indent=2, ensure_ascii=False), flush=True)
    if refusal is not None:
        exits.say(refusal)
        return exits.exit_code(refusal)
    return exits.ANSWERED if any(each["paths"] for each in undone) else exits.NOTHING_CHANGED


def _nothing(why: str, *, as_json: bool) -> int:
    if as_json:
        print(json.dumps({"undone": []}), flush=True)
    print(f"khepri: {why}", file=sys.stderr)
    return exits.NOTHING_CHANGED


def _chosen(checkpoints: Checkpoints, number: int | None, *, to: bool) -> list[Checkpoint]:
    if number is None:
        return checkpoints.all()[:1]
    if to:
        checkpoints.load(number)
        return [each for each in checkpoints.all() if each.number >= number]
    return [checkpoints.load(number)]


def _dry_run(repository: Repository, chosen: Sequence[Checkpoint], cwd: Path, *, as_json: bool) -> int:
    """Print the patch that takes the changes back; where the files have changed since, the one for what they were."""
    patches = []
    for checkpoint in chosen:
        try:
            back = reverse(repository, checkpoint)
        except EditRefusedError:
            files = [FileChange(each.path, each.after, each.before, each.mode) for each in checkpoint.changes.files]
            back = change_set(checkpoint.changes.title, files)
        patches.append(back)
    if as_json:
        print(json.dumps({"patch": "".join(map(patch_text, patches))}, indent=2, ensure_ascii=False), flush=True)
        return exits.ANSWERED
    for back in patches:
        write_patch(back, repository.root, cwd)
    return exits.ANSWERED


def _list(checkpoints: Checkpoints, *, as_json: bool) -> int:
    found = checkpoints.all()
    if as_json:
        rows = [
            {
                "number": each.number,
                "title": each.changes.title,
                "applied": datetime.fromtimestamp(each.applied_s).astimezone().isoformat(timespec="seconds"),
                "is_complete": each.is_complete,
                "paths": list(each.changes.paths),
            }
            for each in found
        ]
        print(json.dumps({"changes": rows}, indent=2, ensure_ascii=False), flush=True)
        return exits.ANSWERED
    for each in found:
        when = datetime.fromtimestamp(each.applied_s).strftime("%Y-%m-%d %H:%M")
        broken = "" if each.is_complete else " (broken off)"
        files = f"{len(each.changes.files)} file{'s' * (len(each.changes.files) != 1)}"
        print(f"{each.number:>4}  {when}  {files}  {printable(each.changes.title)[:80]}{broken}")
    if not found:
        print("khepri: Khepri has changed nothing in this repository", file=sys.stderr)
    return exits.ANSWERED
