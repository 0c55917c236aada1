"""Asks the questions of ``questions.toml`` and reports how many answers name the right file.

Run it with ``make eval`` or ``python -m tests.eval``. Each package is copied into a temporary git repository, and each
question goes through ``khepri ask --json`` in a process of its own, as a user would ask it. A wrong answer is a result,
not a failure: the exit status is 0 unless the run itself could not be carried out.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.eval.judge import named_files, read_files

_QUESTIONS = Path(__file__).with_name("questions.toml")
_RUN_CANNOT_GO_ON = {2, 3, 130}
"""Exit codes of ``khepri ask`` that say nothing about the question: usage, no model, interrupted."""
_FAILED = {1, 4}
"""Exit codes that may be one question's fault, unless all questions end so: internal, model failed."""


class EvalError(Exception):
    """The evaluation itself cannot be carried out."""


@dataclass(frozen=True)
class Question:
    """One question and what a right answer names."""

    id: str
    """Stable name, for ``--only`` and for comparing runs."""
    package: str
    """Installed package that the question is about."""
    text: str
    """The question, word for word."""
    files: tuple[str, ...]
    """The files of which a right answer names at least one."""
    why: str
    """Where in the source the answer stands."""


@dataclass(frozen=True)
class Result:
    """What came of one question."""

    id: str
    """The question's id."""
    named: bool
    """True if the answer names a right file: this is the score."""
    read: bool
    """True if a right file was opened with the read tool."""
    others_named: int
    """Files named beside the right ones; many of them make a right answer worth less."""
    steps: int
    """Tool calls."""
    seconds: float
    """Wall time of the process, loading the model included."""
    prompt_tokens: int
    """Tokens of the prompts, those from the cache included."""
    completion_tokens: int
    """Tokens generated."""
    stop_reason: str
    """Why Khepri stopped, in its own words; empty if it said nothing."""
    exit_code: int
    """Exit code of ``khepri ask``; -1 if it ran out of time."""
    error: str
    """The end of what it said on standard error, if the exit code is not 0."""
    model: str
    """The model that answered."""
    tools: tuple[str, ...]
    """Each call as ``tool {arguments}``, for reading up on a failure."""
    answer: str
    """The answer, whole."""


def load_questions(only: list[str]) -> list[Question]:
    """Return the questions whose id or package contains one of ``only``, or all when it is empty.

    Raises:
        EvalError: Nothing matches.
    """
    tables = tomllib.loads(_QUESTIONS.read_text(encoding="utf-8"))["question"]
    questions = [Question(**{**table, "files": tuple(table["files"])}) for table in tables]
    chosen = [question for question in questions if not only or any(word in question.id for word in only)]
    if not chosen:
        raise EvalError(f"no question matches {', '.join(only)}; there are {', '.join(q.id for q in questions)}")
    return chosen


def make_repository(package: str, parent: Path) -> Path:
    """Copy an installed package into a new git repository below ``parent`` and return its root.

    Raises:
        EvalError: The package is not installed.
    """
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise EvalError(f"the package {package} is not installed; run: make setup-dev")
    root = parent / f"{package}-checkout"
    ignore = shutil.ignore_patterns("__pycache__", "*.pyc", "*.so", "*.dylib")
    shutil.copytree(Path(spec.origin).parent, root / package, ignore=ignore)
    identity = ("-c", "user.name=eval", "-c", "user.email=eval@localhost", "-c", "commit.gpgsign=false")
    for command in (("init", "--quiet"), ("add", "--all"), (*identity, "commit", "--quiet", "-m", f"Import {package}")):
        subprocess.run(("git", "-C", str(root), *command), check=True)
    return root


