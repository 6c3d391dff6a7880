"""Poller's tables and figure, from a run whose numbers are known."""

import json
from pathlib import Path

import pytest
from shared import OWN, SHARED, needs_shared

from shiyan.config import PathsParams, load_params
from shiyan.errors import UserError
from shiyan.judging.evaluate import Evaluation
from shiyan.judging.probe_results import evaluate_probes
from shiyan.judging.probes import make_probes
from shiyan.judging.rubric import POLLER, POLLER_CI
from shiyan.judging.table import read_table
from shiyan.metrics import Estimate, write_metrics
from shiyan.records import HumanRating, Judgment, Poem, Understanding
from shiyan.report import of_judging
from shiyan.report.table import Table

ROOT = Path(__file__).parents[1]
DRAWN = {"resamples": 50, "seed": 0}
READINGS = [
    Understanding(
        item_id=f"{reader}{n}", poem_id=f"p{n}", reader=reader, text=f"内容：写{what}。\n说完了。"
    )
    for n, what in enumerate("灯船雪")
    for reader in ("own", "foreign")
]
WRONG = [
    r.model_copy(update={"item_id": f"c{r.item_id}", "source": "constructed"})
    for r in READINGS
    if r.reader == "own"
]
ALONE = [
    r.model_copy(update={"item_id": f"a{r.item_id}", "dimension": "修辞手法"})
    for r in READINGS
    if r.reader == "own"
]


def judgment(
    reading: Understanding, judge: str, prompt: str, value: float, sample: int = 0, rubric=POLLER
):
    names = POLLER.only(reading.dimension).names
    return Judgment(
        judgment_id=f"{reading.item_id}/{judge}/{prompt}/{sample}",
        item_id=reading.item_id,
        judge=judge,
        rubric=rubric.name,
        prompt_id=prompt,
        sample_index=sample,
        scores=dict.fromkeys(names, value),
        reply="",
    )


def metrics(rated: bool = True, rubric=POLLER) -> dict:
    """Judge `own` gives 92 under P0, 84 under P3 and 78 under P4, own readings 2 more; `other`
    and `neutral`, of other families, always 88."""
    asked = []
    for reading in READINGS:
        more = 2 if reading.reader == "own" else 0
        asked += [
            judgment(reading, "own", "P0", 90 + more, 0, rubric),
            judgment(reading, "own", "P0", 94 + more, 1, rubric),
            judgment(reading, "own", "P3", 84 + more, 0, rubric),
            judgment(reading, "own", "P4", 78 + more, 0, rubric),
            judgment(reading, "other", "P0", 88, 0, rubric),
            judgment(reading, "neutral", "P0", 88, 0, rubric),
        ]
    asked += [judgment(reading, "own", "P0", 50, 0, rubric) for reading in WRONG]
    asked += [judgment(reading, "own", "P3", 70, 0, rubric) for reading in ALONE]
    ratings = [
        HumanRating(
            item_id=reading.item_id,
            rater_id=rater,
            rubric="poller",
            scores=dict.fromkeys(POLLER.names, 80.0 + n + step),
            source="human",
        )
        for n, reading in enumerate(READINGS)
        for rater, step in (("a", 0), ("b", 1))
    ]
    readings = [*READINGS, *WRONG, *ALONE]
    families = {"own": "x", "other": "y", "foreign": "y", "neutral": "z"}
    poems = [
        Poem(poem_id=f"p{n}", title="", text="灯", genre="modern", author="甲") for n in range(3)
    ]
    probes = make_probes(["praise"], READINGS, poems, rubric)
    doctored = [judgment(probe.reading, "own", "P0", 45, 0, rubric) for probe in probes]
    took = {"prompt_tokens": 100, "completion_tokens": 10}
    asked = [j.model_copy(update=took) for j in [*asked, *doctored]]
    found = Evaluation(asked, readings, ratings if rated else [], rubric, families, **DRAWN)
    made = {"prompt_set": rubric.name, "temperature": 0.1}
    return found.metrics(made) | {
        "probes": evaluate_probes(probes, asked, **DRAWN),
        "money": {"spent": 1.25, "currency": "USD"},
    }


@pytest.fixture
def paths(tmp_path) -> PathsParams:
    known = load_params("paths", PathsParams, ROOT / "params.yaml")
    return known.model_copy(update={"judge_metrics": tmp_path / "judge.json"})


def rendered(paths: PathsParams, found: dict) -> dict[str, Table]:
    write_metrics(paths.judge_metrics, found)
    return {table.name: table for table in of_judging.tables(paths)}


def row(table: Table, *start: str) -> dict:
    (found,) = [r for r in table.rows if tuple(r[: len(start)]) == start]
    return dict(zip(table.columns, found, strict=True))


def value(cell) -> float | None:
    return cell.value if isinstance(cell, Estimate) else cell


