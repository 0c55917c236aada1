"""The one thread that owns the backend, and the bounded queue in front of it.

A llama.cpp context is not thread-safe: it is made, used and freed here and nowhere else. Callers submit requests, read
the job's ``TokenBuffer`` at their own pace, and may cancel from any thread.
"""

import atexit
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress

from khepri.engine.ahead import Ahead
from khepri.engine.assembly import NO_SPECULATION, CacheMaker, Speculation, build_engine
from khepri.engine.backend import Backend, Vocabulary
from khepri.engine.constrain import Constraint, GrammarCompiler
from khepri.engine.generate import Engine, generate, prefill_ahead
from khepri.engine.horizon import DrafterStatistics
from khepri.engine.job import Job
from khepri.engine.prefix import choose_cache
from khepri.engine.request import DrafterName, Generation, Request, StopReason
from khepri.engine.spare_time import SpareTime
from khepri.errors import CancelledError, KhepriError, UsageError

_QUEUE_JOBS = 8
_CANCEL_GRAIN_S = 0.05
_IDLE_S = 2.0
"""After so long without a job, what is worth keeping is written to the disk."""
_IDLE_TAIL_S = 20.0
"""The same for the tail of a conversation, which is large and changes with every turn."""


class _Rest:
    """The conversation that was kept last is left for another one."""


class _Calibration:
    """Somebody waits until the passes at the depth of the last prompt are timed thoroughly."""

    def __init__(self) -> None:
        self.ended = threading.Event()


_Waiting = Job | Ahead | _Rest | _Calibration | None


class LoadStatus:
    """What a load is busy with. One thread tells it, any other may look."""

    def __init__(self) -> None:
        self.doing = "loading"
        """A few words that the name of the model may follow."""

    def tell(self, doing: str) -> None:
        """Note what is going on."""
        self.doing = doing


