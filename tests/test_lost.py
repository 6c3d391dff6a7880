"""Requests that failed are told with the command that asks again, and limited."""

import json
from pathlib import Path

import pytest
from fakes import Answer, fails, says, serving
from omegaconf import OmegaConf
from sections import name_models

from shiyan import chat as chat_module
from shiyan import lost
from shiyan.cli import dispatch
from shiyan.commands import doctor
from shiyan.errors import UserError
from shiyan.jsonl import read_records, write_records
from shiyan.records import Persona, Poem, Reply
from stages import generate, judge

ROOT = Path(__file__).resolve().parents[1]
VERSE = "春日\n小楼听雨。\n灯火不曾明。"


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """Four ci to write, two readings and their judgments; a failing request is tried once."""
    monkeypatch.delenv("DVC_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    once = chat_module.Patience(tries=1)
    monkeypatch.setattr(chat_module, "Patience", lambda: once)
    params = OmegaConf.load(ROOT / "params.yaml")
    params.generate.models = params.generate.understanding.readers = params.judge.models = ["llm"]
    params.generate.prompts = ["direct"]
    params.generate.titles_per_cipai = 4
    params.generate.attempts = params.judge.attempts = 1
    params.generate.understanding.poems = 2
    OmegaConf.save(params, "params.yaml")
    human = [
        Poem(poem_id=f"c{n}", title="如梦令", text=f"第{n}盏灯。\n灯火不曾明。", genre="ci",
             author=f"某{n}", cipai="如梦令")
        for n in range(2)
    ]  # fmt: skip
    persona = Persona(poet_id="某1", basic_information="", views_on_poetry="", critics_comments="")
    write_records(Path(params.paths.poems), human)
    write_records(Path(params.paths.personas), [persona])
    for path in (params.paths.ratings, params.paths.collected_understandings):
        write_records(Path(path), [])
    return tmp_path


def served_by(server) -> None:
    params = OmegaConf.load("params.yaml")
    name_models(params, {"llm": server.params()}, "generate", "judge")
    OmegaConf.save(params, "params.yaml")


class Failing:
    """Answers of which some fail, while it is told which."""

    def __init__(self, *numbers: int, status: int = 500) -> None:
        self.numbers, self.status, self.asked = numbers, status, 0

    def __call__(self, _: dict) -> Answer:
        self.asked += 1
        if self.asked in self.numbers:
            return fails(self.status, "oops")
        return says(f"{VERSE}\n{'一二三四五六七'[self.asked % 7]}更。")


@pytest.mark.server
def test_what_failed_is_told_and_asked_for_again(project, capsys):
    script = Failing(2, 3)
    with serving(script) as server:
        served_by(server)
        generate.main()
        told = capsys.readouterr().err
        sentence = (
            "generate: 2 of 6 requests (2 unavailable) failed, and their results are missing; what "
            "was answered is kept, and `dvc repro -f generate` asks for the rest again"
        )
        assert f"notice: {sentence}\n" in told
        metrics = json.loads(Path("metrics/generate.json").read_text(encoding="utf-8"))
        assert metrics["requests"] == {"asked": 6, "failed": {"unavailable": 2}}
        [finding] = doctor.requests()
        assert (finding.is_well, finding.says) == (False, sentence)
        assert finding.remedy == "`dvc repro -f generate`"
        with pytest.raises(UserError, match="no results yet"):
            dispatch(["results"])
        assert f"notice: {sentence}\n" in capsys.readouterr().err
        asked = len(server.requests)
        generate.main()
        assert len(server.requests) == asked + 2, "only what failed"
    assert "requests" not in capsys.readouterr().err
    assert [finding.is_well for finding in doctor.requests()] == [True]
    replies = list(read_records(Path("data/generated/replies.jsonl"), Reply))
    assert [reply.missing_reason for reply in replies] == [None] * 6


@pytest.mark.server
def test_a_judges_failed_requests_are_told_too(project, capsys):
    with serving(Failing()) as server:
        served_by(server)
        generate.main()
    with serving(Failing(2)) as server:
        served_by(server)
        judge.main()
    told = "judge: 1 of 6 requests (1 unavailable) failed"
    assert told in capsys.readouterr().err
    assert [finding.says[: len(told)] for finding in doctor.requests()] == [told]


@pytest.mark.server
def test_a_stage_of_which_too_much_failed_ends_with_an_error_and_keeps_the_rest(project):
    script = Failing(1, 2, 3, 5)
    with serving(script) as server:
        served_by(server)
        with pytest.raises(UserError, match=r"4 of 6 requests \(4 unavailable\) failed, more than "
                           r"asking\.generate\.most_failed \(0\.5\) allows") as error:  # fmt: skip
            generate.main()
        assert error.value.exit_code == 1
        assert not Path("data/generated").exists(), "DVC would take it for done"
        assert not Path("metrics/generate.json").exists()
        asked = len(server.requests)
        generate.main()
        assert len(server.requests) == asked + 4, "only what failed"


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        (None, None),
        ("unavailable: HTTP 500: oops", "unavailable"),
        ("filtered: the model said broken: no", None),
        ("语言: no score; asked again: broken: answered without choices", "broken"),
        ("语言: no score", None),
    ],
)
def test_the_kind_of_failure_in_a_records_reason(reason, kind):
    assert lost.kind_in(reason) == kind


def test_what_was_answered_is_no_lost_request():
    kinds = ["filtered", None, "rejected", "too_long", "no_answer", "broken", "broken"]
    assert lost.counted(7, kinds) == {"asked": 7, "failed": {"broken": 2, "rejected": 1}}
