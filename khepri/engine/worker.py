"""The one thread that owns the backend, and the bounded queue in front of it.

A llama.cpp context is not thread-safe: it is made, used and freed here and nowhere else. Callers submit requests, read
the job's ``TokenBuffer`` at their own pace, and may cancel from any thread.
"""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from khepri.engine.backend import Backend, Vocabulary
from khepri.engine.buffer import TokenBuffer
from khepri.engine.constrain import Constraint, GrammarCompiler
from khepri.engine.generate import generate
from khepri.engine.naive_prefix import NaivePrefixCache
from khepri.engine.request import Generation, Request
from khepri.errors import KhepriError, UsageError

_QUEUE_JOBS = 8


class Job:
    """One submitted request. ``buffer`` is for polling, ``result`` for waiting; any thread."""

    def __init__(self, request: Request, cancel: Callable[["Job"], None]) -> None:
        self.request = request
        self.buffer = TokenBuffer()
        self.cancel_requested = threading.Event()
        self._cancel = cancel
        self._done = threading.Event()
        self._generation: Generation | None = None
        self._error: BaseException | None = None

    def cancel(self) -> None:
        """Stop the job within 300 ms; it then ends with ``StopReason.CANCELLED`` and what it had."""
        self._cancel(self)

    @property
    def is_done(self) -> bool:
        """True once ``result`` will not wait."""
        return self._done.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Wait at most ``timeout_s`` seconds for the end; True if it has come."""
        return self._done.wait(timeout_s)

    def result(self) -> Generation:
        """Wait for the end and return what was generated.

        Raises:
            ContextFullError: The prompt leaves no room for an answer.
            DecodeError: The backend failed.
            KhepriError: The engine was closed before the job was done.
        """
        self._done.wait()
        if self._error is not None:
            raise self._error
        assert self._generation is not None
        return self._generation

    def finish(self, generation: Generation | None, error: BaseException | None = None) -> None:
        """Set the outcome. The worker's thread only."""
        self._generation = generation
        self._error = error
        self._done.set()


@dataclass
class _Engine:
    """What the worker's thread owns."""

    backend: Backend
    cache: NaivePrefixCache
    batch_tokens: int


class EngineWorker:
    """Runs jobs one after another on a thread of its own. A context manager; ``close`` frees the model.

    Args:
        load: Makes the backend; called on the worker's thread.
        batch_tokens: Most tokens of one prefill pass.
        clock: Monotonic seconds.
    """

    def __init__(
        self, load: Callable[[], Backend], batch_tokens: int, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._load = load
        self._batch_tokens = batch_tokens
        self._clock = clock
        self._jobs: queue.Queue[Job | None] = queue.Queue(_QUEUE_JOBS)
        self._ready = threading.Event()
        self.loaded_s = 0.0
        """When the load ended, on the clock's scale; 0 before."""
        self._load_error: BaseException | None = None
        self._backend: Backend | None = None
        self._compiler: GrammarCompiler | None = None
        self._compiler_lock = threading.Lock()
        self._running: Job | None = None
        self._running_lock = threading.Lock()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="khepri-engine", daemon=True)
        self._thread.start()

    def __enter__(self) -> "EngineWorker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait_loaded(self, timeout_s: float | None = None) -> bool:
        """Wait for the model to be loaded; False if ``timeout_s`` passed first.

        Raises:
            ModelError: Loading failed.
        """
        if not self._ready.wait(timeout_s):
            return False
        if self._load_error is not None:
            raise self._load_error
        return True

    @property
    def backend(self) -> Backend:
        """The loaded backend, for its ``capabilities`` and ``vocabulary`` only.

        Raises:
            ModelError: Loading failed.
        """
        self.wait_loaded()
        assert self._backend is not None
        return self._backend

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens of the loaded model; waits for the load.

        Raises:
            ModelError: Loading failed.
        """
        return self.backend.vocabulary

    def submit(self, request: Request) -> Job:
        """Queue a request and return at once.

        Raises:
            UsageError: Too many jobs are waiting already.
            ModelError: Loading failed.
            KhepriError: The engine is closed.
        """
        if self._closing:
            raise KhepriError("the engine is closed")
        if self._ready.is_set() and self._load_error is not None:
            raise self._load_error
        job = Job(request, self._cancel)
        try:
            self._jobs.put_nowait(job)
        except queue.Full:
            raise UsageError(f"{_QUEUE_JOBS} requests are waiting already", "wait for one to end") from None
        return job

    def close(self) -> None:
        """Cancel the running job, drop the waiting ones, free the model and end the thread."""
        self._closing = True
        with self._running_lock:
            running = self._running
        if running is not None:
            running.cancel()
        self._drain()
        self._jobs.put(None)
        self._thread.join()

    def _cancel(self, job: Job) -> None:
        with self._running_lock:
            job.cancel_requested.set()
            if self._running is job and self._backend is not None:
                self._backend.interrupt()

    def _drain(self) -> None:
        while True:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return
            if job is not None:
                job.finish(None, KhepriError("the engine was closed before this request was done"))

    def _run(self) -> None:
        try:
            self._backend = self._load()
        except BaseException as error:  # the thread must not die silently: every waiter gets the error
            self._load_error = error
            self._ready.set()
            self._fail_until_closed(error)
            return
        engine = _Engine(self._backend, NaivePrefixCache(self._backend), self._batch_tokens)
        self.loaded_s = self._clock()
        threading.Thread(target=self._grammar_compiler, name="khepri-grammar", daemon=True).start()
        self._ready.set()
        try:
            while (job := self._jobs.get()) is not None:
                self._serve(engine, job)
        finally:
            with self._compiler_lock:
                engine.backend.close()

    def _fail_until_closed(self, error: BaseException) -> None:
        while (job := self._jobs.get()) is not None:
            job.finish(None, error)

    def _grammar_compiler(self) -> GrammarCompiler:
        """Return the compiler, built once; started early so that it is ready by the end of the first prefill."""
        with self._compiler_lock:
            if self._compiler is None:
                self._compiler = GrammarCompiler(self.vocabulary)
            return self._compiler

    def _serve(self, engine: _Engine, job: Job) -> None:
        with self._running_lock:
            self._running = job
            engine.backend.resume()
            if job.cancel_requested.is_set():
                engine.backend.interrupt()
        try:
            job.finish(self._generate(engine, job))
        except BaseException as error:  # one failed job must leave the engine usable for the next
            job.finish(None, error)
        finally:
            with self._running_lock:
                self._running = None
                engine.backend.resume()

    def _generate(self, engine: _Engine, job: Job) -> Generation:
        constraint: Constraint | None = None
        if job.request.grammar is not None:
            constraint = self._grammar_compiler().start(job.request.grammar)
        return generate(
            engine.backend, engine.cache, job.request, constraint, job.buffer, engine.batch_tokens, self._clock
        )