class EngineWorker:
    """Runs jobs one after another on a thread of its own. A context manager; ``close`` frees the model.

    Args:
        load: Makes the backend; called on the worker's thread.
        batch_tokens: Most tokens of one prefill pass.
        clock: Monotonic seconds.
        closing: Set when ``close`` is called, so that a load which knows it can break off.
        speculation: Where drafts come from; the default drafts nothing.
        make_cache: Makes the prefix cache of a loaded target; the default keeps nothing on disk.
        status: What the load says of itself.
    """

    def __init__(
        self,
        load: Callable[[], Backend],
        batch_tokens: int,
        clock: Callable[[], float] = time.perf_counter,
        closing: threading.Event | None = None,
        speculation: Speculation = NO_SPECULATION,
        make_cache: CacheMaker = choose_cache,
        status: LoadStatus | None = None,
    ) -> None:
        self._load = load
        self._batch_tokens = batch_tokens
        self._clock = clock
        self._speculation = speculation
        self._make_cache = make_cache
        self.load_status = status or LoadStatus()
        """What the load is busy with."""
        self._engine: Engine | None = None
        self._jobs: queue.Queue[_Waiting] = queue.Queue(_QUEUE_JOBS)
        self._ahead: Ahead | None = None
        self._spare = SpareTime()
        self._ready = threading.Event()
        self.loaded_s = 0.0
        """When the load ended, on the clock's scale; 0 before."""
        self._load_error: BaseException | None = None
        self._compiler: Future[GrammarCompiler] = Future()
        self._running: Job | None = None
        self._closing = closing or threading.Event()
        # Guards _running, _closing and the way into the queue; reentrant because a signal handler may cancel a job.
        self._lock = threading.RLock()
        self._thread = threading.Thread(target=self._run, name="khepri-engine", daemon=True)
        self._thread.start()
        # An interpreter that ends under a running pass takes the library's memory away from it.
        atexit.register(self.close)

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
        return self._loaded().backend

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens of the loaded model; waits for the load.

        Raises:
            ModelError: Loading failed.
        """
        return self.backend.vocabulary

    @property
    def draft_statistics(self) -> Mapping[DrafterName, DrafterStatistics]:
        """What came of each drafter since the load; a copy. Waits for the load.

        Raises:
            ModelError: Loading failed.
        """
        return self._loaded().cascade.horizon.statistics

    def submit(self, request: Request) -> Job:
        """Queue a request and return at once.

        Raises:
            UsageError: Too many jobs are waiting already.
            ModelError: Loading failed.
            KhepriError: The engine is closed.
        """
        job = Job(request, self._cancel)
        with self._lock:
            if self._closing.is_set():
                raise KhepriError("the engine is closed")
            if self._load_error is not None:
                raise self._load_error
            try:
                self._jobs.put_nowait(job)
            except queue.Full:
                raise UsageError(f"{_QUEUE_JOBS} requests are waiting already", "wait for one to end") from None
            self._stop_ahead(request.prompt)
        return job

    def prefill_ahead(self, prompt: Sequence[int], stable_tokens: int = 0) -> None:
        """Evaluate the beginning of a prompt that is likely to be submitted, while there is nothing else to do.

        Any thread; returns at once, also while the model loads. Call it when a conversation is opened, with the ids of
        its preamble and of an empty question, and again whenever the question that is being written changes: the
        latest call counts, what it has in common with those before is not evaluated again, and what it has not is all
        that is lost. ``submit`` goes first, finds what was evaluated in the cache, and loses no bit of its answer by
        it. Full passes only are evaluated after the stable part, so that words gain nothing, and a file does.

        Args:
            prompt: Token ids as the request would have them; what the request adds at the end does not matter.
            stable_tokens: As in ``Request``.
        """
        ahead = Ahead(tuple(prompt), stable_tokens)
        with self._lock:
            if self._closing.is_set() or self._load_error is not None or not prompt:
                return
            self._stop_ahead(ahead.prompt)
            try:
                self._jobs.put_nowait(ahead)
            except queue.Full:
                return  # whoever is that busy has no time for guesses
            self._ahead = ahead

    def keep(self, tokens: Sequence[int]) -> None:
        """Let what is held of a conversation outlive the process: written when the engine is idle, or closed.

        Any thread; returns at once. The latest call counts.
        """
        self._spare.keep(tokens)

    def rest(self) -> None:
        """Have what was kept written now rather than later: the conversation is left, and another may take its place.

        Any thread; returns at once. A request goes first, and may be the end of what was not written yet.
        """
        with self._lock, suppress(queue.Full):
            if self._spare.has_tail and not self._closing.is_set():
                self._jobs.put_nowait(_Rest())

    def calibrate(self) -> None:
        """Have the passes at the depth of the last prompt timed thoroughly, if they were not, and wait for it.

        It is done by itself when the engine is idle; whoever measures does not want to wait for that. Takes seconds.
        """
        calibration = _Calibration()
        with self._lock:
            if self._closing.is_set() or self._load_error is not None:
                return
            self._jobs.put_nowait(calibration)
        calibration.ended.wait()

    def close(self) -> None:
        """Cancel the running job, drop the waiting ones, free the model and end the thread.

        A load that is under way is waited for. Calling it again, from any thread, waits for the same end.
        """
        with self._lock:
            if not self._closing.is_set():
                self._closing.set()
                if self._running is not None:
                    self._cancel(self._running)
                self._stop_ahead(())
                self._drain()
                self._jobs.put_nowait(None)  # there is room: nobody submits any more
        self._thread.join()
        atexit.unregister(self.close)

    def _cancel(self, job: Job) -> None:
        with self._lock:
            job.cancel_requested.set()
            if self._running is job:
                self.backend.interrupt()
                self._loaded().cascade.interrupt()
            elif not job.is_done:
                job.finish(_cancelled_before_start(job.request))

    def _drain(self) -> None:
        while True:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return
            _refuse(job, _closed_too_early())

    def _loaded(self) -> Engine:
        self.wait_loaded()
        assert self._engine is not None
        return self._engine

    def _run(self) -> None:
        try:
            self._engine = engine = build_engine(
                self._load, self._speculation, self._batch_tokens, self._clock, self._make_cache
            )
        except BaseException as error:  # the thread must not die silently: every waiter gets the error
            self._load_error = error
            self._ready.set()
            self._fail_until_closed(error)
            return
        self.loaded_s = self._clock()
        self._ready.set()
        compiling = threading.Thread(target=self._compile, name="khepri-grammar", daemon=True)
        compiling.start()
        try:
            while (job := self._next_job(engine)) is not None:
                self._serve(engine, job)
            self._spare.hand_over(engine)
            engine.cache.finish()
            self._speculation.save_costs(engine.backend, engine.costs)
        finally:
            engine.cascade.close()
            engine.backend.close()
            compiling.join()  # an interpreter that ends under its native code would crash

    def _next_job(self, engine: Engine) -> Job | None:
        """Wait for a job; spare time is made use of once the caller is heard of no more."""
        while True:
            try:
                job = self._jobs.get(timeout=_IDLE_S if self._spare.is_wanted(engine) else _IDLE_TAIL_S)
            except queue.Empty:
                self._spare.use(engine, self._jobs.empty)
                continue
            if isinstance(job, _Calibration):
                self._spare.refine(engine, lambda: not self._closing.is_set())
                job.ended.set()
            elif isinstance(job, _Rest):
                self._spare.write_all(engine, self._is_unasked)
            elif not isinstance(job, Ahead):
                return job
            elif self._jobs.empty():
                self._prefill_ahead(engine, job)

    def _is_unasked(self) -> bool:
        """True if no request waits, and nobody wants to leave."""
        with self._jobs.mutex:
            return not any(waiting is None or isinstance(waiting, Job) for waiting in self._jobs.queue)

    def _prefill_ahead(self, engine: Engine, ahead: Ahead) -> None:
        try:
            self._spare.make_way(engine, ahead.prompt)
            prefill_ahead(engine, ahead.prompt, ahead.stable_tokens, ahead.goes_on)
        except KhepriError:
            pass  # a request that meets the same error says it to whoever asked
        with self._lock:
            if self._ahead is ahead:
                self._ahead = None
            engine.backend.resume()

    def _stop_ahead(self, prompt: Sequence[int]) -> None:
        """Make way for a prompt: at once, unless the running pass is of use to it. With the lock only."""
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return
        ahead.is_wanted = False
        if self._ready.is_set() and ahead.pass_end and not ahead.is_useful_to(prompt):
            self.backend.interrupt()

    def _fail_until_closed(self, error: BaseException) -> None:
        while (job := self._jobs.get()) is not None:
            with self._lock:
                _refuse(job, error)

    def _compile(self) -> None:
        """Build the grammar compiler aside, so that it is ready by the end of the first prefill."""
        try:
            self._compiler.set_result(GrammarCompiler(self.vocabulary))
        except BaseException as error:  # whoever asks for the compiler gets the error
            self._compiler.set_exception(error)

    def _serve(self, engine: Engine, job: Job) -> None:
        with self._lock:
            if job.is_done:
                return
            if self._closing.is_set():
                job.finish(None, _closed_too_early())
                return
            self._running = job
        try:
            self._spare.make_way(engine, job.request.prompt)
            outcome: Generation | None = self._generate(engine, job)
            error = None
        except BaseException as raised:  # one failed job must leave the engine usable for the next
            outcome, error = None, raised
        if outcome is not None:
            self._spare.note_answer((*job.request.prompt, *outcome.tokens))
        with self._lock:
            self._running = None
            engine.backend.resume()
            engine.cascade.resume()
            job.finish(outcome, error)

    def _generate(self, engine: Engine, job: Job) -> Generation:
        grammar = job.request.grammar

        def make_constraint() -> Constraint | None:
            return None if grammar is None else self._await_compiler(job).start(grammar)

        return generate(engine, job.request, make_constraint, job.buffer)

    def _await_compiler(self, job: Job) -> GrammarCompiler:
        while not job.cancel_requested.is_set():
            try:
                return self._compiler.result(_CANCEL_GRAIN_S)
            except TimeoutError:
                continue
        raise CancelledError("the job was cancelled before its grammar was ready")


def _refuse(waiting: _Waiting, error: BaseException) -> None:
    """Let whoever waits for something that will not be done know it."""
    if isinstance(waiting, Job) and not waiting.is_done:
        waiting.finish(None, error)
    elif isinstance(waiting, _Calibration):
        waiting.ended.set()


def _closed_too_early() -> KhepriError:
    return KhepriError("the engine was closed before this request was done")


def _cancelled_before_start(request: Request) -> Generation:
    return Generation(
        tokens=(),
        text="",
        stop_reason=StopReason.CANCELLED,
        prompt_tokens=len(request.prompt),
        cached_tokens=0,
        prefill_ms=0.0,
        ttft_ms=0.0,
        decode_ms=0.0,
        token_ms=(),
    )
