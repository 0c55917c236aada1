"""Lets the scripted backend hold a conversation: what it says in each turn is given as text."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from khepri.agent.events import Event, Finished
from khepri.agent.loop import AgentLoop, LoopSettings
from khepri.agent.prompt import Prompt
from khepri.agent.protocol import ToolCall, tool_grammar
from khepri.engine.request import SamplingParams
from khepri.engine.worker import EngineWorker
from khepri.repo.root import Repository
from khepri.tools.base import ToolContext
from khepri.tools.registry import Registry
from tests.support.scripted_backend import END, OPEN, TOOL_CALL, ByteVocabulary, Script, ScriptedBackend

_ASSISTANT = b"assistant\n"
_TRIGGER = b"<tool_call>"


def script_of(replies: Sequence[str]) -> Script:
    """Return a script that says ``replies[n]`` in the assistant's n-th turn, as far as constraints allow, and ends it.

    A turn is recognised by its frame; a turn that the harness began goes on where the reply's text goes on.
    """
    vocabulary = ByteVocabulary()

    def script(tokens: Sequence[int]) -> Mapping[int, float]:
        starts = [
            place
            for place, token in enumerate(tokens)
            if token == OPEN and said(vocabulary, tokens[place + 1 : place + 11]).startswith(_ASSISTANT)
        ]
        if not starts or len(starts) > len(replies):
            return {END: 100.0}
        begun = said(vocabulary, tokens[starts[-1] + 1 :])[len(_ASSISTANT) :]
        reply = replies[len(starts) - 1].encode()
        rest = reply[len(begun) :] if reply.startswith(begun) else b""
        if rest.startswith(_TRIGGER):
            return {TOOL_CALL: 100.0}
        return {rest[0]: 100.0, END: 50.0} if rest else {END: 100.0}

    return script


def said(vocabulary: ByteVocabulary, tokens: Sequence[int]) -> bytes:
    """Return the bytes of ``tokens``, without control tokens."""
    return b"".join(vocabulary.piece(token) for token in tokens)


def call(name: str, **arguments: str | int) -> str:
    """Return a call as the model is told to write it."""
    written = ToolCall(name, arguments).identity.removeprefix(f"{name} ")
    return f'<tool_call>\n{{"name": "{name}", "arguments": {written}}}\n</tool_call>'


class Conversation:
    """The real loop, prompt, tools and worker over a scripted backend. A context manager; ``close`` ends the worker."""

    def __init__(
        self,
        root: Path,
        replies: Sequence[str],
        *,
        question: str = "Where is retry?",
        steps: int = 4,
        observation_tokens: int = 300,
        max_tokens: int = 200,
        context_tokens: int = 4096,
        use_tools: bool = True,
        seconds_per_token: float = 0.0,
    ) -> None:
        self.events: list[Event] = []
        self.backend = ScriptedBackend(
            context_tokens=context_tokens, script=script_of(replies), seconds_per_token=seconds_per_token
        )
        self.worker = EngineWorker(lambda: self.backend, 64)
        repository = Repository.open(root)
        registry = Registry.load() if use_tools else Registry(())
        self.prompt = Prompt(self.worker.vocabulary)
        self.prompt.open("You help.", question)
        manifests = registry.manifests
        self.loop = AgentLoop(
            self.worker,
            self.prompt,
            registry,
            ToolContext(repository, self.prompt.count_tokens, 300),
            tool_grammar(manifests, repository.files(), ["."]) if manifests else "",
            LoopSettings(steps, max_tokens, observation_tokens, SamplingParams()),
            question,
            self.events.append,
        )

    def __enter__(self) -> "Conversation":
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.close()

    def run(self, looks: Sequence[ToolCall] = ()) -> Finished:
        """Take the question to its end."""
        return self.loop.run(looks, "scripted", 0.0, 0.0)