def ask(question: Question, root: Path, options: argparse.Namespace) -> Result:
    """Put one question to ``khepri ask`` in the repository at ``root`` and judge what comes back.

    Raises:
        EvalError: Khepri failed in a way that has nothing to do with the question.
    """
    command = [sys.executable, "-m", "khepri", "ask", "--json", "--cwd", str(root)]
    command += ["--model", options.model] if options.model else []
    started = time.monotonic()
    try:
        done = subprocess.run(
            [*command, question.text], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=options.timeout
        )
        exit_code, stdout, stderr = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        exit_code, stdout, stderr = -1, "", f"no answer within {options.timeout} s"
    seconds = time.monotonic() - started
    if exit_code in _RUN_CANNOT_GO_ON:
        raise EvalError(f"khepri ask ended with exit code {exit_code}:\n{stderr.strip()}")
    report = json.loads(stdout) if stdout.strip() else {}
    files = [path.relative_to(root).as_posix() for path in (root / question.package).rglob("*") if path.is_file()]
    answer, steps = report.get("answer") or "", report.get("steps") or []
    named, read, right = named_files(answer, files), read_files(steps, files), frozenset(question.files)
    usage = report.get("usage") or {}
    return Result(
        id=question.id,
        named=bool(named & right),
        read=bool(read & right),
        others_named=len(named - right),
        steps=len(steps),
        seconds=round(seconds, 1),
        prompt_tokens=usage.get("prompt_tokens", 0),
        completion_tokens=usage.get("completion_tokens", 0),
        stop_reason=report.get("stop_reason") or "",
        exit_code=exit_code,
        error=stderr.strip()[-600:] if exit_code else "",
        model=str(report.get("model") or ""),
        tools=tuple(f"{step.get('tool')} {json.dumps(step.get('arguments'))}" for step in steps),
        answer=answer,
    )


def machine() -> dict[str, str | int]:
    """Return what a reader needs in order to place the seconds: processor, cores, system, versions."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass
    return {
        "processor": name,
        "cores": os.cpu_count() or 0,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "khepri": version("khepri"),
        "llama_cpp_python": version("llama-cpp-python"),
    }


def show(questions: list[Question], results: list[Result]) -> None:
    """Print the table of results and the score."""
    table = Table("question", "right file", "named", "others", "read", "steps", "seconds", "tokens in/out", "stopped")
    for question, result in zip(questions, results, strict=True):
        table.add_row(
            question.id,
            "\n".join(question.files),
            "yes" if result.named else "NO",
            str(result.others_named),
            "yes" if result.read else "no",
            str(result.steps),
            f"{result.seconds:.1f}",
            f"{result.prompt_tokens}/{result.completion_tokens}",
            result.stop_reason or f"exit code {result.exit_code}",
        )
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    console.print(table)
    score, seconds = sum(result.named for result in results), sum(result.seconds for result in results)
    read = sum(result.read for result in results)
    for result in results:
        if result.error:
            console.print(f"{result.id}: {result.error}", markup=False, highlight=False)
    console.print(f"{score} of {len(results)} answers name the right file ({read} read it), in {seconds:.0f} s")


def main() -> int:
    """Run the evaluation and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.eval", description="Ask the evaluation questions.")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="questions whose id contains TEXT")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the results there as JSON")
    parser.add_argument("--model", help="model to ask instead of the default")
    parser.add_argument("--timeout", type=float, default=900.0, metavar="SECONDS", help="limit for one question")
    options = parser.parse_args()
    results = []
    try:
        questions = load_questions(options.only)
        with tempfile.TemporaryDirectory(prefix="khepri-eval-") as folder:
            roots = {name: make_repository(name, Path(folder)) for name in {q.package for q in questions}}
            for number, question in enumerate(questions, start=1):
                print(f"[{number}/{len(questions)}] {question.text}", file=sys.stderr, flush=True)
                results.append(ask(question, roots[question.package], options))
    except (EvalError, OSError, subprocess.CalledProcessError, json.JSONDecodeError) as error:
        print(f"the evaluation could not be carried out: {error}", file=sys.stderr)
        return 1
    show(questions, results)
    if options.output:
        report = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "model": results[0].model,
            "score": sum(result.named for result in results),
            "questions": len(results),
            "results": [asdict(result) for result in results],
        }
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if all(result.exit_code in _FAILED for result in results):
        print("the evaluation could not be carried out: Khepri failed on every question", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
