"""The training loop: one for every network, killed at any step and none the worse.

A network that has held-out poems keeps the weights of its lowest held-out loss. Its last
ones have often learnt the train poems by heart and say the same of every other poem.

What a step does depends on the recipe, the data and the step's number alone: the
order of an epoch's poems and a step's dropout are drawn anew from (seed, epoch)
and (seed, step). So a run that goes on from a checkpoint takes the very steps
that it would have taken, and ends in the same weights.
"""

import hashlib
import io
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from shiyan.detectors.crossfit import Corpus, Learner, Rows, Scorer, UnlearntError
from shiyan.detectors.roberta import Classifier, ClassifierFactory, Dtype, Encoding, log_odds
from shiyan.errors import UserError
from shiyan.metrics import Floats, Labels
from shiyan.splits import class_weights, up_sampled
from shiyan.work import WorkCache

CHECKPOINT_SECONDS = 60.0
LARGEST_GRADIENT = 1.0
"""Gradients are scaled down to this norm, as transformers' Trainer does by default."""
SCORED_AT_ONCE = 32
SPEED = "training_speed"
"""The kind of work that a measured speed is kept as."""
SMALL_MODEL = 10_000_000
"""Parameters."""


@dataclass(frozen=True)
class Recipe:
    """How a network is trained: AdamW, linear warm-up, then linear decay to 0."""

    epochs: int
    learning_rate: float
    batch_size: int
    warmup_share: float
    weight_decay: float
    balance: Literal["class_weights", "up_sampling"]
    seed: int
    evaluate_every: int | None = None
    """Steps; None: an epoch."""
    patience: int | None = None
    """Looks at the held-out loss; None: no end."""

    def rate_at(self, step: int, steps: int) -> float:
        """The learning rate of a step, counted from 0."""
        warmup = math.ceil(self.warmup_share * steps)
        if step < warmup:
            return self.learning_rate * (step + 1) / warmup
        return self.learning_rate * (steps - step) / max(steps - warmup, 1)


@dataclass(frozen=True)
class CurvePoint:
    """One point of a training curve.

    Attributes:
        fold: "all", or the fold that was held out.
        part: whose loss it is: of a step's batch, or of the held-out poems.
        loss: mean cross-entropy in nats, classes weighing equally.
        macro_f1, auroc: of the held-out poems, at log-odds 0; None for a batch.
    """

    detector: str
    fold: str
    part: Literal["train", "held_out"]
    step: int
    epoch: int
    loss: float
    macro_f1: float | None = None
    auroc: float | None = None


CURVE_COLUMNS = ("detector", "fold", "part", "step", "epoch", "loss", "macro_f1", "auroc")


@dataclass
class Checkpoint:
    """A run's last saved state in the work cache, under all that decides its end.

    Attributes:
        seconds: the least time between two saves, so that a large model is not all saving.
    """

    cache: WorkCache
    key: Mapping[str, Any]
    seconds: float = CHECKPOINT_SECONDS
    saved_at: float = float("-inf")

    KIND = "training"

    def load(self) -> dict[str, Any] | None:
        """The state, or None where there is none or the disk spoilt it."""
        import pickle

        import torch

        value = self.cache.get(self.KIND, self.key)
        self.saved_at = time.monotonic()
        if value is None:
            return None
        try:
            # Tensors and plain values only: a checkpoint never runs code.
            state: dict[str, Any] = torch.load(io.BytesIO(value), weights_only=True)
        except (RuntimeError, ValueError, EOFError, pickle.UnpicklingError):
            return None
        return state

    def is_due(self) -> bool:
        return time.monotonic() - self.saved_at >= self.seconds

    def save(self, state: dict[str, Any]) -> None:
        import torch

        buffer = io.BytesIO()
        torch.save(state, buffer)
        self.cache.put(self.KIND, self.key, buffer.getvalue())
        self.saved_at = time.monotonic()

    def remove(self) -> None:
        self.cache.path(self.KIND, self.key).unlink(missing_ok=True)


@dataclass(frozen=True)
class Sample:
    """Encoded texts and their labels."""

    encodings: tuple[Encoding, ...]
    labels: Labels

    @classmethod
    def of(cls, classifier: Classifier, texts: Sequence[str], labels: Labels) -> "Sample":
        return cls(tuple(classifier.encode(text) for text in texts), labels)


