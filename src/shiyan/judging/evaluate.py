"""From judgments to the numbers in metrics/judge.json.

A judge's error on a dimension is |mean over items of the judge - mean over the same
items of the people|, and Avg is the mean of the eight errors, not the error of the
averages (Poller, Table 3). Since a judge that gives everything the people's mean has an
error of 0, the mean of |differences| an item, the rank correlation and the bias with its
sign stand beside it.

Where nobody rated, one reference can still be constructed: the reading of another poem
deserves 0 for content, and for content only. It is named `constructed` everywhere.

Intervals: whole poems are resampled, the same draws for every judge and prompt.
"""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from shiyan.errors import UserError
from shiyan.jsonl import replacing
from shiyan.judging.agreement import krippendorff_alpha, spearman
from shiyan.judging.prompts import BASELINE
from shiyan.judging.rubric import Rubric
from shiyan.metrics import Draws, Estimate, Sampled
from shiyan.records import HumanRating, Judgment, Understanding

AVERAGE = "Avg"
CONSTRUCTED = {"内容": 0.0}
"""What the reading of another poem deserves; nothing follows for the other dimensions."""
TOO_MANY_UNSCORED = 0.2
"""From this share of judgments without a full set of scores on, the run says so."""
SAME_SCALE = frozenset({"poller", "poller_ci"})
"""People rate readings alike, whatever prompt the judges get."""

Scores = Mapping[str, float]
"""Dimension -> score, of what was scored."""
Cell = tuple[str, str]
"""A judge and a prompt."""


@dataclass(frozen=True)
class Paired:
    """One dimension's scores of the items that both a judge and the reference scored."""

    items: tuple[str, ...]
    judged: np.ndarray[Any, np.dtype[np.float64]]
    reference: np.ndarray[Any, np.dtype[np.float64]]
    n_unscored: int


