"""Keeps what an unfinished change has come to, step by step, so that it can go on where it was interrupted."""

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from khepri.agent.events import StepFinished
from khepri.agent.protocol import ToolCall
from khepri.edits.change import FileChange, change_set
from khepri.edits.files import digest, write_atomically
from khepri.edits.refusal import EditRefusedError
from khepri.edits.workspace import Workspace


@dataclass(frozen=True)
class StoredPlan:
    """A plan, and what its finished steps propose."""

    calls: tuple[ToolCall, ...]
    steps: tuple[StepFinished, ...]
    """What came of the calls that are finished, from the first on."""
    notices: tuple[str, ...]
    """What the user was told besides."""
    files: tuple[FileChange, ...]
    """What the steps propose; ``before`` is what the files held."""
    written: int | None = None
    """The number of the change if it is written, and its checks are what is left; ``files`` is empty then."""


class PlanStore:
    """The unfinished change of one repository. One thread; a folder that cannot be written keeps nothing."""

    def __init__(self, root: Path, folder: Path) -> None:
        """Name the place; nothing is read or made.

        Args:
            root: Real path of the repository's root.
            folder: ``paths.plans_dir()``.
        """
        self._path = folder / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:24]}.json"

    def save(
        self,
        task: str,
        calls: Sequence[ToolCall],
        steps: Sequence[StepFinished],
        notices: Sequence[str],
        workspace: Workspace,
    ) -> None:
        """Remember what came of the first calls of a plan, one step each, and what was told besides."""
        files = workspace.changes(task).files
        record = {
            "task": task,
            "calls": [{"name": call.name, "arguments": dict(call.arguments)} for call in calls],
            "steps": [asdict(step) for step in steps],
            "notices": list(notices),
            "files": [
                {"path": each.path, "before": digest(each.before), "after": _written(each.after)} for each in files
            ],
        }
        self._write(record)

    def note_written(self, number: int) -> None:
        """Remember that the change was written, and under which number it can be taken back."""
        with suppress(OSError, ValueError, TypeError):
            self._write({**json.loads(self._path.read_bytes()), "files": [], "written": number})

    def _write(self, record: Mapping[str, object]) -> None:
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(self._path, json.dumps(record).encode())
            self._path.chmod(0o600)

    def load(self, task: str, workspace: Workspace) -> StoredPlan | None:
        """Return what was kept of this very task, if the files are still what they were; else None."""
        try:
            record = json.loads(self._path.read_bytes())
            if record["task"] != task:
                return None
            calls = tuple(ToolCall(call["name"], call["arguments"]) for call in record["calls"])
            files = []
            for entry in record["files"]:
                before = workspace.read(entry["path"])
                if digest(before) != entry["before"]:
                    return None
                files.append(FileChange(entry["path"], before, _read(entry["after"])))
            steps = tuple(StepFinished(**step) for step in record["steps"])
            if len(steps) > len(calls):
                return None
            written = None if record.get("written") is None else int(record["written"])
            notices = tuple(map(str, record["notices"]))
            return StoredPlan(calls, steps, notices, change_set(task, files).files, written)
        except (OSError, ValueError, KeyError, TypeError, EditRefusedError):
            return None

    def forget(self) -> None:
        """Remove what was kept: the change has come to its end."""
        with suppress(OSError):
            self._path.unlink()


def _written(data: bytes | None) -> str | None:
    return None if data is None else base64.b85encode(data).decode()


def _read(text: str | None) -> bytes | None:
    return None if text is None else base64.b85decode(text)
