"""Refactors real packages at random and lets their own tests judge each change.

Run it with ``python -m tests.eval.refactorings``: no model, no review, each change on a fresh state of the package. A
change after which a test fails is a result, not a failure of the run: the report shows what was said of it beforehand,
for a test may be about the very name, and a note may have named the place. The same ``--seed`` draws the same
operations. Sources and environments are downloaded once, into ``build/refactorings``.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from khepri.edits.change import ChangeSet
from khepri.edits.patch import patch_text
from khepri.edits.python.trees import kept_trees
from khepri.edits.refusal import EditRefusedError
from khepri.edits.workspace import Workspace
from khepri.errors import ToolError
from khepri.repo.root import Repository
from tests.eval.refactorings.operations import WEIGHTS, Operation, draw
from tests.eval.refactorings.packages import Workbench, load_packages

_SHOWN = 1500


@dataclass(frozen=True)
class Result:
    """What came of one operation."""

    package: str
    operation: Operation
    outcome: str
    """``passes``, ``fails``, ``refused`` or ``crashes``."""
    seconds: float
    """What the operation took; the tests are not counted."""
    notes: tuple[str, ...] = ()
    """What the user is told beside the change."""
    words: str = ""
    """Why it was refused, what the tests said, or where it crashed."""
    patch: str = ""
    """The change, if a test fails after it."""


def refactor(bench: Workbench, number: int, seed: str) -> Iterator[Result]:
    """Do so many operations on one package, each on its first state."""
    with tempfile.TemporaryDirectory(prefix="khepri-refactorings-") as folder:
        first = Path(folder) / "first"
        shutil.copytree(bench.source, first, ignore=shutil.ignore_patterns("__pycache__", ".git"))
        broken = bench.judge(first, all_of_them=True).broken
        for operation in draw(first, number, random.Random(seed + bench.package.name)):
            root = Path(folder) / "changed"
            shutil.copytree(first, root)
            yield _do(bench, operation, root, broken)
            shutil.rmtree(root)


def _do(bench: Workbench, operation: Operation, root: Path, broken: tuple[str, ...]) -> Result:
    started_s = time.perf_counter()
    name = bench.package.name
    try:
        with kept_trees():
            done = operation.perform(Workspace(Repository.open(root)))
    except (EditRefusedError, ToolError) as error:
        return Result(name, operation, "refused", round(time.perf_counter() - started_s, 1), words=str(error))
    except Exception:  # whatever it is, it is what this looks for
        seconds = round(time.perf_counter() - started_s, 1)
        return Result(name, operation, "crashes", seconds, words=traceback.format_exc())
    seconds = round(time.perf_counter() - started_s, 1)
    _write(done.changes, root)
    verdict = bench.judge(root, broken)
    if verdict.passes:
        return Result(name, operation, "passes", seconds, done.notes)
    return Result(name, operation, "fails", seconds, done.notes, verdict.output, patch_text(done.changes))


def _write(changes: ChangeSet, root: Path) -> None:
    for change in changes.files:
        path = root / change.path
        if change.after is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(change.after)


def show(results: Sequence[Result]) -> None:
    """Print what came of the operations, by their kinds, and each one that was not right."""
    for kind in WEIGHTS:
        some = [each for each in results if each.operation.kind == kind]
        if some:
            print(f"{kind:17} {len(some):4}: {_counted(some)}")
    print(f"{'all':17} {len(results):4}: {_counted(results)}")
    for each in results:
        if each.outcome in {"fails", "crashes"}:
            one = each.operation
            print(f"\n{each.outcome}: {each.package}: {one.kind} {one.path} {one.symbol} {one.name}".rstrip())
            print("\n".join(f"  note: {note}" for note in each.notes) or "  no note")
            print(each.words[-_SHOWN:])


def _counted(results: Sequence[Result]) -> str:
    counts = Counter(
        "fails, noted" if each.outcome == "fails" and each.notes else each.outcome for each in results
    ).most_common()
    return ", ".join(f"{count} {outcome}" for outcome, count in counts)


def main() -> int:
    """Do the operations, write one result a line, and report."""
    parser = argparse.ArgumentParser(prog="python -m tests.eval.refactorings", description="Refactor real packages.")
    parser.add_argument("packages", nargs="*", help="which of packages.toml; without any, all of them")
    parser.add_argument("--number", type=int, default=20, metavar="N", help="operations on each package (20)")
    parser.add_argument("--seed", default="1", help="which operations are drawn")
    parser.add_argument("--folder", type=Path, default=Path("build/refactorings"), help="where the packages lie")
    parser.add_argument("--output", type=Path, default=Path("build/refactorings.jsonl"), help="one result a line")
    options = parser.parse_args()
    folder = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    with options.output.open("w", encoding="utf-8") as output:
        for package in load_packages(options.packages):
            bench = Workbench(package, folder)
            bench.prepare()
            for result in refactor(bench, options.number, options.seed):
                results.append(result)
                print(json.dumps(asdict(result), ensure_ascii=False), file=output, flush=True)
                one = result.operation
                told = f"{package.name} {one.kind} {one.path} {one.symbol}: {result.outcome}, {result.seconds} s"
                print(told, file=sys.stderr, flush=True)
    show(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
