import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from khepri.agent.protocol import TRIGGER, tool_grammar
from khepri.engine import worker as engine_worker
from khepri.engine.assembly import Speculation
from khepri.engine.backend import Backend, LoadOptions
from khepri.engine.backends.llama_cpp import LlamaCppBackend
from khepri.engine.buffer import JobState
from khepri.engine.disk import DiskTier
from khepri.engine.draft.drafter import Draft
from khepri.engine.draft.suffix import SuffixDrafter
from khepri.engine.job import Job
from khepri.engine.prefix import RadixPrefixCache
from khepri.engine.prefix_cache import PrefixCache
from khepri.engine.request import DraftMode, Request, SamplingParams, StopReason, ToolCallGrammar
from khepri.engine.worker import EngineWorker
from khepri.errors import ContextFullError, DecodeError, KhepriError, ModelLoadError, UsageError
from khepri.tools.registry import Registry
from tests.support.decoding import FunctionDrafter
from tests.support.scripted_backend import ByteVocabulary, ScriptedBackend

PROMPT = tuple(b"a prompt of some tokens")
# The promise is 300 ms, and is held to it with real models; this only tells a cancel from a wait on a busy machine.
CANCEL_MS = 5000.0
Start = Callable[..., EngineWorker]


@pytest.fixture
def start() -> Iterator[Start]:
    workers: list[EngineWorker] = []

    def start(load: Callable[[], Backend], batch_tokens: int = 8) -> EngineWorker:
        workers.append(EngineWorker(load, batch_tokens))
        return workers[-1]

    yield start
    for worker in workers:
        worker.close()


