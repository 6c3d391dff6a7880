"""Detectors that learn anew in the lessons of the tables, and what that takes."""

import hashlib
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np
from tqdm import tqdm

from shiyan.config import LessonChoice, TrainRobertaParams
from shiyan.detectors import finetune, surface
from shiyan.detectors.crossfit import Corpus, Fitted, Learner, as_records, fit_and_score
from shiyan.detectors.evaluation.poems import evaluated_poems
from shiyan.detectors.finetune import KeptModel
from shiyan.detectors.protocol import EVERYBODY, Lesson, Protocol
from shiyan.detectors.roberta import Models
from shiyan.detectors.trained import LIBRARIES, control_names, networks_of, recipe_of
from shiyan.records import Assignment, DetectorScore, Poem
from shiyan.splits import MERGES
from shiyan.work import WorkCache


def lessons_of(protocol: Protocol, chosen: Collection[LessonChoice]) -> dict[str, Lesson]:
    """The lessons that are chosen, by name; the whole train fold is learnt from anyway."""
    names = {setting.lesson for setting in protocol.settings if setting.kind in chosen}
    names.discard(EVERYBODY)
    if "single_prompt" in chosen:
        names |= _of_single_prompts(protocol)
    return {name: lesson for name, lesson in protocol.lessons.items() if name in names}


def _of_single_prompts(protocol: Protocol) -> set[str]:
    """Of a generator each; one generator's are those of all generators."""
    prompts = [
        setting
        for setting in protocol.of_kind("in_domain")
        if setting.trained_on not in MERGES and setting.trained_on != EVERYBODY
    ]
    of_one = {setting.lesson for setting in prompts if setting.generator != EVERYBODY}
    return of_one or {setting.lesson for setting in prompts}


def train_lessons(
    poems: Mapping[str, Poem],
    assignments: Mapping[str, Assignment],
    params: TrainRobertaParams,
    models: Models,
    cache: WorkCache,
) -> list[DetectorScore]:
    """The scores of the detectors that `params.lessons` names, in every lesson of theirs.

    A finished lesson's scores are kept in the work cache, so a killed run goes on with
    the next one; of its models nothing is kept.
    """
    protocol = Protocol.of(evaluated_poems(poems, assignments))
    of_controls = lessons_of(protocol, params.lessons.controls)
    of_networks = lessons_of(protocol, params.lessons.networks)
    lessons = of_controls | of_networks
    found: list[DetectorScore] = []
    for lesson in tqdm(
        lessons.values(), "train_roberta: lessons", unit="lesson", file=sys.stderr, disable=None
    ):
        corpus = _corpus_of(lesson, poems, assignments, params)
        learners: list[_Pupil] = []
        if lesson.name in of_controls:
            learners += _controls(corpus, params)
        if lesson.name in of_networks:
            learners += _networks(lesson.name, corpus, params, models, cache)
        for pupil in learners:
            fitted = _kept_or_fitted(pupil, corpus, params, cache)
            found += [
                score.model_copy(update={"setting": lesson.name})
                for score in as_records(pupil.detector, corpus, fitted, pupil.border)
            ]
    return found


def _corpus_of(
    lesson: Lesson,
    poems: Mapping[str, Poem],
    assignments: Mapping[str, Assignment],
    params: TrainRobertaParams,
) -> Corpus:
    train = set(lesson.train)
    chosen = dict.fromkeys((*lesson.train, *lesson.test))
    folds = {
        poem_id: assignments[poem_id].model_copy(
            update={"fold": "train" if poem_id in train else "test"}
        )
        for poem_id in chosen
    }
    return Corpus.of({poem_id: poems[poem_id] for poem_id in chosen}, folds, text=params.text)


@dataclass(frozen=True)
class _Pupil:
    """A detector before a lesson.

    Attributes:
        model: what it is before it learns, in words.
        kept: its fold models, once it has learnt.
    """

    detector: str
    model: str
    learn: Learner
    folds: int
    border: float
    kept: Mapping[str, KeptModel]


def _controls(corpus: Corpus, params: TrainRobertaParams) -> Iterator[_Pupil]:
    for name in control_names(params):
        learn = surface.learner(name, corpus, params.ngram, params.seed, {})
        border = surface.BORDERS.get(name, 0.0)
        yield _Pupil(name, f"formulas {surface.FORMULAS}", learn, params.folds, border, {})


