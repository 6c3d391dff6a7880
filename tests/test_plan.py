"""`shiyan plan` counts what a run will ask, and asks nothing."""

import json
from pathlib import Path

import pytest
from fakes import says, serving
from omegaconf import OmegaConf
from sections import name_models

from shiyan.cli import dispatch
from shiyan.config import PathsParams, TrainRobertaParams, load_params
from shiyan.detectors.finetune import SPEED, speed_key
from shiyan.detectors.trained import recipe_of
from shiyan.errors import UserError
from shiyan.generation import run
from shiyan.generation.understand import construct
from shiyan.jsonl import write_records
from shiyan.planning import planned_generation
from shiyan.records import Poem, Understanding
from shiyan.work import WorkCache

pytestmark = pytest.mark.server

ROOT = Path(__file__).resolve().parents[1]
OLD = Understanding(item_id="old", poem_id="another", reader="llm", text="写雨。")
POEM = "夜灯\n\n灯把雨数了一遍\n数到最后睡着了"


@pytest.fixture
def server():
    def answer(body: dict):
        is_reading = "理解下面" in body["messages"][0]["content"]
        return says(f"内容：写灯{body['seed']}。" if is_reading else POEM)

    with serving(answer) as running:
        yield running


@pytest.fixture
def project(tmp_path, monkeypatch, server) -> Path:
    """Ten modern poems, two prompts, one priced API model, two readings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DVC_ROOT", raising=False)
    params = OmegaConf.load(ROOT / "params.yaml")
    model = server.params(price_per_million_prompt=1e6, price_per_million_completion=2e6)
    name_models(params, {"llm": model}, "generate", "judge")
    params.generate.models = ["llm"]
    params.generate.prompts = ["P1", "P6"]
    params.generate.sampling.max_tokens = 100
    params.generate.understanding.poems = 2
    params.generate.understanding.readers = ["llm"]
    params.judge.models = ["llm"]
    params.judge.prompt_set = "poller"
    params.judge.prompts = ["P0"]
    params.judge.probes = []
    params.judge.quality_poems = 0
    OmegaConf.save(params, tmp_path / "params.yaml")
    human = [
        Poem(poem_id=f"h{n}", title="夜", text=f"灯下{n}\n雨下", genre="modern", author=f"甲{n}")
        for n in range(10)
    ]
    write_records(tmp_path / params.paths.poems, human)
    write_records(tmp_path / params.paths.personas, [])
    write_records(tmp_path / params.paths.collected_understandings, [])
    return tmp_path


def set_params(**changes: dict) -> None:
    params = OmegaConf.load("params.yaml")
    OmegaConf.save(OmegaConf.merge(params, changes), "params.yaml")


def planned(capsys, *arguments: str) -> list[dict]:
    assert dispatch(["plan", "--json", *arguments]) == 0
    return asked(capsys.readouterr().out)


def asked(out: str) -> list[dict]:
    """What LLMs are asked, of a plan's lines."""
    lines = [json.loads(line) for line in out.splitlines()]
    return [line for line in lines if line["stage"] != "train_roberta"]


def test_before_anything_is_asked_the_limits_are_upper_bounds(project, server, capsys):
    poems, readings, judgments = planned(capsys)
    assert (poems["needed"], poems["kept"], poems["to_ask"]) == (20, 0, 20)
    assert poems["completion_tokens"] == 20 * 100
    assert poems["money"] == pytest.approx(poems["prompt_tokens"] + 2 * 2000)
    assert poems["hours"] is None, "nothing is measured yet"
    assert (readings["what"], readings["needed"]) == ("readings", 2)
    assert judgments["needed"] == 4, "two of them constructed"
    longest = OmegaConf.load("params.yaml").generate.understanding.max_tokens
    assert judgments["prompt_tokens"] > 4 * longest, "readings as long as they may get"
    assert judgments["money"] > judgments["prompt_tokens"]
    assert server.requests == []


