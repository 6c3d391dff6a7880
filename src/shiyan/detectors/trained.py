"""All detectors that learn from the train fold, as the stage train_roberta runs them."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from shiyan.config import TrainRobertaParams
from shiyan.detectors import finetune, surface
from shiyan.detectors.crossfit import Corpus, Fitted, as_records, fit_and_score
from shiyan.detectors.evaluate import refuse_leaks
from shiyan.detectors.finetune import CurvePoint, Kept, Recipe
from shiyan.detectors.roberta import classifier_factory
from shiyan.detectors.surface import LinearNGrams, SurfaceName
from shiyan.jsonl import replacing
from shiyan.metrics import CLASSES
from shiyan.records import Assignment, DetectorScore, Poem
from shiyan.work import WorkCache

MOSTLY_UNKNOWN = 0.5


@dataclass
class Trained:
    """What training left.

    Attributes:
        scores: of every poem by every detector; a train poem's is cross-fitted.
        curve: the networks' training curves.
        reading: detector -> fold -> class -> how much of the poems the network read.
        notices: what a reader should know before trusting a score.
        made: how it was made.
    """

    scores: list[DetectorScore] = field(default_factory=list)
    curve: list[CurvePoint] = field(default_factory=list)
    reading: dict[str, Any] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    made: dict[str, Any] = field(default_factory=dict)
    surface: dict[SurfaceName, Any] = field(default_factory=dict)
    networks: dict[str, Kept] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Write the models: safetensors, a tokenizer and a config; JSON for the others.

        Nothing here is a pickle, so nothing here runs code when it is loaded. The
        folder takes its place in one rename.
        """
        temporary = folder.with_name(f".{folder.name}.new")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        for name, kept in self.networks.items():
            if kept.model is not None and kept.classifier is not None:
                kept.model.save_pretrained(temporary / name)
                kept.classifier.tokenizer.save_pretrained(temporary / name)
        controls = {}
        for detector, fitted in self.surface.items():
            if detector in surface.LINEAR:
                LinearNGrams.of(detector, fitted).save(temporary / f"{detector}.json")
            else:
                controls[detector] = surface.facts(detector, fitted)
        for file, content in (("controls.json", controls), ("made.json", self.made)):
            with replacing(temporary / file) as out:
                json.dump(content, out, ensure_ascii=False, indent=2)
        shutil.rmtree(folder, ignore_errors=True)
        temporary.replace(folder)

    def forget_checkpoints(self) -> None:
        """Once the outs are written, nothing is left to resume."""
        for kept in self.networks.values():
            if kept.checkpoint is not None:
                kept.checkpoint.remove()


def train_detectors(
    poems: Mapping[str, Poem],
    assignments: Mapping[str, Assignment],
    params: TrainRobertaParams,
    cache: WorkCache,
) -> Trained:
    """Train every detector of the config and score every poem with it.

    Raises:
        UserError: a split that leaks; a checkpoint that cannot be had or does not fit.
    """
    refuse_leaks(poems, assignments)
    corpus = Corpus.of(poems, assignments)
    trained = Trained(made=_made(params, corpus))
    names: list[SurfaceName] = ["char_ngrams", *params.controls]
    for name in names:
        learn = surface.learner(name, corpus, params.ngram, params.seed, trained.surface)
        fitted = fit_and_score(learn, corpus, params.threshold_folds, params.seed)
        trained.scores += as_records(name, corpus, fitted)
    _train_network(trained, corpus, params, cache)
    return trained


def _train_network(
    trained: Trained, corpus: Corpus, params: TrainRobertaParams, cache: WorkCache
) -> None:
    kept = trained.networks.setdefault(params.name, Kept())
    learn = finetune.learner(
        params.name,
        classifier_factory(params.encoder, params.max_tokens),
        corpus,
        recipe_of(params),
        cache,
        kept,
        trained.curve.append,
    )
    fitted = fit_and_score(learn, corpus, params.threshold_folds, params.seed)
    records = as_records(params.name, corpus, fitted)
    if kept.classifier is None:
        trained.scores += records
        trained.notices.append(f"{params.name}: not trained, {_why_not(fitted)}")
        return
    encodings = [kept.classifier.encode(text) for text in corpus.texts]
    trained.scores += [
        record.model_copy(
            update={
                "n_tokens": encoding.n_tokens,
                "n_read": len(encoding.ids) if encoding.is_cut else None,
                "unknown_share": round(encoding.unknown_share, 4),
            }
        )
        for record, encoding in zip(records, encodings, strict=True)
    ]
    trained.reading[params.name] = _reading(corpus, encodings)
    trained.notices += _reading_notices(params.name, corpus, encodings)
    steps = max(p.step for p in trained.curve if p.detector == params.name and p.fold == "all")
    trained.made |= {
        "encoder": kept.classifier.identity,
        "encoder_tokens": kept.classifier.max_tokens,
        "reads_line_breaks": kept.classifier.reads_line_breaks,
        "optimizer_steps": steps,
        "device": str(next(kept.model.parameters()).device),
        "dtype": "float32",
    }


def recipe_of(params: TrainRobertaParams) -> Recipe:
    return Recipe(
        epochs=params.epochs,
        learning_rate=params.learning_rate,
        batch_size=params.batch_size,
        warmup_share=params.warmup_share,
        weight_decay=params.weight_decay,
        balance=params.balance,
        seed=params.seed,
    )


def _why_not(fitted: Fitted) -> str:
    return next(iter(fitted.reasons.values()), "there is no poem")


def _made(params: TrainRobertaParams, corpus: Corpus) -> dict[str, Any]:
    train = corpus.rows(train=True)
    return {
        **{
            f"n_train_{name}": int((corpus.labels[train] == label).sum())
            for label, name in enumerate(CLASSES)
        },
        "train_scores": f"cross-fitted over {params.threshold_folds} parts of whole groups",
        "text": "body",
        "ngrams": f"{params.ngram.shortest}-{params.ngram.longest} characters, "
        f"in {surface.MIN_DOCUMENTS} train poems or more, TF-IDF",
        **asdict(recipe_of(params)),
        "versions": {
            name: version(name) for name in ("torch", "transformers", "scikit-learn", "numpy")
        },
    }


def _reading(corpus: Corpus, encodings: list[Any]) -> dict[str, Any]:
    """Fold -> class -> poems, poems that were cut, mean share of unknown tokens."""
    found: dict[str, Any] = {}
    for fold in ("train", "test"):
        rows = corpus.rows(train=fold == "train")
        for label, name in enumerate(CLASSES):
            mine = [encodings[row] for row in rows if corpus.labels[row] == label]
            unknown = sum(e.unknown_share for e in mine) / len(mine) if mine else None
            found.setdefault(fold, {})[name] = {
                "n": len(mine),
                "n_cut": sum(e.is_cut for e in mine),
                "mean_unknown_share": round(unknown, 4) if unknown is not None else None,
            }
    return found


def _reading_notices(name: str, corpus: Corpus, encodings: list[Any]) -> list[str]:
    scored = [
        (p, e) for p, e in zip(corpus.poem_ids, encodings, strict=True) if p not in corpus.reasons
    ]
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
