"""Runs the benchmark's corpus against other servers, side by side with Khepri, and prints the ratios.

The same prompts, the same model file and the same threads, greedily, and every item by each in turn::

    python -m tests.eval.peers                                   # llama-cpp-python's own server, started on loopback
    python -m tests.eval.peers --server http://127.0.0.1:8080    # llama-server, Ollama, vLLM, SGLang: whatever listens

A server that is given has to serve the same file with as many threads, which cannot be seen from here. The server of
llama-cpp-python needs ``pip install "llama-cpp-python[server]"``. Servers know no grammar of ours: they are given the
beginning of a tool call, as far as the grammar leaves no choice, and write the rest freely. It is a benchmark of the
maintainers: Khepri's own commands give up the network.
"""

import argparse
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from khepri.cli.bench.command import Target, choose, resolve, start_engine
from khepri.cli.bench.corpus import Item, load_corpus
from khepri.cli.bench.runs import ArmName, EngineArm, Run, warm_up
from khepri.engine.backend import Vocabulary
from khepri.engine.constrain import GrammarCompiler
from khepri.engine.request import DraftMode
from khepri.errors import KhepriError
from tests.eval.peers.completions import Completion, PeerError, Server

_START_TIMEOUT_S = 120.0
_SERVER_MODULES = ("fastapi", "uvicorn", "sse_starlette", "pydantic_settings")


@dataclass(frozen=True)
class Row:
    """One item, once, by one server and by Khepri."""

    server: str
    class_: str
    item: str
    server_tokens_per_s: float
    khepri_tokens_per_s: float
    accepted: str
    """Accepted of proposed tokens, for Khepri."""
    first_token_ratio: float
    """The server's time to the first token by Khepri's."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare and print; return 0, or 1 if there was nothing to compare with."""
    options = _options(arguments)
    try:
        target = resolve(Path.cwd(), {"model": options.model, "backend": options.backend, "draft": options.draft})
        with ExitStack() as stack:
            servers = [Server(address, options.model_name) for address in options.server]
            if not servers:
                servers = [stack.enter_context(_llama_cpp_server(target))]
            engine = stack.enter_context(start_engine(target.model, target.engine))
            arm = EngineArm(engine, ArmName.ACCELERATED, DraftMode(target.settings.draft))
            items = choose(load_corpus(engine.vocabulary), quick=options.quick)
            prompts = [_text(item, engine.vocabulary) for item in items]
            warm_up([arm], items[-1])
            rows = [
                _compare(server, arm, item, prompt, repeat)
                for item, prompt in zip(items, prompts, strict=True)
                for repeat in range(options.repeats)
                for server in servers
            ]
            library = engine.backend.capabilities.library
    except (PeerError, KhepriError) as error:
        print(error, file=sys.stderr)
        return 1
    print(
        f"Khepri on {library}, {target.options.threads} threads, {target.model.name}; drafts: {target.settings.draft}"
    )
    print("\n".join(_summary(rows)))
    if options.output:
        options.output.write_text(json.dumps([asdict(row) for row in rows], indent=2), encoding="utf-8")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.eval.peers", description=__doc__.split("\n")[0])
    parser.add_argument("--server", action="append", default=[], metavar="URL", help="an OpenAI-compatible server")
    parser.add_argument("--model-name", default="", metavar="NAME", help="what that server calls the model")
    parser.add_argument("--model", metavar="NAME", help="Khepri's model; a name or a path")
    parser.add_argument("--backend", metavar="NAME", help="the library that Khepri takes")
    parser.add_argument("--draft", metavar="WHO", help="who drafts for Khepri")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="how often each item runs")
    parser.add_argument("--quick", action="store_true", help="a part of the corpus")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write every figure there, as JSON")
    return parser.parse_args(arguments)


@contextmanager
def _llama_cpp_server(target: Target) -> Iterator[Server]:
    """Start llama-cpp-python's server with the target's file, threads, context and batch."""
    missing = [name for name in _SERVER_MODULES if find_spec(name) is None]
    if missing:
        raise PeerError(
            f"llama-cpp-python's server lacks {', '.join(missing)}: pip install 'llama-cpp-python[server]', "
            "or name a server that runs with --server"
        )
    options = target.baseline
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {
        "model": options.model_path,
        "n_threads": options.threads,
        "n_threads_batch": options.threads,
        "n_ctx": options.context_tokens,
        "n_batch": options.batch_tokens,
        "host": "127.0.0.1",
        "port": port,
    }
    arguments = [text for name, value in settings.items() for text in (f"--{name}", str(value))]
    command = [sys.executable, "-P", "-m", "llama_cpp.server", *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _await_port(process, port)
            yield Server(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()


def _await_port(process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline_s = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline_s and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise PeerError(f"llama-cpp-python's server did not start (exit status {process.poll()})")


def _text(item: Item, vocabulary: Vocabulary) -> str:
    """Return an item's prompt as a server takes it, with what its grammar forces at the beginning of the answer."""
    forced = GrammarCompiler(vocabulary).start(item.grammar).forced() if item.grammar is not None else ()
    pieces = (vocabulary.piece(token, special=True) for token in (*item.prompt, *forced))
    return b"".join(pieces).decode("utf-8", "replace")


def _compare(server: Server, arm: EngineArm, item: Item, prompt: str, repeat: int) -> Row:
    """Let both continue one prompt, the one first that was second the time before."""
    peer: Completion
    if repeat % 2:
        run, peer = arm.run(item, repeat), server.complete(prompt, item.max_tokens)
    else:
        peer, run = server.complete(prompt, item.max_tokens), arm.run(item, repeat)
    first_token_s = (run.prefill_ms + run.first_token_ms) / 1000
    return Row(
        server.address,
        item.class_,
        item.name,
        peer.tokens_per_s,
        _speed(run),
        _accepted(run),
        peer.first_token_s / first_token_s,
    )


def _speed(run: Run) -> float:
    seconds = (run.decode_ms - run.first_token_ms) / 1000
    return (len(run.tokens) - 1) / seconds if seconds > 0 and len(run.tokens) > 1 else 0.0


def _accepted(run: Run) -> str:
    return ", ".join(f"{name} {count.accepted} of {count.drafted}" for name, count in run.drafts.items()) or "no drafts"


def _summary(rows: Sequence[Row]) -> Iterator[str]:
    """Return a line for each server and class: medians, and ratios taken within each repeat."""
    yield f"{'class':<12} {'server':>8} {'khepri':>8} {'ratio':>6} {'first token':>12}  accepted"
    for server, class_ in dict.fromkeys((row.server, row.class_) for row in rows):
        those = [row for row in rows if (row.server, row.class_) == (server, class_) and row.server_tokens_per_s]
        if not those:
            yield f"{class_:<12} {server} wrote no second token"
            continue
        theirs = median(row.server_tokens_per_s for row in those)
        ours = median(row.khepri_tokens_per_s for row in those)
        ratio = median(row.khepri_tokens_per_s / row.server_tokens_per_s for row in those)
        first = median(row.first_token_ratio for row in those)
        said = f"{those[-1].accepted} | {server}"
        yield f"{class_:<12} {theirs:>8.1f} {ours:>8.1f} {ratio:>5.2f}x {first:>11.2f}x  {said}"


if __name__ == "__main__":
    sys.exit(main())
