"""A session: one repository, one model, one conversation.

It loads the model in the background, builds the preamble once, and runs each question as a task on a thread of its
own. The caller reads events. Nothing is rendered here and no configuration is read.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from khepri import assets, paths
from khepri.agent.change_setup import change_run
from khepri.agent.context import Context
from khepri.agent.events import Event, Finished, ModelLoading, Notice
from khepri.agent.history import Turn
from khepri.agent.looks import looks
from khepri.agent.loop import AgentLoop, LoopSettings
from khepri.agent.mentioned import Resolved, resolve
from khepri.agent.metrics import summarize
from khepri.agent.preamble import build_preamble
from khepri.agent.prompt import Prompt
from khepri.agent.protocol import folders_of, tool_grammar
from khepri.agent.recall import asks_about_talk
from khepri.agent.recording import Recording
from khepri.agent.repository_drafts import RepositoryDrafts
from khepri.agent.task import Instruction, Question, Task
from khepri.agent.task_reading import candidates
from khepri.config import Backend, Config, Decoding, Draft
from khepri.engine.backend import BackendName, KvType
from khepri.engine.launch import EngineFiles, EngineSettings, launch
from khepri.engine.radix import common_length
from khepri.engine.request import DraftMode, SamplingParams
from khepri.errors import KhepriError, UsageError
from khepri.models.stores import Model
from khepri.repo.relevance import Place, likely_places
from khepri.repo.root import Repository
from khepri.tools.base import ToolContext
from khepri.tools.registry import Registry

_PLACES = 6
_CALL_AND_ANSWER_TOKENS = 400
_PATIENCE_S = 0.1
_MOST_TOKEN_CHARS = 16
"""Longer than the tokens of any text that people paste are on average."""
_END_S = 2.0
"""How long a task may take to note its end once the engine is gone."""
_OTHER_QUESTIONS = ("A", "1")
"""What the prompts of these have in common, every question's has."""


