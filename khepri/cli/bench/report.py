"""Shows what a benchmark found: tables and sentences for people, one object for scripts. Nothing is measured here."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table

from khepri.cli.bench.figures import PROMISED_RATIOS, ClassFigures, Latencies, Spread
from khepri.cli.bench.profile import Profile
from khepri.cli.bench.runs import ArmName, Run
from khepri.engine.horizon import DrafterStatistics
from khepri.engine.request import DraftCount, DrafterName

_PIPE_COLUMNS: Final = 160
_NEARLY_NEVER_GAMMA: Final = 0.5
_NOTHING: Final = "-"


@dataclass(frozen=True)
class Setting:
    """Where and how it was measured."""

    machine: str
    """The processor."""
    library: str
    """The native library and what it was built with."""
    model: str
    """Name of the target."""
    draft_model: str | None
    """Name of the smaller model that drafts; None if there was none."""
    untried_draft_model: str | None
    """Name of one that is on this machine and was not asked; None if there is none."""
    threads: int
    """Threads of a pass."""
    context_tokens: int
    """Cells of the KV cache."""
    batch_tokens: int
    """Most tokens of a prefill pass."""
    extra_buffers: bool
    """Whether the library repacks weights."""
    draft: str
    """Who may draft."""
    gamma: int | None
    """Drafted tokens of a pass; None if they are chosen at every step."""
    decoding: str
    """``fast`` or ``exact``."""
    repeats: int
    """How often each item ran."""
    is_quick: bool
    """True if a part of the corpus ran, with short answers."""

    def sentence(self) -> str:
        """Return it in one line."""
        return (
            f"{self.model}{f' with {self.draft_model}' if self.draft_model else ''} · {self.machine}, "
            f"{self.threads} threads · {self.library} · context {self.context_tokens}, batch {self.batch_tokens}, "
            f"extra buffers {'on' if self.extra_buffers else 'off'} · draft {self.draft}, "
            f"gamma {'auto' if self.gamma is None else self.gamma}, {self.decoding} · greedy, {self.repeats} repeats"
        )


@dataclass(frozen=True)
class Findings:
    """All of a benchmark."""

    setting: Setting
    """Where and how."""
    classes: Sequence[ClassFigures]
    """What was found, by class."""
    drafters: Mapping[DrafterName, DrafterStatistics]
    """What the engine's horizon learnt of each drafter."""
    profile: Profile | None
    """What a step is made of besides the pass; None if nothing was drafted."""
    runs: Sequence[Run]
    """Every raw figure."""


def print_findings(findings: Findings) -> None:
    """Print tables and sentences on standard output: framed on a terminal, plain in a pipe, as lists if narrow."""
    console = open_console()
    console.print(findings.setting.sentence(), soft_wrap=True)
    console.print()
    _print_speed(console, findings.classes)
    _print_latencies(console, findings.classes)
    for sentence in sentences(findings):
        console.print(sentence, soft_wrap=True)


def open_console() -> Console:
    """Return a console on standard output that is wide enough for a table in a pipe."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _PIPE_COLUMNS
    return console


def print_json(findings: Findings) -> None:
    """Print one object on standard output."""
    print(json.dumps(as_json(findings), indent=2, ensure_ascii=False))


def as_json(findings: Findings) -> dict[str, Any]:
    """Return everything that was found, ready for ``json.dumps``."""
    return {
        "setting": asdict(findings.setting),
        "classes": [_class_as_json(each) for each in findings.classes],
        "drafters": {name: asdict(each) for name, each in findings.drafters.items()},
        "profile_ms": asdict(findings.profile) if findings.profile else None,
        "sentences": sentences(findings),
        "runs": [asdict(run) for run in findings.runs],
    }


def _class_as_json(figures: ClassFigures) -> dict[str, Any]:
    return {
        "class": figures.class_,
        "arms": {
            name: {**asdict(arm), "acceptance": {who: _share(count) for who, count in arm.drafts.items()}}
            for name, arm in figures.arms.items()
        },
        "accelerated_to_baseline": _spread_as_json(figures.to_baseline),
        "accelerated_to_plain": _spread_as_json(figures.to_plain),
        "plain_to_baseline": _spread_as_json(figures.plain_to_baseline),
        "promised_accelerated_to_plain": PROMISED_RATIOS[figures.class_],
        "keeps_promise": figures.keeps_promise,
        "agreeing_tokens": figures.agreeing_tokens,
        "compared_tokens": figures.compared_tokens,
    }


def _spread_as_json(spread: Spread | None) -> dict[str, float] | None:
    return asdict(spread) if spread else None


def print_table(console: Console, title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under headings; where they do not fit side by side, each row as a list of its values."""
    look = box.SIMPLE_HEAD if console.is_terminal else None
    table = Table(title=title, title_justify="left", box=look, pad_edge=False)
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="left" if index == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    if table.__rich_measure__(console, console.options).minimum <= console.width:
        console.print(table)
        return
    console.print(title)
    for row in rows:
        console.print(f"\n{headings[0]} {row[0]}")
        for heading, value in zip(headings[1:], row[1:], strict=True):
            console.print(f"  {heading}: {value}")
    console.print()