class Evaluation:
    """All numbers of a judge run.

    Args:
        judgments: of readings, by one rubric.
        understandings: what was read, with its source.
        ratings: people's; those of unknown items are named, not used.
        families: model -> family, for self-preference.

    Raises:
        UserError: a rating off the scale or of an unknown dimension.
    """

    def __init__(
        self,
        judgments: Sequence[Judgment],
        understandings: Iterable[Understanding],
        ratings: Iterable[HumanRating],
        rubric: Rubric,
        families: Mapping[str, str],
        *,
        resamples: int,
        seed: int,
    ) -> None:
        self.rubric = rubric
        self.families = families
        self.readings = {reading.item_id: reading for reading in understandings}
        self.judgments = [j for j in judgments if j.item_id in self.readings]
        self.ratings, self.unknown_items = checked(ratings, self.readings, rubric)
        self.draws = Draws.of((r.poem_id for r in self.readings.values()), resamples, seed)

    # what there is

    @cached_property
    def cells(self) -> list[Cell]:
        return list(dict.fromkeys((j.judge, j.prompt_id) for j in self.judgments))

    @cached_property
    def samples(self) -> Mapping[Cell, Mapping[str, list[Judgment]]]:
        """Judge and prompt -> item -> its repeats."""
        found: dict[Cell, dict[str, list[Judgment]]] = {cell: {} for cell in self.cells}
        for judgment in self.judgments:
            cell = (judgment.judge, judgment.prompt_id)
            found[cell].setdefault(judgment.item_id, []).append(judgment)
        return found

    def score(self, cell: Cell, item: str, dimension: str) -> float | None:
        """The mean over repeats; None where none was scored."""
        values = self._repeats(cell, item, dimension)
        return fmean(values) if values else None

    def _repeats(self, cell: Cell, item: str, dimension: str) -> list[float]:
        given = [j.scores.get(dimension) for j in self.samples[cell].get(item, []) if j.scores]
        return [value for value in given if value is not None]

    def items(self, source: str | None = None, dimension: str = "all") -> list[str]:
        """Readings of one source (`generated`, `constructed` …; None: all but constructed)."""
        return [
            reading.item_id
            for reading in self.readings.values()
            if reading.dimension == dimension
            and (reading.source == source if source else reading.source != "constructed")
        ]

    @cached_property
    def references(self) -> Mapping[str, Mapping[str, Scores]]:
        """Source -> item -> what it deserves, the mean over raters."""
        raw: dict[str, dict[str, dict[str, list[float]]]] = {}
        for rating in self.ratings:
            of_item = raw.setdefault(rating.source, {}).setdefault(rating.item_id, {})
            for dimension, score in rating.scores.items():
                if score is not None:
                    of_item.setdefault(dimension, []).append(score)
        found = {
            source: {
                item: {name: fmean(values) for name, values in scores.items()}
                for item, scores in items.items()
            }
            for source, items in raw.items()
        }
        for item in self.items("constructed"):
            found.setdefault("constructed", {}).setdefault(item, dict(CONSTRUCTED))
        return found

    # means

    def mean(self, values: Mapping[str, float | None]) -> tuple[Sampled, Estimate]:
        """The mean over items, on the draws and as an estimate; item -> value, None unscored."""
        known = {item: value for item, value in values.items() if value is not None}
        if not known:
            nothing = Sampled(float("nan"), np.full(len(self.draws.weights), np.nan))
            return nothing, Estimate(None, None, None, 0, len(values), "nothing was scored")
        sampled = self._sampled_mean(list(known), list(known.values()))
        return sampled, self._estimate(sampled, known, len(values) - len(known))

    def _sampled_mean(self, items: Sequence[str], values: Sequence[float]) -> Sampled:
        columns = self.draws.columns(self.readings[item].poem_id for item in items)
        with np.errstate(invalid="ignore", divide="ignore"):
            resampled = self.draws.sums(columns, values) / self.draws.sums(columns)
        return Sampled(float(np.mean(values)), resampled)

    def _estimate(self, sampled: Sampled, items: Iterable[str], n_unscored: int = 0) -> Estimate:
        known = list(items)
        poems = {self.readings[item].poem_id for item in known}
        return sampled.estimate(len(known), len(poems), n_unscored)

    def _means(self, cell: Cell, items: Sequence[str]) -> dict[str, Any]:
        """Dimension -> mean score of these readings, and the mean of the means."""
        sampled, found = [], {}
        for name in self.rubric.names:
            one, estimate = self.mean({item: self.score(cell, item, name) for item in items})
            sampled.append(one)
            found[name] = estimate.as_dict()
        whole = [
            i for i in items if all(self.score(cell, i, n) is not None for n in self.rubric.names)
        ]
        average = self._estimate(_average(sampled), whole, len(items) - len(whole))
        return found | {AVERAGE: average.as_dict()}

    # the whole

    def metrics(self, made: Mapping[str, Any]) -> dict[str, Any]:
        """Everything, nested by judge and prompt; see the README's table of keys."""
        return {
            "counts": self.counts(),
            "unscored_reasons": self.unscored_kinds(),
            "judges": self._by_cell(self.of_cell),
            "best": {source: self.best(source) for source in self._rated_sources()},
            "raters": {
                source: self.agreement(source) | {"mean": self.rated_means(source)}
                for source in self._rated_sources()
            },
            "self_preference": self._by_cell(self.self_preference),
            "one_dimension": self._by_cell(self.one_dimension),
            "made": {
                "rubric": self.rubric.name,
                "scale": f"{self.rubric.lowest:g}-{self.rubric.highest:g}",
                "interval": "95 %, bootstrap over poems",
                "resamples": len(self.draws.weights),
                "constructed": "the reading of another poem deserves 0 for 内容; no human rating",
                **self.served_models(),
                **made,
            },
        }

    def _by_cell(self, of: Callable[[Cell], dict[str, Any]]) -> dict[str, Any]:
        found: dict[str, dict[str, Any]] = {}
        for cell in self.cells:
            if (value := of(cell)) != {}:
                found.setdefault(cell[0], {})[cell[1]] = value
        return found

    def _rated_sources(self) -> list[str]:
        return [source for source in self.references if source != "constructed"]

    def counts(self) -> dict[str, int]:
        sources = Counter(reading.source for reading in self.readings.values())
        scored = sum(_is_whole(j) for j in self.judgments)
        return {
            "judgments": len(self.judgments),
            "n_unscored": len(self.judgments) - scored,
            "partly_scored": sum(j.scores is not None for j in self.judgments) - scored,
            "asked_again": sum(j.attempts > 1 for j in self.judgments),
            "repaired": sum(j.repaired for j in self.judgments),
            **{f"readings_{source}": n for source, n in sorted(sources.items())},
            "ratings": len(self.ratings),
            "ratings_of_unknown_readings": len(self.unknown_items),
            "prompt_tokens": sum(j.prompt_tokens or 0 for j in self.judgments),
            "cached_tokens": sum(j.cached_tokens or 0 for j in self.judgments),
            "completion_tokens": sum(j.completion_tokens or 0 for j in self.judgments),
        }

    def served_models(self) -> dict[str, str]:
        """Which models the servers say they answered with; a name may come to mean another."""
        served: dict[str, set[str]] = {}
        for judgment in self.judgments:
            if judgment.served_model is not None:
                served.setdefault(judgment.judge, set()).add(judgment.served_model)
        return {f"served as {judge}": " ".join(sorted(names)) for judge, names in served.items()}

    def unscored_kinds(self) -> dict[str, int]:
        """Kind of reason -> how many judgments have it; details are in the judgments."""
        kinds: Counter[str] = Counter()
        for judgment in self.judgments:
            kinds.update(_kinds(judgment.unscored_reason or ""))
        return dict(kinds.most_common())

    def notices(self) -> list[str]:
        """What a user should know before trusting the numbers."""
        told = []
        for cell in self.cells:
            asked = [j for judgments in self.samples[cell].values() for j in judgments]
            unscored = [j for j in asked if not _is_whole(j)]
            if len(unscored) > TOO_MANY_UNSCORED * len(asked):
                reason, _ = Counter(j.unscored_reason for j in unscored).most_common(1)[0]
                told.append(
                    f"{cell[0]} with {cell[1]}: {len(unscored)} of {len(asked)} judgments have no "
                    f"full set of scores, most often: {reason}"
                )
        if self.unknown_items:
            names = ", ".join(self.unknown_items[:5])
            told.append(
                f"{len(self.unknown_items)} rated items have no reading and are not used: {names}"
                + (" …" if len(self.unknown_items) > 5 else "")
            )
        return told

    # one judge with one prompt

    def of_cell(self, cell: Cell) -> dict[str, Any]:
        asked = [(item, j) for item, judgments in self.samples[cell].items() for j in judgments]
        shares = {f"{item}#{j.sample_index}": float(_is_whole(j)) for item, j in asked}
        found: dict[str, Any] = {"parsed": self._share(cell, shares, asked)}
        kinds = {"generated": self.items(), "constructed": self.items("constructed")}
        for source, items in kinds.items():
            if items:
                found[source] = {"mean": self._means(cell, items)}
        if all(kinds.values()):
            found["generated_minus_constructed"] = self.notices_wrong_reading(cell)
        for source, reference in self.references.items():
            found.setdefault(source, {})["source"] = source
            found[source] |= self.against(cell, source, reference)
        if any(len(judgments) > 1 for judgments in self.samples[cell].values()):
            found["spread_over_repeats"] = self.spread(cell)
        return found

    def _share(
        self, cell: Cell, shares: Mapping[str, float], asked: Sequence[tuple[str, Judgment]]
    ) -> dict[str, Any]:
        """Share of judgments with a full set of scores; an unscored one counts against it."""
        items = [item for item, _ in asked]
        sampled = self._sampled_mean(items, list(shares.values()))
        return self._estimate(sampled, items).as_dict()

    def notices_wrong_reading(self, cell: Cell) -> dict[str, Any]:
        """By how much the readings of the right poem score higher, and for how many poems.

        Paired by poem: both must be scored.
        """
        differences: dict[str, Any] = {}
        for name in self.rubric.names:
            pairs = self._true_and_constructed(cell, name)
            gap = {item: None if c is None or t is None else t - c for item, t, c in pairs}
            higher = {item: None if d is None else float(d > 0) for item, d in gap.items()}
            differences[name] = self.mean(gap)[1].as_dict() | {
                "share_higher": self.mean(higher)[1].as_dict()
            }
        return differences

    def _true_and_constructed(
        self, cell: Cell, name: str
    ) -> list[tuple[str, float | None, float | None]]:
        """(constructed item, mean score of the poem's own readings, its score)."""
        own: dict[str, list[float]] = {}
        for item in self.items():
            if (value := self.score(cell, item, name)) is not None:
                own.setdefault(self.readings[item].poem_id, []).append(value)
        pairs = []
        for item in self.items("constructed"):
            true = own.get(self.readings[item].poem_id)
            pairs.append((item, fmean(true) if true else None, self.score(cell, item, name)))
        return pairs

    # against a reference

    def paired(self, cell: Cell, reference: Mapping[str, Scores], name: str) -> Paired:
        items = [item for item in self.items_of(reference) if name in reference[item]]
        scores = {item: self.score(cell, item, name) for item in items}
        both = {item: score for item, score in scores.items() if score is not None}
        return Paired(
            tuple(both),
            np.array(list(both.values()), float),
            np.array([reference[item][name] for item in both], float),
            len(items) - len(both),
        )

    def items_of(self, reference: Mapping[str, Scores]) -> list[str]:
        return [item for item in reference if self.readings[item].dimension == "all"]

    def error(self, cell: Cell, source: str, name: str) -> Sampled | None:
        """|mean of the judge - mean of the reference| on a dimension (or Avg), on the draws.

        An absolute value cannot fall below 0, so that the interval of a small error lies
        mostly above it; `bias` has the signed one.
        """
        reference = self.references[source]
        if name == AVERAGE:
            errors = [self.error(cell, source, dimension) for dimension in self.rubric.names]
            known = [error for error in errors if error is not None]
            return _average(known) if len(known) == len(errors) else None
        pair = self.paired(cell, reference, name)
        if not pair.items:
            return None
        bias = self._sampled_mean(pair.items, list(pair.judged - pair.reference))
        return _absolute(bias)

    def against(self, cell: Cell, source: str, reference: Mapping[str, Scores]) -> dict[str, Any]:
        """All that is said of a judge and prompt against one reference."""
        names = [n for n in self.rubric.names if any(n in scores for scores in reference.values())]
        found: dict[str, Any] = {"error": {}, "mean_absolute_error": {}, "bias": {}}
        for name in names:
            pair = self.paired(cell, reference, name)
            for key, values in (
                ("bias", pair.judged - pair.reference),
                ("mean_absolute_error", np.abs(pair.judged - pair.reference)),
            ):
                scored: dict[str, float | None] = dict(
                    zip(pair.items, map(float, values), strict=True)
                )
                scored |= {f"unscored {i}": None for i in range(pair.n_unscored)}
                found[key][name] = self.mean(scored)[1].as_dict()
            found["error"][name] = self._error_estimate(cell, source, name, pair)
        if source == "constructed":
            # All references are one number: error and mean absolute error are one.
            return {"absolute_error": found["mean_absolute_error"]}
        found["spearman"] = {n: self._spearman(self.paired(cell, reference, n)) for n in names}
        if (average := self.error(cell, source, AVERAGE)) is not None:
            whole = self.paired(cell, reference, names[0])
            estimate = self._estimate(average, whole.items, whole.n_unscored)
            found["error"][AVERAGE] = estimate.as_dict()
        if cell[1] != BASELINE and (cell[0], BASELINE) in self.samples:
            found |= self.against_baseline(cell, source)
        return found

    def _error_estimate(self, cell: Cell, source: str, name: str, pair: Paired) -> dict[str, Any]:
        error = self.error(cell, source, name)
        if error is None:
            reason = "nothing was scored"
            return Estimate(None, None, None, 0, pair.n_unscored, reason).as_dict()
        return self._estimate(error, pair.items, pair.n_unscored).as_dict()

    def _spearman(self, pair: Paired) -> dict[str, Any]:
        if len(pair.items) < 3:
            reason = "a rank correlation needs 3 items"
            return Estimate(None, None, None, len(pair.items), pair.n_unscored, reason).as_dict()
        columns = self.draws.columns(self.readings[item].poem_id for item in pair.items)
        found = spearman(pair.judged, pair.reference, columns, self.draws)
        estimate = self._estimate(found, pair.items, pair.n_unscored).as_dict()
        if estimate["value"] is None:
            estimate["reason"] = "the judge or the reference gives all items one score"
        return estimate

    def against_baseline(self, cell: Cell, source: str) -> dict[str, Any]:
        """What a prompt changes against P0 of the same judge, on the same draws.

        `reduction_percent` is the paper's (1 - error / error of P0); `difference` is
        error - error of P0, which stays meaningful where that of P0 is near 0.
        """
        reduction, difference = {}, {}
        for name in (*self.rubric.names, AVERAGE):
            error = self.error(cell, source, name)
            baseline = self.error((cell[0], BASELINE), source, name)
            if error is None or baseline is None:
                continue
            items = self.paired(cell, self.references[source], _first(self.rubric, name)).items
            difference[name] = self._estimate(error.minus(baseline), items).as_dict()
            if baseline.value > 0:
                with np.errstate(divide="ignore", invalid="ignore"):
                    share = 100 * (1 - error.resampled / baseline.resampled)
                sampled = Sampled(100 * (1 - error.value / baseline.value), share)
                reduction[name] = self._estimate(sampled, items).as_dict()
        return {"reduction_percent": reduction, "difference_to_P0": difference}

    def best(self, source: str) -> dict[str, Any]:
        """By dimension the judge and prompt with the least error, and how it beats its own P0."""
        found: dict[str, Any] = {}
        for name in (*self.rubric.names, AVERAGE):
            errors = {cell: self.error(cell, source, name) for cell in self.cells}
            known = {cell: error for cell, error in errors.items() if error is not None}
            if not known:
                continue
            cell = min(known, key=lambda c: known[c].value)
            items = self.paired(cell, self.references[source], _first(self.rubric, name)).items
            found[name] = {
                "judge": cell[0],
                "prompt": cell[1],
                "error": self._estimate(known[cell], items).as_dict(),
            }
            if cell[1] != BASELINE and (cell[0], BASELINE) in known:
                difference = known[cell].minus(known[cell[0], BASELINE])
                found[name]["difference_to_P0"] = self._estimate(difference, items).as_dict()
        return found

    # raters, repeats, favours

    def agreement(self, source: str) -> dict[str, Any]:
        """Krippendorff's alpha by dimension: what agreement among people leaves room for."""
        found = {}
        poem_of = {item: reading.poem_id for item, reading in self.readings.items()}
        for name in self.rubric.names:
            scores: dict[str, list[float]] = {}
            for rating in self.ratings:
                value = rating.scores.get(name)
                if rating.source == source and value is not None:
                    scores.setdefault(rating.item_id, []).append(value)
            if not any(len(values) > 1 for values in scores.values()):
                reason = "no item was rated by two"
                found[name] = Estimate(None, None, None, 0, len(scores), reason).as_dict()
                continue
            alpha, n = krippendorff_alpha(scores, poem_of, self.draws)
            items = [item for item, values in scores.items() if len(values) > 1]
            found[name] = self._estimate(alpha, items, len(scores) - n).as_dict()
        return {"krippendorff_alpha": found}

    def rated_means(self, source: str) -> dict[str, Any]:
        """What people give on average, the mean over raters of each reading of everything."""
        reference = self.references[source]
        items = self.items_of(reference)
        sampled, found = [], {}
        for name in self.rubric.names:
            one, estimate = self.mean({item: reference[item].get(name) for item in items})
            sampled.append(one)
            found[name] = estimate.as_dict()
        whole = [i for i in items if all(n in reference[i] for n in self.rubric.names)]
        average = self._estimate(_average(sampled), whole, len(items) - len(whole))
        return found | {AVERAGE: average.as_dict()}

    def spread(self, cell: Cell) -> dict[str, Any]:
        """The mean over items of the standard deviation over repeats."""
        found = {}
        for name in self.rubric.names:
            repeats = {item: self._repeats(cell, item, name) for item in self.samples[cell]}
            spread = {item: stdev(v) if len(v) > 1 else None for item, v in repeats.items()}
            found[name] = self.mean(spread)[1].as_dict()
        return found

    def self_preference(self, cell: Cell) -> dict[str, Any]:
        """How much more a judge favours readings of its own model family than other judges do.

        For each reading: the judge's mean score minus that of the judges of other
        families with the same prompt. Then its mean over readings of the judge's
        family minus its mean over the others.
        """
        family = self.families.get(cell[0])
        others = [c for c in self.cells if c[1] == cell[1] and self.families.get(c[0]) != family]
        excess = {}
        for item in self.items():
            mine = self._average_score(cell, item)
            theirs = [v for c in others if (v := self._average_score(c, item)) is not None]
            if mine is not None and theirs:
                excess[item] = mine - fmean(theirs)
        own = [i for i in excess if self.families.get(self.readings[i].reader) == family]
        rest = [i for i in excess if i not in set(own)]
        if not own or not rest:
            return {}
        difference = self._sampled_mean(own, [excess[i] for i in own]).minus(
            self._sampled_mean(rest, [excess[i] for i in rest])
        )
        return self._estimate(difference, excess, len(self.items()) - len(excess)).as_dict()

    def _average_score(self, cell: Cell, item: str) -> float | None:
        scores = [self.score(cell, item, name) for name in self.rubric.names]
        known = [score for score in scores if score is not None]
        return fmean(known) if len(known) == len(scores) else None

    def one_dimension(self, cell: Cell) -> dict[str, Any]:
        """Readings of one dimension against readings of all, on the same poems (Table 4)."""
        found = {}
        for name in self.rubric.names:
            alone = self._by_poem(cell, self.items(dimension=name), name)
            among = self._by_poem(cell, self.items(), name)
            poems = [poem for poem in alone if poem in among]
            if not poems:
                continue
            # One item stands for its poem, whose draws it shares.
            items = {poem: alone[poem][0] for poem in poems}
            single = {items[poem]: alone[poem][1] for poem in poems}
            whole = {items[poem]: among[poem][1] for poem in poems}
            gain: dict[str, float | None] = {i: single[i] - whole[i] for i in single}
            found[name] = {
                "all_dimensions": self.mean(dict(whole))[1].as_dict(),
                "single_dimension": self.mean(dict(single))[1].as_dict(),
                "difference": self.mean(gain)[1].as_dict(),
            }
        return found

    def _by_poem(self, cell: Cell, items: Sequence[str], name: str) -> dict[str, tuple[str, float]]:
        """Poem -> (one of the items, the mean score of its items on a dimension)."""
        scores: dict[str, list[tuple[str, float]]] = {}
        for item in items:
            if (value := self.score(cell, item, name)) is not None:
                scores.setdefault(self.readings[item].poem_id, []).append((item, value))
        return {poem: (rows[0][0], fmean(v for _, v in rows)) for poem, rows in scores.items()}

    # for the plot

    def error_rows(self) -> list[dict[str, Any]]:
        """judge, prompt, dimension, source, error, n: a row for every error there is."""
        rows = []
        for source, reference in self.references.items():
            for cell in self.cells:
                for name in self.rubric.names:
                    error = self.error(cell, source, name)
                    if error is not None:
                        n = len(self.paired(cell, reference, name).items)
                        row = dict(zip(("judge", "prompt"), cell, strict=True))
                        rows.append(
                            row
                            | {"dimension": name, "source": source, "error": error.value, "n": n}
                        )
        return rows