def wait_for_state(job: Job, state: JobState, *, timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while job.buffer.snapshot.state is not state:
        assert time.monotonic() < deadline, f"the job is {job.buffer.snapshot.state}"
        time.sleep(0.001)


def wait_for_tokens(job: Job, tokens: int) -> None:
    deadline = time.monotonic() + 20
    while job.buffer.snapshot.completion_tokens < tokens:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def milliseconds_to_end(job: Job, act: Callable[[], None]) -> float:
    started = time.perf_counter()
    act()
    assert job.wait(300)
    return (time.perf_counter() - started) * 1000


class Gate:
    """A load that waits until it is let go."""

    def __init__(self, outcome: Callable[[], Backend]) -> None:
        self._outcome = outcome
        self.opened = threading.Event()
        self.entered = threading.Event()

    def __call__(self) -> Backend:
        self.entered.set()
        assert self.opened.wait(300)
        return self._outcome()


def refuse() -> Backend:
    raise ModelLoadError("the library refuses it")


def test_jobs_run_one_after_another_on_the_engines_thread(start: Start) -> None:
    backend = ScriptedBackend()
    worker = start(lambda: backend)
    jobs = [worker.submit(Request((*PROMPT, number), 4)) for number in range(5)]
    assert [len(job.result().tokens) for job in jobs] == [4] * 5
    assert backend.threads == {"khepri-engine"}
    assert {job.buffer.snapshot.state for job in jobs} == {JobState.DONE}


def test_a_job_that_follows_shares_the_prefix_of_the_one_before(start: Start) -> None:
    worker = start(ScriptedBackend)
    first = worker.submit(Request(PROMPT, 3)).result()
    second = worker.submit(Request((*PROMPT, *first.tokens, 7), 3)).result()
    assert second.cached_tokens == len(PROMPT) + 2


def test_requests_beyond_the_queue_are_refused(start: Start) -> None:
    worker = start(lambda: ScriptedBackend(seconds_per_token=30))
    jobs = [worker.submit(Request(PROMPT, 4))]
    wait_for_state(jobs[0], JobState.PREFILL)
    jobs += [worker.submit(Request(PROMPT, 4)) for _ in range(8)]
    with pytest.raises(UsageError, match="waiting"):
        worker.submit(Request(PROMPT, 4))
    for job in reversed(jobs):
        job.cancel()
    assert {job.result().stop_reason for job in jobs} == {StopReason.CANCELLED}


def test_cancelling_ends_a_job_in_its_prefill(start: Start) -> None:
    worker = start(lambda: ScriptedBackend(seconds_per_token=30))
    job = worker.submit(Request(PROMPT, 4))
    wait_for_state(job, JobState.PREFILL)
    assert milliseconds_to_end(job, job.cancel) < CANCEL_MS
    assert (job.result().stop_reason, job.result().tokens) == (StopReason.CANCELLED, ())
    assert job.buffer.snapshot.state is JobState.DONE


def test_cancelling_ends_a_job_in_its_decode_with_what_it_has(start: Start) -> None:
    worker = start(lambda: ScriptedBackend(context_tokens=4000, seconds_per_token=0.005))
    job = worker.submit(Request(PROMPT, 3000))
    wait_for_tokens(job, 2)
    assert milliseconds_to_end(job, job.cancel) < CANCEL_MS
    generation = job.result()
    assert generation.stop_reason is StopReason.CANCELLED
    assert len(generation.tokens) >= 2
    assert job.buffer.read(0)[0] == generation.text


class PatientDrafter(FunctionDrafter):
    """A drafter that ponders until it is interrupted, as a slow model does between its passes."""

    def __init__(self) -> None:
        super().__init__(lambda tokens: ())
        self.begun, self.interrupted = threading.Event(), threading.Event()

    def propose(self, limit: int, after: Sequence[int] = ()) -> Draft | None:
        self.begun.set()
        self.interrupted.wait(20)
        return super().propose(limit, after)

    def interrupt(self) -> None:
        self.interrupted.set()


def test_cancelling_ends_a_draft_that_is_being_made() -> None:
    drafter = PatientDrafter()
    speculation = Speculation(lambda target: [drafter])
    with EngineWorker(ScriptedBackend, batch_tokens=64, speculation=speculation) as worker:
        job = worker.submit(Request(PROMPT, 30, gamma=3))
        assert drafter.begun.wait(20)
        assert milliseconds_to_end(job, job.cancel) < CANCEL_MS
        assert job.result().stop_reason is StopReason.CANCELLED


def test_cancelling_ends_a_waiting_job_without_its_turn_and_leaves_the_running_one_alone(start: Start) -> None:
    backend = ScriptedBackend(seconds_per_token=0.01)
    worker = start(lambda: backend)
    running, waiting = worker.submit(Request(PROMPT, 30)), worker.submit(Request((200, 201), 4))
    wait_for_state(running, JobState.PREFILL)
    assert milliseconds_to_end(waiting, waiting.cancel) < CANCEL_MS
    assert waiting.result().stop_reason is StopReason.CANCELLED
    assert waiting.result().prompt_tokens == 2
    assert running.result().stop_reason is StopReason.MAX_TOKENS
    worker.submit(Request(PROMPT, 1)).result()
    assert 201 not in backend.evaluated


def test_a_cancelled_job_does_not_stop_the_next_one(start: Start) -> None:
    worker = start(ScriptedBackend)
    expected = worker.submit(Request(PROMPT, 20)).result().tokens
    for delay_ms in range(12):
        job = worker.submit(Request(PROMPT, 200))
        time.sleep(delay_ms / 2000)
        job.cancel()
        following = worker.submit(Request(PROMPT, 20))
        assert following.result().tokens == expected
        assert job.is_done


def test_cancelling_a_job_that_has_ended_changes_nothing(start: Start) -> None:
    worker = start(ScriptedBackend)
    job = worker.submit(Request(PROMPT, 3))
    generation = job.result()
    job.cancel()
    assert job.result() is generation
    assert worker.submit(Request(PROMPT, 3)).result().tokens == generation.tokens


def test_a_failed_pass_ends_its_job_only(start: Start) -> None:
    backend = ScriptedBackend()
    worker = start(lambda: backend)
    expected = worker.submit(Request(PROMPT, 5)).result().tokens
    for error in (DecodeError("failed"), MemoryError("none"), KeyboardInterrupt()):
        backend.fail_at[len(PROMPT) + 2] = error
        job = worker.submit(Request(PROMPT, 5))
        with pytest.raises(type(error)):
            job.result()
        assert job.buffer.snapshot.state is JobState.DONE
        assert worker.submit(Request(PROMPT, 5)).result().tokens == expected


def test_a_refused_request_ends_its_job_only(start: Start) -> None:
    worker = start(ScriptedBackend)
    with pytest.raises(ContextFullError):
        worker.submit(Request((1,) * 300, 5)).result()
    with pytest.raises(KhepriError):
        worker.submit(Request((), 5)).result()
    with pytest.raises(KhepriError, match="grammar"):
        worker.submit(Request(PROMPT, 5, grammar=ToolCallGrammar(TRIGGER, "start: (", 1))).result()
    with pytest.raises(DecodeError):
        worker.submit(Request((10**6,), 5)).result()
    assert len(worker.submit(Request(PROMPT, 5)).result().tokens) == 5


def test_the_grammar_is_ready_for_whoever_asks(start: Start) -> None:
    worker = start(lambda: ScriptedBackend(context_tokens=2000))
    grammar = ToolCallGrammar(TRIGGER, tool_grammar(Registry.load().manifests, ["a.py"], ["src"]), 1, forced=True)
    job = worker.submit(Request(PROMPT, 1900, SamplingParams(), grammar))
    assert job.result().text.startswith('\n{"name": "')


def test_a_vocabulary_that_no_grammar_fits_fails_the_jobs_with_a_grammar_and_no_other(start: Start) -> None:
    class Endless(ByteVocabulary):
        eos_id = None
        end_ids = frozenset()

    worker = start(lambda: ScriptedBackend(vocabulary=Endless()))
    with pytest.raises(KhepriError, match="end-of-generation"):
        worker.submit(Request(PROMPT, 5, grammar=ToolCallGrammar(TRIGGER, 'start: "a"', 1))).result()
    assert len(worker.submit(Request(PROMPT, 5)).result().tokens) == 5


def test_a_failed_load_reaches_everyone_who_waits_or_comes_later(start: Start) -> None:
    load = Gate(refuse)
    worker = start(load)
    early = worker.submit(Request(PROMPT, 5))
    assert not worker.wait_loaded(0.01)
    failures: list[str] = []

    def wait() -> None:
        try:
            worker.wait_loaded()
        except ModelLoadError as error:
            failures.append(error.message)

    waiters = [threading.Thread(target=wait) for _ in range(4)]
    for waiter in waiters:
        waiter.start()
    load.opened.set()
    for waiter in waiters:
        waiter.join()
    assert failures == ["the library refuses it"] * 4
    with pytest.raises(ModelLoadError):
        early.result()
    assert early.buffer.snapshot.state is JobState.DONE
    for ask in (lambda: worker.backend, lambda: worker.vocabulary, lambda: worker.submit(Request(PROMPT, 1))):
        with pytest.raises(ModelLoadError):
            ask()


def test_a_job_cancelled_before_the_load_ended_is_cancelled(start: Start) -> None:
    backend = ScriptedBackend()
    load = Gate(lambda: backend)
    worker = start(load)
    job = worker.submit(Request(PROMPT, 5))
    assert milliseconds_to_end(job, job.cancel) < CANCEL_MS
    load.opened.set()
    assert job.result().stop_reason is StopReason.CANCELLED
    worker.submit(Request(PROMPT, 1)).result()


def test_closing_cancels_the_running_job_and_drops_the_waiting_ones(start: Start) -> None:
    backend = ScriptedBackend(seconds_per_token=30)
    worker = start(lambda: backend)
    running, waiting = worker.submit(Request(PROMPT, 5)), worker.submit(Request(PROMPT, 5))
    wait_for_state(running, JobState.PREFILL)
    assert milliseconds_to_end(running, worker.close) < CANCEL_MS
    assert running.result().stop_reason is StopReason.CANCELLED
    with pytest.raises(KhepriError, match="closed"):
        waiting.result()
    assert waiting.buffer.snapshot.state is JobState.DONE
    assert backend.is_closed
    with pytest.raises(KhepriError, match="closed"):
        worker.submit(Request(PROMPT, 5))
    waiting.cancel()
    running.cancel()


@pytest.mark.parametrize("succeeds", [True, False])
def test_closing_during_a_load_waits_for_it_and_frees_the_model(start: Start, succeeds: bool) -> None:
    backend = ScriptedBackend()
    load = Gate((lambda: backend) if succeeds else refuse)
    worker = start(load)
    assert load.entered.wait(300)
    job = worker.submit(Request(PROMPT, 5))
    threading.Timer(0.1, load.opened.set).start()
    worker.close()
    with pytest.raises(KhepriError):
        job.result()
    assert backend.is_closed == succeeds


def test_closing_often_and_from_everywhere_is_closing_once(start: Start) -> None:
    worker = start(lambda: ScriptedBackend(seconds_per_token=30))
    worker.submit(Request(PROMPT, 5))
    closers = [threading.Thread(target=worker.close) for _ in range(6)]
    for closer in closers:
        closer.start()
    for closer in closers:
        closer.join(20)
        assert not closer.is_alive()
    for _ in range(20):
        worker.close()


def test_every_job_ends_however_submitting_cancelling_and_closing_meet() -> None:
    for round_number in range(25):
        worker = EngineWorker(lambda: ScriptedBackend(seconds_per_token=0.0005), 8)
        jobs: list[Job] = []

        def submit(worker: EngineWorker = worker, jobs: list[Job] = jobs) -> None:
            for number in range(20):
                try:
                    job = worker.submit(Request((number + 1, 2, 3), 2))
                except UsageError:
                    time.sleep(0.001)
                    continue
                except KhepriError:
                    return
                jobs.append(job)
                if number % 3 == 0:
                    job.cancel()

        submitters = [threading.Thread(target=submit) for _ in range(4)]
        for submitter in submitters:
            submitter.start()
        time.sleep(round_number / 1000)
        worker.close()
        for submitter in submitters:
            submitter.join(20)
            assert not submitter.is_alive()
        assert all(job.wait(5) for job in jobs)
        assert {job.buffer.snapshot.state for job in jobs} <= {JobState.DONE}


def test_jobs_from_many_threads_each_get_their_own_answer(start: Start) -> None:
    worker = start(ScriptedBackend)
    answers: dict[int, tuple[int, ...]] = {}

    def ask(number: int) -> None:
        answers[number] = worker.submit(Request((number, *PROMPT), 6)).result().tokens

    askers = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join(20)
    for number in range(8):
        assert worker.submit(Request((number, *PROMPT), 6)).result().tokens == answers[number]


def test_a_real_model_is_freed_at_any_moment_of_its_life(start: Start, tiny_model: Path) -> None:
    for delay_ms in (0, 1, 3, 10):
        worker = start(lambda: LlamaCppBackend(LoadOptions(tiny_model, 2048, 1, 64)), 64)
        job = worker.submit(Request(tuple(range(200)), 1800))
        worker.wait_loaded()
        vocabulary = worker.vocabulary
        time.sleep(delay_ms / 1000)
        worker.close()
        assert job.wait(0)
        with pytest.raises(KhepriError):
            vocabulary.tokenize("too late")


ABANDON = """
import sys, time
from pathlib import Path
from khepri.engine.backend import LoadOptions
from khepri.engine.backends.llama_cpp import LlamaCppBackend
from khepri.engine.request import Request
from khepri.engine.worker import EngineWorker
worker = EngineWorker(lambda: LlamaCppBackend(LoadOptions(Path(sys.argv[1]), 2048, 1, 64)), 64)
job = worker.submit(Request(tuple(range(200)), 1800))
worker.wait_loaded()
while not job.buffer.snapshot.completion_tokens >= int(sys.argv[2]):
    time.sleep(0.001)
if sys.argv[3] == "raise":
    raise SystemExit(7)
"""


@pytest.mark.parametrize("tokens", [0, 1, 50])
@pytest.mark.parametrize(("manner", "status"), [("return", 0), ("raise", 7)])
def test_a_program_that_forgets_to_close_ends_as_it_wants_to(
    tiny_model: Path, tokens: int, manner: str, status: int
) -> None:
    command = [sys.executable, "-c", ABANDON, str(tiny_model), str(tokens), manner]
    # A crash at the end of an interpreter is a race: one try would meet it every eighth time.
    for _ in range(4):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stderr) == (status, "")


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