def fine_tune(
    classifier: Classifier,
    train: Sample,
    recipe: Recipe,
    checkpoint: Checkpoint,
    *,
    name: tuple[str, str],
    held_out: Sample | None = None,
    watch: Callable[[CurvePoint], None] = lambda point: None,
    told_speed: Callable[[float], None] = lambda seconds: None,
) -> tuple[Any, list[CurvePoint]]:
    """Train a model from the classifier's own start, or on from the checkpoint.

    Args:
        name: detector and fold, for the curve and the bar.
        held_out: poems by whose loss the weights to keep are chosen.
        watch: told of each point of the curve as it comes.
        told_speed: told of the seconds that a poem took each time it was learnt from.

    Returns:
        The model, in evaluation mode, and the whole curve.

    Raises:
        UnlearntError: the weights ran away; the checkpoint is gone then.
    """
    device = _device()
    model = classifier.build(recipe.seed).to(device)
    training = _Training(model, classifier, train, recipe, checkpoint, name, held_out, watch)
    try:
        with _threads_for(model):
            started = time.monotonic()
            training.run()
            if training.passes:
                told_speed((time.monotonic() - started) / training.passes)
        # The last step is followed by no loss that could tell.
        if not np.isfinite(encoded_scores(model, classifier, train.encodings[:1])).all():
            raise _diverged("a score is not finite after the last step")
    except UnlearntError:
        checkpoint.remove()
        raise
    return model.eval(), training.points


def _diverged(how: str) -> UnlearntError:
    return UnlearntError(f"training diverged ({how}); lower the learning rate")


@dataclass
class _Training:
    """A fresh model on its way through all steps, and all that a checkpoint holds of it."""

    model: Any
    classifier: Classifier
    train: Sample
    recipe: Recipe
    checkpoint: Checkpoint
    name: tuple[str, str]
    held_out: Sample | None
    watch: Callable[[CurvePoint], None]
    points: list[CurvePoint] = field(default_factory=list)
    best: dict[str, Any] | None = None
    first: int = 0
    passes: int = 0
    """Poems learnt from since the start or the checkpoint."""

    def __post_init__(self) -> None:
        import torch

        self.rows, self.weights = _balanced(self.train.labels, self.recipe)
        self.per_epoch = math.ceil(len(self.rows) / self.recipe.batch_size)
        self.steps = self.recipe.epochs * self.per_epoch
        groups = _parameter_groups(self.model, self.recipe.weight_decay)
        self.optimizer = torch.optim.AdamW(groups, lr=0.0)

    def run(self) -> None:
        """Take all steps, or those that are left, and end in the weights to keep."""
        from tqdm import tqdm

        if self._resumed():
            return
        bar = tqdm(
            range(self.first, self.steps),
            " ".join(self.name),
            initial=self.first,
            total=self.steps,
            leave=False,
            disable=None,
        )
        for step in bar:
            self._take(step)
            if self.held_out is not None and self._is_looked_at(step):
                self._look(self.held_out, step)
                if self._is_hopeless():
                    break
            if self.checkpoint.is_due():
                self.checkpoint.save(self._state(step + 1))
        bar.close()
        if self.best is not None:
            self.model.load_state_dict(self.best, strict=False)
        # Neither the optimizer nor other weights are of use any more.
        self.checkpoint.save({"finished": True, "weights": self._trained(), "points": self._told()})

    def _resumed(self) -> bool:
        """Take up the checkpoint, if there is one; is it of a finished run?"""
        if (state := self.checkpoint.load()) is None:
            return False
        self.model.load_state_dict(state["weights"], strict=False)
        for point in state["points"]:
            self._add(CurvePoint(**point))
        if state.get("finished"):
            return True
        self.optimizer.load_state_dict(state["optimizer"])
        self.first, self.best = state["step"], state["best"]
        return False

    def _take(self, step: int) -> None:
        import torch

        epoch, place = divmod(step, self.per_epoch)
        size = self.recipe.batch_size
        order = np.random.default_rng([self.recipe.seed, epoch]).permutation(self.rows)
        batch = order[place * size : (place + 1) * size]
        torch.manual_seed(self.recipe.seed * 1_000_003 + step)
        self.model.train()
        loss = _loss(self.model, self.classifier, self.train, batch, self.weights[batch])
        if not torch.isfinite(loss):
            raise _diverged(f"loss not finite at step {step + 1}")
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), LARGEST_GRADIENT)
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.rate_at(step, self.steps)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.passes += len(batch)
        self._add(CurvePoint(*self.name, "train", step + 1, epoch + 1, float(loss.detach())))

    def _is_looked_at(self, step: int) -> bool:
        every = self.recipe.evaluate_every or self.per_epoch
        return (step + 1) % every == 0 or step + 1 == self.steps

    def _look(self, held_out: Sample, step: int) -> None:
        """Take the held-out loss, and keep the weights if it is the lowest so far."""
        epoch = step // self.per_epoch + 1
        before = [point.loss for point in self.points if point.part == "held_out"]
        point = _held_out_point(self.model, self.classifier, held_out, self.name, step + 1, epoch)
        if not before or point.loss < min(before):
            self.best = {name: weights.clone() for name, weights in self._trained().items()}
        self._add(point)

    def _is_hopeless(self) -> bool:
        """Has the held-out loss not fallen for as many looks as `patience` allows?"""
        if self.recipe.patience is None:
            return False
        losses = [point.loss for point in self.points if point.part == "held_out"]
        return len(losses) - 1 - int(np.argmin(losses)) >= self.recipe.patience

    def _add(self, point: CurvePoint) -> None:
        self.points.append(point)
        self.watch(point)

    def _trained(self) -> dict[str, Any]:
        named = self.model.named_parameters()
        return {name: weights.detach() for name, weights in named if weights.requires_grad}

    def _told(self) -> list[dict[str, Any]]:
        return [asdict(point) for point in self.points]

    def _state(self, step: int) -> dict[str, Any]:
        return {
            "step": step,
            "weights": self._trained(),
            "optimizer": self.optimizer.state_dict(),
            "best": self.best,
            "points": self._told(),
        }


