"""Changed X, ran Y: which stages DVC runs again for an edit, and which it must not.

DVC itself is asked, in a copy of the pipeline whose outs are stand-ins. A line names
the stages that the edit alone makes stale; those after them follow where an out
comes out otherwise.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from shiyan import composition

pytestmark = pytest.mark.dvc
ROOT = Path(__file__).resolve().parent.parent
BASE = (
    # Every way to name a model is in use: API models, a lora, an LLM asked, a paraphraser.
    "experiment=lora",
    "judge.models=[gpt-4-turbo,qwen2.5-3b-vllm]",
    "zero_shot_score/asked=llms",
    "zero_shot_score.asked.models=[deepseek-v3]",
    "attacks=all",
)


@dataclass(frozen=True)
class Say:
    """Overrides, as `dvc exp run -S` takes them."""

    overrides: tuple[str, ...]

    def __init__(self, *overrides: str) -> None:
        object.__setattr__(self, "overrides", overrides)


@dataclass(frozen=True)
class Edit:
    """A file of the project: `old` becomes `new`; without `old`, `new` is put at its end."""

    path: str
    new: str
    old: str = ""


CHAT = "src/shiyan/chat.py"
COMMENT = "\n# A comment.\n"
MODEL_ADDED = "kind: hub\nrepository: a/b\nrevision: " + "c" * 40 + "\nfamily: other\n"
SERVED = "conf/model/qwen2.5-3b-vllm.yaml"
ASKS = ("generate", "attacks", "asked", "judge")
ASKING = {"generate", "attack", "zero_shot_score", "judge"}

TABLE: list[tuple[str, Say | Edit, set[str]]] = [
    # What decides a number reruns what it decides.
    ("the draw of poems", Say("collect.seed=7"), {"collect"}),
    ("the corpus", Say("corpus.per_cipai=1"), {"collect"}),
    ("a poet of poems", Say("generate.models=[qwen2.5-coder-0.5b]"), {"generate"}),
    ("a sampling temperature", Say("generate.sampling.temperature=0.1"), {"generate"}),
    ("the split's seed", Say("split.seed=7"), {"split"}),
    ("the attacks", Say("attacks.names=[line_breaks_removed]"), {"attack"}),
    ("the paraphraser", Say("attacks.paraphraser=gpt-4o"), {"attack"}),
    ("the text of the paraphrase", Edit("conf/prompt/detection.yaml", "重写", "改写"), {"attack"}),
    ("the question who wrote a poem", Say("prompts.detection.human=poet"), {"zero_shot_score"}),
    ("a learning rate", Say("train_roberta.learning_rate=0.1"), {"train_roberta"}),
    ("the lora's model", Say("train_roberta.lora.model=qwen2.5-3b"), {"train_roberta"}),
    ("the scoring model", Say("zero_shot_score.scoring=qwen2.5-3b"), {"zero_shot_score"}),
    ("the orders asked", Say("zero_shot_score.asked.both_orders=false"), {"zero_shot_score"}),
    ("the bootstrap of detectors", Say("evaluate.resamples=99"), {"evaluate"}),
    ("the bootstrap of ci", Say("eval_ci.resamples=99"), {"eval_ci"}),
    ("a judge", Say("judge.models=[gpt-4o]"), {"judge"}),
    ("a judge's temperature", Say("judge.temperature=0.7"), {"judge"}),
    ("a judge's text", Edit("conf/prompt/poller_ci.yaml", "请你", "请"), {"judge"}),
    ("a judge's snapshot", Say("+models.gpt-4-turbo.model=gpt-4-turbo-x"), {"judge"}),
    ("a judge's host", Edit(SERVED, "http://box:", "http://127.0.0.1:"), {"judge"}),
    ("whose a judge is", Say("+models.gpt-4-turbo.family=other"), {"judge"}),
    ("an asked model's own fields", Say("+models.deepseek-v3.extra={a: 1}"), {"zero_shot_score"}),
    ("the context of a local model", Say("+models={qwen2.5-coder-1.5b: {context: 99}}"),
     {"generate", "attack", "zero_shot_score"}),
    ("what a family is", Edit("src/shiyan/families.py", COMMENT),
     {"split", "train_roberta", "zero_shot_score", "evaluate", "eval_ci", "judge"}),
    ("the chat client", Edit(CHAT, COMMENT), ASKING),
    ("how folds are drawn", Edit("src/shiyan/splits.py", COMMENT),
     {"split", "train_roberta", "evaluate"}),
    # What decides none reruns nothing.
    ("a price", Say("+models.gpt-4-turbo.price_per_million_prompt=99"), set()),
    ("a currency", Say("+models.gpt-4-turbo.currency=CNY"), set()),
    ("a port", Edit(SERVED, ":9999/", ":8000/"), set()),
    ("a model's requests at once", Say("+models.gpt-4-turbo.requests_at_once=1"), set()),
    ("where a key is", Say("+models.gpt-4-turbo.key_variable=MY_KEY"), set()),
    ("where a file lies", Say("+models={qwen2.5-coder-1.5b: {path: w.gguf}}"), set()),
    ("the packages of a file", Say("+models={qwen2.5-coder-1.5b: {wheels: null}}"), set()),
    ("requests at once", Say(*(f"asking.{name}.requests_at_once=1" for name in ASKS)), set()),
    ("budgets", Say(*(f"asking.{name}.budget=9" for name in ASKS)), set()),
    ("a model that nobody uses", Edit("conf/model/mine.yaml", MODEL_ADDED), set()),
    ("a used model's comment", Edit("conf/model/gpt-4-turbo.yaml", COMMENT), set()),
    ("a change to an unused model", Say("+models.gpt-4o.model=other"), set()),
    ("a text of the other judges", Edit("conf/prompt/poller.yaml", "请你", "请"), set()),
    ("MLflow's experiment", Say("track.experiment=mine"), set()),
    ("the command line", Edit("src/shiyan/cli.py", COMMENT), set()),
    ("a table of the report", Edit("src/shiyan/report/of_ci.py", COMMENT), set()),
    ("params' own code", Edit("src/shiyan/config.py", COMMENT), set()),
]  # fmt: skip


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory) -> Iterator[Path]:
    """A copy of the project after a run that left a stand-in for every out."""
    from dvc.repo import Repo

    folder = tmp_path_factory.mktemp("pipeline")
    for name in ("src", "stages", "conf"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "dvc.yaml", folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("DVC_NO_ANALYTICS", "1")
        patch.delenv("DVC_ROOT", raising=False)
        compose()
        with Repo.init(str(folder), no_scm=True) as repo:
            for out in (out for stage in repo.index.stages for out in stage.outs):
                path = Path(out.fs_path)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(path.name, encoding="utf-8")
            repo.commit(force=True)
        yield folder


def compose(*overrides: str) -> None:
    composed = composition.composed([*BASE, *overrides], Path("conf"))
    Path("params.yaml").write_text(composition.text_of(composed), encoding="utf-8")


@contextmanager
def made(change: Say | Edit) -> Iterator[None]:
    """The project with a change, composed anew, and afterwards as it was."""
    if isinstance(change, Say):
        compose(*change.overrides)
        yield
        return
    path = Path(change.path)
    before = path.read_bytes() if path.exists() else None
    text = before.decode() if before is not None else ""
    assert change.old in text, f"{path} does not hold {change.old}"
    changed = text.replace(change.old, change.new) if change.old else text + change.new
    path.write_text(changed, encoding="utf-8")
    try:
        compose()
        yield
    finally:
        if before is None:
            path.unlink()
        else:
            path.write_bytes(before)


def stale() -> set[str]:
    """The stages that DVC would run for what differs from the last run; `track` always runs."""
    from dvc.repo import Repo

    with Repo(".") as repo:
        return {name.rpartition(":")[2] for name in repo.status()} - {"track"}


def test_after_a_run_nothing_is_stale(pipeline):
    compose()
    assert stale() == set()


@pytest.mark.parametrize(("what", "change", "ran"), TABLE, ids=[line[0] for line in TABLE])
def test_changed(pipeline, what, change, ran):
    with made(change):
        assert stale() == ran
