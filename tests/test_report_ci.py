"""The report of CCiV: every table and figure from a small run whose numbers are known."""

import csv
import json
from pathlib import Path

import pytest
from ci_fakes import HUANXISHA, RUMENGLING, ci, realised
from shared import SHARED, needs_shared

from shiyan.ci.check import Checker
from shiyan.ci.evaluate import Evaluation, Row, write_table
from shiyan.config import PathsParams, load_params
from shiyan.errors import UserError
from shiyan.jsonl import write_records
from shiyan.judging.quality import evaluate_quality
from shiyan.judging.rubric import CI_QUALITY
from shiyan.metrics import Estimate, write_metrics
from shiyan.records import Judgment, Reply
from shiyan.report import ci_figures, of_ci
from shiyan.report.ci_quality import correlation, form_and_quality
from shiyan.report.table import Table

ROOT = Path(__file__).resolve().parent.parent
CHECKER = Checker()
LING = realised(CHECKER.catalogue["浪淘沙令"].standard)
BROKEN = HUANXISHA.replace("一江", "一大江")


def reply(poem_id: str, source: tuple[str, str], cipai: str, **changes) -> Reply:
    fields = {"text": "", "outcome": "kept", "seed_poem_id": None, "cipai": cipai}
    named = {"reply_id": poem_id, "generator": source[0], "prompt_id": source[1]}
    return Reply.model_validate({"kind": "poem"} | fields | named | changes)


DIRECT, AWARE = ("deepseek-r1", "direct"), ("deepseek-r1", "form_aware")
HUMAN = [ci("h1", HUANXISHA, "浣溪沙"), ci("h2", RUMENGLING, "如梦令"), ci("h3", LING, "浪淘沙")]
GENERATED = [
    ci("d1", HUANXISHA, "浣溪沙", DIRECT),
    ci("d2", BROKEN, "浣溪沙", DIRECT, sample=1),
    ci("d3", LING, "浪淘沙", DIRECT),
    ci("a1", HUANXISHA, "浣溪沙", AWARE),
    ci("a2", RUMENGLING, "如梦令", AWARE),
]
REPLIES = [
    reply("d1", DIRECT, "浣溪沙", reasoning="先定韵。\n# 再填词。"),
    reply("d4", DIRECT, "如梦令", outcome="missing", missing_reason="truncated", reasoning="想。"),
]
QUALITY = {"d1": 5.0, "d2": 1.0, "d3": 2.0, "a1": 4.0, "a2": 3.0, "h1": 5.0}


def judgment(item: str, score: float, judge: str) -> Judgment:
    return Judgment(
        judgment_id=f"{item}/{judge}",
        item_id=item,
        judge=judge,
        rubric=CI_QUALITY.name,
        prompt_id="quality",
        scores=dict.fromkeys(CI_QUALITY.names, score),
        reply="",
    )


@pytest.fixture(scope="module")
def paths(tmp_path_factory) -> PathsParams:
    """The outs of a run, as the stages write them."""
    folder = tmp_path_factory.mktemp("run")
    named = load_params("paths", PathsParams, ROOT / "params.yaml").model_dump()
    paths = PathsParams.model_validate({name: folder / path for name, path in named.items()})
    rows = tuple(
        Row(p, CHECKER.check(p.text, p.cipai).record(p.poem_id, p.cipai or ""))
        for p in (*HUMAN, *GENERATED)
    )
    missing = tuple(r for r in REPLIES if r.outcome == "missing")
    evaluation = Evaluation(rows, CHECKER, resamples=100, seed=0, missing=missing)
    judgments = [judgment(i, s, judge) for judge in "甲乙" for i, s in QUALITY.items()]
    write_records(paths.poems, HUMAN)
    write_records(paths.generated, GENERATED)
    write_records(paths.replies, REPLIES)
    write_records(paths.judgments, judgments)
    write_records(paths.ci_checks, (row.check for row in rows))
    write_metrics(paths.ci_metrics, evaluation.metrics(n_not_ci=0))
    write_table(paths.ci_by_cipai, evaluation.table())
    counts = {
        "works": 1000,
        "names": 5,
        "works_under_two_names": 2,
        "works_whose_tune_is_lost": 1,
        "most_frequent": {"浣溪沙": 90, "玉楼春": 40},
        "asked_for": {"浣溪沙": 90, "如梦令": 20, "浪淘沙": 10},
    }
    write_metrics(paths.collect_metrics, {"source": counts})
    rated = evaluate_quality(judgments, [*HUMAN, *GENERATED], resamples=100, seed=0)
    write_metrics(paths.judge_metrics, {"ci_quality": rated})
    return paths


