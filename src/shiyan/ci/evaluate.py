"""From checks of ci to the numbers of CCiV's Tables 2 and 3, human ci beside the LLMs'.

Every number of an LLM must be read against the human one: poets do not keep the
standard form of every tune either (浪淘沙 means 浪淘沙令 to nearly all of them).
"""

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from shiyan.ci.check import LINES_OF_A_SHI, SCORES, Checker
from shiyan.ci.form import Catalogue
from shiyan.correlation import permutation_p, spearman
from shiyan.families import family_lacking, family_of
from shiyan.jsonl import replacing
from shiyan.metrics import INTERVAL, Draws, Estimate, Sampled
from shiyan.records import CiCheck, Poem, Reply

C = TypeVar("C", Poem, Reply)
OTHER_SCORES = ("tonal_definite", "tonal_nearest", "rhyme_share")
COLUMNS = (
    "cipai",
    "source",
    "generator",
    "prompt_id",
    "standard_characters",
    "n",
    "n_unscored",
    "n_missing",
    *SCORES,
    *OTHER_SCORES,
)
FEWEST_CIPAI = 5
"""Below so many cipai no correlation of length and accuracy is told."""
CHANCE = {
    "tonal": 0.704,
    "tonal_definite": 0.508,
    "how": "the characters of 16,268 historic ci shuffled within each poem, best of the forms kept",
}


@dataclass(frozen=True)
class Row:
    """A ci and its check."""

    poem: Poem
    check: CiCheck

    @property
    def family(self) -> str:
        return family_of(self.poem)

    @property
    def source(self) -> tuple[str, str]:
        """(generator, prompt), or ('human', '')."""
        made = self.poem.generation
        return (made.generator, made.prompt_id) if made else ("human", "")

    @property
    def is_first_sample(self) -> bool:
        return self.poem.generation is None or self.poem.generation.sample_index == 0


Value = Callable[[CiCheck], float | None]


def score(name: str) -> Value:
    """The score of that name as a number; a flag is 0 or 1."""

    def value(check: CiCheck) -> float | None:
        found = getattr(check, name)
        return None if found is None else float(found)

    return value


