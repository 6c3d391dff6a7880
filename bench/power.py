"""The smallest difference of two detectors that a test fold of some size detects, simulated.

    python bench/power.py [--rounds NUMBER] > src/shiyan/data/power.tsv

2.8 standard deviations (80 % power, two-sided 5 %) of the difference of two equally good
detectors that share half of their noise, half of each noise being a group's own.
"""

import argparse

import numpy as np
from coverage import NORMAL, SPREAD, effect_of

from shiyan.detectors.metrics import auroc
from shiyan.detectors.power import LEVELS, macro_f1_of

GROUPS = (10, 15, 30, 60, 100, 200, 400)
LLM_A_GROUP = (1, 4, 10)
NEEDED = NORMAL.inv_cdf(0.8) + NORMAL.inv_cdf(0.975)


def simulated(metric: str, level: int, groups: int, n_llm: int, rounds: int) -> float:
    """In points."""
    rng = np.random.default_rng(level + groups + n_llm)
    effect = effect_of(level / 100)
    if metric == "macro_f1":
        effect = 2 * SPREAD * NORMAL.inv_cdf(level / 100)
    size = 1 + n_llm
    labels = np.tile(np.repeat([0, 1], [1, n_llm]), groups)

    def noise() -> np.ndarray:
        return np.repeat(rng.normal(size=groups), size) + rng.normal(size=size * groups)

    differences = []
    for _ in range(rounds):
        shared = noise()
        values = []
        for _ in range(2):
            scores = effect * labels + (shared + noise()) / SPREAD
            if metric == "auroc":
                values.append(auroc(labels, scores))
            else:
                called = scores >= effect / 2
                values.append(macro_f1_of(called[labels == 1].mean(), called[labels == 0].mean()))
        differences.append(values[0] - values[1])
    return 100 * NEEDED * float(np.std(differences))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=2000)
    arguments = parser.parse_args()
    print("metric\tlevel\tgroups\tllm_a_group\tpoints")
    for metric in ("auroc", "macro_f1"):
        for level in LEVELS:
            for groups in GROUPS:
                for n_llm in LLM_A_GROUP:
                    points = simulated(metric, level, groups, n_llm, arguments.rounds)
                    print(f"{metric}\t{level}\t{groups}\t{n_llm}\t{points:.2f}", flush=True)