@pytest.fixture(scope="module")
def tables(paths) -> dict[str, Table]:
    return {table.name: table for table in of_ci.tables(paths)}


def row_of(table: Table, *start: object) -> list[object]:
    return next(list(row) for row in table.rows if list(row[: len(start)]) == list(start))


def value(cell: object) -> float | None:
    assert isinstance(cell, Estimate)
    return cell.value


def test_every_table_can_be_written(tables, tmp_path):
    for table in tables.values():
        assert len(table.write(tmp_path)) == 3
        assert "|" in table.markdown()


def test_table_1_has_the_papers_figures_beside_ours(tables):
    row = dict(zip(tables["table_1"].columns, row_of(tables["table_1"], "浣溪沙"), strict=True))
    assert (row["works"], row["share"]) == (90, "9.00 %")
    assert (row["works (CCiV)"], row["share (CCiV)"]) == (1692, "5.90 %")
    assert row["structures"] == row["structures (CCiV)"] == 3
    assert row["mean characters"] == row["mean characters (CCiV)"] == 44
    most = tables["most_frequent"]
    assert [row[1:] for row in most.rows] == [
        ["浣溪沙", 90, 0.09, "yes"],
        ["玉楼春", 40, 0.04, "no"],
    ]


def test_table_2_is_laid_out_as_the_papers(tables):
    table = tables["table_2"]
    assert [row[0] for row in table.rows[:2]] == ["human ci", "deepseek-r1"]
    assert len(table.rows) == 2 + 17
    own = row_of(table, "deepseek-r1", "this run")
    assert value(own[3]) == pytest.approx(1 / 3)
    assert value(own[6]) == 1
    paper = row_of(table, "Deepseek-R1", "CCiV")
    assert paper[2:] == pytest.approx([0.5667, 0.6733, 0.5313, 0.6373, 0.6667, 0.6318])


def test_every_number_has_the_human_and_the_published_one_beside_it(tables):
    row = row_of(tables["table_2_beside"], "deepseek-r1", "direct", "structure, any form")
    assert value(row[3]) == pytest.approx(1 / 3)
    assert value(row[4]) == pytest.approx(2 / 3)
    assert row[5] == 0.6733


def test_gains_and_gaps_of_the_paper_are_those_it_prints(tables):
    row = row_of(tables["gains_of_variants"], "Qwen2.5-72b")
    assert row[3:] == pytest.approx([0.1866, 0.1898, 0.0467, 0.0435])
    row = row_of(tables["gains_of_prompt"], "Qwen-max")
    assert row[2] == pytest.approx(0.3967)
    assert row[3] is None
    own = row_of(tables["gains_of_prompt"], "deepseek-r1", "this run")
    assert value(own[3]) == pytest.approx(2 / 3)


def test_samples_stand_beside_all_and_all_that_was_asked(tables):
    row = row_of(tables["samples"], "deepseek-r1", "direct", "structure, any form")
    assert [value(cell) for cell in row[3:]] == pytest.approx([1 / 3, 1 / 2, 1 / 4])


def test_accounts_say_what_is_missing(tables):
    assert row_of(tables["accounts"], "deepseek-r1", "direct")[2:6] == [4, 3, "truncated 1", "0"]


def test_the_other_tune_that_was_written_is_named(tables):
    table = tables["forms_written"]
    written = next(row for row in table.rows if str(row[0]).startswith("浪淘沙 as 浪淘沙令/"))
    assert written[1] == "another cipai"
    assert dict(zip(table.columns[2:], written[2:], strict=True)) == {
        "human ci": 1,
        "deepseek-r1 · direct": 1,
        "deepseek-r1 · form_aware": 0,
    }


def test_table_3_has_form_and_quality(tables):
    row = row_of(tables["table_3"], "deepseek-r1 form_aware", "all judges")
    assert value(row[2]) == 100
    assert value(row[4]) == 3.5
    assert str(row[6]).startswith("3.50 ± ")
    assert row_of(tables["table_3"], "Deepseek-R1 form_aware (CCiV)")[2:6] == [
        66.67,
        63.18,
        3.28,
        3.37,
    ]
    alpha = row_of(tables["quality_agreement"], "Krippendorff's alpha", "between judges")
    assert value(alpha[3]) == 1


def test_quality_goes_with_form_among_llm_ci_only(paths, tables):
    row = row_of(tables["form_and_quality"], "甲", "aesthetic", "structure, any form")
    # Kept by d1, a1 and a2 (5, 4, 3), not by d2 and d3 (1, 2): ranks 2, 2, 4, 4, 4.
    assert value(row[3]) == pytest.approx(0.866, abs=1e-3)
    assert row[4] == 5
    assert form_and_quality(paths, {"resamples": 10, "seed": 0}).rows[0][4] == 5