LONG = tuple(range(60))


def test_what_is_prefilled_ahead_is_what_the_request_would_have_evaluated_in_the_same_passes(start: Start) -> None:
    early, late = ScriptedBackend(), ScriptedBackend()
    worker = start(lambda: early)
    worker.prefill_ahead((*LONG, 1, 2), stable_tokens=20)
    until(lambda: len(early.evaluated) == 60)  # 20 stable ones, and five full passes of 8
    request = Request((*LONG, 7, 8, 9), 4, stable_tokens=20)
    generation = worker.submit(request).result()
    assert generation.cached_tokens == 60
    assert generation.tokens == start(lambda: late).submit(request).result().tokens
    assert early.passes[:-3] == late.passes[:-3]


def test_a_request_goes_first_and_keeps_what_is_of_use_to_it(start: Start) -> None:
    backend = ScriptedBackend(seconds_per_token=0.02)
    worker = start(lambda: backend)
    worker.prefill_ahead(LONG)
    until(lambda: len(backend.evaluated) > 2)
    generation = worker.submit(Request((*LONG, 5), 1)).result()
    assert generation.cached_tokens >= 8
    assert backend.evaluated == [*LONG, 5], "nothing was evaluated twice"


def test_a_request_that_is_another_does_not_wait_for_the_pass(start: Start) -> None:
    backend = ScriptedBackend(seconds_per_token=30)
    worker = start(lambda: backend)
    worker.prefill_ahead(LONG)
    until(lambda: bool(backend.threads))
    backend.seconds_per_token = 0.0
    job = worker.submit(Request((99, 98), 1))
    assert job.wait(5)
    assert len(job.result().tokens) == 1


