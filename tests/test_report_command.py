"""`shiyan report`: each kind by itself, and all of them where a run has only some."""

import hashlib
import shutil
from pathlib import Path

import pytest

from shiyan.cli import dispatch
from shiyan.commands.report import KINDS
from shiyan.errors import UserError
from shiyan.jsonl import write_records
from shiyan.records import Poem

ROOT = Path(__file__).resolve().parent.parent
POEM = Poem(poem_id="h", title="灯", text="风吹着石头\n石头不说话", genre="modern", author="甲")


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    shutil.copy(ROOT / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_one_kind_writes_its_tables_and_figures(project, capsys):
    write_records(project / "data/collected/poems.jsonl", [POEM])
    assert dispatch(["report", "poems", "--out", "seen"]) == 0
    told = capsys.readouterr().out
    assert "| human | 1 | 1 | 3 | 2 | 10 | 10 |" in told
    written = {path.name for path in (project / "seen/poems").iterdir()}
    assert {"table_1.csv", "table_9.tex", "emotions.md", "stanzas_per_poem.png"} <= written
    assert f"{len(written)} files in seen/poems/" in told


def test_what_an_earlier_report_left_is_named(project, capsys):
    write_records(project / "data/collected/poems.jsonl", [POEM])
    dispatch(["report", "poems"])
    assert "also holds" not in capsys.readouterr().err
    for name in ("attacks.csv", "attacks.md", ".hidden"):
        (project / "report/poems" / name).write_text("", encoding="utf-8")
    dispatch(["report", "poems"])
    assert "report/poems/ also holds attacks.csv, attacks.md, not" in capsys.readouterr().err


def test_data_of_another_run_than_the_locks_is_named(project, capsys):
    poems = project / "data/collected/poems.jsonl"
    write_records(poems, [POEM])

    def told(md5: str) -> str:
        outs = f"[{{path: data/collected/poems.jsonl, md5: '{md5}'}}]"
        (project / "dvc.lock").write_text(f"stages: {{collect: {{outs: {outs}}}}}", "utf-8")
        dispatch(["report", "poems"])
        return capsys.readouterr().err

    assert "poems.jsonl are not as dvc.lock has them" in told("0" * 32)
    assert "dvc.lock" not in told(hashlib.md5(poems.read_bytes()).hexdigest())


def test_all_kinds_render_what_there_is_and_name_what_lacks(project, capsys):
    write_records(project / "data/collected/poems.jsonl", [POEM])
    assert dispatch(["report"]) == 0
    told = capsys.readouterr()
    assert "files in report/poems/" in told.out
    assert "ci: " in told.err
    assert "poems: " not in told.err


def test_a_kind_that_there_is_not_names_those_that_there_are(project):
    with pytest.raises(UserError, match=r"no report 'poem'; there are .*poems"):
        dispatch(["report", "poem"])


def test_without_a_run_there_is_nothing_to_report(project):
    with pytest.raises(UserError, match="`make run` runs the pipeline"):
        dispatch(["report"])


def test_every_kind_has_its_module():
    for kind in KINDS:
        assert (ROOT / f"src/shiyan/report/of_{kind}.py").is_file()
