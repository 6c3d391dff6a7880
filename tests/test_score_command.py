"""`shiyan score` on a user's own file, over two tiny models."""

import csv
import json
import math
import re
from pathlib import Path

import pytest
from lm_fakes import tiny_model
from shared import BUGS, needs_shared

from shiyan.cli import dispatch
from shiyan.commands import score as score_command
from shiyan.detectors.zero_shot import DETECTORS, OF_ONE_MODEL
from shiyan.stage import exit_code_of
from shiyan.work import WorkCache

POEM = "木勺\n\n搅着锅里的月亮\n越搅越淡"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """An empty folder with two models, outside any project."""
    for name, seed in (("big", 1), ("small", 2)):
        tiny_model(tmp_path, name, seed)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHIYAN_MODELS", str(tmp_path / "cache"))
    return tmp_path


def write(folder: Path, *rows: dict, name: str = "poems.jsonl") -> str:
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    (folder / name).write_text("\n".join(lines), encoding="utf-8")
    return name


def refuse_constant(name: str):
    raise AssertionError(f"{name} is no JSON")


def scored(capsys, *arguments: str) -> tuple[int, list[dict]]:
    """Exit code and objects of a call with both models."""
    models = ["--model", "big", "--reference", "small", "--json"]
    code = exit_code_of(lambda: dispatch(["score", *models, *arguments]))
    lines = capsys.readouterr().out.splitlines()
    return code, [json.loads(line, parse_constant=refuse_constant) for line in lines]


def by_id(objects: list[dict]) -> dict[str, dict[str, float | None]]:
    found: dict[str, dict[str, float | None]] = {}
    for row in objects:
        found.setdefault(row["id"], {})[row["detector"]] = row["score"]
    return found


def test_every_detector_of_every_line_in_the_files_order(folder, capsys):
    file = write(folder, {"id": "二", "text": POEM}, {"poem_id": "一", "text": POEM[::-1]})
    code, objects = scored(capsys, file)
    assert code == 0
    assert [row["id"] for row in objects] == ["二"] * len(DETECTORS) + ["一"] * len(DETECTORS)
    assert objects[0].keys() == {"id", "detector", "score", "n_tokens", "unscored_reason"}
    assert all(math.isfinite(row["score"]) for row in objects)
    assert tuple(by_id(objects)["一"]) == DETECTORS


def test_scores_are_printed_where_nothing_can_be_written(folder, capsys, monkeypatch):
    (folder / "full").write_text("a file where the cache should be", encoding="utf-8")
    monkeypatch.setattr(score_command, "work_cache", lambda: WorkCache(folder / "full", False))
    file = write(folder, {"id": "a", "text": POEM})
    assert dispatch(["score", file, "--model", "big", "--json"]) == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == len(OF_ONE_MODEL)
    assert captured.err.count("what is computed is not kept") == 1


def test_one_model_gives_the_scores_of_one_model_and_says_what_is_left_out(folder, capsys):
    file = write(folder, {"id": "a", "text": POEM})
    assert dispatch(["score", file, "--model", "big", "--json"]) == 0
    captured = capsys.readouterr()
    names = [json.loads(line)["detector"] for line in captured.out.splitlines()]
    assert names == list(OF_ONE_MODEL)
    assert "fast_detectgpt, binoculars" in captured.err
    assert "need --reference" in captured.err


def test_the_direction_and_the_models_stand_above_the_scores(folder, capsys):
    dispatch(["score", write(folder, {"id": "a", "text": POEM}), "--model", "big"])
    captured = capsys.readouterr()
    assert "higher: more likely an LLM's; big (sha256:" in captured.err
    head, row = csv.reader(captured.out.splitlines(), delimiter="\t")
    assert head == ["id", "tokens", *OF_ONE_MODEL, "unscored"]
    assert (row[0], row[-1]) == ("a", "")


def test_what_has_no_score_keeps_its_id_and_a_reason_and_moves_no_other(folder, capsys):
    good = {"id": "ok", "text": POEM}
    bad = [
        {"id": "empty", "text": ""},
        {"id": "blank", "text": " 　\n"},
        {"id": "marks", "text": "……！"},
        {"id": "one", "text": "雨"},
        {"id": "null", "text": None},
        {"id": "emoji", "text": "🙂🙂🙂"},
        {"id": "long", "text": "钟" * 400},
        {"id": "none"},
    ]
    _, alone = scored(capsys, write(folder, good, name="good.jsonl"))
    code, objects = scored(capsys, write(folder, *bad, good), "--batch-tokens", "40")
    assert code == 1
    found = by_id(objects)
    assert found["ok"] == pytest.approx(by_id(alone)["ok"], rel=1e-5)
    reasons = {row["id"]: row["unscored_reason"] for row in objects if row["id"] != "ok"}
    assert all(row["score"] is None for row in objects if row["id"] != "ok")
    assert reasons == {
        "empty": "empty text",
        "blank": "empty text",
        "marks": "no Chinese character",
        "one": "too short: 3 tokens, at least 8 are needed",
        "null": "empty text",
        "emoji": "no Chinese character",
        "long": "too long: 1200 tokens, at most 1024 are read",
        "none": "empty text",
    }


