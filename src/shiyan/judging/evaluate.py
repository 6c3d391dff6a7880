"""From judgments to the numbers in metrics/judge.json.

A judge's error on a dimension is |mean over items of the judge - mean over the same
items of the people|, and Avg is the mean of the eight errors, not the error of the
averages (Poller, Table 3). Since a judge that gives everything the people's mean has an
error of 0, the mean of |differences| an item, the rank correlation and the bias with its
sign stand beside it.

Where nobody rated, one reference can still be constructed: the reading of another poem
deserves 0 for content, and for content only. It is named `constructed` everywhere.

Intervals: whole poems are resampled, the same draws for every judge and prompt. What is
compared is compared on the items that both sides scored, dimension by dimension.
"""

import csv
import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from shiyan.correlation import spearman
from shiyan.errors import UserError
from shiyan.jsonl import replacing
from shiyan.judging.agreement import ALL_THE_SAME, krippendorff_alpha
from shiyan.judging.prompts import BASELINE, FAILED_AGAIN
from shiyan.judging.rubric import CI_QUALITY, Rubric
from shiyan.metrics import INTERVAL, Draws, Estimate, Floats, Sampled
from shiyan.records import HumanRating, Judgment, Understanding

AVERAGE = "Avg"
CONSTRUCTED = {"内容": 0.0}
"""What the reading of another poem deserves; nothing follows for the other dimensions."""
TOO_MANY_UNSCORED = 0.2
"""Above this share of judgments without a full set of scores, the run says so; and what scored
less by more than this share than another did cannot be the best."""
SAME_SCALE = frozenset({"poller", "poller_ci"})
"""People rate readings alike, whatever prompt the judges get."""

Scores = Mapping[str, float]
"""Dimension -> score, of what was scored."""
Cell = tuple[str, str]
"""A judge and a prompt."""
Means = dict[str, dict[str, Any]]
"""Dimension (and Avg) -> the estimate of its mean."""

NOT_BOTH = "no item was scored by both"
NO_NEUTRAL_JUDGE = (
    "no reading of its own family, or none of another, was scored by it and by a judge of "
    "neither family: who favours whom cannot be told"
)

READINGS, PROBES, QUALITY = "readings", "probes", "quality"
"""What was judged."""
TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens")


@dataclass(frozen=True)
class Paired:
    """One dimension's scores of the items that both a judge and the reference scored."""

    items: tuple[str, ...]
    judged: Floats
    reference: Floats
    n_unscored: int

    def only(self, items: Collection[str]) -> "Paired":
        """The same without what is not among `items`, which then counts as unscored."""
        kept = np.array([item in items for item in self.items], bool)
        return Paired(
            tuple(item for item in self.items if item in items),
            self.judged[kept],
            self.reference[kept],
            self.n_unscored + int((~kept).sum()),
        )


@dataclass(frozen=True)
class Measured:
    """A number on the draws, and what it rests on.

    Attributes:
        sampled: NaN where there is no item.
        items: of an average over dimensions, those of the dimension that has the fewest.
        absence: why there is no number where there is no item.
    """

    sampled: Sampled
    items: tuple[str, ...]
    n_unscored: int
    absence: str = "nothing was scored"


