"""The whole grid of tables from stored scores: how long it takes.

    python bench/metrics.py [--resamples NUMBER]

Synthetic scores: 800 human poems, 13 prompts and 4 generators that imitate each of
them, 20 detectors; half of the groups test.
"""

import argparse
import time

import numpy as np

from shiyan.config import EvaluateParams
from shiyan.detectors.evaluation.cells import METRICS
from shiyan.detectors.evaluation.evaluate import evaluate_scores
from shiyan.detectors.evaluation.matrix import ScoreMatrix
from shiyan.detectors.evaluation.poems import evaluated_poems
from shiyan.families import family_of
from shiyan.records import Assignment, DetectorScore, Generation, Poem

POEMS, PROMPTS, GENERATORS, DETECTORS = 800, 13, 4, 20


def corpus() -> dict[str, Poem]:
    poems = {}
    for i in range(POEMS):
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


def grid(resamples: int) -> None:
    poems = corpus()
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
    for d in range(DETECTORS):
        values = rng.normal(size=len(poems)) + 0.1 * d * labels
        scores += [
            DetectorScore(poem_id=p, detector=f"d{d}", score=float(v))
            for p, v in zip(poems, values, strict=True)
        ]
    print(f"{len(poems):,} poems, {len(scores):,} scores, {resamples:,} resamples")
    start, cpu = time.perf_counter(), time.process_time()
    matrix = ScoreMatrix.of(evaluated_poems(poems, assignments), scores, ())
    params = EvaluateParams(
        resamples=resamples, seed=0, fusion_folds=0, copy_share=0.3, fewest_lines=3
    )
    found = evaluate_scores(matrix, params, {})
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    cells = sum(len(of_place) for table in found.tables.values() for of_place in table.values())
    print(
        f"{cells:,} cells of {len(METRICS)} metrics at most: {seconds:.1f} s ({cpu:.1f} s of a "
        f"core), {1000 * cpu / cells:.1f} ms a cell"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--resamples", type=int, default=1000)
    grid(parser.parse_args().resamples)
