"""llama-cpp-python's own plain generation, in a process of its own.

The libraries run their threads by OpenMP, which counts the threads of all teams in a process. The engine's team and the
baseline's together are more than the cores: threads then no longer wait for each other awake, and each pass takes up to
two thirds longer, the engine's as well as the baseline's. Run as ``python -m khepri.cli.bench.baseline``, this module
is that process. It speaks JSON, one object a line.
"""

import json
import subprocess
import sys
from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any, Self

from khepri.engine.backend import LoadOptions
from khepri.engine.backends.llama_cpp_plain import LlamaCppPlain, PlainGeneration
from khepri.engine.parent import die_with_parent
from khepri.errors import KhepriError, ModelError


class BaselineProcess:
    """A model loaded with llama-cpp-python in a child. Owns the child; ``close`` ends it. One thread.

    Raises:
        ModelError: The child could not load the model, or died.
    """

    def __init__(self, options: LoadOptions) -> None:
        """Load the model with the settings that ``LlamaCppBackend`` would take from ``options``. Takes seconds."""
        command = [sys.executable, "-P", "-m", "khepri.cli.bench.baseline"]
        # In a group of its own: Ctrl-C is for the benchmark, which ends the child.
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", process_group=0
        )
        try:
            self._ask(options.as_json())
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def generate(self, prompt: Collection[int], max_tokens: int, end_ids: Collection[int]) -> PlainGeneration:
        """Continue ``prompt`` greedily; see ``LlamaCppPlain.generate``.

        Raises:
            ModelError: The library failed, or the child died.
        """
        said = self._ask({"prompt": list(prompt), "max_tokens": max_tokens, "end_ids": list(end_ids)})
        return PlainGeneration(tuple(said["tokens"]), said["ttft_ms"], tuple(said["gaps_ms"]))

    def close(self) -> None:
        """End the child. Calling it twice is harmless."""
        self._child.kill()
        self._child.communicate()

    def _ask(self, question: Mapping[str, object]) -> dict[str, Any]:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            self._child.stdin.write(f"{json.dumps(question)}\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            line = ""
        else:
            line = self._child.stdout.readline()
        if not line:
            raise ModelError(f"llama-cpp-python died (exit status {self._child.wait()})", "run `khepri doctor`")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ModelError(answer["error"], answer["hint"])
        return answer


def _serve() -> None:
    """Load what the first line says, then answer each other line."""
    die_with_parent()
    plain: LlamaCppPlain | None = None
    for line in sys.stdin:
        question = json.loads(line)
        answer: Mapping[str, object]
        try:
            if plain is None:
                plain, answer = LlamaCppPlain(LoadOptions.from_json(question)), {}
            else:
                answer = asdict(plain.generate(question["prompt"], question["max_tokens"], question["end_ids"]))
        except KhepriError as error:
            answer = {"error": error.message, "hint": error.hint}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve()