def test_table_1_names_the_prompts_that_ran(paths):
    table = rendered(paths, metrics(rubric=POLLER_CI))["table_1"]
    assert "without (P0) and with (P3, P4) the poet's persona" in table.caption
    assert {r[1] for r in table.rows} == {"", "P0", "P3", "P4"}


def test_our_means_and_errors_stand_beside_the_papers(paths):
    tables = rendered(paths, metrics())
    ten = tables["table_10"]
    assert value(row(ten, "own", "P0", "this run")["内容"]) == 93
    assert value(row(ten, "people", "", "this run")["Avg"]) == 83
    assert row(ten, "gpt-4-turbo", "P3", "Poller")["修辞手法"] == 80.13
    assert row(ten, "people", "", "Poller")["Avg"] == 79.08
    assert len(ten.rows) == 1 + 5 + 1 + 20
    assert {r[1] for r in tables["table_1"].rows} == {"", "P0", "P1", "P3", "P4"}
    assert "with (P1, P3, P4) the poet's persona" in tables["table_1"].caption
    three = tables["table_3"]
    assert value(row(three, "own", "P0", "this run")["Avg"]) == 10
    assert value(row(three, "own", "P3", "this run")["Avg"]) == 2
    assert row(three, "gpt-4-turbo", "P3", "Poller")["Avg"] == pytest.approx(6.13, abs=0.01)
    assert value(row(tables["reductions"], "own", "P3", "this run")["Avg"]) == 80
    paper = row(tables["reductions"], "deepseek-r1", "P3", "Poller")
    assert paper["修辞手法"] == pytest.approx(94.55, abs=0.01)
    assert value(row(tables["best"], "内容", "this run")["error"]) == 2
    assert row(tables["best"], "内容", "Poller")["evaluator"] == "qwen2.5-turbo"
    assert row(tables["best"], "内容", "Poller")["prompt"] == "P4"


def test_the_best_is_compared_with_the_next_and_every_prompt_with_every_other(paths):
    tables = rendered(paths, metrics())
    first = row(tables["best"], "Avg", "this run")
    assert (first["prompt"], value(first["error"]), first["runner-up"]) == ("P3", 2, "own P4")
    assert value(first["error minus the runner-up's"]) == -2
    assert value(first["error minus that of its P0"]) == -8
    (pair,) = tables["between_prompts"].rows
    assert pair[:2] == ["own", "P4 - P3"]
    assert {value(cell) for cell in pair[2:]} == {2}
    assert {cell.n for cell in pair[2:]} == {6}


def test_what_scored_too_little_to_be_the_best_is_named(paths):
    found = metrics()
    found["best"]["human"]["节奏"]["left_out"] = [{"judge": "own", "prompt": "P4", "n": 1}]
    assert rendered(paths, found)["best"].notes[-1].endswith("too few readings: own P4.")


def test_tokens_are_told_of_all_that_was_judged(paths):
    """42 judgments of readings and 6 of probes, 100 tokens of prompt each."""
    note = rendered(paths, metrics())["accounts"].notes[1]
    assert note.startswith("4,800 tokens of prompts, 480 of replies, 1.25 USD (readings 4,200 and")
    assert note.endswith("probes 600 and 60).")


def test_numbers_of_an_older_run_are_still_shown(paths):
    found = metrics()
    del found["tokens"], found["between_prompts"]
    for told in found["best"]["human"].values():
        told.pop("runner_up")
        told.pop("left_out")
    tables = rendered(paths, found)
    assert row(tables["best"], "Avg", "this run")["runner-up"] is None
    assert "between_prompts" not in tables


def test_one_dimension_alone_is_paired(paths):
    four = rendered(paths, metrics())["table_4"]
    ours = row(four, "修辞手法", "own", "P3", "this run")
    # The poem's readings of everything are by two readers: 86 and 84.
    assert value(ours["all dimensions"]) == 85
    assert value(ours["single dimension"]) == 70
    assert value(ours["difference"]) == -15
    assert row(four, "陌生化", "gpt-4-turbo", "P3", "Poller")["difference"] == 8.25


def test_what_the_paper_does_not_ask(paths):
    tables = rendered(paths, metrics())
    assert value(row(tables["self_preference"], "own", "P0")["excess"]) == 2
    assert value(row(tables["spread"], "own", "P0")["内容"]) == pytest.approx(8**0.5)
    assert value(row(tables["probes"], "own", "P0", "praise")["passed"]) == 1
    assert value(row(tables["probes"], "own", "P0", "praise")["mean falls by"]) == 46
    assert value(row(tables["wrong_readings"], "own", "P0", "fall")["内容"]) == 43
    assert value(row(tables["wrong_readings"], "own", "P0", "share of poems")["内容"]) == 1
    assert value(row(tables["agreement_bias"], "own", "P0")["节奏"]) == 10
    assert value(row(tables["agreement_raters"], "alpha")["节奏"]) > 0.8
    assert "1.25 USD" in tables["accounts"].notes[1]
    assert tables["unscored"].rows == [["none lacks any", 0]]
    for table in tables.values():
        assert table.markdown()
        assert table.csv()
        assert table.latex()


