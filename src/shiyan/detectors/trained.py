"""All detectors that learn from the train fold, as the stage train_roberta runs them."""

import json
import shutil
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from shiyan.config import LoraParams, TrainRobertaParams
from shiyan.detectors import finetune, surface
from shiyan.detectors.attacked import attack_records, with_attacked
from shiyan.detectors.crossfit import (
    Corpus,
    Fitted,
    Rows,
    alignment_notices,
    as_records,
    fit_and_score,
    one_label_notices,
    spread_notices,
)
from shiyan.detectors.evaluation.poems import evaluated_poems
from shiyan.detectors.finetune import CurvePoint, KeptModel, Recipe
from shiyan.detectors.metrics import CLASSES
from shiyan.detectors.roberta import ClassifierFactory, Encoding, Models, classifier_factory
from shiyan.detectors.surface import LinearNGrams, SurfaceName
from shiyan.jsonl import replacing
from shiyan.records import Assignment, AttackedPoem, DetectorScore, Poem
from shiyan.work import WorkCache

MOSTLY_UNKNOWN = 0.5
LIBRARIES = ("torch", "transformers", "peft", "scikit-learn", "numpy")


@dataclass
class Trained:
    """What training left.

    Attributes:
        scores: of every poem by every detector, cross-fitted and aligned.
        attacked: of every attacked poem, under the id of the poem that was attacked.
        curve: the networks' training curves.
        reading: detector -> fold -> class -> how much of the poems the network read.
        notices: what a reader should know before trusting a score.
        made: how it was made.
        alignments: detector -> fold model -> how its scores are aligned.
        surface, networks: detector -> fold model.
    """

    scores: list[DetectorScore] = field(default_factory=list)
    attacked: list[DetectorScore] = field(default_factory=list)
    curve: list[CurvePoint] = field(default_factory=list)
    reading: dict[str, Any] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    made: dict[str, Any] = field(default_factory=dict)
    alignments: dict[str, dict[str, Any]] = field(default_factory=dict)
    surface: dict[SurfaceName, dict[str, Any]] = field(default_factory=dict)
    networks: dict[str, dict[str, KeptModel]] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Write every fold model: safetensors, a tokenizer and a config; JSON for the others.

        With made.json, which holds each model's alignment, they are the detectors. Nothing
        here is a pickle, so nothing here runs code when it is loaded. The folder takes its
        place in one rename.
        """
        temporary = folder.with_name(f".{folder.name}.new")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        for name, models in self.networks.items():
            for fold, kept in models.items():
                _save_network(kept, temporary / name / slug(fold))
        controls: dict[str, Any] = {}
        for detector, pipelines in self.surface.items():
            for fold, fitted in pipelines.items():
                if detector in surface.LINEAR:
                    (temporary / detector).mkdir(exist_ok=True)
                    path = temporary / detector / f"{slug(fold)}.json"
                    LinearNGrams.of(detector, fitted).save(path)
                else:
                    of_fold = surface.facts(detector, fitted)
                    controls.setdefault(detector, {})[slug(fold)] = of_fold
        made = {**self.made, "alignments": self.alignments}
        for file, content in (("controls.json", controls), ("made.json", made)):
            with replacing(temporary / file) as out:
                json.dump(content, out, ensure_ascii=False, indent=2)
        shutil.rmtree(folder, ignore_errors=True)
        temporary.replace(folder)

    def forget_checkpoints(self) -> None:
        """Once the outs are written, nothing is left to resume."""
        for models in self.networks.values():
            for kept in models.values():
                kept.checkpoint.remove()

    def add(
        self, name: str, corpus: Corpus, fitted: Fitted, border: float, test: Rows
    ) -> list[DetectorScore]:
        """A detector's records; its alignments and notices stay here.

        Args:
            test: rows of the test poems as they are, without attacked ones.
        """
        self.alignments[name] = {
            slug(model.name): asdict(model.alignment) if model.alignment else None
            for model in fitted.models
        }
        self.notices += alignment_notices(name, fitted)
        self.notices += one_label_notices(name, fitted, test, border)
        return as_records(name, corpus, fitted, border)


def slug(fold: str) -> str:
    """A fold model's name as that of a file or key."""
    return fold.replace(" ", "_")


def _save_network(kept: KeptModel, folder: Path) -> None:
    model = kept.model()
    # Asked whether embeddings changed, peft would look for the base on the hub.
    is_adapter = hasattr(model, "peft_config")
    model.save_pretrained(folder, **({"save_embedding_layers": False} if is_adapter else {}))
    kept.classifier.tokenizer.save_pretrained(folder)
    # peft adds a card to be filled in by hand.
    (folder / "README.md").unlink(missing_ok=True)