class Session:
    """A conversation about one repository. A context manager; ``close`` frees the model.

    Making one returns at once: the model loads in the background, and an error of the load reaches the first task.
    """

    def __init__(
        self,
        repository: Repository,
        config: Config,
        model: Model,
        *,
        draft_model: Model | None = None,
        use_tools: bool = True,
    ) -> None:
        """Begin loading.

        Args:
            repository: What the conversation is about.
            config: The settings in force.
            model: The model that answers.
            draft_model: The smaller model that drafts for it; None if ``config.draft`` asks for none.
            use_tools: False answers without looking into the repository.
        """
        self.model = model
        """The model that answers."""
        self._repository = repository
        self._config = config
        self._started_s = time.perf_counter()
        self._drafts = RepositoryDrafts(repository.root, paths.drafts_cache_dir())
        self._engine = launch(
            model.path,
            engine_settings(config, draft_model),
            engine_files(),
            lambda: self._drafts.index,
        )
        self._registry = Registry.load(_permissions(config)) if use_tools else Registry(())
        self._context = Context(
            self._engine,
            lambda count_tokens: build_preamble(repository, self._registry, config, count_tokens),
            config.observation_tokens + _CALL_AND_ANSWER_TOKENS,
        )
        self._has_drafts = False
        self._recording: Recording | None = None
        self._task_lock = threading.Lock()
        self._latest_task: threading.Thread | None = None

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def go_on_with(self, recording: Recording) -> None:
        """Write down what happens from here on, and go on from what the recording already holds. Between tasks only."""
        self._engine.rest()
        self._recording = recording
        self._context.go_on_with(recording.history)

    def submit(self, question: Question) -> Task:
        """Start a question and return at once; a session answers one at a time, in order."""
        asked_s = time.perf_counter()
        task = Task(self._witness())
        self._start(task, lambda: self._answer(task, question, asked_s))
        return task

    def change(self, instruction: Instruction) -> Task:
        """Start a change and return at once; the task's ``Finished`` has a report.

        The model does it in a conversation of its own: neither it nor its result becomes part of what the model is told
        with later questions, but the recording has it.
        """
        asked_s = time.perf_counter()
        task = Task(self._witness())
        self._start(task, lambda: self._change(task, instruction, asked_s), is_told=False)
        return task

    def compact(self) -> Task:
        """Start to summarise the conversation and return at once; the next question goes on from the summary."""
        asked_s = time.perf_counter()
        task = Task(self._witness())
        self._start(task, lambda: self._compact(task, asked_s))
        return task

    def prefill_early(self, draft: Question | None = None) -> None:
        """Let the model read what the next question will begin with, while the user still writes it.

        Any thread; returns at once, and never fails: what cannot be read early is read with the question. Call it when
        the session is made or resumed, and again when the attachments or the mentions of the question that is being
        written change: what stays the same is not read again.

        Args:
            draft: The question as far as it is written, whose text does not matter; None stands for an empty one.
        """
        threading.Thread(target=self._prefill_early, args=(draft,), name="khepri-early", daemon=True).start()

    def _prefill_early(self, draft: Question | None) -> None:
        try:
            self._engine.wait_loaded()
            most_chars = _MOST_TOKEN_CHARS * self._engine.backend.capabilities.context_tokens
            if draft is not None and sum(len(each.text) for each in draft.attachments) > most_chars:
                return  # it cannot fit, and the question will be refused
            if not self._task_lock.acquire(blocking=False):
                return  # a question is being answered, and will be followed by another state of things
            try:
                one, other = (self._foretold(replace(draft or Question(""), text=text)) for text in _OTHER_QUESTIONS)
            finally:
                self._task_lock.release()
            known = one.ids[: common_length(one.ids, other.ids)]
            if len(known) >= self._engine.backend.capabilities.context_tokens:
                return
            self._engine.prefill_ahead(known, one.stable_tokens)
        except (KhepriError, OSError):
            pass  # the question meets the same error, and says it

    def _foretold(self, question: Question) -> Prompt:
        """Return the prompt that the model would first be asked with if this were the next question."""
        prompt = self._context.foretell(self._message(question, ()))
        if self._reads_first(question):
            self._loop(lambda event: None, prompt, question).foretell(looks(question, ()), question.text)
        return prompt

    @property
    def is_busy(self) -> bool:
        """True while a task has not ended."""
        return self._latest_task is not None and self._latest_task.is_alive()

    @property
    def load_doing(self) -> str:
        """What the load is busy with, in a few words that the name of the model may follow."""
        return self._engine.load_status.doing

    def wait_loaded(self, timeout_s: float | None = None) -> bool:
        """Wait for the model; False if ``timeout_s`` seconds passed first.

        Raises:
            ModelError: It could not be loaded.
        """
        return self._engine.wait_loaded(timeout_s)

    def close(self) -> None:
        """Stop what runs, let it write down how it ended, and free the model."""
        self._drafts.close()
        self._engine.close()
        if self._latest_task is not None:
            self._latest_task.join(_END_S)

    def _witness(self) -> Callable[[Event | BaseException], None]:
        return self._recording.witness if self._recording is not None else lambda event: None

    def _start(self, task: Task, work: Callable[[], Finished], *, is_told: bool = True) -> None:
        arguments = (task, work, is_told, self._latest_task)
        self._latest_task = threading.Thread(target=self._run, args=arguments, name="khepri-task", daemon=True)
        self._latest_task.start()

    def _run(
        self,
        task: Task,
        work: Callable[[], Finished],
        is_told: bool,
        before: threading.Thread | None,
    ) -> None:
        try:
            if before is not None:
                before.join()
            with self._task_lock:
                finished = work()
                if self._recording is not None and is_told and self._context.is_open:
                    self._recording.tokens(self._context.ids, self._context.stable_tokens)
                    if not self._recording.problem:  # what no session tells of could never be removed with it
                        self._engine.keep(self._context.ids)
                task.emit(finished)
        except BaseException as error:  # the reader waits on this thread: whatever ends it must reach the reader
            task.emit(error)

    def _answer(self, task: Task, question: Question, asked_s: float) -> Finished:
        named = Resolved()
        try:
            named = resolve(self._repository, question.mentions)
        finally:  # what was asked is written down, though an interrupt may end the look at the files
            question = replace(question, mentions=named.names)
            if self._recording is not None:
                self._recording.question(question)
        notices = (named.problem,) if named.problem else ()
        for text in notices:
            task.emit(Notice(text, is_warning=True))
        told = self._tell_load(task, "")
        places = self._places(question)
        load_ms = self._loaded(task, told)
        message = self._message(question, places)
        self._follow_files()
        untold = question.text if self._reads_first(question) else ""
        prompt = self._context.add(task, message, self._past(), untold)
        loop = self._loop(task.emit, prompt, question)
        task.attach(loop)
        finished = loop.run(looks(question, places), self.model.name, asked_s, load_ms, untold=untold)
        return replace(finished, notices=(*notices, *self._context.notices, *finished.notices))

    def _change(self, task: Task, instruction: Instruction, asked_s: float) -> Finished:
        if self._recording is not None:
            self._recording.change(instruction.text)
        told = self._tell_load(task, "")
        self._repository.refresh()
        found = candidates(self._repository, instruction.text, paths.map_cache_dir())
        load_ms = self._loaded(task, told)
        self._follow_files()
        run, writer, preamble = change_run(self._engine, self._repository, self._config, instruction, found, task.emit)
        for text in preamble.notices:
            task.emit(Notice(text, is_warning=True))
        task.attach(run)
        report = run.run()
        usage, timing = summarize(writer.generations, None, asked_s, load_ms)
        notices = (*preamble.notices, *run.notices)
        reason = "interrupted" if report.was_interrupted else report.outcome
        return Finished("", (), usage, timing, self.model.name, reason, notices, report)

    def _loaded(self, task: Task, told: str) -> float:
        """Wait for the model and return what its load took, in milliseconds; ``told`` is what was said of it."""
        while True:
            task.check()
            told = self._tell_load(task, told)
            if self._engine.wait_loaded(_PATIENCE_S):
                return max(0.0, self._engine.loaded_s - self._started_s) * 1000

    def _follow_files(self) -> None:
        """Have the index of the repository's tokens made, or brought up to date."""
        if self._config.draft not in (Draft.SUFFIX, Draft.ALL):
            return
        if self._has_drafts:
            self._drafts.refresh()
        else:
            self._drafts.start(self._engine.vocabulary)
            self._has_drafts = True

    def _compact(self, task: Task, asked_s: float) -> Finished:
        turns = self._recording.history.talk if self._recording is not None else []
        if self._recording is None or not turns:
            raise UsageError("there is nothing to summarise yet", "ask something first")
        self._recording.append("compact")  # so that what comes of it is not taken for a part of the last turn
        self._loaded(task, "")
        self._context.compact(task, turns)
        usage, timing = summarize([], None, asked_s, 0.0)
        return Finished("", (), usage, timing, self.model.name, "compacted")

    def _past(self) -> Sequence[Turn]:
        """Return the turns before the one that has just begun."""
        return self._recording.history.talk[:-1] if self._recording is not None else ()

    def _tell_load(self, task: Task, told: str) -> str:
        """Tell what the load is busy with, unless that is ``told`` already or the load is over; return it."""
        doing = self._engine.load_status.doing
        if doing != told and not self._engine.wait_loaded(0):
            task.emit(ModelLoading(self.model.name, doing))
        return doing

    def _loop(self, emit: Callable[[Event], None], prompt: Prompt, question: Question) -> AgentLoop:
        config = self._config
        manifests = self._registry.manifests
        files = self._repository.files()
        grammar = tool_grammar(manifests, files, folders_of(files)) if manifests else ""
        settings = LoopSettings(
            steps=config.steps,
            max_tokens=config.max_tokens,
            observation_tokens=config.observation_tokens,
            sampling=SamplingParams(config.temperature, config.top_k, config.top_p, config.min_p, config.seed),
            draft=DraftMode(config.draft),
            gamma=config.gamma,
        )
        context = ToolContext(self._repository, prompt.count_tokens, config.observation_tokens)
        return AgentLoop(self._engine, prompt, self._registry, context, grammar, settings, question.text, emit)

    def _places(self, question: Question) -> tuple[Place, ...]:
        """Return the places that the question may be about.

        There are none when it brings its own text, names files, or asks for what was said before.
        """
        if question.mentions or question.attachments or not self._registry.manifests:
            return ()
        if self._past() and asks_about_talk(question.text):
            return ()
        return likely_places(self._repository, question.text, limit=_PLACES, cache_dir=paths.map_cache_dir())

    def _reads_first(self, question: Question) -> bool:
        """True if the model sees the files that a question names before it, so that they can be read early."""
        return bool(question.mentions and self._registry.manifests)

    def _message(self, question: Question, places: Sequence[Place]) -> str:
        attachments = "".join(
            assets.render_prompt("attachment.md", name=each.name, text=each.text) for each in question.attachments
        )
        rows = "\n".join(f"{place.path}:{place.line} {place.symbol}".rstrip() for place in places)
        listing = assets.render_prompt("places.md", places=rows) if places else ""
        asked = question.text
        if self._reads_first(question):
            asked = assets.render_prompt("read_first.md", files=", ".join(question.mentions))
        text = assets.render_prompt("question.md", attachments=attachments, question=asked, places=listing)
        return text.strip()


def engine_files() -> EngineFiles:
    """Return where the engine keeps what it finds out and what it computed."""
    return EngineFiles(
        probe=paths.probe_cache_file(),
        pass_costs=paths.pass_costs_file(),
        exactness=paths.exactness_file(),
        choices=paths.backend_choice_file(),
        prefixes=paths.prefixes_dir(),
    )


def engine_settings(config: Config, draft_model: Model | None) -> EngineSettings:
    """Return how the engine is set up under ``config``."""
    return EngineSettings(
        context_tokens=config.context_tokens,
        threads=config.threads,
        batch_tokens=config.batch_tokens,
        extra_buffers=config.extra_buffers,
        exact=config.decoding is Decoding.EXACT,
        draft_model=draft_model.path if draft_model else None,
        backend=None if config.backend is Backend.AUTO else BackendName(config.backend),
        kv_type=KvType(config.kv_type),
        cache_conversations=config.cache_conversations,
        cache_tokens=config.cache_tokens,
        cache_bytes=config.cache_mb * 1_000_000,
        disk_bytes=config.cache_disk_mb * 1_000_000,
    )


def _permissions(config: Config) -> dict[str, str]:
    return {"read": config.permission_read, "git": config.permission_git, "command": config.permission_command}