def test_afterwards_everything_is_kept_and_the_judge_is_counted(project, server, capsys):
    paths = load_params("paths", PathsParams)
    work = planned_generation(paths, WorkCache())
    made = run.carry_out(work)
    write_records(paths.generated, made.poems)
    write_records(paths.understandings, made.understandings)
    sent = len(server.requests)
    poems, readings, judgments = planned(capsys)
    assert (poems["kept"], poems["to_ask"], poems["money"], poems["hours"]) == (20, 0, 0.0, 0.0)
    assert (readings["kept"], readings["to_ask"]) == (2, 0)
    assert (judgments["needed"], judgments["to_ask"]) == (4, 4)
    assert judgments["prompt_tokens"] > 0
    assert len(server.requests) == sent == 22


@pytest.mark.parametrize("there", [[], [OLD]], ids=["empty", "of another run"])
def test_readings_that_will_be_others_are_estimated_with_a_notice(there, project, server, capsys):
    paths = load_params("paths", PathsParams)
    write_records(paths.understandings, there)
    write_records(paths.generated, [])
    assert dispatch(["plan", "--json"]) == 0
    shown = capsys.readouterr()
    said = "holds readings of another run" if there else "holds no reading"
    assert f"understandings.jsonl {said}; every reading is taken" in shown.err
    judgments = asked(shown.out)[-1]
    assert (judgments["stage"], judgments["needed"]) == ("judge", 4)
    assert server.requests == []


EVERY_PROBE = ["other_poem", "empty", "swapped_content", "first_sentence", "praise", "orders",
               "orders_in_poem"]  # fmt: skip


def test_every_probe_is_planned_before_there_is_a_reading(project, server, capsys):
    """As many judgments as of readings of which every probe can be made."""
    set_params(judge={"probes": EVERY_PROBE}, generate={"understanding": {"poems": 3}})
    before = planned(capsys)[-1]
    paths = load_params("paths", PathsParams)
    made = run.carry_out(planned_generation(paths, WorkCache()))
    write_records(paths.generated, made.poems)
    said = "内容：写{0}。\n语言：{0}说得平实。"
    own = [r for r in made.understandings if r.source == "generated"]
    own = [r.model_copy(update={"text": said.format(r.item_id)}) for r in own]
    write_records(paths.understandings, [*own, *construct(own)])
    after = planned(capsys)[-1]
    # A constructed reading asks what the probe with another poem's reading asks.
    assert before["needed"] == after["needed"] == 3 * (1 + len(EVERY_PROBE))


def ci_project(**judge: object) -> None:
    """Four human ci to one cipai, themes of their titles, two prompts."""
    set_params(
        generate={
            "prompts": ["direct", "form_aware"],
            "titles_per_cipai": 2,
            "samples": 2,
            "understanding": {"poems": 0},
        },
        judge={"prompt_set": "poller_ci", **judge},
    )
    human = [
        Poem(poem_id=f"h{n}", title=f"灯{n}", text=f"灯下{n}\n雨下", genre="ci", author="甲",
             cipai="如梦令")
        for n in range(4)
    ]  # fmt: skip
    write_records(load_params("paths", PathsParams).poems, human)


def test_ratings_of_ci_are_planned_before_there_is_a_ci(project, server, capsys):
    ci_project(quality_poems=3)
    assert dispatch(["plan", "--json"]) == 0
    shown = capsys.readouterr()
    poems, judgments = asked(shown.out)
    n_each = poems["needed"] // 2
    assert n_each >= 3
    assert judgments["needed"] == 3 + 2 * 3, "human ci, and those of each prompt"
    assert judgments["prompt_tokens"] > 6 * 100, "as long as they may get"
    assert "poems.jsonl is not there yet; every ci is taken to be there" in shown.err
    assert server.requests == []
    ci_project(quality_poems=0)
    assert len(planned(capsys)) == 1


