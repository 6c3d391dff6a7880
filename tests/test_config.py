"""Every configuration composes and validates, and a wrong one says so in one sentence."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from omegaconf import OmegaConf
from pydantic import BaseModel

from shiyan import composition
from shiyan.chat import Chat, ChatRequest, Message
from shiyan.cli import dispatch
from shiyan.config import (
    AllParams,
    ApiModelParams,
    AskedParams,
    HubEncoderParams,
    HubModelParams,
    JudgeParams,
    LocalModelParams,
    LoraParams,
    TrackParams,
    WheelSource,
    load_models,
    load_params,
    model_of,
    models_of,
    read_params,
    validated,
)
from shiyan.errors import UserError
from shiyan.roles import split, without_port
from shiyan.selection import conf_model, known_models
from shiyan.stage import exit_code_of, with_note
from shiyan.work import WorkCache, digest

ROOT = Path(__file__).resolve().parent.parent
EXPERIMENTS = sorted(path.stem for path in (ROOT / "conf/experiment").glob("*.yaml"))
OWN_POEMS = ["corpus.path=poems.jsonl"]


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A copy of conf/ and params.yaml in a git repository, as a user would have it."""
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    shutil.copy(ROOT / "params.yaml", tmp_path)
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "start"]):
        subprocess.run([*git, *command], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def composed(*overrides: str) -> AllParams:
    values = OmegaConf.to_container(composition.composed(overrides, ROOT / "conf"))
    return validated("", AllParams, values, "conf/")


def test_params_yaml_is_what_conf_composes_to():
    expected = composition.text_of(composition.composed((), ROOT / "conf"))
    assert (ROOT / "params.yaml").read_text(encoding="utf-8") == expected


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_experiment_composes_and_names_its_command(experiment):
    needs_poems = "override /corpus: files" in all_text_of(experiment)
    composed(f"experiment={experiment}", *(OWN_POEMS if needs_poems else []))
    first, second = (
        (ROOT / f"conf/experiment/{experiment}.yaml").read_text(encoding="utf-8").splitlines()[:2]
    )
    assert first == "# @package _global_"
    assert second.startswith(f"# dvc exp run -S experiment={experiment}")


def all_text_of(experiment: str) -> str:
    """An experiment's text with that of the experiments it builds on."""
    text = (ROOT / f"conf/experiment/{experiment}.yaml").read_text(encoding="utf-8")
    return text + "".join(all_text_of(e) for e in EXPERIMENTS if f"\n  - {e}\n" in text)


def test_every_model_of_the_folder_is_known_under_its_file_name():
    names = known_models(ROOT / "conf")
    assert {"gpt-4o", "qwen2.5-3b", "qwen2.5-coder-0.5b"} < set(names)
    kinds = {name: conf_model(name, ROOT / "conf").kind for name in names}
    assert kinds["qwen2.5-3b"] == "hub"
    # No other file of conf/ names one by another name.
    with pytest.raises(UserError, match=r"there is no conf/model/gpt-5\.yaml; conf/model/ holds"):
        conf_model("gpt-5", ROOT / "conf")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train_roberta.learning_rat=1", "learning_rat"),
        ("+split.foo=1", r"unknown key 'split.foo'; allowed are near_duplicate, seed, test_share"),
        ("split.seed=abc", "'split.seed' is 'abc'"),
        ("corpus=song", "Available options in 'corpus': files"),
        ("evaluate=null", r"evaluate=null.*takes the name of one of its files"),
        ("judge.models=[nobody]", "judge.models names the model 'nobody'"),
        ("generate.sampling.top_p=1.5", "'generate.sampling.top_p' is 1.5"),
        ("split.test_share=.nan", "split.test_share"),
        ("train_roberta.ngram.shortest=9", r"shortest \(9\) is above longest \(4\)"),
        ("experiment=no_such", "experiment/no_such"),
        ("train_roberta.seed=-5", "'train_roberta.seed' is -5: .*greater than or equal to 0"),
        ("evaluate.seed=4294967296", "'evaluate.seed' is 4294967296: .*less than"),
        ("generate.seed=-1", "'generate.seed' is -1"),
        ("judge.seed=-1", "'judge.seed' is -1"),
        ("eval_ci.seed=-1", "'eval_ci.seed' is -1"),
        ("train_roberta.name=../../x", r"train_roberta\.name: '\.\./\.\./x' is no name"),
        ("train_roberta.name=char_ngrams", "two detectors are called 'char_ngrams'"),
        ("train_roberta.name=lrr", "'lrr' is the name of a detector without training"),
        (
            'generate.replies="~/replies.jsonl"',
            "generate.replies.*begins with ~.*write the path out",
        ),
        ('collect.ratings="~/r.jsonl"', "collect.ratings.*begins with ~"),
        ("zero_shot_score.min_tokens=2000", r"min_tokens \(2000\) is above max_tokens"),
        (
            "+generate.budget=5",
            r"generate\.budget decides no result, .* set asking\.generate\.budget",
        ),
        ("generate.budget=5", r"did you mean asking\.generate\.budget\?"),
        ("asking.judge.budget=-1", r"'asking\.judge\.budget' is -1"),
        ("+asking.judge.seed=1", r"unknown key 'asking\.judge\.seed'"),
        (
            "+models.gpt-4o.prise=1",
            r"conf/model/gpt-4o\.yaml: models\.gpt-4o: unknown key 'prise'; allowed are base_url,",
        ),
    ],
)
def test_a_wrong_override_is_one_sentence(override, message):
    with pytest.raises(UserError, match=message) as caught:
        composed(override)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_a_missing_value_is_named():
    with pytest.raises(UserError, match=r"corpus\.genre is still \?\?\?"):
        composed("corpus=files")
    with pytest.raises(UserError, match=r"names no file yet.*-S corpus\.path=poems\.jsonl"):
        composed("corpus=files", "corpus.genre=modern")