@pytest.mark.parametrize("budget", ["1", "200", "100000"])
def test_alone_together_and_reversed_are_equal(folder, capsys, budget):
    rows = [{"id": str(i), "text": POEM * (1 + i % 3)} for i in range(5)]
    rows.append({"id": "twin", "text": POEM})
    _, forward = scored(capsys, write(folder, *rows), "--batch-tokens", budget)
    _, backward = scored(capsys, write(folder, *rows[::-1], name="back.jsonl"))
    a, b = by_id(forward), by_id(backward)
    for row in rows:
        assert a[row["id"]] == pytest.approx(b[row["id"]], rel=1e-5)
    assert a["twin"] == a["0"]


def test_a_bom_crlf_and_full_width_blanks_are_no_part_of_a_text_unless_asked_for(folder, capsys):
    dirty = "\ufeff" + POEM.replace("\n", "　\r\n")
    file = write(folder, {"id": "clean", "text": POEM}, {"id": "dirty", "text": dirty})
    found = by_id(scored(capsys, file)[1])
    assert found["clean"] == found["dirty"]
    raw = by_id(scored(capsys, file, "--raw")[1])
    assert raw["clean"] == found["clean"]
    assert raw["dirty"] != found["clean"]


def test_the_title_is_read_only_when_asked_for(folder, capsys):
    rows = [{"id": "a", "title": "锅", "text": POEM}, {"id": "b", "text": f"锅\n\n{POEM}"}]
    file = write(folder, *rows)
    found = by_id(scored(capsys, file, "--title")[1])
    assert found["a"] == found["b"]
    found = by_id(scored(capsys, file)[1])
    assert found["a"] != found["b"]


def test_limits_of_the_call_hold(folder, capsys):
    file = write(folder, {"id": "a", "text": "雨落"})
    assert scored(capsys, file)[0] == 1
    _, objects = scored(capsys, file, "--min-tokens", "2")
    assert by_id(objects)["a"]["log_likelihood"] is not None
    _, objects = scored(capsys, file, "--min-tokens", "2", "--max-tokens", "5")
    assert {row["unscored_reason"] for row in objects} == {"too long: 6 tokens, at most 5 are read"}


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["no.jsonl", "--model", "big"], "no.jsonl does not exist", 1),
        (
            ["poems.jsonl", "--model", "gpt-9"],
            "there is no model 'gpt-9': there is no conf/model/",
            2,
        ),
        (["twice.jsonl", "--model", "big"], "the id 'a' stands twice", 1),
        (["none.jsonl", "--model", "big"], "none.jsonl holds no poem", 1),
        (["sheet.csv", "--model", "big"], "it has id, words; call one of them text$", 1),
        (["twice.jsonl", "--model", "big", "--raw"], "twice.jsonl:2: the id 'a' stands at", 1),
        (["poems.jsonl", "--model", "cut.gguf"], r"cut\.gguf in .* is not a GGUF file", 1),
        (["poems.jsonl", "--model", "big", "--reference", "bare"], "no config.json in", 1),
    ],
)
def test_bad_calls_are_one_sentence(folder, capsys, arguments, message, code):
    write(folder, {"id": "a", "text": POEM})
    write(folder, {"id": "a", "text": POEM}, {"id": "a", "text": POEM}, name="twice.jsonl")
    write(folder, name="none.jsonl")
    (folder / "sheet.csv").write_text("id,words\na,雨落\n", encoding="utf-8")
    (folder / "cut.gguf").write_bytes(b"PK\x03\x04")
    (folder / "bare").mkdir()
    assert exit_code_of(lambda: dispatch(["score", *arguments])) == code
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("error: ")
    assert re.search(message, said)


@pytest.mark.parametrize("options", [[], ["--raw"]])
def test_a_bad_line_is_a_row_without_scores(folder, capsys, options):
    good = json.dumps({"id": "a", "text": POEM}, ensure_ascii=False)
    half = r'{"id": "b", "text": "雨\ud83d落"}'
    (folder / "mixed.jsonl").write_text(f"{good}\nnot json\n{half}\n", encoding="utf-8")
    code, objects = scored(capsys, "mixed.jsonl", *options)
    assert code == 1
    assert {row["unscored_reason"] for row in objects if row["id"] != "a"} == {"not a JSON object"}
    assert {row["id"] for row in objects} == {"a", "mixed.jsonl:2", "mixed.jsonl:3"}
    assert all(row["score"] is not None for row in objects if row["id"] == "a")


def test_a_text_file_of_one_line_is_a_title_and_says_so(folder, capsys):
    (folder / "one.txt").write_text("春", encoding="utf-8")
    code, objects = scored(capsys, "one.txt")
    assert code == 1
    assert {row["unscored_reason"] for row in objects} == {
        "empty text: the first line is taken as the title"
    }
    _, objects = scored(capsys, "one.txt", "--title", "--min-tokens", "2")
    assert objects[0]["score"] is not None


def test_help_tells_the_exit_code_of_a_null(capsys):
    with pytest.raises(SystemExit):
        dispatch(["score", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "The exit code is 1 where any score is null" in told


@needs_shared
def test_public_reports_of_short_texts_and_of_batches(folder, capsys):
    code, objects = scored(capsys, str(BUGS / "35-short-and-empty/poems.jsonl"))
    found = by_id(objects)
    assert code == 1
    assert list(found) == ["t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "ok"]
    assert all(set(found[t].values()) == {None} for t in ("t1", "t2", "t3", "t4", "t5"))
    assert None not in found["ok"].values()
    file = str(BUGS / "40-batch-equals-single/poems.jsonl")
    results = [by_id(scored(capsys, file, "--batch-tokens", n)[1]) for n in ("1", "2", "4", "9999")]
    assert all(result == results[0] for result in results[1:])
    assert results[0]["p2"] == results[0]["p6"]