def test_a_changed_draft_loses_only_its_tail(start: Start) -> None:
    backend = ScriptedBackend()
    worker = start(lambda: backend)
    for tail in range(3):
        worker.prefill_ahead((*LONG[:40], *[tail] * 17))
        until(lambda tail=tail: backend.evaluated.count(tail) >= 16)  # type: ignore[misc]
    assert backend.evaluated.count(30) == 1


def test_prefilling_ahead_of_a_failing_backend_and_of_a_closed_engine_is_no_error(start: Start) -> None:
    backend = ScriptedBackend(fail_at={5: DecodeError("the pass failed")})
    worker = start(lambda: backend)
    worker.prefill_ahead(LONG)
    until(lambda: not backend.fail_at)
    assert len(worker.submit(Request(LONG, 2)).result().tokens) == 2
    worker.prefill_ahead((1,) * 200)
    worker.close()
    worker.prefill_ahead(LONG)


def test_what_was_asked_to_be_kept_is_on_the_disk_when_the_engine_is_closed(tmp_path: Path) -> None:
    def make_cache(backend: Backend) -> PrefixCache:
        return RadixPrefixCache(backend, disk=DiskTier(tmp_path, "context", 10**9))

    prompt = (*LONG, *LONG)
    for turn in range(3):
        backend = ScriptedBackend(context_tokens=1000, sequences=4)
        with EngineWorker(lambda backend=backend: backend, 8, make_cache=make_cache) as worker:  # type: ignore[misc]
            generation = worker.submit(Request((*prompt, turn), 30, stable_tokens=70)).result()
            prompt = (*prompt, turn, *generation.tokens)
            worker.keep(prompt)
        assert generation.cached_tokens == (0 if not turn else len(prompt) - 32)
    assert len(list(tmp_path.glob("*.kv"))) == 2, "the stable part, and the conversation as it is now"


