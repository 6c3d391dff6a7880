"""Every table from stored scores, and how often an interval holds the truth.

    python bench/metrics.py [--poems 800] [--detectors 20] [--resamples 1000] [--coverage ROUNDS]

Synthetic scores: human poems, 13 prompts and 4 generators that imitate each of them,
detectors that need no training; half of the groups test.
"""

import argparse
import math
import time
from statistics import NormalDist

import numpy as np

from shiyan.config import EvaluateParams
from shiyan.detectors.evaluation.cells import METRICS
from shiyan.detectors.evaluation.evaluate import evaluate_scores
from shiyan.detectors.evaluation.matrix import ScoreMatrix
from shiyan.detectors.evaluation.poems import evaluated_poems
from shiyan.detectors.metrics import Cell, Platt, Threshold
from shiyan.families import family_of
from shiyan.metrics import Draws
from shiyan.records import Assignment, DetectorScore, Generation, Poem

PROMPTS, GENERATORS = 13, 4


def corpus(n: int) -> dict[str, Poem]:
    poems = {}
    for i in range(n):
        human = Poem(poem_id=f"h{i}", title="", text="山\n水\n云", genre="modern", author="甲")
        poems[human.poem_id] = human
        for g in range(GENERATORS):
            for p in range(1, PROMPTS + 1):
                generation = Generation(
                    generator=f"g{g}",
                    prompt_id=f"P{p}",
                    seed_poem_id=human.poem_id,
                    sample_index=0,
                    reply_sha256="0",
                )
                poem_id = f"g{g}-P{p}-{i}"
                poems[poem_id] = human.model_copy(
                    update={"poem_id": poem_id, "generation": generation}
                )
    return poems


def tables(n: int, detectors: int, resamples: int) -> None:
    poems = corpus(n)
    assignments = {
        p.poem_id: Assignment(
            poem_id=p.poem_id,
            group_id=family_of(p),
            fold="test" if int(family_of(p)[1:]) % 2 else "train",
        )
        for p in poems.values()
    }
    rng = np.random.default_rng(0)
    labels = np.array([p.label for p in poems.values()])
    scores = []
    for d in range(detectors):
        values = rng.normal(size=len(poems)) + 0.1 * d * labels
        scores += [
            DetectorScore(poem_id=p, detector=f"d{d}", score=float(v))
            for p, v in zip(poems, values, strict=True)
        ]
    print(f"{len(poems):,} poems, {len(scores):,} scores, {resamples:,} resamples")
    start, cpu = time.perf_counter(), time.process_time()
    matrix = ScoreMatrix.of(evaluated_poems(poems, assignments), scores, [])
    params = EvaluateParams(
        resamples=resamples, seed=0, fusion_folds=5, copy_share=0.3, fewest_lines=3
    )
    found = evaluate_scores(matrix, params, {})
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    rows = {name: sum(map(len, table.values())) for name, table in found.tables.items()}
    print(
        f"{sum(rows.values()):,} rows of up to {len(METRICS)} metrics in {len(rows)} tables: "
        f"{seconds:.1f} s ({cpu:.1f} s of a core)"
    )
    print(", ".join(f"{name} {n:,}" for name, n in rows.items()))


def coverage(rounds: int, groups: int) -> None:
    """Normal scores of variance 2, LLM ones higher by 2, half of the noise a group's own.

    AUROC is Phi(1), macro-F1 midway Phi(1 / sqrt 2); the log-odds of an LLM are score - 1.
    """
    rng = np.random.default_rng(0)
    labels = np.tile([0, 1, 1], groups)
    names = np.repeat(np.arange(groups), 3).astype(str)
    calibrated = Platt(1.0, -1.0, "known")
    many = rng.normal(0, math.sqrt(2), 1_000_000)
    of_normal = NormalDist(2, math.sqrt(2))
    truth = {
        "auroc": NormalDist().cdf(1),
        "macro_f1": NormalDist().cdf(math.sqrt(0.5)),
        # By symmetry both classes' mean squared errors are the same.
        "brier": float((calibrated.probability(many) ** 2).mean()),
        "tpr_at_fpr_5": 1 - of_normal.cdf(NormalDist(0, math.sqrt(2)).inv_cdf(0.95)),
    }
    held = dict.fromkeys(truth, 0)
    given = dict.fromkeys(truth, 0)
    for _ in range(rounds):
        noise = np.repeat(rng.normal(size=groups), 3) + rng.normal(size=3 * groups)
        draws = Draws.of(names, 1000, int(rng.integers(1 << 30)))
        cell = Cell(labels, 2 * labels + noise, draws.columns(names), draws)
        found = {
            "auroc": cell.auroc(),
            "macro_f1": cell.at_threshold(Threshold(1.0, "youden", "train"))["macro_f1"],
            "brier": cell.calibration(calibrated)["brier"],
            "tpr_at_fpr_5": cell.tpr_at_fpr(0.05),
        }
        for name, sampled in found.items():
            estimate = sampled.estimate(len(labels), groups)
            if estimate.low is not None and estimate.high is not None:
                given[name] += 1
                held[name] += estimate.low <= truth[name] <= estimate.high
    shares = ", ".join(
        f"{name} {100 * held[name] / given[name]:.1f} %" if given[name] else f"{name} not given"
        for name in truth
    )
    print(f"{groups} groups, {rounds} rounds: the interval holds the truth: {shares}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--poems", type=int, default=800)
    parser.add_argument("--detectors", type=int, default=20)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--coverage", type=int, metavar="ROUNDS", default=0)
    arguments = parser.parse_args()
    if arguments.coverage:
        for groups in (15, 30, 100):
            coverage(arguments.coverage, groups)
    else:
        tables(arguments.poems, arguments.detectors, arguments.resamples)