def test_a_key_is_named_as_it_is_spelt_in_conf():
    with pytest.raises(UserError, match=r"'corpus\.path' is 7"):
        composed("corpus=files", "corpus.genre=modern", "corpus.path=7")
    with pytest.raises(UserError, match=r"params\.yaml: judge\.prompts: |conf.*: judge\.prompts: "):
        composed("judge.prompts=[P9]")


def test_a_model_named_twice_is_taken_once():
    twice = "[qwen2.5-coder-0.5b,qwen2.5-coder-0.5b]"
    found = composed(f"generate.models={twice}", f"judge.models={twice}")
    assert found.generate.models == found.judge.models == ("qwen2.5-coder-0.5b",)


def test_a_control_named_twice_is_trained_once_and_a_split_takes_any_seed():
    found = composed("train_roberta.controls=[length_only,length_only]", "split.seed=-3")
    assert found.train_roberta.controls == ("length_only",)
    assert found.split.seed == -3


def test_an_adapters_name_is_a_folder_of_its_own():
    with pytest.raises(UserError, match=r"train_roberta\.lora\.name: '\.\.' is no name"):
        composed("experiment=lora", "train_roberta.lora.name=..")


def test_a_judge_prompt_that_is_none_is_refused_before_anything_runs():
    with pytest.raises(UserError, match=r"no judge prompt 'P9'; allowed are P0, .*P4"):
        composed("judge.prompts=[P0,P9]")


@pytest.mark.parametrize(
    "spoilt", [b"a: [\n", b"\t x: 1\n", b"temperature: 0.2\n", b"\xff\xfe"], ids=repr
)
def test_a_spoilt_file_of_conf_is_named_in_one_sentence(project, spoilt):
    with Path("conf/judge/poller_ci.yaml").open("ab") as file:
        file.write(spoilt)
    with pytest.raises(UserError, match=r"judge/poller_ci\.yaml cannot be read") as caught:
        composition.composed()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("option", ["--check", "--offer"])
def test_a_cut_params_file_is_no_list_of_overrides(project, option):
    text = Path("params.yaml").read_text(encoding="utf-8")
    Path("params.yaml").write_text(text[: text.index("\ngenerate:") + 1], encoding="utf-8")
    with pytest.raises(UserError, match=r"no section .*generate, .*judge.*was it cut\?"):
        dispatch(["compose", option])


def test_a_stage_refuses_what_a_later_one_would_refuse(project):
    text = Path("params.yaml").read_text(encoding="utf-8")
    before, judge = text.split("\njudge:", 1)
    spoilt = judge.replace("temperature: 0.1", "temperature: hot", 1)
    Path("params.yaml").write_text(f"{before}\njudge:{spoilt}", encoding="utf-8")
    worked = []
    with pytest.raises(UserError, match=r"'judge\.temperature' is 'hot'"):
        with_note(lambda: worked.append(1), "collect")()
    assert not worked


def test_chinese_punctuation_in_an_override_is_answered_with_the_quoted_form():
    with pytest.raises(UserError, match="needs quotes"):
        composed("generate.themes=[春，日]")
    quoted = composed('generate.themes=["春，日","《月》 50%"]')
    assert quoted.generate.themes == ("春，日", "《月》 50%")


