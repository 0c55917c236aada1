"""``khepri prove``: runs the corpus plain and accelerated, and judges every difference.

Plain is without drafts and with an empty prefix cache; accelerated is with both.

A difference is a near-tie if the two tokens were so close that rounding can have turned them over: passes of other
widths, without drafts or cache, move their gap about as far, or are seen to move that of other tokens as far. All else
is a defect.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from khepri.agent.session import engine_files
from khepri.cli.bench.command import Target, resolve
from khepri.cli.bench.corpus import Item, load_corpus
from khepri.cli.progress import shown_progress
from khepri.cli.prove.compare import Comparison, Divergence, compare
from khepri.config import Config, Decoding, Value
from khepri.engine.constrain import GrammarCompiler
from khepri.engine.exactness import WidthDifference, compare_widths
from khepri.engine.generate import Engine
from khepri.engine.launch import open_engine
from khepri.engine.request import DraftMode
from khepri.errors import BrokenPromiseError, UsageError

TOKENS = 1_500
"""Tokens that are compared at least, unless told otherwise."""
EXACT_TOKENS = 5_000
"""The same with ``--exact``, where a single difference counts."""
_CUTS = (0.45, 0.6, 0.75, 0.9, 0.3, 0.52, 0.68)
_CUT_TOKENS = 200


@dataclass(frozen=True)
class Finding:
    """What came of one item of the corpus."""

    name: str
    """Its name."""
    comparison: Comparison
    """The two runs compared."""


@dataclass(frozen=True)
class Proof:
    """All that was found."""

    target: Target
    """What was run."""
    widths: Sequence[WidthDifference]
    """How far passes of several tokens differ from passes of one."""
    findings: Sequence[Finding]
    """The corpus."""

    @property
    def divergences(self) -> list[tuple[str, Divergence]]:
        """Every difference, with the item that it is in."""
        return [(finding.name, each) for finding in self.findings for each in finding.comparison.divergences]

    @property
    def tokens(self) -> int:
        """Tokens that were compared."""
        return sum(finding.comparison.tokens for finding in self.findings)

    @property
    def largest_lead_change(self) -> float:
        """What rounding was seen to do to a choice at most, before anything was compared."""
        return max((each.largest_lead_change for each in self.widths), default=0.0)

    def is_defect(self, divergence: Divergence) -> bool:
        """True if rounding does not explain a difference, or if none was to be."""
        return self.is_exact or not divergence.is_near_tie(self.largest_lead_change)

    @property
    def is_exact(self) -> bool:
        """True if no difference at all was promised."""
        return self.target.settings.decoding is Decoding.EXACT


def run(cwd: Path, flags: Mapping[str, Value], *, as_json: bool, tokens: int | None) -> None:
    """Run the corpus both ways and print what was found on standard output. Takes minutes.

    Args:
        cwd: Folder whose configuration counts; the corpus is the same everywhere.
        flags: What the command line says of the configuration.
        as_json: Print one JSON object.
        tokens: Compare at least so many tokens; None takes the usual number.

    Raises:
        BrokenPromiseError: A difference was found that rounding does not explain, or with ``--exact`` any; or too
            little was compared to say so.
        UsageError: ``tokens`` or a flag cannot be used.
        NoModelError: A model is not on this machine.
        ModelError: A model cannot be loaded, or a pass failed.
    """
    if tokens is not None and tokens < 1:
        raise UsageError(f"--tokens {tokens} compares nothing")
    target = resolve(cwd, flags, _require_drafts)
    wanted = tokens if tokens is not None else EXACT_TOKENS if target.settings.decoding is Decoding.EXACT else TOKENS
    with shown_progress("comparing plain and accelerated decoding") as progress:
        progress("loading the model", 0, wanted)
        with open_engine(target.model.path, target.engine, engine_files()) as engine:
            progress("measuring the rounding of passes", 0, wanted)
            items = load_corpus(engine.backend.vocabulary)
            widths = compare_widths(engine.backend, max((item.prompt for item in items), key=len))
            if not as_json:
                print(_heading(target, widths), flush=True)
            findings: list[Finding] = []
            for item in _items(items):
                done = sum(finding.comparison.tokens for finding in findings)
                if done >= wanted:
                    break
                progress(item.name, done, wanted)
                findings.append(Finding(item.name, _compare(engine, item, target)))
                if not as_json:
                    print(_line(findings[-1]), flush=True)
    proof = Proof(target, widths, findings)
    print(json.dumps(_as_json(proof), indent=2, ensure_ascii=False) if as_json else _summary(proof), flush=True)
    check(proof, wanted)


def check(proof: Proof, wanted: int) -> None:
    """Raise ``BrokenPromiseError`` if a proof of ``wanted`` tokens shows a defect, or not enough to see one."""
    defects = [each for _, each in proof.divergences if proof.is_defect(each)]
    if proof.tokens < wanted:
        raise BrokenPromiseError(f"the corpus holds {proof.tokens} tokens, fewer than the {wanted} to be compared")
    if not any(finding.comparison.drafted or finding.comparison.forced for finding in proof.findings):
        raise BrokenPromiseError(
            "nothing was drafted, so that nothing was proven", "choose more --tokens, or a --gamma"
        )
    if defects:
        kind = "exact decoding was promised" if proof.is_exact else "rounding does not explain them"
        raise BrokenPromiseError(f"{len(defects)} of {proof.tokens} tokens differ, and {kind}", "please report this")


def _require_drafts(settings: Config) -> None:
    if DraftMode(settings.draft) is DraftMode.OFF or settings.gamma == 0:
        raise UsageError('there is nothing to prove with draft = "off" or gamma = 0', "let something be drafted")


def _items(items: Sequence[Item]) -> Iterator[Item]:
    """Yield the corpus, and then, for more tokens, what follows beginnings of its prompts, each text once."""
    yield from items
    starts: set[tuple[int, ...]] = set()
    for share in _CUTS:
        for item in items:
            start = item.prompt[: int(share * len(item.prompt))]
            if start not in starts:
                starts.add(start)
                yield Item(item.class_, f"{item.name}, {share:.0%} of it", start, None, _CUT_TOKENS)


def _compare(engine: Engine, item: Item, target: Target) -> Comparison:
    draft, gamma = DraftMode(target.settings.draft), target.settings.gamma
    if item.grammar is None:
        return compare(engine, item.prompt, item.max_tokens, lambda: None, draft, gamma)
    grammar, compiler = item.grammar, GrammarCompiler(engine.backend.vocabulary)
    return compare(engine, item.prompt, item.max_tokens, lambda: compiler.start(grammar), draft, gamma)


def _heading(target: Target, widths: Sequence[WidthDifference]) -> str:
    """Return what is compared, and how far the passes of this machine differ by rounding."""
    alike = ", ".join(str(each.width) for each in widths if not each.different_rows) or "none"
    lines = [
        f"{target.model.name}, {target.settings.decoding} decoding, draft {target.settings.draft}",
        "",
        f"widths of a pass whose logits are those of passes of one token: {alike}",
    ]
    lines += [
        f"  width {each.width}: {each.different_rows} of {each.rows} rows differ, by up to {each.largest:.2g}; "
        f"the lead of the most likely token changes by up to {each.largest_lead_change:.2g}, in {each.flips} it is lost"
        for each in widths
        if each.different_rows
    ]
    return "\n".join([*lines, ""])


def _summary(proof: Proof) -> str:
    """Return every difference with its verdict, and what they amount to."""
    drafted = sum(finding.comparison.drafted for finding in proof.findings)
    accepted = sum(finding.comparison.accepted for finding in proof.findings)
    forced = sum(finding.comparison.forced for finding in proof.findings)
    passes = sum(finding.comparison.passes for finding in proof.findings)
    cached = sum(finding.comparison.cached for finding in proof.findings)
    rate = f"{accepted / drafted:.0%}" if drafted else "nothing drafted"
    lines = [""]
    for name, each in proof.divergences:
        verdict = "DEFECT" if proof.is_defect(each) else "near-tie"
        lines.append(
            f"{verdict}: {name}, token {each.position}: {each.plain!r} became {each.accelerated!r}; "
            f"top-2 margin {each.margin:.3g}, gap {each.gap:.3g} (other widths move it by {each.rounding:.2g}, "
            f"others by up to {proof.largest_lead_change:.2g})"
        )
    defects = sum(proof.is_defect(each) for _, each in proof.divergences)
    lines.append(
        f"{len(proof.divergences)} of {proof.tokens:,} tokens differ, {defects} of them beyond rounding "
        f"({passes:,} passes, acceptance {rate} of {drafted:,} drafted tokens, {forced:,} forced, "
        f"{cached:,} prompt tokens from the cache)"
    )
    return "\n".join(lines)


def _line(finding: Finding) -> str:
    found = finding.comparison
    differing = f"{len(found.divergences)} differ" if found.divergences else "all the same"
    return f"{finding.name}: {found.tokens} tokens in {found.passes} passes, {differing}"


def _as_json(proof: Proof) -> dict[str, object]:
    return {
        "model": proof.target.model.name,
        "decoding": proof.target.settings.decoding,
        "draft": proof.target.settings.draft,
        "gamma": proof.target.settings.gamma,
        "tokens": proof.tokens,
        "divergences": [
            {"item": name, **_finite(asdict(each)), "is_defect": proof.is_defect(each)}
            for name, each in proof.divergences
        ],
        "defects": sum(proof.is_defect(each) for _, each in proof.divergences),
        "widths": [asdict(each) for each in proof.widths],
        "items": [
            {
                "name": each.name,
                "tokens": each.comparison.tokens,
                "passes": each.comparison.passes,
                "drafted_tokens": each.comparison.drafted,
                "accepted_tokens": each.comparison.accepted,
                "forced_tokens": each.comparison.forced,
                "cached_tokens": each.comparison.cached,
                "divergences": len(each.comparison.divergences),
            }
            for each in proof.findings
        ],
    }


def _finite(values: dict[str, object]) -> dict[str, object]:
    """Replace what JSON cannot say."""
    return {key: None if value == float("inf") else value for key, value in values.items()}