@dataclass(frozen=True)
class Evaluation:
    """All ci of a run with their checks, and one set of resamples for every number.

    `missing` are the replies without a ci: cut off, refused, or never given.
    """

    rows: tuple[Row, ...]
    checker: Checker
    resamples: int
    seed: int
    missing: tuple[Reply, ...] = ()

    @cached_property
    def draws(self) -> Draws:
        groups = [row.family for row in self.rows]
        groups += [family_lacking(reply) for reply in self.missing]
        return Draws.of(groups, self.resamples, self.seed)

    @cached_property
    def by_source(self) -> dict[tuple[str, str], list[Row]]:
        """The human ci first, then generators and prompts in the order in which they come."""
        found: dict[tuple[str, str], list[Row]] = {("human", ""): []}
        for row in self.rows:
            found.setdefault(row.source, []).append(row)
        for source in self.missing_by_source:
            found.setdefault(source, [])
        return found

    @cached_property
    def missing_by_source(self) -> dict[tuple[str, str], list[Reply]]:
        found: dict[tuple[str, str], list[Reply]] = {}
        for reply in self.missing:
            found.setdefault((reply.generator, reply.prompt_id), []).append(reply)
        return found

    # --- estimates --------------------------------------------------------------------

    def sampled(self, rows: Sequence[Row], value: Value) -> tuple[Sampled, int, int] | None:
        """A mean on the common resamples, how many were scored, and in how many groups."""
        scored = [(number, row.family) for row in rows if (number := value(row.check)) is not None]
        if not scored:
            return None
        numbers = [number for number, _ in scored]
        columns = self.draws.columns(group for _, group in scored)
        mean = self.draws.mean(columns, numbers, "share")
        return mean, len(scored), len({group for _, group in scored})

    def mean(self, rows: Sequence[Row], value: Value) -> dict[str, Any]:
        """A mean with its interval; what has no score is counted."""
        found = self.sampled(rows, value)
        if found is None:
            return Estimate(None, None, None, 0, len(rows), "nothing was scored").as_dict()
        mean, n, n_groups = found
        return mean.estimate(n, n_groups, len(rows) - n).as_dict()

    def of_all(self, rows: Sequence[Row], missing: Sequence[Reply], value: Value) -> dict[str, Any]:
        """A mean over everything that was asked: a reply without a ci keeps no form."""
        known = [(v, row.family) for row in rows if (v := value(row.check)) is not None]
        known += [(0.0, family_lacking(reply)) for reply in missing]
        numbers, groups = [number for number, _ in known], [group for _, group in known]
        estimate = Estimate(None, None, None, 0, len(rows), "nothing was scored")
        if known:
            sampled = self.draws.mean(self.draws.columns(groups), numbers, "share")
            unscored = len(rows) + len(missing) - len(known)
            estimate = sampled.estimate(len(known), len(set(groups)), unscored)
        return estimate.as_dict()

    def share(self, rows: Sequence[Row], fit: str, of: str) -> dict[str, Any]:
        """Characters that fit, of all in the poems that keep a form: one share of the whole."""
        kept = [row for row in rows if getattr(row.check, of)]
        if not kept:
            return Estimate(None, None, None, 0, len(rows), "no ci keeps a form").as_dict()
        columns = self.draws.columns(row.family for row in kept)
        fits = [getattr(row.check, fit) for row in kept]
        wanted = [getattr(row.check, of) for row in kept]
        sampled = self.draws.ratio(columns, fits, wanted, "share")
        groups = len({row.family for row in kept})
        return sampled.estimate(len(kept), groups, len(rows) - len(kept)).as_dict()

    def difference(
        self, rows: Sequence[Row], value: Value, others: Sequence[Row], other: Value
    ) -> dict[str, Any]:
        """One mean less another on the same resamples."""
        a, b = self.sampled(rows, value), self.sampled(others, other)
        if a is None or b is None:
            return Estimate(None, None, None, 0, len(rows), "one side was not scored").as_dict()
        difference = a[0].minus(b[0])
        n, groups = min(a[1], b[1]), min(a[2], b[2])
        return difference.estimate(n, groups, len(rows) - a[1]).as_dict()

    # --- one source -------------------------------------------------------------------

    def of_source(self, source: tuple[str, str]) -> dict[str, Any]:
        """Every number of one source: the human ci, or a generator under a prompt."""
        rows, missing = self.by_source[source], self.missing_by_source.get(source, [])
        described = {
            "n": len(rows),
            "missing": counted(reply.missing_reason for reply in missing),
            "unscored": dict(
                Counter(r.check.unscored_reason for r in rows if r.check.unscored_reason)
            ),
            **{name: self.mean(rows, score(name)) for name in (*SCORES, *OTHER_SCORES)},
            "tonal_of_all_fixed_characters": self.share(rows, "n_fixed_fit", "n_fixed"),
            "tonal_of_all_definite_characters": self.share(rows, "n_definite_fit", "n_definite"),
            "rhyme_kept_throughout": self.mean(
                rows,
                lambda check: (
                    None
                    if check.rhyme_share is None or check.variant_id is None
                    else float(check.rhyme_share == 1)
                ),
            ),
            "gap": {
                form: self.difference(
                    rows, score(f"structure_{form}"), rows, score(f"tonal_{form}")
                )
                for form in ("standard", "any", "any_optional")
            },
            "gain_of_any_form": {
                what: self.difference(rows, score(f"{what}_any"), rows, score(f"{what}_standard"))
                for what in ("structure", "tonal")
            },
            "length_and_accuracy": {
                name: self.correlation([rows], name)
                for name in ("structure_standard", "structure_any")
            },
            "failures": failures(row.check for row in rows),
            "variants_written": counted(row.check.variant_id for row in rows),
            "other_cipai_written": counted(
                f"{row.check.cipai} as {row.check.elsewhere}"
                if is_another_cipai(row.check)
                else None
                for row in rows
            ),
            "shi_written": counted(row.check.cipai if is_shi(row.check) else None for row in rows),
            "characters": {
                name: sum(getattr(row.check, f"n_{name}") for row in rows)
                for name in ("characters", "polyphones", "unknown")
            },
        }
        if missing:
            described["of_all_asked"] = {
                name: self.of_all(rows, missing, score(name)) for name in SCORES
            }
        first = [row for row in rows if row.is_first_sample]
        if len(first) < len(rows):
            described["first_sample_alone"] = {
                name: self.mean(first, score(name)) for name in SCORES if "optional" not in name
            }
        return described

    # --- across sources ---------------------------------------------------------------

    def correlation(self, sources: Sequence[Sequence[Row]], name: str) -> dict[str, Any]:
        """Spearman's rho of a cipai's standard length and its accuracy, averaged over sources.

        The interval is over cipai, p by permutation; the paper's section 3.1 has rho = -0.36.
        """
        by_cipai: dict[str, list[list[float]]] = {}
        for index, rows in enumerate(sources):
            for row in rows:
                value = score(name)(row.check)
                if value is not None and self.standard_length(row.check.cipai):
                    lists = by_cipai.setdefault(row.check.cipai, [[] for _ in sources])
                    lists[index].append(value)
        accuracy = np.array(
            [
                np.mean([np.mean(values) for values in lists if values])
                for lists in by_cipai.values()
            ]
        )
        length = np.array([self.standard_length(cipai) for cipai in by_cipai], float)
        n = len(by_cipai)
        if n < FEWEST_CIPAI:
            reason = f"{n} cipai are too few for a correlation"
            return Estimate(None, None, None, n, 0, reason).as_dict()
        if np.ptp(accuracy) == 0 or np.ptp(length) == 0:
            reason = "every cipai has the same accuracy or length"
            return Estimate(None, None, None, n, 0, reason).as_dict()
        draws = Draws.of(by_cipai, self.resamples, self.seed)
        rho = spearman(length, accuracy, draws.columns(by_cipai), draws)
        p_value = permutation_p(length, accuracy, self.resamples, self.seed)
        return rho.estimate(n, n).as_dict() | {"p_value": p_value}

    def standard_length(self, cipai: str) -> int:
        """Characters of the standard form; 0 where nobody knows the name."""
        found = self.checker.catalogue.find(cipai)
        return len(found[0].standard) if found else 0

    def metrics(self, n_not_ci: int) -> dict[str, Any]:
        """What metrics/ci.json holds."""
        generators = dict.fromkeys(generator for generator, prompt in self.by_source if prompt)
        prompts = dict.fromkeys(prompt for _, prompt in self.by_source if prompt)
        sources = self.by_source
        return {
            "n_ci": len(self.rows),
            "n_not_ci": n_not_ci,
            "human": self.of_source(("human", "")),
            "generated": {
                generator: {
                    prompt: self.of_source((generator, prompt))
                    for prompt in prompts
                    if (generator, prompt) in sources
                }
                for generator in generators
            },
            "form_aware_less_direct": {
                generator: self.gain_of_prompt(generator)
                for generator in generators
                if {(generator, "direct"), (generator, "form_aware")} <= sources.keys()
            },
            "length_and_accuracy_of_all_generators": {
                prompt: {
                    name: self.correlation(
                        [rows for (_, own), rows in sources.items() if own == prompt], name
                    )
                    for name in ("structure_standard", "structure_any")
                }
                for prompt in prompts
            },
            "cipai": {
                cipai: self.described(cipai)
                for cipai in dict.fromkeys(row.check.cipai for row in self.rows)
                if self.checker.catalogue.find(cipai)
            },
            "made": self.made(),
        }

    def described(self, cipai: str) -> dict[str, Any]:
        """A cipai as CCiV's Table 1 has it; the works are this run's human ci."""
        tune = self.checker.catalogue.find(cipai)[0]
        human = [row for row in self.by_source["human", ""] if row.check.cipai == cipai]
        return {
            "works": len(human),
            "standard_form": tune.standard.variant_id,
            "standard_characters": len(tune.standard),
            "structure_variants": len(tune.structures),
            "mean_characters": round(float(np.mean([sum(s) for s in tune.structures])), 2),
        }

    def gain_of_prompt(self, generator: str) -> dict[str, Any]:
        """What the form-aware prompt gains over the direct one, on the same resamples."""
        aware = self.by_source[generator, "form_aware"]
        direct = self.by_source[generator, "direct"]
        return {
            name: self.difference(aware, score(name), direct, score(name))
            for name in SCORES
            if "optional" not in name
        }

    def made(self) -> dict[str, Any]:
        """How the numbers were made."""
        catalogue = self.checker.catalogue
        return {
            "forms": "钦定词谱 (1715) and 龙榆生《唐宋词格律》",
            "n_cipai": len(catalogue),
            "n_forms": catalogue.n_forms,
            "forms_sha256": catalogue.sha256,
            "tones": self.checker.tones.source,
            "rhymes": "19 parts of 词林正韵, level and oblique apart",
            "strict": "a caesura (读) is a line break, as in CCiV",
            "of_all_asked": "the same over all that was asked: a reply without a ci counts 0",
            "optional": "a form's 读 may be unbroken, a text's 、 may stand anywhere",
            "tonal": "mean over ci of the share of all characters that fit, a polyphone by any "
            "reading, an unknown one always; 0 where the structure is broken",
            "tonal_definite": "of characters with one reading at 平 or 仄 positions, in ci that "
            "keep a form",
            "chance": CHANCE,
            "interval": INTERVAL + " groups",
            "resamples": self.resamples,
            "seed": self.seed,
        }

    def table(self) -> list[dict[str, Any]]:
        """One row a cipai and source, long cipai first (CCiV, Figure 3)."""
        rows: list[dict[str, Any]] = []
        for (generator, prompt), members in self.by_source.items():
            by_cipai: dict[str, list[CiCheck]] = {}
            for member in members:
                by_cipai.setdefault(member.check.cipai, []).append(member.check)
            missing = Counter(
                reply.cipai or "" for reply in self.missing_by_source.get((generator, prompt), [])
            )
            for cipai in dict.fromkeys([*by_cipai, *missing]):
                checks = by_cipai.get(cipai, [])
                scored = [check for check in checks if check.unscored_reason is None]
                rows.append(
                    {
                        "cipai": cipai,
                        "source": " · ".join(filter(None, (generator, prompt))),
                        "generator": generator,
                        "prompt_id": prompt,
                        "standard_characters": self.standard_length(cipai),
                        "n": len(scored),
                        "n_unscored": len(checks) - len(scored),
                        "n_missing": missing[cipai],
                        **{name: mean_of(checks, name) for name in (*SCORES, *OTHER_SCORES)},
                    }
                )
        order = {cipai: k for k, cipai in enumerate(dict.fromkeys(row["cipai"] for row in rows))}
        return sorted(rows, key=lambda row: (-row["standard_characters"], order[row["cipai"]]))


