"""The generate stage with the real 0.5B: stopped by kill -9 in the middle, and run again."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from shiyan.jsonl import read_records, write_records
from shiyan.records import Persona, Poem, Reply, Understanding

ROOT = Path(__file__).resolve().parents[1]
MODEL = "qwen2.5-coder-0.5b"
ASKED = 12

pytestmark = pytest.mark.model


@pytest.fixture
def project(tmp_path) -> Path:
    """A project whose corpus is three ci of our own, to be written to twelve themes."""
    params = OmegaConf.load(ROOT / "params.yaml")
    params.generate.models = [MODEL]
    params.generate.prompts = ["direct"]
    params.generate.titles_per_cipai = 4
    params.generate.attempts = 1
    params.asking.generate.requests_at_once = 2
    params.models_of.generate = params.models_of.zero_shot_score
    params.generate.sampling.max_tokens = 40
    params.generate.understanding.poems = 2
    params.generate.understanding.readers = [MODEL]
    params.generate.understanding.max_tokens = 40
    OmegaConf.save(params, tmp_path / "params.yaml")
    lines = (
        "小楼听雨到三更。\n灯火不曾明。",
        "江上有人归去。\n舟影落沙汀。",
        "风过小桥西。\n月上柳梢低。",
    )
    human = [
        Poem(poem_id=f"c{n}", title=cipai, text=text, genre="ci", author=f"某{n}", cipai=cipai)
        for n, (cipai, text) in enumerate(zip(("如梦令", "浣溪沙", "忆江南"), lines, strict=True))
    ]
    write_records(tmp_path / params.paths.poems, human)
    persona = Persona(
        poet_id="某1", basic_information="某", views_on_poetry="某", critics_comments="某"
    )
    write_records(tmp_path / params.paths.personas, [persona])
    return tmp_path


def stage(project: Path) -> subprocess.Popen[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("DVC_")}
    return subprocess.Popen(
        [sys.executable, "-m", "stages.generate"],
        cwd=project,
        env=kept | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def kept_replies(project: Path) -> dict[str, tuple[int, int]]:
    """Name -> what would change if it were asked for and written again."""
    files = [path for path in (project / ".work/chat").rglob("*") if path.is_file()]
    finished = [path for path in files if not path.name.startswith(".")]
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in finished}


def test_no_finished_reply_is_asked_for_again_after_kill_9(project):
    process = stage(project)
    assert process.stderr is not None
    told = ""
    while (shown := re.findall(rf"(\d+)/{ASKED} ", told)) == [] or int(shown[-1]) < 4:
        told += (piece := process.stderr.read(1))
        assert piece, f"the stage ended: {told}"
    process.kill()
    process.wait()
    before = kept_replies(project)
    assert 4 <= len(before) < ASKED
    assert not (project / "data/generated").exists(), "nothing half-written"

    again = stage(project)
    _, told = again.communicate()
    assert again.returncode == 0, told
    assert f"{len(before)}/{ASKED} [00:00" in told, "the bar starts where the first run ended"
    after = kept_replies(project)
    assert {name: after[name] for name in before} == before, "no kept reply was written again"
    # Twelve poems and two readings: each was asked for once, in one run or the other.
    assert len(after) == ASKED + 2

    poems = list(read_records(project / "data/generated/poems.jsonl", Poem))
    replies = list(read_records(project / "data/generated/replies.jsonl", Reply))
    read = list(read_records(project / "data/generated/understandings.jsonl", Understanding))
    assert len(replies) == ASKED + 2
    assert len(poems) == sum(r.kind == "poem" and r.outcome == "kept" for r in replies)
    assert all(poem.author == MODEL and poem.cipai and poem.text for poem in poems)
    assert {item.source for item in read} == {"generated", "constructed"}
    assert read[0].poem_id == "c1", "the poet with a persona is read first"