def write_error_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """The rows as CSV; a header alone where there are none."""
    with replacing(path) as file:
        names = ["judge", "prompt", "dimension", "source", "error", "n"]
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _kinds(reason: str) -> set[str]:
    """'内容: a range (70-80); 语言: no score' -> {'a range', 'no score'}; of a request that
    failed, the failure's name."""
    if failed := re.match(r"([a-z_]+): ", reason):
        return {failed[1]}
    parts = (part.rpartition(": ")[2] for part in reason.split("; "))
    return {_DETAIL.sub("", part).strip() for part in parts} - {""}


_DETAIL = re.compile(r"\s*\([^()]*\)|\s*(?:of )?'[^']*'|(?<![\w-])-?\d[\d.,/%]*(?:-\d+)?\s*")


def _is_whole(judgment: Judgment) -> bool:
    scores = judgment.scores
    return scores is not None and None not in scores.values()


def _average(parts: Sequence[Sampled]) -> Sampled:
    if not parts:
        return Sampled(float("nan"), np.full(1, np.nan))
    value = float(np.mean([part.value for part in parts]))
    return Sampled(value, np.mean([part.resampled for part in parts], axis=0))


def _absolute(sampled: Sampled) -> Sampled:
    return Sampled(abs(sampled.value), np.abs(sampled.resampled))


