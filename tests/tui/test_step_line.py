"""A step's line is cut where it matters least."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from khepri.tui.entries import StepEntry
from khepri.tui.step_line import step_line
from tests.tui.conftest import MakeApp, running

CALL = 'read path="httpx/_transports/default.py" start=139 end=178'
OUTCOME = "httpx/_transports/default.py:139-152 (217 tokens, 9 ms)"


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (200, f"{CALL} → {OUTCOME}"),
        (100, f'read path="httpx/_transports/default.py"… → {OUTCOME}'),
        (80, f'read path="httpx/_tra… → {OUTCOME}'),
        (56, "read… → httpx/_tr…/default.py:139-152 (217 tokens, 9 ms)"),
        (36, "read… → ht…39-152 (217 tokens, 9 ms)"),
        (30, "read… → (217 tokens, 9 ms)"),
    ],
)
def test_the_argument_gives_way_first_and_the_cost_never(width: int, line: str) -> None:
    assert step_line(CALL, OUTCOME, width) == line


@given(
    st.text(st.sampled_from("ab 界é🐞\n\x1b"), max_size=90),
    st.text(st.sampled_from("ab /界é🐞\n("), max_size=60),
    st.sampled_from(["", " (1,217 tokens, 9 ms)", " (0.3 s)"]),
    st.integers(56, 200),
)
def test_a_line_never_is_wider_than_the_screen(argument: str, summary: str, cost: str, width: int) -> None:
    line = step_line(f"search {argument}", f"found{summary}{cost}", width)
    assert cell_len(line) <= width
    assert line.endswith(cost.strip()[1:])
    assert line.startswith("search")
    assert "\n" not in line


@pytest.mark.parametrize("size", [(60, 18), (80, 24), (300, 100)], ids=str)
async def test_what_a_step_cost_is_seen_at_every_size(make_app: MakeApp, size: tuple[int, int]) -> None:
    app = make_app()
    async with running(app, size) as pilot:
        entry = StepEntry(CALL)
        entry.finish(OUTCOME, "text", is_error=False)
        app.transcript.add(entry)
        await pilot.pause()
        shown = [app.transcript.render_line(y).text for y in range(app.transcript.size.height)]
        assert sum("(217 tokens, 9 ms)" in line for line in shown) == 1
