"""Which heavy libraries each command imports: the light ones must start at once."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from shiyan.cli import COMMANDS
from shiyan.config import PathsParams, load_params
from shiyan.jsonl import write_records
from shiyan.metrics import Estimate, write_metrics
from shiyan.records import HumanRating, Persona, Poem, Understanding

ROOT = Path(__file__).resolve().parent.parent

HEAVY = (
    *("torch", "transformers", "peft", "accelerate", "datasets", "evaluate", "safetensors", "gguf"),
    *("mlflow", "sqlalchemy", "openai", "xllamacpp", "huggingface_hub"),
    *("numpy", "scipy", "sklearn", "pandas", "pyarrow", "matplotlib", "hydra"),
    *("openpyxl", "rjieba", "ruamel.yaml"),
)

TABLE = {
    "check-ci poem.txt": "",
    "judge-table means.json": "",
    "results": "",
    "personas check personas.jsonl": "",
    "ratings export sheet.csv": "",
    "ratings export sheet.xlsx": "numpy openpyxl",
    "ratings show ratings.jsonl": "numpy",
    "plan": "numpy",
    "models": "huggingface_hub",
    "compose --check": "hydra",
    "keep mine": "hydra",
    "doctor": "huggingface_hub hydra matplotlib numpy",
    "report poems": "matplotlib numpy rjieba",
}
"""A command with a small input -> the libraries of `HEAVY` that it imports, and no other."""

NOT_RUN = {"score", "ui", "recompute"}
"""One needs a language model, one serves pages until it is stopped, one does all that the stage
evaluate does."""

PROGRAM = """
import io, json, os, sys
from contextlib import redirect_stdout
from shiyan.cli import COMMANDS, dispatch

commands, heavy = json.loads(sys.argv[1])

def imported(call):
    with redirect_stdout(io.StringIO()):
        try:
            dispatch(call.split())
        except SystemExit:
            assert "--help" in call
    return " ".join(sorted(name for name in heavy if name in sys.modules))

def tell(call):
    # One write, since the processes write into one pipe at the same time.
    os.write(1, (json.dumps([call, imported(call)]) + chr(10)).encode())

tell("--help")
for name in COMMANDS:
    tell(name + " --help")
# Each command starts from here in a process of its own, with the light modules at hand.
for call in commands:
    if os.fork() == 0:
        code = 1
        try:
            tell(call)
            code = 0
        finally:
            os._exit(code)
for _ in commands:
    os.wait()
"""


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A folder with a poem, a reading and an estimate, and params that differ from conf/."""
    monkeypatch.chdir(tmp_path)
    for name in [n for n in os.environ if n.startswith(("DVC_", "MLFLOW_", "SHIYAN_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SHIYAN_MODELS", str(tmp_path / "models"))
    shutil.copytree(ROOT / "conf", "conf")
    params = (ROOT / "params.yaml").read_text(encoding="utf-8")
    Path("params.yaml").write_text(params.replace("test_share: 0.5", "test_share: 0.25"), "utf-8")
    text = "楼外晚风吹细，灯下旧书重理。"
    poem = Poem(poem_id="p", title="如梦令", text=text, genre="ci", author="甲", cipai="如梦令")
    reading = Understanding(item_id="u", poem_id="p", reader="乙", text="说的是雨。")
    people = [
        HumanRating(
            item_id="u", rater_id=name, rubric="poller", source="human", scores={"内容": score}
        )
        for name, score in (("a", 80.0), ("b", 90.0))
    ]
    paths = load_params("paths", PathsParams)
    for path, rows in {
        paths.poems: [poem],
        paths.generated: [],
        paths.personas: [],
        paths.collected_understandings: [reading],
        paths.understandings: [],
        Path("ratings.jsonl"): people,
        Path("personas.jsonl"): [
            Persona(poet_id="甲", basic_information="a", views_on_poetry="b", critics_comments="c")
        ],
    }.items():
        write_records(path, rows)
    auroc = Estimate(0.75, 0.6, 0.9, 60).as_dict()
    found = {"lrr": {"all": {"learnt_from": "threshold", "auroc": auroc}}}
    write_metrics(paths.detection_metrics, {"detectors": found})
    means = {"human": {"内容": 80}, "judge_means": []}
    means["judge_means"] += [{"evaluator": "甲", "prompt_id": "P0", "scores": {"内容": 90}}]
    Path("means.json").write_text(json.dumps(means), "utf-8")
    Path("poem.txt").write_text(f"如梦令\n\n{text}", "utf-8")
    return tmp_path


def test_every_command_imports_the_heavy_libraries_of_the_table_and_no_other(project):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([list(TABLE), HEAVY])],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        check=False,
    )
    helps = {"--help": ""} | {f"{name} --help": "" for name in COMMANDS}
    found = dict(json.loads(line) for line in done.stdout.splitlines())
    assert found == helps | TABLE, done.stderr


def test_the_table_has_every_command_that_can_be_run_here():
    assert {call.split()[0] for call in TABLE} == COMMANDS.keys() - NOT_RUN
