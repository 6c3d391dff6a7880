"""How often an interval holds the truth, of corpora whose truth is known.

    python bench/coverage.py [metrics] [max_t] [poets] [threshold] [rho] [--rounds NUMBER]

Normal scores of variance 2, half of it a group's own; an LLM's are higher by what gives the
AUROC. Every line tells how many intervals held the truth and how many rounds had none.
"""

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations
from statistics import NormalDist

import numpy as np

from shiyan.correlation import permutation_p, spearman
from shiyan.detectors.metrics import Cell, Platt, Threshold
from shiyan.metrics import Draws, Sampled, interval, simultaneous

LEVELS = (0.84, 0.95, 0.98, 0.995)
LAYOUTS = ((15, 1, 9), (15, 2, 2), (30, 1, 1), (100, 1, 4))
"""Groups, human poems and LLM poems in each."""
RESAMPLES = 1000
NORMAL = NormalDist()
SPREAD = math.sqrt(2)


class Tally:
    """Of one metric: intervals that hold, lie above or below, or are not given."""

    def __init__(self) -> None:
        self.held = self.above = self.below = self.none = 0
        self.width = 0.0

    def add(self, sampled: Sampled, truth: float, n_groups: int) -> None:
        told = sampled.estimate(0, n_groups)
        if told.low is None or told.high is None:
            self.none += 1
            return
        self.above += told.low > truth
        self.below += told.high < truth
        self.held += told.low <= truth <= told.high
        self.width += told.high - told.low

    def __str__(self) -> str:
        given = self.held + self.above + self.below
        if not given:
            return "none given"
        return (
            f"{100 * self.held / given:5.1f} % hold, {100 * self.above / given:4.1f} above, "
            f"{100 * self.below / given:4.1f} below, width {100 * self.width / given:5.1f}, "
            f"{100 * self.none / (given + self.none):4.1f} % none"
        )


class Corpora:
    """Simulated corpora of one layout."""

    def __init__(self, groups: int, n_human: int, n_llm: int, seed: int) -> None:
        self.groups, self.size = groups, n_human + n_llm
        self.rng = np.random.default_rng(seed)
        self.labels = np.tile(np.repeat([0, 1], [n_human, n_llm]), groups)
        self.names = np.repeat(np.arange(groups), self.size).astype(str)

    def next(self) -> Callable[[float], Cell]:
        """A new corpus, as a source of detectors that share half of their noise."""
        draws = Draws.of(self.names, RESAMPLES, int(self.rng.integers(1 << 30)))
        columns = draws.columns(self.names)
        of_corpus = self._noise()

        def detector(effect: float) -> Cell:
            noise = (of_corpus + self._noise()) / SPREAD
            return Cell(self.labels, effect * self.labels + noise, columns, draws)

        return detector

    def _noise(self) -> np.ndarray:
        of_groups = np.repeat(self.rng.normal(size=self.groups), self.size)
        return of_groups + self.rng.normal(size=len(of_groups))


def effect_of(auroc: float) -> float:
    return 2 * NORMAL.inv_cdf(auroc)


def macro_f1_of(effect: float) -> float:
    """Midway between the classes, where both are found as often."""
    return NORMAL.cdf(effect / 2 / SPREAD)


def metrics(rounds: int) -> None:
    """Every metric of a cell, differences of equal detectors and of unequal ones."""
    for groups, n_human, n_llm in LAYOUTS:
        for level in LEVELS:
            tallies: dict[str, Tally] = {}
            corpora = Corpora(groups, n_human, n_llm, int(1000 * level) + groups)
            for _ in range(rounds):
                for name, sampled, truth in _measured(corpora, level):
                    tallies.setdefault(name, Tally()).add(sampled, truth, groups)
            for name, tally in tallies.items():
                layout = f"{groups} x ({n_human} + {n_llm})"
                print(f"{layout:14} {100 * level:4.1f} {name:18} {tally}", flush=True)


