"""``khepri sessions``: list, export and remove the conversations about a repository. No model is loaded."""

import json
import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from khepri import paths
from khepri.agent.export import ExportFormat, export
from khepri.agent.history import prompts_of, replay
from khepri.agent.journal import Journal, is_written, read_records
from khepri.agent.listings import describe_age, describe_size
from khepri.agent.recording import find_session, list_sessions
from khepri.engine.disk import forget_conversation
from khepri.errors import UsageError
from khepri.repo.root import Repository
from khepri.repo.text import counted, printable, printable_json


def list_all(cwd: Path, as_json: bool) -> None:
    """Print the conversations about the repository, the latest first."""
    infos = list_sessions(_folder(cwd))
    if as_json:
        rows = [
            {
                "id": info.session_id,
                "title": info.title,
                "turns": info.turns,
                "changed": info.changed.isoformat(timespec="seconds"),
                "model": info.model,
                "bytes": info.size_bytes,
            }
            for info in infos
        ]
        print(printable_json(json.dumps(rows, indent=2, ensure_ascii=False)))
        return
    now = datetime.now(UTC)
    for info in infos:
        size = describe_size(info.size_bytes)
        age, turns = describe_age(info.changed, now), counted(info.turns, "turn")
        print(f"{info.session_id}  {age:<15}  {turns:>9}  {size:>8}  {printable(info.title)}")
    if not infos:
        print("khepri: no conversations about this repository yet; begin one: khepri", file=sys.stderr)


def export_one(cwd: Path, session: str, as_json: bool) -> None:
    """Print a conversation as Markdown or JSON.

    Raises:
        UsageError: There is no such session, or it cannot be read.
    """
    path = find_session(_folder(cwd), session)
    goes_on = is_written(path)
    history = replay(path.stem, read_records(path))
    text = export(history, ExportFormat.JSON if as_json else ExportFormat.MARKDOWN, goes_on=goes_on)
    sys.stdout.write(text)


def remove(cwd: Path, session: str) -> None:
    """Delete a conversation, and the keys and values on disk that belong to it alone.

    Raises:
        UsageError: There is no such session, it is open in another process, or it cannot be deleted.
    """
    folder = _folder(cwd)
    path = find_session(folder, session)
    states = prompts_of(read_records(path))
    others = [prompt for other in folder.glob(f"*{path.suffix}") if other != path for prompt in _prompts(other)]
    # Whoever has it open would write it again.
    with closing(Journal(path, time.monotonic, lambda record: None)):
        try:
            deleted = forget_conversation(paths.prefixes_dir(), states, others)
            path.unlink()
        except OSError as error:
            raise UsageError(
                f"{error.filename} cannot be deleted: {error.strerror}", "see to its folder's permissions"
            ) from error
    read = f" and {describe_size(deleted.bytes)} of what the model had read" if deleted.entries else ""
    print(f"khepri: removed {path.stem}{read}", file=sys.stderr)


def _prompts(path: Path) -> list[tuple[int, ...]]:
    try:
        return prompts_of(read_records(path))
    except UsageError:
        return []  # its states are taken for nobody's, which only costs time


def _folder(cwd: Path) -> Path:
    return paths.sessions_dir(Repository.open(cwd).root)