def _first(rubric: Rubric, name: str) -> str:
    return rubric.names[0] if name == AVERAGE else name


def checked(
    ratings: Iterable[HumanRating], readings: Mapping[str, Understanding], rubric: Rubric
) -> tuple[list[HumanRating], list[str]]:
    """(ratings of known readings by this scale, items without a reading).

    Raises:
        UserError: a rating off the scale or of an unknown dimension.
    """
    known, unknown = [], []
    for rating in ratings:
        if rating.rubric != rubric.name and not {rating.rubric, rubric.name} <= SAME_SCALE:
            continue
        if rating.item_id not in readings:
            unknown.append(rating.item_id)
            continue
        scores = {}
        for given, score in rating.scores.items():
            where = f"the rating of {rating.item_id!r} by {rating.rater_id!r}"
            name = rubric.dimension(given)
            if name is None:
                raise UserError(
                    f"{where} names {given!r}, which is no dimension of {rubric.name}; "
                    f"allowed are {', '.join(rubric.names)}"
                )
            if score is not None and not rubric.allows(score):
                raise UserError(
                    f"{where} gives {name} {score:g}; allowed is "
                    f"{rubric.lowest:g} to {rubric.highest:g}, or nothing"
                )
            scores[name] = score
        known.append(rating.model_copy(update={"scores": scores}))
    return known, list(dict.fromkeys(unknown))