def test_the_prompts_for_ci_never_stand_beside_the_paper(paths):
    found = metrics(rubric=POLLER_CI)
    tables = rendered(paths, found)
    shown = "\n".join(table.csv() for table in tables.values())
    assert "Poller" not in shown
    assert "gpt-4-turbo" not in shown
    assert "no number of its stands beside these" in tables["table_10"].notes[-1]
    assert all("· Poller" not in panel for panel in of_judging.error_series(found))


def test_without_ratings_there_is_no_error_against_people(paths):
    tables = rendered(paths, metrics(rated=False))
    assert not any(r[2] == "this run" for r in tables["table_3"].rows)
    assert any("Nobody rated" in note for note in tables["table_3"].notes)
    assert "best" not in tables
    ci_only = rendered(paths, metrics(rated=False, rubric=POLLER_CI))
    assert "table_3" not in ci_only
    series = of_judging.error_series(metrics(rated=False, rubric=POLLER_CI))
    assert series == {"own · constructed": {"P0": {"内容": 50}}}


def test_the_figure_has_a_panel_a_judge(paths, tmp_path):
    write_metrics(paths.judge_metrics, metrics())
    (drawn,) = of_judging.figures(paths, tmp_path / "figures")
    assert drawn.stat().st_size > 10_000
    assert len(of_judging.error_series(metrics())) == 3 + 4
    empty = metrics(rated=False, rubric=POLLER_CI) | {"judges": {}}
    write_metrics(paths.judge_metrics, empty)
    assert list(of_judging.figures(paths, tmp_path / "none")) == []


def test_what_is_not_there_is_said(paths):
    with pytest.raises(UserError, match="the stage judge writes it"):
        list(of_judging.tables(paths))
    paths.judge_metrics.write_text("{", encoding="utf-8")
    with pytest.raises(UserError, match="is not valid JSON"):
        list(of_judging.tables(paths))
    nothing = Evaluation([], [], [], POLLER, {}, **DRAWN).metrics({}) | {"probes": {}}
    write_metrics(paths.judge_metrics, nothing)
    with pytest.raises(UserError, match="has no judgment: nothing was read"):
        list(of_judging.tables(paths))


def test_table_3_as_printed_follows_from_the_papers_means():
    printed = json.loads((OWN / "poller_table_3.json").read_text(encoding="utf-8"))["errors"]
    errors = {(r["evaluator"], r["prompt_id"]): e for r, e in of_judging.printed_errors()}
    assert len(printed) == len(errors) == 20
    for row in printed:
        found = errors[row["evaluator"], row["prompt_id"]]
        assert found["Avg"] == pytest.approx(row["average"], abs=0.01)
        for name, error in row["scores"].items():
            assert found[name] == pytest.approx(error, abs=0.005)


@needs_shared
def test_the_papers_numbers_are_copied_right():
    """As another read them."""
    given = json.loads((SHARED / "cases/poller_published.json").read_text(encoding="utf-8"))
    names = dict(zip(given["dimensions"], of_judging.DIMENSIONS, strict=True))

    def ours(scores: dict) -> dict:
        return {names[name]: score for name, score in scores.items()}

    kept = of_judging.published()
    assert kept["human"] == ours(given["human"])
    assert kept["human_average"] == given["human_avg"]
    assert [(r["evaluator"], r["prompt_id"], r["scores"], r["average"]) for r in
            kept["judge_means"]] == [
        (r["evaluator"], r["prompt_id"], ours(r["scores"]), r["avg"]) for r in given["judge_means"]
    ]  # fmt: skip
    table_3 = json.loads((OWN / "poller_table_3.json").read_text(encoding="utf-8"))["errors"]
    assert [(r["evaluator"], r["prompt_id"], r["scores"], r["average"]) for r in table_3] == [
        (r["evaluator"], r["prompt_id"], ours(r["scores"]), r["avg"])
        for r in given["published_errors"]
    ]
    claims = [c.get("reduction_pct", c.get("avg_reduction_pct")) for c in given["claims"]]
    assert [claim["percent"] for claim in kept["reductions"]] == claims


def test_the_papers_claims_follow_from_its_means():
    """`shiyan judge-table` reads the file as it is."""
    rows = read_table(ROOT / "src/shiyan/data/published/poller.json")
    found = {(r.judge, r.prompt): r.reductions for r in rows}
    for claim in of_judging.published()["reductions"]:
        reduction = found[claim["evaluator"], claim["prompt_id"]][claim["dimension"]]
        assert reduction == pytest.approx(claim["percent"], abs=0.01)
