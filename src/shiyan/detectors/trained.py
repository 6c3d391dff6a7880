"""All detectors that learn from the train fold, as the stage train_roberta runs them."""

import hashlib
import json
import shutil
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from shiyan.config import LoraParams, TrainRobertaParams
from shiyan.detectors import finetune, surface
from shiyan.detectors.attacked import attack_records, with_attacked
from shiyan.detectors.crossfit import Corpus, Fitted, Learner, as_records, fit_and_score
from shiyan.detectors.evaluation.poems import evaluated_poems
from shiyan.detectors.finetune import CurvePoint, Kept, Recipe
from shiyan.detectors.metrics import CLASSES
from shiyan.detectors.protocol import Protocol
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
        scores: of every poem by every detector; a train poem's is cross-fitted.
        attacked: of every attacked poem, under the id of the poem that was attacked.
        curve: the networks' training curves.
        reading: detector -> fold -> class -> how much of the poems the network read.
        notices: what a reader should know before trusting a score.
        made: how it was made.
    """

    scores: list[DetectorScore] = field(default_factory=list)
    attacked: list[DetectorScore] = field(default_factory=list)
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
                # Asked whether embeddings changed, peft would look for the base on the hub.
                is_adapter = hasattr(kept.model, "peft_config")
                kept.model.save_pretrained(
                    temporary / name, **({"save_embedding_layers": False} if is_adapter else {})
                )
                kept.classifier.tokenizer.save_pretrained(temporary / name)
                # peft adds a card to be filled in by hand.
                (temporary / name / "README.md").unlink(missing_ok=True)
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
    corpus = Corpus.of(*everything, one_temperature=True)
    trained = Trained(made=_made(params, corpus))
    for name in control_names(params):
        learn = surface.learner(name, corpus, params.ngram, params.seed, trained.surface)
        fitted = fit_and_score(learn, corpus, params.threshold_folds, params.seed)
        trained.scores += as_records(name, corpus, fitted)
    for network, (factory, recipe) in networks_of(params, models).items():
        kept = trained.networks.setdefault(network, Kept())
        learn = finetune.learner(
            network, factory, corpus, recipe, cache, kept, trained.curve.append
        )
        fitted = fit_and_score(learn, corpus, params.threshold_folds, params.seed)
        _add_network(trained, network, corpus, fitted, recipe, changed)
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
            classifier_factory(params.encoder, params.max_tokens),
            recipe_of(params, params),
        )
    }
    if params.lora is not None:
        from shiyan.detectors.lora import lora_classifier

        adapted = lora_classifier(params, models)
        networks[params.lora.name] = (lambda train_texts: adapted, recipe_of(params, params.lora))
    return networks


def train_lessons(
    poems: Mapping[str, Poem],
    assignments: Mapping[str, Assignment],
    params: TrainRobertaParams,
    models: Models,
    cache: WorkCache,
) -> list[DetectorScore]:
    """The scores of every detector that `params.lessons` names, in every lesson.

    A finished lesson's scores are kept in the work cache, so a killed run goes on with
    the next one; of its models nothing is kept.
    """
    if params.lessons == "none":
        return []
    found: list[DetectorScore] = []
    lessons = Protocol.of(evaluated_poems(poems, assignments)).lessons.values()
    for lesson in tqdm(lessons, "train_roberta: lessons", unit="lesson", file=sys.stderr):
        train = set(lesson.train)
        chosen = dict.fromkeys((*lesson.train, *lesson.test))
        corpus = Corpus.of(
            {poem_id: poems[poem_id] for poem_id in chosen},
            {
                poem_id: assignments[poem_id].model_copy(
                    update={"fold": "train" if poem_id in train else "test"}
                )
                for poem_id in chosen
            },
        )
        for name, model, learn in _lesson_learners(lesson.name, corpus, params, models, cache):
            fitted = _kept_or_fitted(name, model, learn, corpus, params, cache)
            found += [
                score.model_copy(update={"setting": lesson.name})
                for score in as_records(name, corpus, fitted)
            ]
    return found


def _lesson_learners(
    lesson: str, corpus: Corpus, params: TrainRobertaParams, models: Models, cache: WorkCache
) -> Iterator[tuple[str, str, Learner]]:
    """(detector, what it is before it learns, learner)."""
    for control in control_names(params):
        learn = surface.learner(control, corpus, params.ngram, params.seed, {})
        yield control, f"formulas {surface.FORMULAS}", learn
    if params.lessons == "all":
        for network, (factory, recipe) in networks_of(params, models).items():
            kept = Kept()
            name = f"{network} {lesson}"
            yield (
                network,
                factory(corpus.texts_of(corpus.rows(train=True))).identity,
                finetune.learner(name, factory, corpus, recipe, cache, kept, lambda point: None),
            )
            if kept.checkpoint is not None:
                # Asked for again, its scores are in the cache.
                kept.checkpoint.remove()


def _kept_or_fitted(
    name: str,
    model: str,
    learn: Learner,
    corpus: Corpus,
    params: TrainRobertaParams,
    cache: WorkCache,
) -> Fitted:
    """The detector's scores of a lesson's poems: those kept in the cache, or new ones."""
    parts = [corpus.texts, corpus.labels.tolist(), corpus.groups, corpus.is_train.tolist()]
    key = {
        "detector": name,
        # A model's name or folder in params says nothing of the weights there.
        "model": model,
        "device": finetune.device_name(),
        "data": hashlib.sha256(repr(parts).encode()).hexdigest(),
        "params": params.model_dump(mode="json", exclude={"lessons", "resamples", "controls"}),
        "versions": {library: version(library) for library in LIBRARIES},
    }
    kept = cache.get_json("lesson_scores", key)
    if kept is not None:
        scores = np.array([np.nan if s is None else s for s in kept["scores"]], np.float64)
        return Fitted(scores, {int(row): why for row, why in kept["reasons"].items()}, None)
    fitted = fit_and_score(learn, corpus, params.threshold_folds, params.seed)
    values = [float(score) if np.isfinite(score) else None for score in fitted.scores]
    cache.put_json("lesson_scores", key, {"scores": values, "reasons": fitted.reasons})
    return fitted


def _add_network(
    trained: Trained,
    name: str,
    corpus: Corpus,
    fitted: Fitted,
    recipe: Recipe,
    attacked: Collection[str],
) -> None:
    """A network's scores, what it read (of the poems as they are), and how it was made."""
    records = as_records(name, corpus, fitted)
    kept = trained.networks[name]
    if kept.classifier is None:
        trained.scores += records
        trained.notices.append(f"{name}: not trained, {_why_not(corpus, fitted)}")
        return
    trained.notices += [
        f"{name}: {n} poems have no score: {reason}"
        for reason, n in Counter(_unlearnt(corpus, fitted)).items()
    ]
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
    own = {
        row: encoding
        for row, encoding in enumerate(encodings)
        if corpus.poem_ids[row] not in attacked
    }
    trained.reading[name] = _reading(corpus, own)
    trained.notices += _reading_notices(name, corpus, own)
    steps = max(p.step for p in trained.curve if p.detector == name and p.fold == "all")
    trained.made["networks"][name] = {
        "model": kept.classifier.identity,
        "max_tokens": kept.classifier.max_tokens,
        "reads_line_breaks": kept.classifier.reads_line_breaks,
        "optimizer_steps": steps,
        "device": next(kept.model.parameters()).device.type,
        **asdict(recipe),
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
    )


def _why_not(corpus: Corpus, fitted: Fitted) -> str:
    # What the last poems lack is what the whole train fold could not teach.
    reasons = [*fitted.reasons.values(), *_unlearnt(corpus, fitted)]
    return reasons[-1] if reasons else "there is no poem"


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
        "train_scores": _cross_fitted(min(params.threshold_folds, n_groups)),
        "text": "body",
        "ngrams": f"{params.ngram.shortest}-{params.ngram.longest} characters, "
        f"in {surface.MIN_DOCUMENTS} train poems or more, TF-IDF",
        "networks": {},
        "versions": {name: version(name) for name in LIBRARIES},
    }


def _cross_fitted(parts: int) -> str:
    if parts < 2:
        return f"none: cross-fitting needs two groups of train poems, and there are {parts}"
    return f"cross-fitted over {parts} parts of whole groups"


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