def _networks(
    lesson: str, corpus: Corpus, params: TrainRobertaParams, models: Models, cache: WorkCache
) -> Iterator[_Pupil]:
    for network, (factory, recipe) in networks_of(params, models).items():
        kept: dict[str, KeptModel] = {}
        model = factory(corpus.texts_of(corpus.rows(train=True))).identity
        learn = finetune.learner(
            network, factory, corpus, recipe, cache, kept, lambda point: None, lesson=lesson
        )
        yield _Pupil(network, model, learn, params.lessons.network_folds, 0.0, kept)


def _kept_or_fitted(
    pupil: _Pupil, corpus: Corpus, params: TrainRobertaParams, cache: WorkCache
) -> Fitted:
    """The detector's scores of a lesson's poems: those kept in the cache, or new ones."""
    parts = [corpus.texts, corpus.labels.tolist(), corpus.groups, corpus.is_train.tolist()]
    key = {
        "detector": pupil.detector,
        # A model's name or folder in params says nothing of the weights there.
        "model": pupil.model,
        "device": finetune.device_name(),
        "data": hashlib.sha256(repr(parts).encode()).hexdigest(),
        "folds": pupil.folds,
        "params": params.model_dump(
            mode="json", exclude={"lessons", "resamples", "controls", "folds"}
        ),
        "versions": {library: version(library) for library in LIBRARIES},
    }
    done = cache.get_json("lesson_scores", key)
    if done is not None:
        scores, raw = (
            np.array([np.nan if s is None else s for s in done[name]], np.float64)
            for name in ("scores", "raw")
        )
        return Fitted(scores, raw, {int(row): why for row, why in done["reasons"].items()})
    fitted = fit_and_score(pupil.learn, corpus, pupil.folds, params.seed)
    values = {
        name: [float(score) if np.isfinite(score) else None for score in column]
        for name, column in (("scores", fitted.scores), ("raw", fitted.raw))
    }
    cache.put_json("lesson_scores", key, {**values, "reasons": fitted.reasons})
    for kept in pupil.kept.values():
        # Asked for again, its scores are in the cache.
        kept.checkpoint.remove()
    return fitted


# --- what it takes -----------------------------------------------------------------------


@dataclass(frozen=True)
class Training:
    """What the trainings of one network take.

    Attributes:
        trainings: how often it is trained, the whole train fold and lessons together.
        passes: poems that are learnt from, each as often as it is.
        minutes: by the speed of the last such training; None where there was none.
    """

    network: str
    trainings: int
    passes: int
    minutes: float | None


def planned_trainings(
    poems: Mapping[str, Poem],
    assignments: Mapping[str, Assignment],
    params: TrainRobertaParams,
    cache: WorkCache,
) -> list[Training]:
    """What the stage would train; the texts of the poems play no part, nor does early stopping."""
    protocol = Protocol.of(evaluated_poems(poems, assignments))
    whole = [p for p in poems if assignments[p].fold == "train"]
    rounds = [(whole, params.folds)] + [
        (lesson.train, params.lessons.network_folds)
        for lesson in lessons_of(protocol, params.lessons.networks).values()
    ]
    trainings = sum(folds for _, folds in rounds)
    poems_read = sum(_epoch(ids, poems, params) * max(folds - 1, 1) for ids, folds in rounds)
    own = {params.name: (recipe_of(params, params), params.max_tokens)}
    if params.lora is not None:
        own[params.lora.name] = (recipe_of(params, params.lora), params.lora.max_tokens)
    found = []
    for name, (recipe, max_tokens) in own.items():
        passes = poems_read * recipe.epochs
        seconds = finetune.seconds_a_pass(cache, name, recipe, max_tokens)
        minutes = None if seconds is None else seconds * passes / 60
        found.append(Training(name, trainings, passes, minutes))
    return found


def _epoch(ids: Sequence[str], poems: Mapping[str, Poem], params: TrainRobertaParams) -> int:
    """Poems of an epoch; up-sampling brings the rarer class to the size of the other."""
    classes = Counter(poems[poem_id].label for poem_id in ids)
    return 2 * max(classes.values(), default=0) if params.balance == "up_sampling" else len(ids)
