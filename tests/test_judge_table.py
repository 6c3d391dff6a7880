"""Tables 3 and 10 of Poller from means alone.

The printed numbers are the project's own; ../shared has another reading of the same tables.
"""

import json
from copy import deepcopy
from pathlib import Path

import pytest
from shared import OWN, SHARED, needs_shared

from shiyan.cli import dispatch
from shiyan.errors import UserError
from shiyan.judging.table import AVERAGE, best, read_table
from shiyan.report.of_judging import DIMENSIONS, published

SMALL = {
    "human": {"内容": 80, "节奏": 76},
    "judge_means": [
        {"evaluator": "甲", "prompt_id": "P0", "scores": {"内容": 90, "节奏": 84}},
        {"evaluator": "甲", "prompt_id": "P3", "scores": {"内容": 84, "节奏": None}},
        {"evaluator": "乙", "prompt_id": "P3", "scores": {"内容": 79, "节奏": 76}},
    ],
}


def written(folder: Path, value: object) -> Path:
    path = folder / "means.json"
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


def first_scores(value: dict) -> dict:
    return value["judge_means"][0]["scores"]


def own_reading() -> dict:
    """What the project keeps of the paper; Table 3, which follows from it, is a case here."""
    kept = deepcopy(published())  # a test changes its means
    table_3 = json.loads((OWN / "poller_table_3.json").read_text(encoding="utf-8"))
    return {
        "means": {key: kept[key] for key in ("human", "judge_means")},
        "errors": table_3["errors"],
        "claims": kept["reductions"],
    }


def shared_reading() -> dict:
    """Another's reading of the same tables, in the same shape."""
    given = json.loads((SHARED / "cases/poller_published.json").read_text(encoding="utf-8"))
    names = dict(zip(given["dimensions"], DIMENSIONS, strict=True)) | {None: AVERAGE}

    def row(told: dict) -> dict:
        return told | {"scores": {names[name]: score for name, score in told["scores"].items()}}

    return {
        "means": {
            "human": row({"scores": given["human"]})["scores"],
            "judge_means": [row(told) for told in given["judge_means"]],
        },
        "errors": [row(told) | {"average": told["avg"]} for told in given["published_errors"]],
        "claims": [
            {
                "evaluator": told["evaluator"],
                "prompt_id": told["prompt"],
                "dimension": names[told.get("dimension")],
                "percent": told.get("reduction_pct", told.get("avg_reduction_pct")),
            }
            for told in given["claims"]
        ],
    }


@pytest.fixture(params=["own", pytest.param("shared", marks=needs_shared)])
def reading(request) -> dict:
    return own_reading() if request.param == "own" else shared_reading()


def test_table_3_and_the_claims_follow_from_the_means(reading, tmp_path):
    """The paper's errors and claims are only compared with, never read."""
    rows = {(row.judge, row.prompt): row for row in read_table(written(tmp_path, reading["means"]))}
    assert len(rows) == len(reading["errors"]) == 20
    for row in reading["errors"]:
        errors = rows[row["evaluator"], row["prompt_id"]].errors
        for name, error in row["scores"].items():
            assert errors[name] == pytest.approx(error, abs=0.005)
        assert errors[AVERAGE] == pytest.approx(row["average"], abs=0.01)
    assert len(reading["claims"]) >= 9
    for claim in reading["claims"]:
        reductions = rows[claim["evaluator"], claim["prompt_id"]].reductions
        assert reductions[claim["dimension"]] == pytest.approx(claim["percent"], abs=0.01)


def test_every_mean_one_higher_moves_every_error_by_one(reading, tmp_path):
    given = reading["means"]
    before = read_table(written(tmp_path, given))
    for row in given["judge_means"]:
        row["scores"] = {name: score + 1 for name, score in row["scores"].items()}
    after = read_table(written(tmp_path, given))
    for row, shifted in zip(before, after, strict=True):
        for name, human in given["human"].items():
            score = next(
                r["scores"][name]
                for r in given["judge_means"]
                if (r["evaluator"], r["prompt_id"]) == (row.judge, row.prompt)
            )
            assert shifted.errors[name] == pytest.approx(abs(score - human))
    # Of the 160 means one lies below the people's: 78.25 for 79.40.
    moved = [
        b.errors[n] - a.errors[n]
        for a, b in zip(before, after, strict=True)
        for n in given["human"]
    ]
    assert sum(m == pytest.approx(1) for m in moved) == 159


def test_who_is_best(reading, tmp_path):
    """Section 7: content by Qwen with P4, all else by some judge with P3."""
    rows = read_table(written(tmp_path, reading["means"]))
    found = {name: (row.judge, row.prompt) for name, row in best(rows).items()}
    assert found["内容"] == ("Qwen-Turbo", "P4")
    assert found["语言"] == ("Claude3.5", "P3")
    assert found["修辞手法"] == ("DeepSeek", "P3")
    assert {prompt for name, (_, prompt) in found.items() if name != "内容"} == {"P3"}


def test_a_missing_mean_gives_no_error_and_no_average(tmp_path):
    first, second, third = read_table(written(tmp_path, SMALL))
    assert first.errors == {"内容": 10, "节奏": 8, AVERAGE: 9}
    assert first.reductions == {"内容": None, "节奏": None, AVERAGE: None}
    assert second.errors == {"内容": 4, "节奏": None, AVERAGE: None}
    assert second.reductions["内容"] == pytest.approx(60)
    assert third.reductions == {"内容": None, "节奏": None, AVERAGE: None}


def test_the_command_prints_a_row_a_line(tmp_path, capsys):
    path = written(tmp_path, SMALL)
    assert dispatch(["judge-table", str(path), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["judge"] for row in rows] == ["甲", "甲", "乙"]
    assert rows[2]["least_error_of"] == ["内容", "节奏", AVERAGE]
    assert dispatch(["judge-table", str(path)]) == 0
    table = capsys.readouterr().out
    assert "60.00" in table
    assert "—" in table


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v.pop("human"), "has no human; it needs human {dimension: mean}"),
        (lambda v: v["human"].update(内容=None), "human has no mean of 内容"),
        (lambda v: v["judge_means"][0].pop("prompt_id"), r"judge_means\[0\] has no prompt_id"),
        (lambda v: v["judge_means"][1].update(prompt_id="P0"), "甲 with P0 a second time"),
        (lambda v: first_scores(v).update(情绪=1), "scores '情绪', which human does not"),
        (lambda v: first_scores(v).update(内容="高"), "has 内容 '高', a number is wanted"),
        (lambda v: first_scores(v).update(内容=195), "has 内容 195; allowed is 0 to 100"),
        (lambda v: v.update(judge_means=[]), "judge_means is empty"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(change, message, tmp_path):
    value = json.loads(json.dumps(SMALL))
    change(value)
    with pytest.raises(UserError, match=message):
        read_table(written(tmp_path, value))


def test_files_that_are_none(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        read_table(tmp_path / "absent.json")
    path = tmp_path / "x.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(UserError, match="is not valid JSON"):
        read_table(path)
    path.write_bytes("人".encode("gbk"))
    with pytest.raises(UserError, match="is not UTF-8"):
        read_table(path)