def _measured(corpora: Corpora, level: float) -> Iterator[tuple[str, Sampled, float]]:
    effect, better = effect_of(level), effect_of(min(0.9975, (1 + level) / 2))
    detector = corpora.next()
    cell, equal, higher = detector(effect), detector(effect), detector(better)
    threshold, other = (Threshold(e / 2, "youden", "train") for e in (effect, better))
    found, by_equal = (c.at_threshold(threshold) for c in (cell, equal))
    by_higher = higher.at_threshold(other)
    true, false = cell.rates(threshold)
    right = macro_f1_of(effect)
    yield "auroc", cell.auroc(), level
    yield "macro_f1", found["macro_f1"], right
    yield "accuracy", found["accuracy"], right
    yield "true positives", true, right
    yield "false positives", false, 1 - right
    platt = Platt(effect / 2, -(effect**2) / 4, "known")
    calibrated = cell.calibration(platt)
    brier, skill = _calibration_of(effect)
    yield "brier", calibrated["brier"], brier
    yield "log_loss_skill", calibrated["log_loss_skill"], skill
    for limit in (0.05, 0.01):
        cut = NormalDist(0, SPREAD).inv_cdf(1 - limit)
        truth = 1 - NormalDist(effect, SPREAD).cdf(cut)
        yield f"tpr_at_fpr_{100 * limit:.0f}", cell.tpr_at_fpr(limit), truth
    yield "auroc, equal", cell.auroc().minus(equal.auroc()), 0.0
    yield "macro_f1, equal", found["macro_f1"].minus(by_equal["macro_f1"]), 0.0
    gain = min(0.9975, (1 + level) / 2) - level
    yield "auroc, higher", higher.auroc().minus(cell.auroc()), gain
    gain = macro_f1_of(better) - right
    yield "macro_f1, higher", by_higher["macro_f1"].minus(found["macro_f1"]), gain


@cache
def _calibration_of(effect: float) -> tuple[float, float]:
    """Brier score and log-loss skill; by symmetry both classes have the same."""
    grid = np.linspace(-12, 12, 200_001)
    weight = np.exp(-(grid**2) / 4)
    weight /= weight.sum()
    probability = 1 / (1 + np.exp(-(effect * grid / 2 - effect**2 / 4)))
    lost = float((weight * np.log1p(-probability)).sum())
    return float((weight * probability**2).sum()), 1 + lost / math.log(2)


def max_t(rounds: int) -> None:
    """Ten equally good detectors, 45 pairs: how often one is called surely better."""
    for groups, n_human, n_llm, level in (
        *((15, 1, 9, level) for level in (0.84, 0.95)),
        *((200, 1, 1, level) for level in (0.84, 0.95)),
    ):
        corpora, own, all_pairs = Corpora(groups, n_human, n_llm, 1), 0, 0
        for _ in range(rounds):
            detector = corpora.next()
            found = [detector(effect_of(level)).auroc() for _ in range(10)]
            pairs = [a.minus(b) for a, b in combinations(found, 2)]
            own += any(_leaves_out(interval(pair, groups)[:2]) for pair in pairs)
            all_pairs += any(_leaves_out(ends) for ends in simultaneous(pairs, groups) if ends)
        print(
            f"{groups} groups, AUROC {100 * level:.0f}: one is, by pairs' own intervals in "
            f"{100 * own / rounds:.1f} % of corpora, by simultaneous ones in "
            f"{100 * all_pairs / rounds:.1f} %",
            flush=True,
        )


def _leaves_out(ends: tuple[float | None, float | None]) -> bool:
    low, high = ends
    return low is not None and high is not None and not low <= 0 <= high


def poets(rounds: int) -> None:
    """Human poems and imitations, poets with a level of their own; AUROC 84 over all poets."""
    for n_poets, n_poems in ((3, 134), (4, 100), (5, 80), (6, 67), (10, 40), (20, 20)):
        for correlation in (0.0, 0.16, 0.34):
            tallies = {"families": Tally(), "poets": Tally()}
            rng = np.random.default_rng(0)
            n = n_poets * n_poems
            labels, poet = np.tile([0, 1], n), np.repeat(np.arange(n_poets), 2 * n_poems)
            family = np.repeat(np.arange(n), 2)
            for _ in range(rounds):
                level = rng.normal(size=n_poets)[poet] * math.sqrt(correlation)
                noise = rng.normal(size=2 * n)
                human = level + noise * math.sqrt(1 - correlation)
                scores = np.where(labels == 0, human, effect_of(0.84) / SPREAD + noise)
                for name, units in (("families", family), ("poets", poet)):
                    names = units.astype(str)
                    draws = Draws.of(names, 300, int(rng.integers(1 << 30)))
                    area = Cell(labels, scores, draws.columns(names), draws).auroc()
                    tallies[name].add(area, 0.84, len(np.unique(units)))
            for name, tally in tallies.items():
                print(f"{n_poets} poets, ICC {correlation:.2f}, over {name:8} {tally}", flush=True)


