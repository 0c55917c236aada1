"""What an engine does while nobody asks it anything: it writes what is to outlive the process, and times its passes.

When there is time, and who may want something meanwhile, is not known here.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from khepri.engine.generate import Engine, refine_costs
from khepri.errors import KhepriError


class SpareTime:
    """The work that waits for spare time. ``keep`` and ``has_tail`` are for any thread, the rest for the engine's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tail: tuple[int, ...] = ()
        self._answered: tuple[int, ...] = ()

    def keep(self, tokens: Sequence[int]) -> None:
        """Note a conversation that is to outlive the process; the latest call counts."""
        with self._lock:
            self._tail = tuple(tokens)

    @property
    def has_tail(self) -> bool:
        """True if a conversation was noted that has not been handed to the cache."""
        with self._lock:
            return bool(self._tail)

    def note_answer(self, tokens: Sequence[int]) -> None:
        """Note a conversation whose answer has just ended: passes can be timed where it stands."""
        self._answered = tuple(tokens)

    def is_wanted(self, engine: Engine) -> bool:
        """True if there is work that should not wait for a long rest, as writing a conversation does."""
        return engine.cache.has_unwritten or self._can_refine(engine)

    def use(self, engine: Engine, goes_on: Callable[[], bool]) -> None:
        """Do what there is to do; a conversation is handed over once nothing else waits to be written."""
        if not engine.cache.has_unwritten:
            self.hand_over(engine)
        self._write_back(engine, goes_on)
        self.refine(engine, goes_on)

    def make_way(self, engine: Engine, prompt: Sequence[int]) -> None:
        """Have the conversation written that a prompt is about to displace: copying it costs far less than reading it.

        Where the cache holds several conversations, or the prompt goes on with this one, it can wait.
        """
        with self._lock:
            tail = self._tail
        if engine.cache.loses(tail, prompt):
            self.write_all(engine, lambda: True)

    def write_all(self, engine: Engine, goes_on: Callable[[], bool]) -> None:
        """Have everything written, the conversation as well."""
        self.hand_over(engine)
        self._write_back(engine, goes_on)

    def hand_over(self, engine: Engine) -> None:
        """Tell the cache of the conversation that is to outlive the process."""
        with self._lock:
            tail, self._tail = self._tail, ()
        if tail:
            engine.cache.keep(tail, is_tail=True)

    def refine(self, engine: Engine, goes_on: Callable[[], bool]) -> None:
        """Time passes where the last answer ended, once for each; what is broken off waits for the next answer."""
        if self._can_refine(engine):
            answered, self._answered = self._answered, ()
            with suppress(KhepriError):  # a request that meets the same error says it to whoever asked
                refine_costs(engine, answered, goes_on)

    def _can_refine(self, engine: Engine) -> bool:
        """True if drafts depend on what passes cost there, and that was timed in haste."""
        is_drafting = engine.cascade.is_active and engine.backend.capabilities.can_remove_tail
        return is_drafting and bool(self._answered) and engine.costs.needs_refining(len(self._answered) - 1)

    def _write_back(self, engine: Engine, goes_on: Callable[[], bool]) -> None:
        while goes_on() and engine.cache.write_back(goes_on):
            pass