def test_ci_of_another_run_are_not_what_will_be_rated(project, capsys):
    ci_project(quality_poems=900)
    old = Poem(poem_id="old", title="", text="灯", genre="ci", author="llm", cipai="如梦令")
    write_records(load_params("paths", PathsParams).generated, [old])
    assert dispatch(["plan", "--json"]) == 0
    shown = capsys.readouterr()
    poems, judgments = asked(shown.out)
    assert "holds poems of another run; every ci is taken to be there" in shown.err
    assert judgments["needed"] == 4 + poems["needed"]


def test_finished_replies_are_what_will_be_rated(project, capsys):
    text = "夜半雨声敲瓦，灯下旧书翻罢。窗外有谁来，只见一枝低亚。休怕，休怕。明日杏花如画。"
    (project / "replies.jsonl").write_text(
        json.dumps({"text": text, "cipai": "如梦令", "prompt_id": "direct"}, ensure_ascii=False),
        encoding="utf-8",
    )
    ci_project(quality_poems=900)
    set_params(generate={"replies": "replies.jsonl"})
    (judgments,) = planned(capsys)
    assert judgments["needed"] == 4 + 1


def test_without_any_reading_to_come_it_is_told(project, capsys):
    set_params(generate={"understanding": {"poems": 0}})
    write_records(load_params("paths", PathsParams).understandings, [])
    write_records(load_params("paths", PathsParams).generated, [])
    assert dispatch(["plan"]) == 0
    assert "there is no reading, hence nothing for the judges" in capsys.readouterr().err


def test_poems_of_another_corpus_are_to_be_collected_first(project):
    """As after `shiyan compose` of an experiment with another corpus."""
    set_params(generate={"prompts": ["direct"]})
    with pytest.raises(UserError, match=r"another corpus .*genre modern.*`dvc repro collect`"):
        dispatch(["plan"])


def test_a_budget_that_would_not_do_is_told(project, capsys):
    params = OmegaConf.load("params.yaml")
    params.asking.generate.budget = 10.0
    OmegaConf.save(params, "params.yaml")
    dispatch(["plan"])
    shown = capsys.readouterr()
    assert "generate.budget is 10, and" in shown.err
    assert "What a run would ask" in shown.out
    assert "≤ 2,000" in shown.out


def test_without_poems_the_missing_stage_is_told(project):
    (project / "data/collected/poems.jsonl").unlink()
    with pytest.raises(UserError, match=r"poems\.jsonl does not exist"):
        dispatch(["plan"])


def test_thinking_is_counted_where_the_server_counts_it(project, capsys):
    before = planned(capsys)
    params = OmegaConf.load("params.yaml")
    for section in ("generate", "judge"):
        params.models_of[section].llm.reasoning_tokens = 900
    OmegaConf.save(params, "params.yaml")
    after = planned(capsys)
    for old, new in zip(before, after, strict=True):
        assert new["completion_tokens"] == old["completion_tokens"] + 900 * old["to_ask"]


def test_trainings_are_counted_before_a_poem_is_there_and_timed_by_the_last_one(project, capsys):
    (line,) = trainings(capsys)
    network = load_params("train_roberta", TrainRobertaParams)
    assert (line["network"], line["trainings"]) == (network.name, network.folds)
    # Ten human poems and twenty of an LLM, half of both in the train fold.
    assert line["passes"] == 15 * network.epochs * (network.folds - 1)
    assert line["minutes"] is None
    key = speed_key(network.name, recipe_of(network, network), network.max_tokens)
    WorkCache().put_json(SPEED, key, {"seconds": 2.0})
    (line,) = trainings(capsys)
    assert line["minutes"] == pytest.approx(2.0 * line["passes"] / 60)
    assert dispatch(["plan"]) == 0
    assert "What a run would train" in capsys.readouterr().out


def trainings(capsys) -> list[dict]:
    assert dispatch(["plan", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [line for line in lines if line["stage"] == "train_roberta"]