def threshold(rounds: int) -> None:
    """Two subsets alike, each with its own Youden threshold: how often their macro-F1 differ."""
    for groups, n_llm in ((15, 1), (15, 4), (100, 1), (100, 4)):
        corpora = Corpora(groups, 1, 2 * n_llm, 3)
        subset = np.tile(np.r_[0, np.repeat([1, 2], n_llm)], groups)
        fixed = refitted = 0
        for _ in range(rounds):
            folds = [corpora.next()(effect_of(0.84)) for _ in range(2)]
            kept: dict[bool, list[Sampled]] = {False: [], True: []}
            for own in (1, 2):
                train, test = (_only(fold, (subset == 0) | (subset == own)) for fold in folds)
                cut = Threshold.youden(train.labels, train.scores, "train")
                kept[False].append(test.at_threshold(cut)["macro_f1"])
                kept[True].append(test.at_refitted_threshold(cut, train)["macro_f1"])
            before, after = (kept[x][0].minus(kept[x][1]) for x in (False, True))
            fixed += _leaves_out(interval(before, groups)[:2])
            refitted += _leaves_out(interval(after, groups)[:2])
        print(
            f"{groups} groups, 1 human and {n_llm} LLM poems of each subset: differ in "
            f"{100 * fixed / rounds:.1f} % by the given threshold, {100 * refitted / rounds:.1f} % "
            "with its variance",
            flush=True,
        )


def _only(cell: Cell, kept: np.ndarray) -> Cell:
    return replace(
        cell, labels=cell.labels[kept], scores=cell.scores[kept], columns=cell.columns[kept]
    )


def rho(rounds: int) -> None:
    """28 cipai and an accuracy that does not depend on their length; true rank correlations."""
    rng, n = np.random.default_rng(0), 28
    names = [f"{i:02}" for i in range(n)]
    for successes in (1, 3, 8, 14):
        false, small, none = 0, 0, 0
        for _ in range(rounds):
            length = rng.integers(20, 120, n).astype(float)
            kept = np.isin(np.arange(n), rng.choice(n, successes, replace=False)).astype(float)
            draws = Draws.of(names, RESAMPLES, int(rng.integers(1 << 30)))
            ends = interval(spearman(length, kept, draws.columns(names), draws), n)[:2]
            none += ends[0] is None
            false += _leaves_out(ends)
            small += permutation_p(length, kept, RESAMPLES, int(rng.integers(1 << 30))) <= 0.05
        print(
            f"{successes} of {n} kept: the interval leaves 0 out in {100 * false / rounds:.1f} %, "
            f"is not given in {100 * none / rounds:.1f} %; p <= .05 in "
            f"{100 * small / rounds:.1f} %",
            flush=True,
        )
    for truth in (0.0, 0.4, 0.8):
        tally = Tally()
        # Of two normal variables with correlation r, Spearman's is 6 / pi asin(r / 2).
        r = 2 * math.sin(math.pi * truth / 6)
        for _ in range(rounds):
            x, y = rng.normal(size=(2, n))
            draws = Draws.of(names, RESAMPLES, int(rng.integers(1 << 30)))
            y = r * x + math.sqrt(1 - r**2) * y
            tally.add(spearman(x, y, draws.columns(names), draws), truth, n)
        print(f"rho {truth}, 28 cipai: {tally}", flush=True)


EXPERIMENTS = {f.__name__: f for f in (metrics, max_t, poets, threshold, rho)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("experiments", nargs="*", choices=[*EXPERIMENTS, []], default=[])
    parser.add_argument("--rounds", type=int, default=300)
    arguments = parser.parse_args()
    for name in arguments.experiments or EXPERIMENTS:
        EXPERIMENTS[name](arguments.rounds)