def _device() -> Any:
    import torch

    if torch.cuda.is_available():
        torch.use_deterministic_algorithms(True, warn_only=True)
        return torch.device("cuda")
    return torch.device("cpu")


def device_name() -> str:
    """Where networks are trained and read: cuda or cpu."""
    return str(_device())


def _balanced(labels: Labels, recipe: Recipe) -> tuple[Rows, Floats]:
    """The rows of an epoch, and every row's weight; the classes weigh equally in one or other."""
    known = labels.tolist()
    if recipe.balance == "up_sampling":
        rows = sorted(up_sampled(range(len(known)), known, recipe.seed))
        return np.array(rows, np.intp), np.ones(len(known))
    return np.arange(len(known)), np.array(class_weights(known))


@contextmanager
def _threads_for(model: Any) -> Iterator[None]:
    """One thread for a small model: several would mostly wait for each other, and the sums
    (hence the weights) would depend on how many there are."""
    import torch

    before = torch.get_num_threads()
    if sum(p.numel() for p in model.parameters()) < SMALL_MODEL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _parameter_groups(model: Any, weight_decay: float) -> list[dict[str, Any]]:
    """Biases and layer norms do not decay."""
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in trained if p.ndim > 1]
    vectors = [p for p in trained if p.ndim <= 1]
    return [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]


def _logits(model: Any, classifier: Classifier, encodings: Sequence[Encoding], dtype: Dtype) -> Any:
    """Of one batch, padded on the right to its longest text; (n, 2)."""
    import torch

    longest = max(len(encoding.ids) for encoding in encodings)
    pad = classifier.tokenizer.pad_token_id
    ids = [[*e.ids, *[pad] * (longest - len(e.ids))] for e in encodings]
    mask = [[1] * len(e.ids) + [0] * (longest - len(e.ids)) for e in encodings]
    device = next(model.parameters()).device
    with torch.autocast(device.type, torch.bfloat16, enabled=dtype == "bfloat16"):
        return model(
            input_ids=torch.tensor(ids, device=device),
            attention_mask=torch.tensor(mask, device=device),
        ).logits.float()


def _loss(model: Any, classifier: Classifier, sample: Sample, rows: Rows, weights: Floats) -> Any:
    """Mean cross-entropy of a batch, each poem by its weight."""
    import torch

    encodings = [sample.encodings[row] for row in rows]
    logits = _logits(model, classifier, encodings, classifier.dtype)
    device = logits.device
    labels = torch.tensor(sample.labels[rows], device=device)
    each = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    return (torch.tensor(weights, dtype=torch.float32, device=device) * each).mean()


def _held_out_point(
    model: Any,
    classifier: Classifier,
    held_out: Sample,
    name: tuple[str, str],
    step: int,
    epoch: int,
) -> CurvePoint:
    from shiyan.detectors.hf_metrics import held_out_metrics

    scores = encoded_scores(model, classifier, held_out.encodings)
    if not np.isfinite(scores).all():
        raise _diverged(f"loss not finite after step {step}")
    # ln(1 + e^-s) for an LLM's poem, ln(1 + e^s) for a person's.
    each = np.logaddexp(0, np.where(held_out.labels == 1, -scores, scores))
    means = [each[held_out.labels == label].mean() for label in np.unique(held_out.labels)]
    found = held_out_metrics(held_out.labels, scores)
    return CurvePoint(
        *name,
        "held_out",
        step,
        epoch,
        float(np.mean(means)),
        macro_f1=found["macro_f1"],
        auroc=found["auroc"],
    )