def plainly_named(ci: C, catalogue: Catalogue) -> C:
    """A ci, or what stands for a missing one, under its cipai's name in simplified characters."""
    return ci.model_copy(update={"cipai": catalogue.plain(ci.cipai)}) if ci.cipai else ci


def unknown_names(rows: Iterable[Row], catalogue: Catalogue) -> str | None:
    """One notice of the cipai that nobody knows; None where there are none."""
    names = Counter(
        row.poem.cipai
        for row in rows
        if row.poem.cipai and row.check.unscored_reason and not catalogue.find(row.poem.cipai)
    )
    if not names:
        return None
    some = ", ".join(f"{name} ({n})" for name, n in names.most_common(8))
    return (
        f"{names.total()} ci are unscored, for their {len(names)} cipai are not known: {some}"
        f"{' …' if len(names) > 8 else ''}; eval_ci.extra_forms takes forms of your own"
    )


def is_shi(check: CiCheck) -> bool:
    """Is a ci that keeps no form of its cipai a regular shi by its lines?"""
    return check.nearest is not None and LINES_OF_A_SHI in check.nearest.kinds


def is_another_cipai(check: CiCheck) -> bool:
    """Does it keep another cipai's lines, and not such as a shi has anyway?"""
    return check.elsewhere is not None and not is_shi(check)


