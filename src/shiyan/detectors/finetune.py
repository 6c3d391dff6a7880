"""The training loop: one for every network, killed at any step and none the worse.

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
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from shiyan.detectors.crossfit import Corpus, Rows, Scorer, UnlearntError
from shiyan.detectors.roberta import Classifier, ClassifierFactory, Encoding, log_odds
from shiyan.metrics import Floats, Labels
from shiyan.splits import class_weights, up_sampled
from shiyan.work import WorkCache

CHECKPOINT_SECONDS = 60.0
LARGEST_GRADIENT = 1.0
"""Gradients are scaled down to this norm, as transformers' Trainer does by default."""
SCORED_AT_ONCE = 32
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
        part: whose loss it is: of a step's batch, or of the held-out poems at an epoch's end.
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
) -> tuple[Any, list[CurvePoint]]:
    """Train a model from the classifier's own start, or on from the checkpoint.

    Args:
        name: detector and fold, for the curve and the bar.
        held_out: poems whose loss and metrics are taken at the end of each epoch.
        watch: told of each point of the curve as it comes.

    Returns:
        The model, in evaluation mode, and the whole curve.

    Raises:
        UnlearntError: the weights ran away; the checkpoint is gone then.
    """
    device = _device()
    model = classifier.build(recipe.seed).to(device)
    try:
        with _threads_for(model):
            points = _take_steps(
                model, classifier, train, recipe, checkpoint, name, held_out, watch
            )
        # The last step is followed by no loss that could tell.
        if not np.isfinite(encoded_scores(model, classifier, train.encodings[:1])).all():
            raise _diverged("a score is not finite after the last step")
    except UnlearntError:
        checkpoint.remove()
        raise
    return model.eval(), points


def _diverged(how: str) -> UnlearntError:
    return UnlearntError(f"training diverged ({how}); lower the learning rate")


def _take_steps(
    model: Any,
    classifier: Classifier,
    train: Sample,
    recipe: Recipe,
    checkpoint: Checkpoint,
    name: tuple[str, str],
    held_out: Sample | None,
    watch: Callable[[CurvePoint], None],
) -> list[CurvePoint]:
    """Bring a fresh model through all steps; the whole curve comes back."""
    import torch
    from tqdm import tqdm

    rows, weights = _balanced(train.labels, recipe)
    per_epoch = math.ceil(len(rows) / recipe.batch_size)
    steps = recipe.epochs * per_epoch
    optimizer = torch.optim.AdamW(_parameter_groups(model, recipe.weight_decay), lr=0.0)
    first, points = 0, list[CurvePoint]()

    def add(point: CurvePoint) -> None:
        points.append(point)
        watch(point)

    if (state := checkpoint.load()) is not None:
        model.load_state_dict(state["weights"], strict=False)
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
        for point in state["points"]:
            add(CurvePoint(**point))

    def state_after(step: int) -> dict[str, Any]:
        return {
            "step": step,
            "weights": {n: p.detach() for n, p in model.named_parameters() if p.requires_grad},
            "optimizer": optimizer.state_dict(),
            "points": [asdict(point) for point in points],
        }

    for step in tqdm(
        range(first, steps), " ".join(name), initial=first, total=steps, leave=False, disable=None
    ):
        epoch, place = divmod(step, per_epoch)
        order = np.random.default_rng([recipe.seed, epoch]).permutation(rows)
        batch = order[place * recipe.batch_size : (place + 1) * recipe.batch_size]
        torch.manual_seed(recipe.seed * 1_000_003 + step)
        model.train()
        loss = _loss(model, classifier, train, batch, weights[batch])
        if not torch.isfinite(loss):
            raise _diverged(f"loss not finite at step {step + 1}")
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), LARGEST_GRADIENT)
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate_at(step, steps)
        optimizer.step()
        optimizer.zero_grad()
        add(CurvePoint(*name, "train", step + 1, epoch + 1, float(loss.detach())))
        if place == per_epoch - 1 and held_out is not None:
            add(_held_out_point(model, classifier, held_out, name, step + 1, epoch + 1))
        if checkpoint.is_due():
            checkpoint.save(state_after(step + 1))
    checkpoint.save(state_after(steps))
    return points


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


