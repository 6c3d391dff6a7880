"""How well trained detectors call poems, by the threshold fitted on train and by own labels.

    python bench/trained.py HUMAN.jsonl REPLIES.jsonl [--poems 30] [--recipes 20:2 3:2] [--folds 3]

HUMAN holds human poems (id, title, author, text), REPLIES an LLM's finished replies to
them. Half of the groups test. For each recipe (epochs:splits) a small RoBERTa from random
weights and the character n-grams are trained on each of so many splits.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from omegaconf import OmegaConf

from shiyan.config import PARAMS_FILE, PromptTexts, TrainRobertaParams, load_params
from shiyan.detectors.metrics import Threshold
from shiyan.detectors.trained import train_detectors
from shiyan.generation.finished import read_finished
from shiyan.generation.generate import CiForms
from shiyan.poem import normalised
from shiyan.records import Assignment, DetectorScore, Poem
from shiyan.splits import assign_folds, group_poems
from shiyan.twins import twins
from shiyan.work import WorkCache

ROOT = Path(__file__).resolve().parent.parent


def corpus(human: Path, replies: Path, n: int) -> list[Poem]:
    """The first n human poems of the replies, and what cleaning keeps of the replies to them."""
    lines = [json.loads(line) for line in human.read_text(encoding="utf-8").splitlines()]
    answers = [json.loads(line) for line in replies.read_text(encoding="utf-8").splitlines()]
    seeds = list(dict.fromkeys(answer["seed_poem_id"] for answer in answers))[:n]
    people = [
        Poem(
            poem_id=line["id"],
            title=line["title"],
            text=normalised(line["text"]),
            genre="modern",
            author=line["author"],
        )
        for line in lines
        if line["id"] in seeds
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        chosen = [answer for answer in answers if answer["seed_poem_id"] in seeds]
        file.writelines(json.dumps(answer, ensure_ascii=False) + "\n" for answer in chosen)
        file.flush()
        # No reply here is a ci.
        forms = CiForms(lambda cipai: "", lambda title: "", lambda cipai: 0)
        texts = load_params("prompts", PromptTexts, ROOT / PARAMS_FILE)
        written = read_finished(Path(file.name), people, texts, forms)
    return [*people, *(one.poem for one in written if one.poem is not None)]


def split(poems: list[Poem], seed: int) -> dict[str, Assignment]:
    families = twins({poem.poem_id: poem.text for poem in poems}, 0.5)
    groups = group_poems(poems, families)
    return {a.poem_id: a for a in assign_folds(poems, groups, 0.5, seed)}


def recipe(epochs: int, folds: int) -> TrainRobertaParams:
    committed = OmegaConf.load(ROOT / "conf/train_roberta/scratch.yaml")
    changes = {"epochs": epochs, "folds": folds, "max_tokens": 128, "controls": [], "text": "body"}
    return TrainRobertaParams.model_validate(
        OmegaConf.to_container(OmegaConf.merge(committed, changes))
    )


def macro_f1(labels: np.ndarray, calls: np.ndarray) -> float:
    from sklearn.metrics import f1_score

    return 100 * float(f1_score(labels, calls, average="macro", zero_division=0))


def numbers(
    scores: list[DetectorScore], poems: Mapping[str, Poem], folds: Mapping[str, Assignment]
) -> dict[str, float]:
    """AUROC and macro-F1 on the test fold, in percent."""
    from sklearn.metrics import roc_auc_score

    read = [score for score in scores if score.score is not None]
    own = {fold: [s for s in read if folds[s.poem_id].fold == fold] for fold in ("train", "test")}
    labels, values = (
        {fold: np.array([take(s) for s in part]) for fold, part in own.items()}
        for take in (lambda s: poems[s.poem_id].label, lambda s: s.score)
    )
    threshold = Threshold.youden(labels["train"], values["train"], "train:all").value
    told = {
        "AUROC": 100 * float(roc_auc_score(labels["test"], values["test"])),
        "macro-F1, threshold": macro_f1(labels["test"], values["test"] >= threshold),
        "threshold": threshold,
    }
    calls = [score.own_label for score in own["test"]]
    if None not in calls:
        told["macro-F1, own labels"] = macro_f1(labels["test"], np.array(calls))
    cuts = np.unique(values["test"])
    told["macro-F1, best cut"] = max(macro_f1(labels["test"], values["test"] >= c) for c in cuts)
    return told


def runs(arguments: argparse.Namespace) -> Iterator[dict[str, object]]:
    poems = corpus(arguments.human, arguments.replies, arguments.poems)
    by_id = {poem.poem_id: poem for poem in poems}
    for text in arguments.recipes:
        epochs, splits = map(int, text.split(":"))
        for seed in range(splits):
            folds = split(poems, seed)
            with tempfile.TemporaryDirectory() as folder:
                params = recipe(epochs, arguments.folds)
                trained = train_detectors(by_id, folds, params, {}, WorkCache(Path(folder)))
            for detector in dict.fromkeys(score.detector for score in trained.scores):
                own = [score for score in trained.scores if score.detector == detector]
                found = numbers(own, by_id, folds)
                yield {"epochs": epochs, "split": seed, "detector": detector, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("human", type=Path)
    parser.add_argument("replies", type=Path)
    parser.add_argument("--poems", type=int, default=30)
    parser.add_argument("--recipes", nargs="+", default=["20:2", "3:2"])
    parser.add_argument("--folds", type=int, default=3)
    for run in runs(parser.parse_args()):
        rounded = {k: round(v, 4) if isinstance(v, float) else v for k, v in run.items()}
        print(json.dumps(rounded, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
