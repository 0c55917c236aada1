"""What the status bar finds room for."""

from dataclasses import replace

import pytest

from khepri.tui.widgets.status_bar import Status, laid_out, place_of, work_of
from tests.tui.conftest import MakeApp, running, wait_until

FULL = Status(
    model="qwen2.5-coder-1.5b-instruct-q4_k_m",
    activity="writing, 123 tokens",
    context_tokens=3866,
    context_limit=8192,
    speed="20.1 tokens/s (acceptance 85%, gamma 4)",
    cache="1,937/3,866 cached",
    network="network strong",
    branch="main",
)


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ((60, 18), ("writing", "20.1 tokens/s (acc. 85%, gamma 4)", "3,866/8,192", "net strong", "cached", "main")),
        ((80, 24), ("writing", "gamma 4", "3,866/8,192", "cached", "qwen2.5-coder", "net strong", "main")),
        ((100, 30), ("writing", "gamma 4", "3,866/8,192", "cached", "qwen2.5", "network strong", "main")),
        ((300, 100), ("writing", "gamma 4", "3,866/8,192", "cached", "qwen2.5", "network strong", "main")),
    ],
    ids=str,
)
async def test_what_matters_is_seen_at_any_size(
    make_app: MakeApp, size: tuple[int, int], words: tuple[str, ...]
) -> None:
    app = make_app()
    async with running(app, size) as pilot:
        await wait_until(pilot, lambda: app.status.status.activity == "" and bool(app.loader.names.symbols))
        app.status.status = FULL
        await pilot.pause()
        shown = str(app.status.render())
        assert all(word in shown for word in words)
        assert len(shown.split("\n")) == app.status.size.height
        assert all(len(line) <= app.status.size.width for line in shown.split("\n"))


def test_large_figures_and_a_long_branch_leave_room_for_each_other_at_80_columns() -> None:
    branch = "feature/a-branch-with-a-name-that-says-everything"
    large = replace(
        FULL,
        activity="writing, 12,345 tokens",
        context_tokens=98_765,
        context_limit=131_072,
        cache="98,001/98,765 cached",
        branch=branch,
        queued=2,
    )
    lines = laid_out(work_of(large), place_of(large), 78, 2)
    shown = "\n".join(lines)
    assert len(lines) == 2
    assert all(len(line) <= 78 for line in lines)
    for words in ("12,345", "2 queued", "acc. 85%, gamma 4", "98,765/131,072", "98,001/98,765 cached", branch[:16]):
        assert words in shown


@pytest.mark.parametrize("speed", ["120.1 tokens/s (acceptance 100%, gamma 16)", "120.1 tokens/s (nothing drafted)"])
def test_speed_acceptance_and_context_are_seen_while_an_answer_is_written_at_60_columns(speed: str) -> None:
    large = replace(
        FULL,
        activity="writing, 12,345 tokens",
        context_tokens=98_765,
        context_limit=131_072,
        speed=speed,
        cache="98,001/98,765 cached",
        queued=2,
    )
    lines = laid_out(work_of(large), place_of(large), 58, 2)
    shown = "\n".join(lines)
    assert len(lines) == 2
    assert all(len(line) <= 58 for line in lines)
    for words in ("12,345", "2 queued", speed.replace("acceptance", "acc."), "98,765/131,072"):
        assert words in shown


@pytest.mark.parametrize("network", ["network strong", "network partial"])
@pytest.mark.parametrize("branch", ["main", "feature/a-branch-with-a-name-that-says-everything"])
@pytest.mark.parametrize("speed", ["", "20.1 tokens/s (acceptance 85%)", "120.1 tokens/s (acceptance 100%)"])
@pytest.mark.parametrize(
    ("tokens", "limit", "cache"),
    [(0, 8192, ""), (3866, 8192, "1,937/3,866 cached"), (98_765, 131_072, "98,001/98,765 cached")],
)
def test_the_model_the_context_and_the_network_are_seen_at_60_columns_when_nothing_is_done(
    network: str, branch: str, speed: str, tokens: int, limit: int, cache: str
) -> None:
    idle = Status("qwen2.5-coder-1.5b-instruct-q4_k_m", "", tokens, limit, speed, cache, network, branch)
    lines = laid_out(work_of(idle), place_of(idle), 58, 2)
    shown = "\n".join(lines)
    assert len(lines) == 2
    assert all(len(line) <= 58 for line in lines)
    for words in ("qwen2.5-coder", f"{tokens:,}/{limit:,}", network.removeprefix("network "), "net"):
        assert words in shown


def test_all_that_there_is_to_know_after_an_answer_has_room_at_60_columns() -> None:
    after = replace(FULL, activity="", speed="20.1 tokens/s (acceptance 85%)")
    assert laid_out(work_of(after), place_of(after), 58, 2) == [
        "20.1 tokens/s (acc. 85%) · 3,866/8,192 · net strong",
        "qwen2.5-coder-1.5b-… · 1,937/3,866 cached · main",
    ]
