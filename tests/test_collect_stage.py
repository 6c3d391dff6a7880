"""The stages collect and split as DVC runs them, on poems of a user's own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from shared import BUGS, needs_shared

from shiyan.composition import composed, text_of
from shiyan.jsonl import read_records, write_records
from shiyan.records import Assignment, Generation, Persona, Poem
from shiyan.splits import assign_folds, group_poems
from shiyan.twins import twins

ROOT = Path(__file__).parents[1]


def project(folder: Path, poems: Path, *overrides: str) -> None:
    files = ["corpus=files", f"corpus.path='{poems.name}'", "corpus.genre=modern"]
    config = composed([*files, *overrides], ROOT / "conf")
    (folder / "params.yaml").write_text(text_of(config), encoding="utf-8")


def stage(folder: Path, name: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("DVC_")}
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    return subprocess.run(
        [sys.executable, "-m", f"stages.{name}"],
        cwd=folder,
        env=kept | {"PYTHONPATH": path},
        capture_output=True,
        encoding="utf-8",
    )


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def imitations(poems: list[Poem]) -> list[Poem]:
    return [
        Poem(
            poem_id=f"m-{poem.poem_id}",
            title=poem.title,
            text=f"{poem.text[:2]}这是{poem.text[-2:]}\n{poem.text[-3:]}",
            genre="modern",
            author="m",
            generation=Generation(
                generator="m",
                prompt_id="P1",
                seed_poem_id=poem.poem_id,
                sample_index=0,
                reply_sha256="0",
            ),
        )
        for poem in poems
    ]


@pytest.fixture
def poems(tmp_path) -> Path:
    """Ten poems by two poets; p8 and p9 are one poem in two scripts; p10 has no text."""
    lines = [
        {
            "id": f"p{n}",
            "title": f"题{n}",
            "author": "甲乙"[n % 2],
            "text": f"第{n}首在{n}月\n{word}",
        }
        for n, word in enumerate("山河湖海云雨风雪")
    ]
    lines += [
        {"id": "p8", "title": "旧", "author": "甲", "text": "灯还亮着\n没有人来关它"},
        {"id": "p9", "title": "舊", "author": "乙", "text": "燈還亮著，\n沒有人來關它。"},
        {"id": "p10", "title": "空", "author": "乙", "text": " "},
    ]
    path = tmp_path / "我的诗.jsonl"
    path.write_text("\n".join(json.dumps(x, ensure_ascii=False) for x in lines), encoding="utf-8")
    return path


def test_collect_and_split_on_a_users_poems(tmp_path, poems):
    project(tmp_path, poems, "split.seed=3")
    done = stage(tmp_path, "collect")
    assert done.returncode == 0, done.stderr
    assert "2 copies of 1 poem: p8, p9" in done.stderr
    assert "我的诗.jsonl:11" in done.stderr
    metrics = read(tmp_path / "metrics" / "collect.json")
    assert metrics["kept"] == 10
    assert metrics["left_out"] == {"total": 1, "no text": 1}
    assert metrics["twins"]["named"] == ["2 copies of 1 poem: p8, p9"]
    assert metrics["by_author"] == {"乙": 5, "甲": 5}
    assert metrics["lengths"]["human"]["mean"]["lines"]["value"] == 2
    assert metrics["made"]["source"] == "我的诗.jsonl"
    human = list(read_records(tmp_path / "data/collected/poems.jsonl", Poem))
    assert list(read_records(tmp_path / "data/collected/personas.jsonl", Persona)) is not None

    written = imitations(human)
    write_records(tmp_path / "data/generated/poems.jsonl", written)
    done = stage(tmp_path, "split")
    assert done.returncode == 0, done.stderr
    folds = {a.poem_id: a for a in read_records(tmp_path / "data/splits.jsonl", Assignment)}
    assert folds["p8"].group_id == folds["p9"].group_id == folds["m-p9"].group_id
    assert folds["p8"].fold == folds["p9"].fold == folds["m-p8"].fold
    metrics = read(tmp_path / "metrics" / "split.json")
    assert (metrics["poems"], metrics["groups"], metrics["groups_without_twins"]) == (20, 9, 10)
    assert [*metrics["subsets"]] == ["all", "m", "D1"]
    for side in metrics["subsets"]["D1"].values():
        assert side["human"] == side["llm"]
    assert sum(metrics["folds"][fold]["human"] for fold in ("train", "test")) == 10
    assert [*metrics["lengths"]] == ["human", "m"]
    assert metrics["made"]["seed"] == 3


def test_a_split_that_cannot_be_is_one_sentence(tmp_path, poems):
    project(tmp_path, poems)
    assert stage(tmp_path, "collect").returncode == 0
    write_records(tmp_path / "data/generated/poems.jsonl", [])
    done = stage(tmp_path, "split")
    assert done.returncode == 1
    assert done.stderr.startswith("error: there is no LLM poem among the 10 poems")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "data" / "splits.jsonl").exists()


def test_a_path_that_is_not_there_stops_before_anything_is_written(tmp_path):
    project(tmp_path, tmp_path / "absent.csv")
    done = stage(tmp_path, "collect")
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "does not exist" in done.stderr
    assert not (tmp_path / "data").exists()


def test_a_wrong_rating_stops_before_anything_is_written(tmp_path, poems):
    (tmp_path / "r.csv").write_text("item_id,rater_id\n", encoding="utf-8")
    project(tmp_path, poems, "collect.ratings=r.csv")
    done = stage(tmp_path, "collect")
    assert (done.returncode, "holds no rating" in done.stderr) == (1, True)
    assert not (tmp_path / "data").exists()


COPIED = "屋后的梯子靠着墙\n没有人上去\n它自己站了一冬"
OWN_TWINS = [
    {"id": "p1", "title": "梯子", "text": COPIED},
    {"id": "p2", "title": "无题", "text": COPIED.replace("\n", "，\n") + "。"},
    {"id": "p3", "title": "梯", "text": "屋後的梯子靠著牆\n沒有人上去\n它自己站了一冬"},
    {"id": "p4", "title": "墙边", "text": COPIED.replace("\n", "\n\n")},
    {"id": "p5", "title": "井绳", "text": "绳子在井里数水\n水不回答"},
    {"id": "p6", "title": "旧锁", "text": "锁着的门最会听"},
    {"id": "p6", "title": "旧锁", "text": "钥匙丢了以后"},
]


def shared_twins() -> list[str]:
    path = BUGS / "06-duplicate-twins/poems.jsonl"
    return path.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(lambda: [json.dumps(row) for row in OWN_TWINS], id="own"),
        pytest.param(shared_twins, id="shared", marks=needs_shared),
    ],
)
def test_no_twin_crosses_over_whatever_the_seed(tmp_path, written):
    lines = written()
    path = tmp_path / "poems.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    project(tmp_path, path)
    done = stage(tmp_path, "collect")
    assert (done.returncode, "'p6' stands twice" in done.stderr) == (1, True)
    path.write_text("\n".join(lines[:-1]), encoding="utf-8")
    done = stage(tmp_path, "collect")
    assert "4 copies of 1 poem: p1, p2, p3, p4" in done.stderr
    human = list(read_records(tmp_path / "data/collected/poems.jsonl", Poem))
    poems = human + imitations(human)
    groups = group_poems(poems, twins({p.poem_id: p.text for p in poems}, 0.8))
    for seed in range(10):
        folds = {a.poem_id: a for a in assign_folds(poems, groups, 0.5, seed)}
        assert len({folds[f"p{n}"].fold for n in (1, 2, 3, 4)}) == 1
        assert folds["p5"].group_id == "p5"