def test_models_are_found_by_name_and_an_unknown_one_lists_the_known():
    found = load_models(["qwen2.5-coder-0.5b", "qwen2.5-coder-0.5b"], ROOT / "params.yaml")
    assert list(found) == ["qwen2.5-coder-0.5b"]
    with pytest.raises(UserError, match=r"no role names the model 'gpt-4o'.*qwen2\.5-coder-0\.5b"):
        load_models(["gpt-4o"], ROOT / "params.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("track: {}", "'experiment' is missing"),
        ("track:\n  experiment: ???", r"track.experiment is still \?\?\?"),
        ("track: {experimant: a}", "unknown key 'experimant'.*; allowed are experiment"),
        ("other: 1", "no section 'track'"),
        ("track: [", "not valid YAML"),
        ("- 1", "holds no mapping"),
    ],
)
def test_a_stage_refuses_params_that_do_not_fit(tmp_path, text, message):
    path = tmp_path / "params.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        load_params("track", TrackParams, path)


def test_a_stage_without_params_yaml_says_how_to_get_one(tmp_path):
    with pytest.raises(UserError, match="shiyan compose"):
        read_params(tmp_path / "params.yaml")


def test_check_names_each_override_and_both_ways_out(project, capsys):
    assert dispatch(["compose", "--check"]) == 0
    dispatch(["compose", "judge.temperature=0.2"])
    assert dispatch(["compose", "--check"]) == 1
    said = capsys.readouterr().err
    assert "judge.temperature: conf/ says 0.1, params.yaml says 0.2" in said
    assert "shiyan compose" in said
    assert "shiyan keep NAME" in said


def test_a_run_goes_on_with_an_experiments_overrides_but_not_with_an_uncomposed_edit(project):
    dispatch(["compose", "judge.temperature=0.2"])
    assert dispatch(["compose", "--offer"]) == 0
    dispatch(["compose"])
    split = project / "conf/split/half.yaml"
    split.write_text(split.read_text(encoding="utf-8").replace("seed: 0", "seed: 5"), "utf-8")
    assert dispatch(["compose", "--offer"]) == 1


def test_composing_twice_gives_the_same_bytes(project):
    dispatch(["compose", "train_roberta.learning_rate=1e-6"])
    first = (project / "params.yaml").read_bytes()
    dispatch(["compose", "train_roberta.learning_rate=1e-6"])
    assert (project / "params.yaml").read_bytes() == first


def test_an_unknown_command_lists_the_known_ones(capsys):
    assert dispatch(["detekt"]) == 2
    assert "compose" in capsys.readouterr().err


def test_a_user_error_is_one_line_with_its_exit_code(capsys):
    def fails() -> None:
        raise UserError("poems.jsonl:3 is not UTF-8; save it so", 1)

    assert exit_code_of(fails) == 1
    assert capsys.readouterr().err == "error: poems.jsonl:3 is not UTF-8; save it so\n"