def test_a_correlation_that_is_none_says_why():
    items = [f"p{n}" for n in range(6)]
    groups = {item: item for item in items}
    quality = dict.fromkeys(items, 3.0)
    form = {item: float(n) for n, item in enumerate(items)}
    drawn = {"resamples": 10, "seed": 0}
    assert "same quality" in (correlation(quality, form, groups, **drawn).reason or "")
    few = correlation(quality, dict.fromkeys(items), groups, **drawn)
    assert (few.n, few.n_unscored) == (0, 6)


def test_figures_are_drawn_with_chinese_type(paths, tmp_path, recwarn):
    drawn = list(of_ci.figures(paths, tmp_path))
    assert [path.name for path in drawn] == [
        "heat_map_structure_standard.png",
        "heat_map_structure_any.png",
        "heat_map_tonal_standard.png",
        "heat_map_tonal_any.png",
        "reasoning.md",
    ]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn[:4])
    assert [str(w.message) for w in recwarn if "Glyph" in str(w.message)] == []


def test_reasoning_stands_beside_its_ci_and_is_no_markup(paths, tmp_path):
    (path,) = ci_figures.reasoning(paths, tmp_path)
    text = path.read_text(encoding="utf-8")
    assert "## deepseek-r1 · direct · 浣溪沙 · 听雨" in text
    assert "\n    # 再填词。\n" in text
    assert "keeps 浣溪沙/钦1; tone 100 %" in text
    assert "no ci: truncated" in text


def test_the_checkers_words_for_a_broken_ci():
    check = CHECKER.check(BROKEN, "浣溪沙").record("d2", "浣溪沙")
    assert ci_figures.verdict(check) == (
        "keeps no form of 浣溪沙; nearest 浣溪沙/钦1: line 3 has 8 characters, 7 wanted"
    )
    other = CHECKER.check(LING, "浪淘沙").record("d3", "浪淘沙")
    assert "; it is 浪淘沙令/" in ci_figures.verdict(other)
    none = CHECKER.check("Sorry.", "浣溪沙").record("x", "浣溪沙")
    assert ci_figures.verdict(none) == "unscored: no Chinese character in the text"


def test_without_eval_ci_the_stage_is_named(paths, tmp_path):
    missing = paths.model_copy(update={"ci_metrics": tmp_path / "ci.json"})
    with pytest.raises(UserError, match="dvc repro eval_ci"):
        next(of_ci.tables(missing))


def test_without_the_table_by_cipai_nothing_empty_is_written(paths, tmp_path, capsys):
    missing = paths.model_copy(update={"ci_by_cipai": tmp_path / "by_cipai.csv"})
    assert not any(table.name.startswith("by_cipai") for table in of_ci.tables(missing))
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith(f"{tmp_path / 'by_cipai.csv'} is not there or empty")
    assert "`dvc repro eval_ci`" in told


def test_without_judges_and_source_counts_the_rest_is_told(paths, tmp_path):
    fewer = paths.model_copy(
        update={"judge_metrics": tmp_path / "j.json", "collect_metrics": tmp_path / "c.json"}
    )
    names = [table.name for table in of_ci.tables(fewer)]
    assert "table_2" in names
    assert not {"table_3", "most_frequent"} & set(names)


def test_the_published_figures_are_whole_and_name_their_models():
    paper = of_ci.published()
    assert (len(paper["table_1"]), len(paper["table_2"]), len(paper["table_3"])) == (30, 17, 4)
    known = {path.stem for path in (ROOT / "conf/model").glob("*.yaml")}
    assert {row["ours"] for row in paper["table_2"]} <= known


@needs_shared
def test_the_published_figures_are_as_another_read_them():
    paper = of_ci.published()
    theirs = json.loads((SHARED / "cases/cciv_published.json").read_text(encoding="utf-8"))
    assert [row["works"] for row in paper["table_1"]] == [r["works"] for r in theirs["table1"]]
    assert [row["direct"]["tonal_any"] for row in paper["table_2"]] == [
        r["direct"]["tonal_var"] for r in theirs["table2"]
    ]


def test_the_csv_of_a_table_is_unrounded_and_has_every_part(tables, tmp_path):
    tables["table_2_beside"].write(tmp_path)
    with (tmp_path / "table_2_beside.csv").open(encoding="utf-8", newline="") as file:
        row = next(csv.DictReader(file))
    assert {"this run", "this run low", "this run n", "human ci", "CCiV"} <= row.keys()