class SlowDisk(DiskTier):
    """A disk that takes until it is told."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "context", 10**9)
        self.is_writing, self.is_free = threading.Event(), threading.Event()

    def write(self, tokens: Sequence[int], state: bytes | memoryview, *, is_tail: bool = False) -> None:
        self.is_writing.set()
        assert self.is_free.wait(300)
        super().write(tokens, state, is_tail=is_tail)


def test_an_answer_does_not_wait_for_the_disk_and_leaving_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_worker, "_IDLE_S", 0.01)
    disk = SlowDisk(tmp_path)
    backend = ScriptedBackend(context_tokens=1000, sequences=4)
    with EngineWorker(lambda: backend, 8, make_cache=lambda backend: RadixPrefixCache(backend, disk=disk)) as worker:
        worker.submit(Request((*LONG, *LONG), 2, stable_tokens=100)).result()
        assert disk.is_writing.wait(300)
        assert worker.submit(Request((*LONG, *LONG, 7), 2, stable_tokens=100)).result().cached_tokens >= 120
        assert not list(tmp_path.glob("*.kv"))
        disk.is_free.set()
    assert len(list(tmp_path.glob("*.kv"))) == 1


def test_a_conversation_that_is_left_is_written_before_another_is_read_ahead(tmp_path: Path) -> None:
    disk = DiskTier(tmp_path, "context", 10**9)
    backend = ScriptedBackend(context_tokens=1000)  # one conversation, and a sequence for copies
    left = (*LONG, *LONG)
    with EngineWorker(lambda: backend, 8, make_cache=lambda backend: RadixPrefixCache(backend, disk=disk)) as worker:
        worker.submit(Request((*left, 1), 2)).result()
        worker.keep(left)
        worker.rest()
        worker.prefill_ahead((1, *LONG))
        until(lambda: disk.holds(left) and backend.evaluated[-1] == LONG[54])
    assert disk.holds(left)


@pytest.mark.parametrize("is_ahead", [False, True], ids=["an answer", "what is read ahead"])
def test_a_conversation_comes_back_behind_another_that_took_its_only_place(tmp_path: Path, is_ahead: bool) -> None:
    disk = DiskTier(tmp_path, "context", 10**9)
    backend = ScriptedBackend(context_tokens=1000)  # one conversation, and a sequence for copies
    left = (*LONG, *LONG)
    with EngineWorker(lambda: backend, 8, make_cache=lambda backend: RadixPrefixCache(backend, disk=disk)) as worker:
        worker.submit(Request((*left, 1), 2)).result()
        worker.keep(left)
        if is_ahead:
            worker.prefill_ahead((1, *LONG))
            until(lambda: backend.evaluated[-1] == LONG[54])
        else:
            worker.submit(Request((1, *LONG), 2)).result()
        until(lambda: disk.holds(left))
        assert worker.submit(Request((*left, 2), 2)).result().cached_tokens == len(left)


@pytest.fixture
def drafting() -> Iterator[tuple[EngineWorker, ScriptedBackend]]:
    backend = ScriptedBackend()
    speculation = Speculation(lambda target: [SuffixDrafter()])
    with EngineWorker(lambda: backend, batch_tokens=64, speculation=speculation) as worker:
        yield worker, backend


def test_an_idle_engine_times_its_passes_thoroughly_and_keeps_the_conversation(
    drafting: tuple[EngineWorker, ScriptedBackend],
) -> None:
    worker, backend = drafting
    first = worker.submit(Request(PROMPT, 3, draft=DraftMode.SUFFIX)).result()
    costs = worker._loaded().costs
    assert costs.needs_refining(0)
    worker.calibrate()
    assert not costs.needs_refining(0)
    before = len(backend.passes)
    worker.calibrate()
    assert len(backend.passes) == before, "what is known is not timed again"
    second = worker.submit(Request((*PROMPT, *first.tokens, 7), 3)).result()
    assert second.cached_tokens == len(PROMPT) + 2


def test_an_idle_engine_calibrates_by_itself(
    drafting: tuple[EngineWorker, ScriptedBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_worker, "_IDLE_S", 0.01)
    worker, _ = drafting
    worker.submit(Request(PROMPT, 3, draft=DraftMode.SUFFIX)).result()
    deadline = time.monotonic() + 20
    while worker._loaded().costs.needs_refining(0):
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_nobody_waits_for_a_calibration_that_will_not_come(start: Start) -> None:
    gate = Gate(refuse)
    worker = start(gate)
    waiting = threading.Thread(target=worker.calibrate)
    waiting.start()
    gate.opened.set()
    waiting.join(20)
    assert not waiting.is_alive()
    worker.calibrate()
    closed = start(ScriptedBackend)
    closed.close()
    closed.calibrate()