def _logits(model: Any, classifier: Classifier, encodings: Sequence[Encoding], device: Any) -> Any:
    """Of one batch, padded on the right to its longest text; (n, 2)."""
    import torch

    longest = max(len(encoding.ids) for encoding in encodings)
    pad = classifier.tokenizer.pad_token_id
    ids = [[*e.ids, *[pad] * (longest - len(e.ids))] for e in encodings]
    mask = [[1] * len(e.ids) + [0] * (longest - len(e.ids)) for e in encodings]
    lower = classifier.dtype != "float32"
    with torch.autocast(device.type, getattr(torch, classifier.dtype), enabled=lower):
        return model(
            input_ids=torch.tensor(ids, device=device),
            attention_mask=torch.tensor(mask, device=device),
        ).logits.float()


def _loss(model: Any, classifier: Classifier, sample: Sample, rows: Rows, weights: Floats) -> Any:
    """Mean cross-entropy of a batch, each poem by its weight."""
    import torch

    device = next(model.parameters()).device
    logits = _logits(model, classifier, [sample.encodings[row] for row in rows], device)
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
    """ln P(LLM) / P(human) of each text; equal texts are read once and score the same."""
    import torch

    model.eval()
    distinct = sorted({encoding.ids: encoding for encoding in encodings}.values(), key=_length)
    found: dict[tuple[int, ...], float] = {}
    device = next(model.parameters()).device
    with torch.inference_mode(), _threads_for(model):
        for start in range(0, len(distinct), SCORED_AT_ONCE):
            batch = distinct[start : start + SCORED_AT_ONCE]
            logits = _logits(model, classifier, batch, device).double().cpu().numpy()
            scores = log_odds(logits, model.config.id2label, classifier.identity)
            found |= zip((e.ids for e in batch), scores.tolist(), strict=True)
    return np.array([found[encoding.ids] for encoding in encodings], np.float64)


def _length(encoding: Encoding) -> tuple[int, tuple[int, ...]]:
    return len(encoding.ids), encoding.ids


# --- as a detector -------------------------------------------------------------------


@dataclass
class Kept:
    """What remains of a detector's training: its final model, and all curves."""

    classifier: Classifier | None = None
    model: Any = None
    checkpoint: Checkpoint | None = None


def learner(
    detector: str,
    factory: ClassifierFactory,
    corpus: Corpus,
    recipe: Recipe,
    cache: WorkCache,
    kept: Kept,
    watch: Callable[[CurvePoint], None],
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> Callable[[Rows, str], Scorer]:
    """A `crossfit.Learner`; a fold's scores are kept in the cache, its model is not."""

    def learn(rows: Rows, fold: str) -> Scorer:
        classifier = factory(corpus.texts_of(rows))
        train = Sample.of(classifier, corpus.texts_of(rows), corpus.labels[rows])
        others = np.setdiff1d(corpus.rows(train=True), rows)
        key = _key(detector, fold, corpus, (rows, others), classifier, recipe)
        done = cache.get_json("fold_scores", key) if fold != "all" else None
        if done is not None:
            for point in done["points"]:
                watch(CurvePoint(**point))
            return _looked_up(others, done["scores"])
        checkpoint = Checkpoint(cache, key, checkpoint_seconds)
        held_out = Sample.of(classifier, corpus.texts_of(others), corpus.labels[others])
        model, points = fine_tune(
            classifier,
            train,
            recipe,
            checkpoint,
            name=(detector, fold),
            held_out=held_out if len(others) else None,
            watch=watch,
        )
        if fold == "all":
            kept.classifier, kept.model, kept.checkpoint = classifier, model, checkpoint
            return lambda asked: encoded_scores(
                model, classifier, [classifier.encode(text) for text in corpus.texts_of(asked)]
            )
        scores = encoded_scores(model, classifier, held_out.encodings).tolist()
        cache.put_json(
            "fold_scores", key, {"scores": scores, "points": [asdict(point) for point in points]}
        )
        checkpoint.remove()
        return _looked_up(others, scores)

    return learn


def _looked_up(rows: Rows, scores: Sequence[float]) -> Scorer:
    score_of = dict(zip(rows.tolist(), scores, strict=True))
    return lambda asked: np.array([score_of[row] for row in asked.tolist()], np.float64)


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
        "recipe": asdict(recipe),
        "device": device_name(),
        "versions": [version("torch"), version("transformers")],
    }
