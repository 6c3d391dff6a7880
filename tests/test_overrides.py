"""Values on their way from the command line to a stage, and back into conf/ with `keep`."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from shiyan import composition
from shiyan.cli import dispatch
from shiyan.config import (
    PARAMS_FILE,
    TrackParams,
    TrainRobertaParams,
    load_models,
    load_params,
    read_params,
)
from shiyan.errors import UserError
from shiyan.selection import conf_model
from shiyan.stage import exit_code_of

pytestmark = pytest.mark.hydra
ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def default_params() -> str:
    return composition.text_of(composition.composed((), ROOT / "conf"))


@pytest.fixture
def project(tmp_path, monkeypatch, default_params) -> Path:
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    (tmp_path / "params.yaml").write_text(default_params, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- texts -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ('track.experiment="某诗人"', "某诗人"),
        ('track.experiment="雨，夜"', "雨，夜"),
        ('track.experiment="雨,夜"', "雨,夜"),
        ('track.experiment="《早班车》# 1"', "《早班车》# 1"),
        ('track.experiment="/data/诗 稿/50%.jsonl"', "/data/诗 稿/50%.jsonl"),
        ("track.experiment='𫛛：一'", "𫛛：一"),
        ('track.experiment="2e3"', "2e3"),
        ('track.experiment="no"', "no"),
        ('track.experiment="007"', "007"),
        ('track.experiment="1.10"', "1.10"),
        ('track.experiment="1e-6"', "1e-6"),
        ('track.experiment="~"', "~"),
    ],
)
def test_a_quoted_text_reaches_the_stage_unchanged(project, override, value):
    dispatch(["compose", override])
    assert load_params("track", TrackParams).experiment == value


@pytest.mark.parametrize(
    ("override", "advice"),
    [
        ("generate.theme=雨，夜", "-S 'generate.theme=\"雨，夜\"'"),
        ("judge.persona=某诗人", "-S 'judge.persona=\"某诗人\"'"),
        ('corpus.cipai=[浣溪沙,"如梦令"]', '-S \'corpus.cipai=["浣溪沙","如梦令"]\''),
        ("judge.temperature=0.2,0.7", "`dvc exp run --queue -S judge.temperature=0.2,0.7`"),
        ("train_roberta.name=", "has no value; write one, or null for none"),
        ("generate.sampling.tempreture=0.2", "did you mean generate.sampling.temperature?"),
        ("generate.tempreture=0.2", "did you mean generate.sampling.temperature"),
        ("judge.promts=[P0]", "did you mean judge.prompts?"),
        (
            "models.qwen2.5-coder-0.5b.context=8192",
            "write -S '+models={qwen2.5-coder-0.5b: {context: 8192}}'",
        ),
        ("models.glm-4.requests_at_once=2", "write -S '+models.glm-4.requests_at_once=2'"),
        ("models.glm-4.contxt=2", "a model has no parameter 'contxt'; it may have base_url, "),
    ],
)
def test_what_hydra_cannot_read_is_one_sentence_with_the_way_out(project, override, advice, capsys):
    before = PARAMS_FILE.read_bytes()
    assert exit_code_of(lambda: dispatch(["compose", override])) == 2
    said = capsys.readouterr().err
    assert advice in said
    assert said.count("\n") == 1
    assert PARAMS_FILE.read_bytes() == before


@pytest.mark.parametrize(
    ("override", "section", "key", "value"),
    [
        ("+models={qwen2.5-coder-0.5b: {context: 8192}}", "models_of.judge", "context", 8192),
        ("+models={qwen2.5-coder-0.5b: {path: w.gguf}}", "servers", "path", "w.gguf"),
    ],
)
def test_what_is_advised_for_a_models_parameter_changes_it_alone(
    project, override, section, key, value
):
    name = "qwen2.5-coder-0.5b"
    before = composition.flattened(read_params())
    dispatch(["compose", override])
    after = composition.flattened(read_params())
    assert after[f"{section}.{name}.{key}"] == value
    changed = {k for k in after if after[k] != before.get(k) and not k.startswith("models.")}
    # Where several sections' roles name the model, it is the same one.
    assert all(k.endswith(f".{name}.{key}") for k in changed)


def test_a_role_brings_its_model_and_its_section_alone(project):
    before = read_params()
    dispatch(["compose", "judge.models=[gpt-4o]"])
    after = read_params()
    assert list(after["models_of"]["judge"]) == ["gpt-4o"]
    for section in before["models_of"].keys() - {"judge"}:
        assert after["models_of"][section] == before["models_of"][section]
    assert after["servers"]["gpt-4o"]["key_variable"] == "OPENAI_API_KEY"
    assert after["families"]["gpt-4o"] == "openai"
    assert "gpt-4o-mini" not in str(after)
    (model,) = load_models(["gpt-4o"]).values()
    assert model == conf_model("gpt-4o")


def test_the_readmes_chinese_example_composes(project):
    readme = ROOT / "README.md"
    examples = re.findall(
        r"(?m)^\s*(?:\$ )?dvc exp run (?:--queue )?-S '([^']*[\u4e00-\u9fff][^']*)'",
        readme.read_text(encoding="utf-8") if readme.exists() else "",
    )
    if not examples:
        pytest.skip("the README shows no override with Chinese")
    for override in examples:
        composition.composed([override])


# --- numbers -----------------------------------------------------------------------------

SPELLINGS = ["1e-6", "1.0e-6", "1E-6", "0.000001", "1.e-6", '"1e-6"', "1e-06", "+1e-6"]


@pytest.mark.parametrize(
    ("way", "spelling"),
    [("conf", spelling) for spelling in SPELLINGS]
    # Hydra's own grammar reads an override.
    + [("override", spelling) for spelling in ("1e-6", "1.e-6", '"1e-6"', "+1e-6")],
)
def test_a_small_number_is_a_number_however_it_is_spelt(project, way, spelling):
    overrides = []
    if way == "conf":
        path = project / "conf/train_roberta/scratch.yaml"
        text = path.read_text(encoding="utf-8")
        changed = re.sub(r"(?m)^learning_rate: .*$", f"learning_rate: {spelling}", text)
        assert changed != text
        path.write_text(changed, encoding="utf-8")
    else:
        overrides = [f"train_roberta.learning_rate={spelling}"]
    dispatch(["compose", *overrides])
    rate = load_params("train_roberta", TrainRobertaParams).learning_rate
    assert isinstance(rate, float)
    assert rate == 1e-6
    # A second composition gives the same bytes.
    assert composition.check(overrides)


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("epochs: 007", 7),
        ("weight_decay: 1", 1.0),
        ("warmup_share: .95", 0.95),
        ("name: no", "'train_roberta.name' is False"),
        ("name: 1.10", "'train_roberta.name' is 1.1"),
        ("name: 2e3", "'train_roberta.name' is 2000.0"),
        ("name: ~", "'train_roberta.name' is None"),
        ("epochs: ~", "'train_roberta.epochs' is None"),
        ("epochs: 2.5", "'train_roberta.epochs' is 2.5"),
    ],
)
def test_yaml_never_changes_a_value_in_silence(project, line, outcome):
    key = line.partition(":")[0]
    path = project / "conf/train_roberta/scratch.yaml"
    text = re.sub(rf"(?m)^{key}: .*$", line, path.read_text(encoding="utf-8"))
    path.write_text(text, encoding="utf-8")
    if isinstance(outcome, str):
        with pytest.raises(UserError, match=re.escape(outcome)):
            dispatch(["compose"])
    else:
        dispatch(["compose"])
        assert getattr(load_params("train_roberta", TrainRobertaParams), key) == outcome


def test_a_params_file_that_is_a_link_stays_one(project):
    (project / "there").mkdir()
    PARAMS_FILE.rename("there/params.yaml")
    PARAMS_FILE.symlink_to("there/params.yaml")
    dispatch(["compose", "split.seed=7"])
    assert PARAMS_FILE.is_symlink()
    assert read_params()["split"]["seed"] == 7


# --- keep --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "overrides",
    [
        [
            "judge.prompts=[P0,P1]",
            'generate.themes=["雨夜","一，二",x]',
            "asking.generate.budget=1.5",
        ],
        ["experiment=smoke", "split.seed=7"],
        [
            "experiment=paper_detection",
            'corpus.path="/诗 稿/50%.jsonl"',
            "zero_shot_score.bos=true",
        ],
        ["+models.qwen3={kind: local, file: a.gguf, family: qwen}", "judge.models=[qwen3]"],
        ["train_roberta.learning_rate=1e-6", 'train_roberta.name="no"'],
    ],
)
def test_what_is_kept_composes_to_the_same_params(project, overrides, capsys):
    dispatch(["compose", *overrides])
    wanted = read_params()
    assert dispatch(["keep", "mine"]) == 0
    assert "dvc exp run -S experiment=mine" in capsys.readouterr().out
    lines = Path("conf/experiment/mine.yaml").read_text(encoding="utf-8").splitlines()
    assert lines[:2] == ["# @package _global_", "# dvc exp run -S experiment=mine"]
    PARAMS_FILE.unlink()
    dispatch(["compose", "experiment=mine"])
    assert read_params() == wanted


def test_another_group_is_kept_by_its_name(project):
    dispatch(["compose", "judge=poller", "judge.temperature=0.3"])
    dispatch(["keep", "mine"])
    kept = Path("conf/experiment/mine.yaml").read_text(encoding="utf-8")
    assert "  - override /judge: poller\n" in kept
    # Differences only.
    assert kept.endswith("judge:\n  temperature: 0.3\n")


@pytest.mark.parametrize("name", ["../up", "a b", "", "诗", "x.yaml", "-f"])
def test_a_name_that_is_no_file_name_is_refused(project, name):
    with pytest.raises(UserError, match="is no name for an experiment") as raised:
        dispatch(["keep", "--", name])
    assert raised.value.exit_code == 2


def test_a_kept_experiment_is_replaced_only_by_force(project):
    dispatch(["compose", "judge.temperature=0.3"])
    dispatch(["keep", "mine"])
    with pytest.raises(UserError, match=r"mine\.yaml is there already"):
        dispatch(["keep", "mine"])
    dispatch(["compose", "judge.temperature=0.4"])
    assert dispatch(["keep", "mine", "--force"]) == 0
    assert "0.4" in Path("conf/experiment/mine.yaml").read_text(encoding="utf-8")


def test_nothing_to_keep_is_said(project):
    with pytest.raises(UserError, match="nothing to keep"):
        dispatch(["keep", "mine"])


def test_a_removed_key_cannot_be_kept_and_no_file_is_left(project):
    text = PARAMS_FILE.read_text(encoding="utf-8")
    cut = text.replace("    revision: f86cb2c1fa58255f8052cc32aeede1b7482d4361\n", "", 1)
    assert cut != text
    PARAMS_FILE.write_text(cut, encoding="utf-8")
    with pytest.raises(UserError, match=r"servers\..*revision would come out otherwise"):
        dispatch(["keep", "mine"])
    PARAMS_FILE.write_text(text.replace("\n  samples: 1", ""), encoding="utf-8")
    with pytest.raises(UserError, match=r"generate\.samples.* removes none"):
        dispatch(["keep", "mine"])
    assert not Path("conf/experiment/mine.yaml").exists()


# --- consoles ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "console",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "gbk"},
        {"LC_ALL": "POSIX", "LANG": ""},
    ],
)
def test_chinese_passes_any_console_and_reaches_the_file(project, console):
    folder = project / "我的 诗稿"
    shutil.copytree(project / "conf", folder / "conf")
    # The argument is given as bytes: what a console of any encoding hands on.
    code = (
        "from shiyan.cli import main; main(['compose', "
        "'track.experiment=\"\\U0002b6db\\u25ce\"', 'split.sead=1'][:LAST])"
    )
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT / "src"), **console}
    for last, exit_code in ((2, 0), (3, 2)):
        done = subprocess.run(
            [sys.executable, "-c", code.replace("LAST", str(last))],
            cwd=folder,
            env=environment,
            capture_output=True,
            check=False,
        )
        assert done.returncode == exit_code, done.stderr
        assert b"Traceback" not in done.stderr
    assert 'experiment: "\\U0002B6DB◎"' in (folder / "params.yaml").read_text(encoding="utf-8") or (
        "experiment: 𫛛◎" in (folder / "params.yaml").read_text(encoding="utf-8")
    )