def _print_speed(console: Console, classes: Iterable[ClassFigures]) -> None:
    headings = (
        "class", "baseline", "plain", "accelerated", "x baseline", "x plain", "tokens/pass", "forced", "accepted"
    )  # fmt: skip
    rows = []
    for figures in classes:
        fast = figures.arms.get(ArmName.ACCELERATED)
        rows.append(
            (
                figures.class_,
                *(_rate(figures, name) for name in ArmName),
                _spread(figures.to_baseline),
                _spread(figures.to_plain),
                f"{fast.tokens_per_pass:.1f}" if fast and fast.tokens_per_pass else _NOTHING,
                str(fast.drafts[DrafterName.FORCED].accepted)
                if fast and DrafterName.FORCED in fast.drafts
                else _NOTHING,
                acceptance(fast.drafts) if fast else _NOTHING,
            )
        )
    print_table(console, "decoding, tokens/s: median of the repeats (lowest-highest)", headings, rows)


def _print_latencies(console: Console, classes: Iterable[ClassFigures]) -> None:
    headings = (
        "class", "first token, s", "baseline, ms", "plain, ms", "accelerated, ms", "overhead plain", "accelerated",
        "agree",
    )  # fmt: skip
    rows = []
    for figures in classes:
        arms = [figures.arms.get(name) for name in ArmName]
        rows.append(
            (
                figures.class_,
                "/".join(f"{arm.first_token_ms / 1000:.1f}" if arm else _NOTHING for arm in arms),
                *(_latencies(arm.token_ms if arm else None) for arm in arms),
                *(f"{arm.overhead_ms:.1f}" if arm and arm.overhead_ms is not None else _NOTHING for arm in arms[1:]),
                f"{figures.agreeing_tokens} of {figures.compared_tokens}" if figures.compared_tokens else _NOTHING,
            )
        )
    title = "time to first token (baseline/plain/accelerated); latency of a token, p50/p95/p99; overhead of a step, ms"
    print_table(console, title, headings, rows)


def _rate(figures: ClassFigures, name: ArmName) -> str:
    arm = figures.arms.get(name)
    return f"{arm.tokens_per_s.median:.1f}" if arm and arm.tokens_per_s else _NOTHING


def _spread(spread: Spread | None) -> str:
    return f"{spread.median:.2f} ({spread.low:.2f}-{spread.high:.2f})" if spread else _NOTHING


def _latencies(latencies: Latencies | None) -> str:
    return f"{latencies.p50:.0f}/{latencies.p95:.0f}/{latencies.p99:.0f}" if latencies else _NOTHING


def acceptance(drafts: Mapping[DrafterName, DraftCount]) -> str:
    """Return the share of the checked tokens that held, for each drafter; forced tokens are no question."""
    asked = {name: count for name, count in drafts.items() if name is not DrafterName.FORCED and count.drafted}
    shares = (f"{name} {_share(count):.0%} of {count.drafted}" for name, count in asked.items())
    return ", ".join(shares) or "nothing drafted"


def _share(count: DraftCount) -> float | None:
    return count.accepted / count.drafted if count.drafted else None