class Evaluation:
    """All numbers of a judge run.

    Args:
        judgments: of readings, by one rubric; of all others (of probes, of ci's quality)
            the tokens are counted and nothing else.
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
        self.of_kind = _by_kind(judgments, self.readings, rubric)
        self.judgments = self.of_kind[READINGS]
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

    def mean(self, values: Mapping[str, float | None]) -> dict[str, Any]:
        """The estimate of the mean over items; item -> value, None unscored."""
        return self.estimate(self.measured(values))

    def measured(self, values: Mapping[str, float | None]) -> Measured:
        """The mean over items on the draws; item -> value, None unscored."""
        known = {item: value for item, value in values.items() if value is not None}
        sampled = self._sampled_mean(list(known), list(known.values()))
        return Measured(sampled, tuple(known), len(values) - len(known))

    def _sampled_mean(self, items: Sequence[str], values: Sequence[float] | Floats) -> Sampled:
        if not items:
            return self.draws.nothing
        columns = self.draws.columns(self.readings[item].poem_id for item in items)
        return self.draws.mean(columns, values)

    def estimate(self, found: Measured) -> dict[str, Any]:
        """With its interval over poems, as it stands in the metrics."""
        if not found.items:
            nothing = Estimate(None, None, None, 0, found.n_unscored, found.absence)
            return nothing.as_dict()
        poems = {self.readings[item].poem_id for item in found.items}
        return found.sampled.estimate(len(found.items), len(poems), found.n_unscored).as_dict()

    def _means(self, items: Sequence[str], score: Callable[[str, str], float | None]) -> Means:
        """Dimension -> mean score (of item and dimension), and the mean of the means."""
        means = {n: self.measured({i: score(i, n) for i in items}) for n in self.rubric.names}
        whole = means | {AVERAGE: _average(list(means.values()))}
        return {name: self.estimate(found) for name, found in whole.items()}

    # the whole

    def metrics(self, made: Mapping[str, Any]) -> dict[str, Any]:
        """Everything, nested by judge and prompt; see the README's table of keys."""
        return {
            "counts": self.counts(),
            "tokens": self.tokens(),
            "unscored_reasons": self.unscored_kinds(),
            "judges": self._by_cell(self.of_cell),
            "best": {source: self.best(source) for source in self._rated_sources()},
            "between_prompts": {s: self.between_prompts(s) for s in self._rated_sources()},
            "raters": {
                source: self.agreement(source) | {"mean": self.rated_means(source)}
                for source in self._rated_sources()
            },
            "self_preference": self._by_cell(self.self_preference),
            "one_dimension": self._by_cell(self.one_dimension),
            "made": {
                "rubric": self.rubric.name,
                "scale": f"{self.rubric.lowest:g}-{self.rubric.highest:g}",
                "interval": INTERVAL + " poems",
                "resamples": len(self.draws.resampled),
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
            # Of everything that was judged, as the money is.
            **{key: sum(of[key] for of in self.tokens().values()) for key in TOKENS},
        }

    def tokens(self) -> dict[str, dict[str, int]]:
        """What was judged (readings, probes, quality) -> how many judgments, and their tokens."""
        return {
            kind: {
                "judgments": len(own),
                **{key: sum(getattr(j, key) or 0 for j in own) for key in TOKENS},
            }
            for kind, own in self.of_kind.items()
            if own
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
                found[source] = {"mean": self._means(items, functools.partial(self.score, cell))}
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
        return self.estimate(Measured(sampled, tuple(items), 0))

    def notices_wrong_reading(self, cell: Cell) -> dict[str, Any]:
        """By how much the readings of the right poem score higher, and for how many poems.

        Paired by poem: both must be scored.
        """
        differences: dict[str, Any] = {}
        for name in self.rubric.names:
            pairs = self._true_and_constructed(cell, name)
            gap = {item: None if c is None or t is None else t - c for item, t, c in pairs}
            higher = {item: None if d is None else float(d > 0) for item, d in gap.items()}
            differences[name] = self.mean(gap) | {"share_higher": self.mean(higher)}
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

    def rated_names(self, source: str) -> tuple[str, ...]:
        """The dimensions that a reference speaks of, and Avg where it speaks of all."""
        rated = {name for scores in self.references[source].values() for name in scores}
        names = tuple(name for name in self.rubric.names if name in rated)
        return (*names, AVERAGE) if names == self.rubric.names else names

    def error(self, cell: Cell, source: str, name: str) -> Measured:
        """|mean of the judge - mean of the reference| on a dimension (or Avg), on the draws."""
        (found,) = self.errors([cell], source, name)
        return found

    def told_error(self, cell: Cell, source: str, name: str) -> dict[str, Any]:
        """A cell's error as it stands in the metrics; a dimension's with its bias's interval."""
        if name == AVERAGE:
            return self.estimate(self.error(cell, source, name))
        pair = self.paired(cell, self.references[source], name)
        return _unsigned(self.estimate(self._of_pair(pair, pair.judged - pair.reference)))

    def errors(self, cells: Sequence[Cell], source: str, name: str) -> list[Measured]:
        """The error of each cell on the items that all of them scored; Avg: the mean of those.

        An absolute value cannot fall below 0, so resamples of a small error lie mostly above
        it: an error's own interval is made of its bias's (`_unsigned`), not of these.
        """
        if name == AVERAGE:
            by_dimension = [self.errors(cells, source, one) for one in self.rubric.names]
            return [_average(parts) for parts in zip(*by_dimension, strict=True)]
        pairs = [self.paired(cell, self.references[source], name) for cell in cells]
        common = set(pairs[0].items).intersection(*(pair.items for pair in pairs))
        shared = [pair.only(common) for pair in pairs]
        biases = [self._of_pair(pair, pair.judged - pair.reference) for pair in shared]
        return [replace(bias, sampled=Sampled.combined(np.abs, bias.sampled)) for bias in biases]

    def _of_pair(self, pair: Paired, values: Floats) -> Measured:
        return Measured(self._sampled_mean(pair.items, values), pair.items, pair.n_unscored)

    def against(self, cell: Cell, source: str, reference: Mapping[str, Scores]) -> dict[str, Any]:
        """All that is said of a judge and prompt against one reference."""
        names = self.rated_names(source)
        pairs = {n: self.paired(cell, reference, n) for n in names if n != AVERAGE}
        gaps = {name: pair.judged - pair.reference for name, pair in pairs.items()}
        bias = {n: self.estimate(self._of_pair(pair, gaps[n])) for n, pair in pairs.items()}
        absolute = {
            n: self.estimate(self._of_pair(pair, np.abs(gaps[n]))) for n, pair in pairs.items()
        }
        if source == "constructed":
            # All references are one number: error and mean absolute error are one.
            return {"absolute_error": absolute}
        found = {
            "error": {name: self.told_error(cell, source, name) for name in names},
            "mean_absolute_error": absolute,
            "bias": bias,
            "spearman": {name: self._spearman(pair) for name, pair in pairs.items()},
        }
        if cell[1] != BASELINE and (cell[0], BASELINE) in self.samples:
            found |= self.against_baseline(cell, source)
        return found

    def _spearman(self, pair: Paired) -> dict[str, Any]:
        if len(pair.items) < 3:
            reason = "a rank correlation needs 3 items"
            return Estimate(None, None, None, len(pair.items), pair.n_unscored, reason).as_dict()
        columns = self.draws.columns(self.readings[item].poem_id for item in pair.items)
        found = spearman(pair.judged, pair.reference, columns, self.draws)
        estimate = self.estimate(Measured(found, pair.items, pair.n_unscored))
        if estimate["value"] is None:
            estimate["reason"] = "the judge or the reference gives all items one score"
        return estimate

    # two judges and prompts

    def difference(self, cell: Cell, other: Cell, source: str, name: str) -> Measured:
        """The error of `cell` minus that of `other`; below 0, `cell` is closer to the people."""
        first, second = self.errors([cell, other], source, name)
        sampled = first.sampled.minus(second.sampled)
        return replace(first, sampled=sampled, absence=NOT_BOTH)

    def differences(self, cell: Cell, other: Cell, source: str) -> dict[str, Any]:
        return {
            name: self.estimate(self.difference(cell, other, source, name))
            for name in self.rated_names(source)
        }

    def against_baseline(self, cell: Cell, source: str) -> dict[str, Any]:
        """What a prompt changes against P0 of the same judge.

        `reduction_percent` is the paper's (1 - error / error of P0); `difference` is
        error - error of P0, which stays meaningful where that of P0 is near 0.
        """
        baseline = (cell[0], BASELINE)
        return {
            "reduction_percent": {
                name: self._reduction(*self.errors([cell, baseline], source, name))
                for name in self.rated_names(source)
            },
            "difference_to_P0": self.differences(cell, baseline, source),
        }

    def _reduction(self, error: Measured, baseline: Measured) -> dict[str, Any]:
        if baseline.sampled.value == 0:
            reason = "the error of P0 is 0 and cannot shrink"
            n, n_unscored = len(error.items), error.n_unscored
            return Estimate(None, None, None, n, n_unscored, reason).as_dict()
        sampled = Sampled.combined(
            lambda own, of_p0: 100 * (1 - own / of_p0), error.sampled, baseline.sampled
        )
        return self.estimate(replace(error, sampled=sampled, absence=NOT_BOTH))

    def between_prompts(self, source: str) -> dict[str, Any]:
        """Judge -> "P3 - P1" -> how the errors of two prompts differ; P0 stands with each cell."""
        found: dict[str, Any] = {}
        for judge in dict.fromkeys(judge for judge, _ in self.cells):
            prompts = sorted(p for j, p in self.cells if j == judge and p != BASELINE)
            for first, second in itertools.combinations(prompts, 2):
                of_two = self.differences((judge, second), (judge, first), source)
                found.setdefault(judge, {})[f"{second} - {first}"] = of_two
        return found

    def best(self, source: str) -> dict[str, Any]:
        """By dimension the judge and prompt with the least error, each on the items that it
        scored, and how it beats the runner-up and its own P0 on the items that both scored.

        What scored much less than others is left out: it may have scored the easy items.
        """
        found: dict[str, Any] = {}
        for name in self.rated_names(source):
            errors = {cell: self.error(cell, source, name) for cell in self.cells}
            most = max((len(error.items) for error in errors.values()), default=0)
            if most == 0:
                continue
            enough = [
                cell
                for cell, error in errors.items()
                if most - len(error.items) <= TOO_MANY_UNSCORED * most
            ]
            best, *others = sorted(enough, key=lambda c: errors[c].sampled.value)
            found[name] = _named(best) | {"error": self.told_error(best, source, name)}
            if others:
                lead = self.estimate(self.difference(best, others[0], source, name))
                found[name]["runner_up"] = _named(others[0]) | {"difference": lead}
            if best[1] != BASELINE and (own := (best[0], BASELINE)) in self.samples:
                gain = self.difference(best, own, source, name)
                found[name]["difference_to_P0"] = self.estimate(gain)
            found[name]["left_out"] = [
                _named(cell) | {"n": len(error.items)}
                for cell, error in errors.items()
                if cell not in enough
            ]
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
            items = tuple(item for item, values in scores.items() if len(values) > 1)
            found[name] = self.estimate(Measured(alpha, items, len(scores) - n))
            if found[name]["value"] is None:
                found[name]["reason"] = ALL_THE_SAME
        return {"krippendorff_alpha": found}

    def rated_means(self, source: str) -> Means:
        """What people give on average, the mean over raters of each reading of everything."""
        reference = self.references[source]
        return self._means(self.items_of(reference), lambda item, name: reference[item].get(name))

    def spread(self, cell: Cell) -> dict[str, Any]:
        """The mean over items of the standard deviation over repeats."""
        found = {}
        for name in self.rubric.names:
            asked = [i for i in self.samples[cell] if self.readings[i].dimension in ("all", name)]
            repeats = {item: self._repeats(cell, item, name) for item in asked}
            found[name] = self.mean(
                {i: stdev(v) if len(v) > 1 else None for i, v in repeats.items()}
            )
        return found

    def self_preference(self, cell: Cell) -> dict[str, Any]:
        """How much more a judge favours readings of its own model family than other judges do.

        For each reading: the judge's mean score minus that of the judges of other
        families with the same prompt, none of the reader's own, whose favour would count
        against this judge. Then its mean over readings of the judge's family minus its
        mean over the others.
        """
        family = self.families.get(cell[0])
        others = [c for c in self.cells if c[1] == cell[1] and self.families.get(c[0]) != family]
        readers = {item: self.families.get(self.readings[item].reader) for item in self.items()}
        own = [item for item, reader in readers.items() if reader == family]
        rest = [item for item, reader in readers.items() if reader != family]
        if family is None or not own or not rest or not others:
            return {}
        excess = {}
        for item, reader in readers.items():
            neutral = [c for c in others if reader is None or self.families.get(c[0]) != reader]
            mine = self._average_score(cell, item)
            theirs = [v for c in neutral if (v := self._average_score(c, item)) is not None]
            excess[item] = mine - fmean(theirs) if mine is not None and theirs else None
        of_own = self.measured({item: excess[item] for item in own})
        of_rest = self.measured({item: excess[item] for item in rest})
        if not of_own.items or not of_rest.items:
            return Estimate(None, None, None, 0, len(excess), NO_NEUTRAL_JUDGE).as_dict()
        difference = of_own.sampled.minus(of_rest.sampled)
        items = (*of_own.items, *of_rest.items)
        return self.estimate(Measured(difference, items, len(excess) - len(items)))

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
            whole: dict[str, float | None] = {}
            single: dict[str, float | None] = {}
            gain: dict[str, float | None] = {}
            for poem in (poem for poem in alone if poem in among):
                # One item stands for its poem, whose draws it shares.
                (item, one), (_, every) = alone[poem], among[poem]
                both = one is not None and every is not None
                whole[item], single[item] = (every, one) if both else (None, None)
                gain[item] = one - every if one is not None and every is not None else None
            if gain:
                found[name] = {
                    "all_dimensions": self.mean(whole),
                    "single_dimension": self.mean(single),
                    "difference": self.mean(gain),
                }
        return found

    def _by_poem(
        self, cell: Cell, items: Iterable[str], name: str
    ) -> dict[str, tuple[str, float | None]]:
        """Poem -> (one of its items that were asked, their mean score on a dimension)."""
        asked: dict[str, list[str]] = {}
        for item in items:
            if item in self.samples[cell]:
                asked.setdefault(self.readings[item].poem_id, []).append(item)
        found: dict[str, tuple[str, float | None]] = {}
        for poem, own in asked.items():
            known = [v for item in own if (v := self.score(cell, item, name)) is not None]
            found[poem] = own[0], fmean(known) if known else None
        return found

    # for the plot

    def error_rows(self) -> list[dict[str, Any]]:
        """judge, prompt, dimension, source, error, n: a row for every error there is."""
        rows = []
        for source in self.references:
            for cell in self.cells:
                for name in self.rubric.names:
                    error = self.error(cell, source, name)
                    if n := len(error.items):
                        told = {"error": error.sampled.value, "n": n}
                        rows.append(_named(cell) | {"dimension": name, "source": source} | told)
        return rows


def write_error_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """The rows as CSV; a header alone where there are none."""
    with replacing(path) as file:
        names = ["judge", "prompt", "dimension", "source", "error", "n"]
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _by_kind(
    judgments: Iterable[Judgment], readings: Mapping[str, Understanding], rubric: Rubric
) -> dict[str, list[Judgment]]:
    """Judgments of readings, of probes and of ci's quality; a ci may have a reading's name."""
    found: dict[str, list[Judgment]] = {READINGS: [], PROBES: [], QUALITY: []}
    for judgment in judgments:
        if judgment.rubric == CI_QUALITY.name:
            found[QUALITY].append(judgment)
        elif judgment.rubric == rubric.name and judgment.item_id in readings:
            found[READINGS].append(judgment)
        else:
            found[PROBES].append(judgment)
    return found


def _kinds(reason: str) -> set[str]:
    """'内容: a range (70-80); 语言: no score' -> {'a range', 'no score'}; of a request that
    failed, the failure's name."""
    if failed := _FAILURE.match(reason):
        return {failed[1]}
    lacking, _, again = reason.partition(FAILED_AGAIN)
    parts = (part.rpartition(": ")[2] for part in lacking.split("; "))
    kinds = {_DETAIL.sub("", part).strip() for part in parts} - {""}
    failed = _FAILURE.match(again)
    return kinds | ({f"asked again: {failed[1]}"} if failed else set())


_FAILURE = re.compile(r"([a-z_]+): ")
_DETAIL = re.compile(r"\s*\([^()]*\)|\s*(?:of )?'[^']*'|(?<![\w-])-?\d[\d.,/%]*(?:-\d+)?\s*")


def _is_whole(judgment: Judgment) -> bool:
    scores = judgment.scores
    return scores is not None and None not in scores.values()


def _average(parts: Sequence[Measured]) -> Measured:
    """The mean over dimensions, which rests on no more items than the least of them."""
    least = min(parts, key=lambda part: len(part.items))
    absence = "nothing was scored on a dimension"
    mean = Sampled.mean([part.sampled for part in parts])
    return replace(least, sampled=mean, absence=absence)


def _unsigned(bias: Mapping[str, Any]) -> dict[str, Any]:
    """The size of a bias; its interval holds the sizes of all that the bias's holds."""
    low, high, value = bias["low"], bias["high"], bias["value"]
    ends: dict[str, Any] = {"value": None if value is None else abs(value)}
    if low is not None and high is not None:
        ends["low"] = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
        ends["high"] = max(abs(low), abs(high))
    return {**bias, **ends}


def _named(cell: Cell) -> dict[str, Any]:
    return {"judge": cell[0], "prompt": cell[1]}


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