def train_detectors(
    poems: Mapping[str, Poem],
    assignments: Mapping[str, Assignment],
    params: TrainRobertaParams,
    models: Models,
    cache: WorkCache,
    attacked: Sequence[AttackedPoem] = (),
) -> Trained:
    """Train every detector of the config and score every poem with it.

    Args:
        models: the model that `params.lora` names, if it does.
        attacked: poems of the test fold after attacks, scored as they are.

    Raises:
        UserError: a split that leaks; a checkpoint that cannot be had or does not fit.
    """
    evaluated_poems(poems, assignments)  # Refuses a split that leaks.
    changed = {item.poem.poem_id for item in attacked if item.poem is not None}
    everything = with_attacked(poems, assignments, attacked)
    corpus = Corpus.of(*everything, one_temperature=True, text=params.text)
    ids = np.array(corpus.poem_ids, dtype=object)
    test = corpus.rows(train=False)
    test = test[[poem_id not in changed for poem_id in ids[test]]]
    trained = Trained(made=_made(params, corpus))
    for name in control_names(params):
        pipelines = trained.surface.setdefault(name, {})
        learn = surface.learner(name, corpus, params.ngram, params.seed, pipelines)
        fitted = fit_and_score(learn, corpus, params.folds, params.seed)
        border = surface.BORDERS.get(name, 0.0)
        trained.scores += trained.add(name, corpus, fitted, border, test)
    for network, (factory, recipe) in networks_of(params, models).items():
        kept = trained.networks.setdefault(network, {})
        learn = finetune.learner(
            network, factory, corpus, recipe, cache, kept, trained.curve.append
        )
        fitted = fit_and_score(learn, corpus, params.folds, params.seed)
        records = trained.add(network, corpus, fitted, 0.0, test)
        trained.notices += spread_notices(network, fitted, test)
        trained.scores += _with_reading(trained, network, corpus, fitted, records, changed)
        trained.made["networks"] |= _network_made(network, kept, recipe)
    trained.scores, after = (
        [score for score in trained.scores if (score.poem_id in changed) == wanted]
        for wanted in (False, True)
    )
    trained.attacked = attack_records(after, attacked, [s.detector for s in trained.scores])
    return trained


def control_names(params: TrainRobertaParams) -> list[SurfaceName]:
    return ["char_ngrams", *params.controls]


def networks_of(
    params: TrainRobertaParams, models: Models
) -> dict[str, tuple[ClassifierFactory, Recipe]]:
    """The networks by name: how to make each, and how to train it."""
    networks: dict[str, tuple[ClassifierFactory, Recipe]] = {
        params.name: (
            classifier_factory(params.encoder, params.max_tokens, params.dtype),
            recipe_of(params, params),
        )
    }
    if params.lora is not None:
        from shiyan.detectors.lora import lora_classifier

        adapted = lora_classifier(params, models)
        networks[params.lora.name] = (lambda train_texts: adapted, recipe_of(params, params.lora))
    return networks


def _with_reading(
    trained: Trained,
    name: str,
    corpus: Corpus,
    fitted: Fitted,
    records: Sequence[DetectorScore],
    attacked: Collection[str],
) -> list[DetectorScore]:
    """A network's records with what it read, which is also told of the poems as they are."""
    if not fitted.models:
        reasons = [*_unlearnt(corpus, fitted), *fitted.reasons.values(), "there is no poem"]
        trained.notices.append(f"{name}: not trained, {reasons[0]}")
        return list(records)
    trained.notices += [
        f"{name}: {n} poems have no score: {reason}"
        for reason, n in Counter(_unlearnt(corpus, fitted)).items()
    ]
    read = _read(corpus, fitted, trained.networks[name])
    own = {row: e for row, e in read.items() if corpus.poem_ids[row] not in attacked}
    trained.reading[name] = _reading(corpus, own)
    trained.notices += _reading_notices(name, corpus, own)
    return [
        record.model_copy(
            update={
                "n_tokens": read[row].n_tokens,
                "n_read": len(read[row].ids) if read[row].is_cut else None,
                "unknown_share": round(read[row].unknown_share, 4),
            }
        )
        for row, record in enumerate(records)
    ]


def _read(corpus: Corpus, fitted: Fitted, kept: Mapping[str, KeptModel]) -> dict[int, Encoding]:
    """Row -> what was read of it; unknown tokens are the mean over the models that scored it."""
    by_model = []
    for model in fitted.models:
        classifier = kept[model.name].classifier
        encodings = [classifier.encode(text) for text in corpus.texts]
        by_model.append((np.isfinite(model.raw), encodings))
    found = {}
    for row in range(len(corpus)):
        there = [e[row] for scored, e in by_model if scored[row]] or [by_model[0][1][row]]
        found[row] = replace(there[0], unknown_share=fmean(e.unknown_share for e in there))
    return found