def sentences(findings: Findings) -> list[str]:
    """Return what the figures mean, in plain sentences."""
    said = [
        _overhead_sentence(findings),
        _promise_sentence(findings.classes, is_quick=findings.setting.is_quick),
        _agreement_sentence(findings.classes),
    ]
    if findings.setting.draft_model is not None:
        said.append(_draft_model_sentence(findings))
    elif findings.setting.untried_draft_model is not None:
        name = findings.setting.untried_draft_model
        said.append(f"The draft model {name} is here and was not tried; khepri bench --draft all tries it.")
    return [sentence for sentence in said if sentence]


def _overhead_sentence(findings: Findings) -> str:
    if findings.profile is None:
        return ""
    overheads_ms = [ms for run in findings.runs if run.arm is ArmName.ACCELERATED for ms in run.overheads_ms]
    sum_ = (
        f"A step takes {median(overheads_ms):.2f} ms besides its pass (median)"
        if overheads_ms
        else "No pass was needed"
    )
    parts = findings.profile
    return (
        f"{sum_}; replayed part by part: drafting {parts.drafting:.2f} ms, gamma {parts.horizon:.2f} ms, choosing a "
        f"token {parts.sampling:.2f} ms a row, text {parts.text:.2f} ms and grammar {parts.grammar:.2f} ms a token."
    )


def _promise_sentence(classes: Sequence[ClassFigures], *, is_quick: bool) -> str:
    measured = [each for each in classes if each.to_plain is not None]
    if not measured:
        return ""
    below = [
        f"{each.class_} {each.to_plain.median:.2f} x plain instead of {PROMISED_RATIOS[each.class_]:g} "
        f"(accepted: {acceptance(each.arms[ArmName.ACCELERATED].drafts)})"
        for each in measured
        if each.to_plain is not None and not each.keeps_promise
    ]
    if not below:
        return "Every class is as fast as promised."
    scope = " of the whole corpus, about which such short answers say little" if is_quick else ""
    return f"Below what is promised{scope}: {'; '.join(below)}."


def _agreement_sentence(classes: Sequence[ClassFigures]) -> str:
    parted = [str(each.class_) for each in classes if each.agreeing_tokens < each.compared_tokens]
    if not parted:
        return ""
    return (
        f"Plain and accelerated answers part in {', '.join(parted)}: a near-tie may fall either way, and khepri prove "
        "judges each."
    )


def _draft_model_sentence(findings: Findings) -> str:
    name, known = findings.setting.draft_model, findings.drafters.get(DrafterName.MODEL)
    if known is None or not known.asked:
        return f"The draft model {name} was never asked, as there was always something else to check."
    cost = _cost_phrase(known, findings)
    if not known.drafted:
        return f"The draft model {name} did not pay on this machine: no token of it was worth a check{cost}."
    held = f"{known.acceptance or 0.0:.0%} of its {known.drafted} drafted tokens held{cost}"
    if findings.setting.gamma is None and known.mean_gamma < _NEARLY_NEVER_GAMMA:
        return (
            f"The draft model {name} did not pay on this machine: asked {known.asked} times, the engine let it draft "
            f"{known.mean_gamma:.2f} tokens a step; {held}."
        )
    slower = [each.class_ for each in findings.classes if each.to_plain is not None and each.to_plain.median < 1.0]
    if slower:
        return f"The draft model {name} did not pay for {', '.join(slower)}, slower than plain; {held}."
    return f"The draft model {name} was used for {known.mean_gamma:.1f} tokens a step; {held}."


def _cost_phrase(known: DrafterStatistics, findings: Findings) -> str:
    """Return what a drafted token cost beside a plain one, if both are known."""
    plain = [
        arm.token_ms.p50
        for figures in findings.classes
        if (arm := figures.arms.get(ArmName.PLAIN)) is not None and arm.token_ms is not None
    ]
    if known.draft_ms is None or not plain:
        return ""
    plain_ms = sorted(plain)[len(plain) // 2]
    return f", at {known.draft_ms:.0f} ms a drafted token beside {plain_ms:.0f} ms a plain one"
