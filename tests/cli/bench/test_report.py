"""What a benchmark says in words, in a table and as an object."""

import json
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from khepri.cli.bench.corpus import TaskClass
from khepri.cli.bench.figures import class_figures
from khepri.cli.bench.profile import Profile
from khepri.cli.bench.report import Findings, Setting, acceptance, as_json, print_findings, print_table, sentences
from khepri.cli.bench.runs import ArmName
from khepri.engine.horizon import DrafterStatistics
from khepri.engine.request import DraftCount, DrafterName
from tests.cli.bench.support import run_of

SETTING = Setting(
    machine="a processor, 2 cores",
    library="a library",
    model="target",
    draft_model=None,
    untried_draft_model=None,
    threads=2,
    context_tokens=4096,
    batch_tokens=128,
    extra_buffers=True,
    draft="suffix",
    gamma=None,
    decoding="fast",
    repeats=1,
    is_quick=False,
)
COUNTS = {DrafterName.SUFFIX: DraftCount(40, 30), DrafterName.FORCED: DraftCount(7, 7)}
MODEL_ASKED = DrafterStatistics(asked=200, drafted=12, accepted=6, alpha=(0.5,), draft_ms=24.0)


def findings(accelerated_ms: float, **setting: str | int | None) -> Findings:
    runs = [
        run_of(ArmName.BASELINE),
        run_of(ArmName.PLAIN),
        run_of(ArmName.ACCELERATED, decode_ms=accelerated_ms, passes=4, drafts=COUNTS),
    ]
    return Findings(replace(SETTING, **setting), class_figures(runs), {}, None, runs)  # type: ignore[arg-type]


def test_a_class_below_the_promise_is_named_with_its_ratio_and_its_acceptance() -> None:
    (said,) = sentences(findings(500.0))
    assert said == "Below what is promised: edit 2.00 x plain instead of 2.5 (accepted: suffix 75% of 40)."
    (said,) = sentences(findings(500.0, is_quick=True))
    assert said.startswith(
        "Below what is promised of the whole corpus, about which such short answers say little: edit"
    )


def test_classes_whose_answers_part_are_named_with_who_judges_them() -> None:
    runs = [run_of(ArmName.PLAIN), run_of(ArmName.ACCELERATED, tokens=(0, 1, 7, *range(3, 11)), decode_ms=300.0)]
    found = Findings(SETTING, class_figures(runs), {}, None, runs)
    assert any("part in edit" in said and "khepri prove" in said for said in sentences(found))


def test_the_overhead_is_shown_with_the_parts_it_is_made_of() -> None:
    found = replace(findings(300.0), profile=Profile(drafting=0.1, horizon=0.05, sampling=0.3, text=0.02, grammar=0.4))
    assert sentences(found)[0] == (
        "A step takes 0.50 ms besides its pass (median); replayed part by part: drafting 0.10 ms, gamma 0.05 ms, "
        "choosing a token 0.30 ms a row, text 0.02 ms and grammar 0.40 ms a token."
    )
    assert as_json(found)["profile_ms"]["sampling"] == 0.3


def test_all_is_said_to_be_well_when_it_is() -> None:
    assert sentences(findings(300.0)) == ["Every class is as fast as promised."]


def test_a_draft_model_that_the_engine_hardly_used_did_not_pay() -> None:
    found = replace(findings(300.0, draft_model="small"), drafters={DrafterName.MODEL: MODEL_ASKED})
    said = sentences(found)[1]
    assert "small did not pay on this machine: asked 200 times, the engine let it draft 0.06 tokens a step" in said
    assert "50% of its 12 drafted tokens held, at 24 ms a drafted token beside 91 ms a plain one" in said


def test_a_draft_model_did_not_pay_where_it_made_things_slower() -> None:
    busy = replace(MODEL_ASKED, drafted=600, accepted=300)
    found = replace(findings(1100.0, draft_model="small"), drafters={DrafterName.MODEL: busy})
    assert "small did not pay for edit, slower than plain; 50% of its 600 drafted tokens held" in sentences(found)[1]


def test_a_draft_model_that_paid_is_said_to_have_been_used() -> None:
    busy = replace(MODEL_ASKED, drafted=600, accepted=300)
    found = replace(findings(300.0, draft_model="small"), drafters={DrafterName.MODEL: busy})
    assert "small was used for 3.0 tokens a step" in sentences(found)[1]


def test_a_draft_model_that_was_not_tried_is_named_with_the_command_that_tries_it() -> None:
    assert (
        "small is here and was not tried; khepri bench --draft all"
        in sentences(findings(300.0, untried_draft_model="small"))[1]
    )


def test_a_pipe_gets_plain_text_in_which_no_line_is_folded(capsys: pytest.CaptureFixture[str]) -> None:
    print_findings(findings(500.0))
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    row = next(line for line in shown.splitlines() if line.startswith("edit "))
    assert row.split() == "edit 10.0 10.0 20.0 2.00 (2.00-2.00) 2.00 (2.00-2.00) 2.5 7 suffix 75% of 40".split()


def test_the_object_holds_every_raw_figure_and_the_acceptance_beside_each_speed() -> None:
    found = findings(500.0)
    said = json.loads(json.dumps(as_json(found)))
    (each,) = said["classes"]
    assert each["arms"]["accelerated"]["acceptance"] == {"suffix": 0.75, "forced": 1.0}
    assert each["accelerated_to_plain"] == {"median": 2.0, "low": 2.0, "high": 2.0}
    assert [run["decode_ms"] for run in said["runs"]] == [1000.0, 1000.0, 500.0]
    assert said["setting"]["model"] == "target"


def test_acceptance_leaves_the_forced_tokens_out_and_says_when_nothing_was_drafted() -> None:
    assert acceptance(COUNTS) == "suffix 75% of 40"
    assert acceptance({DrafterName.FORCED: DraftCount(7, 7)}) == "nothing drafted"


def test_classes_come_in_the_order_of_the_corpus() -> None:
    runs = [run_of(ArmName.PLAIN, class_=each) for each in reversed(TaskClass)]
    assert [figures.class_ for figures in class_figures(runs)] == list(TaskClass)


def test_a_table_that_does_not_fit_becomes_lists_of_values_in_which_none_is_lost() -> None:
    headings, rows = ("class", "plain", "accelerated"), [("edit", "10.0", "20.0"), ("new code", "11.0", "-")]
    shown = {}
    for columns in (80, 20):
        output = StringIO()
        print_table(Console(file=output, width=columns), "decoding", headings, rows)
        shown[columns] = output.getvalue()
        assert max(map(len, shown[columns].splitlines())) <= columns
    assert "edit" in next(line for line in shown[80].splitlines() if "20.0" in line)
    assert "class edit\n  plain: 10.0\n  accelerated: 20.0\n" in shown[20]
    assert shown[20].index("class new code") > shown[20].index("class edit")