def encoded_scores(model: Any, classifier: Classifier, encodings: Sequence[Encoding]) -> Floats:
    """ln P(LLM) / P(human) of each text; equal texts are read once and score the same.

    In float32 where the weights allow it, whatever they were trained in: two poems that
    bfloat16 cannot part would tie.
    """
    import torch

    model.eval()
    distinct = sorted({encoding.ids: encoding for encoding in encodings}.values(), key=_length)
    found: dict[tuple[int, ...], float] = {}
    whole = all(weights.dtype == torch.float32 for weights in model.parameters())
    dtype: Dtype = "float32" if whole else classifier.dtype
    with torch.inference_mode(), _threads_for(model):
        for start in range(0, len(distinct), SCORED_AT_ONCE):
            batch = distinct[start : start + SCORED_AT_ONCE]
            logits = _logits(model, classifier, batch, dtype).double().cpu().numpy()
            scores = log_odds(logits, model.config.id2label, classifier.identity)
            found |= zip((e.ids for e in batch), scores.tolist(), strict=True)
    return np.array([found[encoding.ids] for encoding in encodings], np.float64)


def _length(encoding: Encoding) -> tuple[int, tuple[int, ...]]:
    return len(encoding.ids), encoding.ids


# --- as a detector -------------------------------------------------------------------


@dataclass(frozen=True)
class KeptModel:
    """A trained fold model; its weights lie in its checkpoint, one a time in memory."""

    classifier: Classifier
    seed: int
    checkpoint: Checkpoint
    points: Sequence[CurvePoint]

    def model(self) -> Any:
        """The model, built anew with the weights that were kept.

        Raises:
            UserError: they are not there any more.
        """
        state = self.checkpoint.load()
        if state is None:
            raise UserError("the work cache lost the weights of a trained network; run again")
        model = self.classifier.build(self.seed)
        model.load_state_dict(state["weights"], strict=False)
        return model.eval()

    @property
    def steps(self) -> tuple[int, int]:
        """(taken, of which the weights were kept)."""
        looks = [point for point in self.points if point.part == "held_out"]
        taken = max(point.step for point in self.points)
        return taken, min(looks, key=lambda p: p.loss).step if looks else taken


def speed_key(network: str, recipe: Recipe, max_tokens: int) -> dict[str, Any]:
    """Under which a network's measured speed is kept, for plans."""
    return {
        "network": network,
        "batch_size": recipe.batch_size,
        "max_tokens": max_tokens,
        "device": device_name(),
    }


def seconds_a_pass(cache: WorkCache, network: str, recipe: Recipe, max_tokens: int) -> float | None:
    """What a poem took in the last training of such a network; None where there was none."""
    found = cache.get_json(SPEED, speed_key(network, recipe, max_tokens))
    return None if found is None else float(found["seconds"])


def learner(
    detector: str,
    factory: ClassifierFactory,
    corpus: Corpus,
    recipe: Recipe,
    cache: WorkCache,
    kept: dict[str, KeptModel],
    watch: Callable[[CurvePoint], None],
    *,
    lesson: str = "",
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> Learner:
    """A `crossfit.Learner`; each fold's model goes to `kept`."""
    named = f"{detector} {lesson}".strip()

    def learn(rows: Rows, fold: str) -> Scorer:
        classifier = factory(corpus.texts_of(rows))
        train = Sample.of(classifier, corpus.texts_of(rows), corpus.labels[rows])
        others = np.setdiff1d(corpus.rows(train=True), rows)
        key = _key(named, fold, corpus, (rows, others), classifier, recipe)
        checkpoint = Checkpoint(cache, key, checkpoint_seconds)
        held_out = Sample.of(classifier, corpus.texts_of(others), corpus.labels[others])
        model, points = fine_tune(
            classifier,
            train,
            recipe,
            checkpoint,
            name=(named, fold),
            held_out=held_out if len(others) else None,
            watch=watch,
            told_speed=lambda seconds: cache.put_json(
                SPEED, speed_key(detector, recipe, classifier.max_tokens), {"seconds": seconds}
            ),
        )
        kept[fold] = KeptModel(classifier, recipe.seed, checkpoint, points)
        return lambda asked: encoded_scores(
            model, classifier, [classifier.encode(text) for text in corpus.texts_of(asked)]
        )

    return learn


def _key(
    detector: str,
    fold: str,
    corpus: Corpus,
    parts: tuple[Rows, Rows],
    classifier: Classifier,
    recipe: Recipe,
) -> dict[str, Any]:
    """All that decides a run's end."""
    from importlib.metadata import version

    data = [[[corpus.texts[r], int(corpus.labels[r])] for r in rows] for rows in parts]
    return {
        "detector": detector,
        "fold": fold,
        "data": hashlib.sha256(repr(data).encode()).hexdigest(),
        "classifier": classifier.identity,
        "max_tokens": classifier.max_tokens,
        "dtype": classifier.dtype,
        "recipe": asdict(recipe),
        "device": device_name(),
        "versions": [version("torch"), version("transformers")],
    }
