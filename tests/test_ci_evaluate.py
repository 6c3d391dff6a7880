"""From checks to the numbers of a run: shares, gaps, gains, correlation, failures."""

import csv
import json
from collections.abc import Iterable

import pytest
from ci_fakes import HUANXISHA, RUMENGLING, ci, realised

from shiyan.ci.check import Checker
from shiyan.ci.evaluate import (
    COLUMNS,
    Evaluation,
    Row,
    plainly_named,
    unknown_names,
    write_table,
)
from shiyan.metrics import write_metrics
from shiyan.records import CiCheck, Poem, Reply

CHECKER = Checker()


def missing(reply_id: str, cipai: str, source: tuple[str, str], reason: str) -> Reply:
    return Reply(
        reply_id=reply_id,
        kind="poem",
        generator=source[0],
        prompt_id=source[1],
        seed_poem_id=None,
        cipai=cipai,
        text="",
        outcome="missing",
        missing_reason=reason,
    )


def evaluation(poems: Iterable[Poem], *replies: Reply) -> Evaluation:
    rows = tuple(
        Row(p, CHECKER.check(p.text, p.cipai).record(p.poem_id, p.cipai or "")) for p in poems
    )
    return Evaluation(rows, CHECKER, resamples=200, seed=0, missing=replies)


LING = realised(CHECKER.catalogue["浪淘沙令"].standard)
DIRECT, AWARE = ("m", "direct"), ("m", "form_aware")


@pytest.fixture(scope="module")
def metrics():
    return evaluation(
        [
            ci("h1", HUANXISHA, "浣溪沙"),
            ci("h2", RUMENGLING, "如梦令"),
            ci("d1", HUANXISHA, "浣溪沙", DIRECT),
            ci("d2", HUANXISHA.replace("一江", "一大江"), "浣溪沙", DIRECT, sample=1),
            ci("d3", LING, "浪淘沙", DIRECT),
            ci("d4", "Sorry.", "如梦令", DIRECT),
            ci("a1", HUANXISHA, "浣溪沙", AWARE),
            ci("a2", RUMENGLING.replace("不归来", "不归去"), "如梦令", AWARE),
        ]
    ).metrics(n_not_ci=3)


def test_human_ci_stand_beside_every_generator_and_prompt(metrics):
    assert (metrics["n_ci"], metrics["n_not_ci"]) == (8, 3)
    assert metrics["human"]["structure_any"]["value"] == 1
    assert list(metrics["generated"]["m"]) == ["direct", "form_aware"]


def test_shares_are_of_what_was_scored_and_the_rest_is_counted(metrics):
    direct = metrics["generated"]["m"]["direct"]
    assert direct["structure_any"]["value"] == pytest.approx(1 / 3)
    assert (direct["structure_any"]["n"], direct["structure_any"]["n_unscored"]) == (3, 1)
    assert direct["unscored"] == {"no Chinese character in the text": 1}
    assert direct["tonal_definite"]["n"] == 1


def test_the_gap_is_structure_less_tone(metrics):
    aware = metrics["generated"]["m"]["form_aware"]
    assert aware["structure_any"]["value"] == 1
    assert aware["gap"]["any"]["value"] == pytest.approx(1 / 33 / 2)
    assert aware["failures"] == {"tone": 1}


def test_failures_by_kind_and_what_was_written_instead(metrics):
    direct = metrics["generated"]["m"]["direct"]
    assert direct["failures"] == {
        "another_cipai": 1,
        "structure": 2,
        "structure_line_length": 1,
        "structure_too_far": 1,
        "unscored": 1,
    }
    assert direct["variants_written"] == {"浣溪沙/钦1": 1}
    (written,) = direct["other_cipai_written"]
    assert written.startswith("浪淘沙 as 浪淘沙令/")


def test_the_first_sample_stands_apart_where_there_are_more(metrics):
    direct = metrics["generated"]["m"]["direct"]
    assert direct["first_sample_alone"]["structure_any"]["value"] == pytest.approx(1 / 2)
    assert "first_sample_alone" not in metrics["generated"]["m"]["form_aware"]


def test_a_shi_is_counted_as_one_and_not_as_another_cipai():
    sevens = realised(CHECKER.catalogue["浪淘沙"].standard)
    direct = evaluation([ci("d1", sevens, "临江仙", DIRECT)]).metrics(n_not_ci=0)["generated"]["m"]
    assert direct["direct"]["shi_written"] == {"临江仙": 1}
    assert direct["direct"]["other_cipai_written"] == {}
    assert direct["direct"]["failures"] == {
        "structure": 1,
        "structure_lines_of_a_shi": 1,
        "structure_too_far": 1,
    }


def test_a_reply_without_a_ci_is_counted_and_keeps_no_form():
    evaluated = evaluation(
        [ci("d1", HUANXISHA, "浣溪沙", DIRECT), ci("d2", RUMENGLING, "如梦令", DIRECT)],
        missing("d3", "浣溪沙", DIRECT, "truncated"),
        missing("d4", "忆江南", DIRECT, "truncated"),
        missing("a1", "忆江南", AWARE, "title_only"),
    )
    generated = evaluated.metrics(n_not_ci=0)["generated"]["m"]
    direct, aware = generated["direct"], generated["form_aware"]
    assert direct["missing"] == {"truncated": 2}
    assert (direct["structure_any"]["value"], direct["structure_any"]["n"]) == (1, 2)
    of_all = direct["of_all_asked"]["structure_any"]
    assert (of_all["value"], of_all["n"]) == (0.5, 4)
    assert of_all["low"] < 0.5 < of_all["high"]
    assert aware["structure_any"]["value"] is None
    assert aware["of_all_asked"]["structure_any"]["value"] == 0
    row = next(r for r in evaluated.table() if r["cipai"] == "忆江南")
    assert (row["n"], row["n_missing"], row["structure_any"]) == (0, 1, None)