def test_the_light_modules_import_no_heavy_library():
    light = "config, jsonl, records, work, poem, splits, stage, cli"
    heavy = "torch transformers mlflow sklearn openai pandas hydra matplotlib"
    code = (
        f"from shiyan import {light}; import sys; "
        f"print([m for m in '{heavy}'.split() if m in sys.modules])"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.strip() == "[]"


# --- what decides a number is seen by DVC ---------------------------------------------------

WITH_DEFAULTS = {
    # A model's file names only what is peculiar to it; composing writes each model out whole,
    # so that DVC sees a default of these change.
    LocalModelParams,
    HubModelParams,
    ApiModelParams,
    WheelSource,
}


def models_within(annotation: object) -> Iterator[type[BaseModel]]:
    """The parameter classes that an annotation holds, at any depth."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from models_within(field.annotation)
    for part in get_args(annotation):
        yield from models_within(part)


def test_no_parameter_of_a_stage_has_a_default_in_code():
    found = set(models_within(AllParams))
    assert {AskedParams, HubEncoderParams, JudgeParams, LoraParams, *WITH_DEFAULTS} < found
    defaults = {
        f"{model.__name__}.{name}"
        for model in found - WITH_DEFAULTS
        for name, field in model.model_fields.items()
        if not field.is_required()
    }
    assert defaults == set()


def test_every_key_of_a_used_model_stands_in_params_yaml():
    values = read_params(ROOT / "params.yaml")
    for section in values["models_of"]:
        for name, model in models_of(values, section).items():
            assert model.keys() == type(model_of(name, model, "")).model_fields.keys()


def test_only_models_that_a_role_names_are_in_params_yaml():
    params = composed("judge.models=[gpt-4o]", "zero_shot_score/asked=llms")
    named = {name for _, name in params.roles()}
    assert "gpt-4o" in named
    assert params.used_models.keys() == params.servers.keys() == named
    for section, models in params.models_of.items():
        assert models.keys() == {name for role, name in params.roles() if role.startswith(section)}


def test_dvc_composes_byte_for_byte_what_compose_does(tmp_path):
    code = (
        "import sys; from dvc.utils.hydra import compose_and_dump as dump; "
        "dump(sys.argv[1], sys.argv[2] + '/conf', None, 'config', sys.argv[2] + '/', sys.argv[3:])"
    )
    overrides = ["judge.models=[gpt-4o]", "+models.gpt-4o.requests_at_once=2"]
    for chosen in ([], overrides):
        file = tmp_path / "params.yaml"
        command = [sys.executable, "-c", code, str(file), str(ROOT), *chosen]
        subprocess.run(command, cwd=tmp_path, check=True)
        expected = composition.text_of(composition.composed(chosen, ROOT / "conf"))
        assert file.read_text(encoding="utf-8") == expected


KEYS = {
    "qwen2.5-coder-0.5b": "645d1e63c613b18d7cda159ddcbf65b4ff1e6c98278ea541347a4ee9650a68a5",
    "qwen2.5-coder-1.5b": "99b106308868c6abe453defbecb7c9146ff5b9d9fab57e4a2429de35f575f4b9",
    "gpt-4o": "1eca05ae69ef524d4979bf4eea3b3a759ac3e1c617c6086bdc623084555e1b91",
    "deepseek-r1": "6b83e686794ef80708e100d3235d18665c0a39ba7300e997d39076de3d2590d1",
    "qwen2.5-3b-vllm": "690cae90071c4ba1f7e3678ef730b5fffa954f98523b7d6b7d4c439b4bbda559",
    "claude-3.5-sonnet": "391aa23ac3e92fde197273cf38e439bda23b3d1281befeb60450f6a0fccc4aed",
}
"""Model -> the work cache's key of a request, as replies have been kept under it from the first."""


@pytest.mark.parametrize("name", KEYS)
def test_a_kept_reply_is_found_again(tmp_path, name):
    model = conf_model(name, ROOT / "conf")
    decides, serves = split(model.model_dump(mode="json"))
    request = ChatRequest((Message("user", "夜"),), 0.5, 0.9, 100, 7)
    for params in (model, model_of(name, decides | serves, "")):
        chat = Chat(name, params, cache=WorkCache(tmp_path), at_once=1)
        assert digest(chat.key(request)) == KEYS[name]


@pytest.mark.parametrize(
    ("url", "without"),
    [
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1/v1"),
        ("https://api.example.org/v1", "https://api.example.org/v1"),
        ("http://[::1]:8000/v1", "http://[::1]/v1"),
        ("http://[::1]/v1", "http://[::1]/v1"),
        ("no address", "no address"),
    ],
)
def test_an_address_decides_but_for_its_port(url, without):
    assert without_port(url) == without


def test_a_local_model_without_a_sum_is_known_by_its_path():
    model = {"kind": "local", "path": "w", "sha256": None, "bytes": 1}
    assert split(model) == ({"kind": "local", "path": "w", "sha256": None}, {"bytes": 1})
    assert split(model | {"sha256": "0"})[1] == {"path": "w", "bytes": 1}


def test_a_revision_that_may_move_is_refused_unless_it_is_said():
    moving = "+models.mine={kind: hub, repository: a/b, revision: main, family: f}"
    with pytest.raises(UserError, match=r"the revision 'main' is no commit.*allow_moving_revision"):
        composed(moving, "zero_shot_score.scoring=mine")
    allowed = moving.replace("family", "allow_moving_revision: true, family")
    assert composed(allowed, "zero_shot_score.scoring=mine").used_models["mine"].revision == "main"
    encoder = "train_roberta.encoder.revision=main"
    with pytest.raises(UserError, match=r"train_roberta\.encoder: the revision 'main'"):
        composed("train_roberta=chinese_roberta", encoder)
    composed(
        "train_roberta=chinese_roberta", encoder, "train_roberta.encoder.allow_moving_revision=true"
    )