def failures(checks: Iterable[CiCheck]) -> dict[str, int]:
    """How many ci fail in which way; one ci may fail in several."""
    found: Counter[str] = Counter()
    for check in checks:
        if check.unscored_reason is not None:
            found["unscored"] += 1
        elif not check.structure_any_optional:
            found["structure"] += 1
            found["another_cipai"] += is_another_cipai(check)
            kinds = check.nearest.kinds if check.nearest else ("too_long_to_compare",)
            found.update(f"structure_{kind}" for kind in kinds)
        else:
            found["strict_structure_only"] += not check.structure_any
            found["tone"] += check.tonal_any_optional != 1
            found["rhyme"] += check.rhyme_share is not None and check.rhyme_share < 1
    return {name: n for name, n in sorted(found.items()) if n}


def counted(names: Iterable[str | None]) -> dict[str, int]:
    """How often each name comes, the most frequent first."""
    return dict(Counter(name for name in names if name is not None).most_common())


def mean_of(checks: Sequence[CiCheck], name: str) -> float | None:
    """The mean of the scored ones; None without any."""
    values = [value for check in checks if (value := score(name)(check)) is not None]
    return float(np.mean(values)) if values else None


def write_table(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write the by-cipai table as CSV; an empty cell is a score that does not exist."""
    with replacing(path) as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