def test_the_gain_of_a_prompt_is_paired(metrics):
    gain = metrics["form_aware_less_direct"]["m"]["structure_any"]
    assert gain["value"] == pytest.approx(1 - 1 / 3)


def test_the_tunes_are_described_as_in_table_1(metrics):
    assert metrics["cipai"]["浣溪沙"] == {
        "works": 1,
        "standard_form": "浣溪沙/钦1",
        "standard_characters": 42,
        "structure_variants": 3,
        "mean_characters": 44.0,
    }


def test_the_metrics_are_json_and_say_how_they_were_made(metrics, tmp_path):
    write_metrics(tmp_path / "ci.json", metrics)
    kept = json.loads((tmp_path / "ci.json").read_text(encoding="utf-8"))
    assert kept["made"]["n_forms"] == 2524
    assert "平水韵" in kept["made"]["tones"]


def test_no_ci_at_all_gives_zero_counts_and_no_crash(tmp_path):
    empty = evaluation([])
    metrics = empty.metrics(n_not_ci=5)
    write_metrics(tmp_path / "ci.json", metrics)
    assert metrics["n_ci"] == 0
    assert metrics["human"]["structure_any"]["n"] == 0
    assert metrics["generated"] == {}
    write_table(tmp_path / "t.csv", empty.table())
    assert (tmp_path / "t.csv").read_text(encoding="utf-8").split(",")[0] == "cipai"


def test_the_table_has_a_row_a_cipai_and_source_long_tunes_first(tmp_path):
    table = evaluation(
        [ci("1", RUMENGLING, "如梦令"), ci("2", HUANXISHA, "浣溪沙"), ci("3", "x", "如梦令", AWARE)]
    ).table()
    write_table(tmp_path / "t.csv", table)
    with (tmp_path / "t.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(COLUMNS)
    assert [(row["cipai"], row["source"]) for row in rows] == [
        ("浣溪沙", "human"),
        ("如梦令", "human"),
        ("如梦令", "m · form_aware"),
    ]
    assert (rows[2]["n"], rows[2]["n_unscored"], rows[2]["structure_any"]) == ("0", "1", "")


# --- the correlation of length and accuracy -------------------------------------------------


def checks(accuracy: dict[str, float]) -> Evaluation:
    """Ten made-up checks a cipai, of which a share keeps its structure."""
    rows = []
    for cipai, share in accuracy.items():
        for k in range(10):
            flags = dict.fromkeys(("structure_standard", "structure_any"), k < round(share * 10))
            check = CiCheck(
                poem_id=f"{cipai}{k}",
                cipai=cipai,
                **flags,
                structure_standard_optional=None,
                structure_any_optional=None,
                tonal_standard=None,
                tonal_any=None,
                tonal_standard_optional=None,
                tonal_any_optional=None,
            )
            rows.append(Row(ci(f"{cipai}{k}", "山", cipai), check))
    return Evaluation(tuple(rows), CHECKER, resamples=200, seed=0)


def test_shorter_tunes_that_are_kept_better_give_minus_one():
    falling = checks({"忆江南": 0.9, "如梦令": 0.8, "浣溪沙": 0.7, "虞美人": 0.5, "满江红": 0.1})
    rho = falling.correlation([falling.rows], "structure_any")
    assert rho["value"] == pytest.approx(-1)
    assert rho["n"] == 5
    # 2 of the 120 orders are as extreme.
    assert 0 < rho["p_value"] < 0.06


@pytest.mark.parametrize(
    ("accuracy", "reason"),
    [
        ({"忆江南": 0.9, "如梦令": 0.8}, "too few"),
        (dict.fromkeys(("忆江南", "如梦令", "浣溪沙", "虞美人", "满江红"), 1.0), "same accuracy"),
    ],
)
def test_where_there_is_no_correlation_the_reason_stands(accuracy, reason):
    evaluated = checks(accuracy)
    found = evaluated.correlation([evaluated.rows], "structure_any")
    assert found["value"] is None
    assert reason in found["reason"]


def test_a_traditional_name_is_no_cipai_of_its_own():
    named = plainly_named(ci("a", HUANXISHA, "金縷曲"), CHECKER.catalogue)
    assert named.cipai == "金缕曲"
    reply = plainly_named(missing("b", "無此調", DIRECT, "refused"), CHECKER.catalogue)
    assert reply.cipai == "無此調"


def test_cipai_that_nobody_knows_are_told_once_with_their_number():
    poems = [ci(n, HUANXISHA, n[:-1]) for n in ("无此调1", "无此调2", "又一调3", "浣溪沙4")]
    told = unknown_names(evaluation(poems).rows, CHECKER.catalogue)
    assert told.startswith("3 ci are unscored, for their 2 cipai are not known: 无此调 (2), 又一调")
    assert unknown_names(evaluation(poems[3:]).rows, CHECKER.catalogue) is None
