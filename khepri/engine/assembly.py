"""Puts an engine together: the loaded target, its prefix cache, its drafters, and what its passes cost.

Which files and settings that takes is not known here, nor who runs the engine.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from khepri.engine.backend import Backend
from khepri.engine.cascade import Cascade
from khepri.engine.draft.drafter import Drafter
from khepri.engine.generate import Clock, Engine
from khepri.engine.horizon import Horizon
from khepri.engine.pass_cost import PassCosts
from khepri.engine.prefix import choose_cache
from khepri.engine.prefix_cache import PrefixCache

CacheMaker = Callable[[Backend], PrefixCache]


@dataclass(frozen=True)
class Speculation:
    """What drafting needs besides the target. The functions are called on the worker's thread."""

    make_drafters: Callable[[Backend], Sequence[Drafter]] = lambda target: ()
    """Returns the drafters for a loaded target, in the order in which they are asked."""
    load_costs: Callable[[Backend], PassCosts] = lambda target: PassCosts()
    """Returns what is known of the costs of the target's passes."""
    save_costs: Callable[[Backend, PassCosts], None] = lambda target, costs: None
    """Keeps what was learnt of them."""


NO_SPECULATION: Final = Speculation()
"""Nobody drafts."""


def build_engine(
    load: Callable[[], Backend],
    speculation: Speculation,
    batch_tokens: int,
    clock: Clock,
    make_cache: CacheMaker = choose_cache,
) -> Engine:
    """Load the target and set its cache and its drafters up; the calling thread owns the engine."""
    backend = load()
    try:
        cache = make_cache(backend)
        costs = speculation.load_costs(backend)
        drafters = speculation.make_drafters(backend)
    except BaseException:
        backend.close()
        raise
    cascade = Cascade(drafters, Horizon(costs), clock)
    return Engine(backend, cache, cascade, costs, batch_tokens, clock)