def _network_made(name: str, kept: Mapping[str, KeptModel], recipe: Recipe) -> dict[str, Any]:
    if not kept:
        return {}
    classifier = next(iter(kept.values())).classifier
    steps = {slug(fold): model.steps for fold, model in kept.items()}
    return {
        name: {
            "model": classifier.identity,
            "dtype": classifier.dtype,
            "max_tokens": classifier.max_tokens,
            "reads_line_breaks": classifier.reads_line_breaks,
            "optimizer_steps": {fold: taken for fold, (taken, _) in steps.items()},
            "weights_of_step": {fold: best for fold, (_, best) in steps.items()},
            "device": finetune.device_name(),
            **asdict(recipe),
        }
    }


def recipe_of(params: TrainRobertaParams, own: TrainRobertaParams | LoraParams) -> Recipe:
    """The stage's recipe, with what a network has of its own."""
    return Recipe(
        epochs=own.epochs,
        learning_rate=own.learning_rate,
        batch_size=own.batch_size,
        warmup_share=params.warmup_share,
        weight_decay=params.weight_decay,
        balance=params.balance,
        seed=params.seed,
        evaluate_every=params.evaluate_every,
        patience=params.patience,
    )


def _unlearnt(corpus: Corpus, fitted: Fitted) -> list[str]:
    """Why poems that could be scored are not, one reason a poem."""
    return [
        why for row, why in fitted.reasons.items() if corpus.poem_ids[row] not in corpus.reasons
    ]


def _made(params: TrainRobertaParams, corpus: Corpus) -> dict[str, Any]:
    train = corpus.rows(train=True)
    n_groups = len({corpus.groups[row] for row in train})
    return {
        **{
            f"n_train_{name}": int((corpus.labels[train] == label).sum())
            for label, name in enumerate(CLASSES)
        },
        "cross_fitting": _cross_fitted(params.folds, n_groups),
        "text": params.text,
        "ngrams": f"{params.ngram.shortest}-{params.ngram.longest} characters, "
        f"in {surface.MIN_DOCUMENTS} train poems or more, TF-IDF",
        "networks": {},
        "versions": {name: version(name) for name in LIBRARIES},
    }


def _cross_fitted(folds: int, n_groups: int) -> str:
    if folds == 1:
        return "of one model of the whole train fold; train poems have none"
    if n_groups < 2:
        return f"none: cross-fitting needs two groups of train poems, and there are {n_groups}"
    return (
        f"mean of {min(folds, n_groups)} models, each trained without one part of the train fold "
        "and aligned, (score - median) / interquartile range, on the LLM poems of that part; "
        "a train poem's is of the one model that did not learn from its group"
    )


def _reading(corpus: Corpus, encodings: Mapping[int, Encoding]) -> dict[str, Any]:
    """Fold -> class -> poems, poems that were cut, mean share of unknown tokens."""
    found: dict[str, Any] = {}
    for fold in ("train", "test"):
        rows = [row for row in corpus.rows(train=fold == "train").tolist() if row in encodings]
        for label, name in enumerate(CLASSES):
            mine = [encodings[row] for row in rows if corpus.labels[row] == label]
            unknown = sum(e.unknown_share for e in mine) / len(mine) if mine else None
            found.setdefault(fold, {})[name] = {
                "n": len(mine),
                "n_cut": sum(e.is_cut for e in mine),
                "mean_unknown_share": round(unknown, 4) if unknown is not None else None,
            }
    return found


def _reading_notices(name: str, corpus: Corpus, encodings: Mapping[int, Encoding]) -> list[str]:
    by_id = [(corpus.poem_ids[row], encoding) for row, encoding in encodings.items()]
    scored = [(p, e) for p, e in by_id if p not in corpus.reasons]
    cut = [e for _, e in scored if e.is_cut]
    strange = [p for p, e in scored if e.unknown_share > MOSTLY_UNKNOWN]
    notices = []
    if cut:
        notices.append(
            f"{name} read only the first {len(cut[0].ids)} tokens of {len(cut)} poems "
            f"(the longest has {max(e.n_tokens for e in cut)})"
        )
    if strange:
        notices.append(
            f"{name}: more than half of the characters of {len(strange)} poems are unknown to "
            f"its tokenizer, e.g. of {strange[0]!r}"
        )
    return notices
