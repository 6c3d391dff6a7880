"""Quality of ci as judges see it, beside how well they keep their form (CCiV, Table 3)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shiyan.config import PathsParams
from shiyan.correlation import spearman
from shiyan.families import family_of
from shiyan.jsonl import read_records
from shiyan.judging.quality import ALL_JUDGES, mean_scores, rated_for_quality
from shiyan.judging.rubric import CI_QUALITY
from shiyan.metrics import Draws, Estimate
from shiyan.records import CiCheck, Judgment, Poem
from shiyan.report.table import Cell, Table, estimate

Document = Mapping[str, Any]
ENGLISH = {"信息量": "informativeness", "审美": "aesthetic"}
FORMAL = {
    "structure_any": "structure, any form",
    "tonal_any": "tone, any form",
    "tonal_nearest": "tone over the nearest form",
    "rhyme_share": "rhymes kept",
}
FEWEST = 5
"""Below so many rated ci no correlation is told."""


def table_3(ci: Document, quality: Document, published: Sequence[Document]) -> Table:
    """Formal accuracy and judged quality of every source, then the paper's four models."""
    rows: list[list[Cell]] = []
    for judge, sources in quality["means"].items():
        for source, scores in sources.items():
            numbers = formal_numbers(ci, source)
            formal = [estimate(numbers.get(s)) for s in ("structure_standard", "tonal_standard")]
            judged = [estimate(scores[name]) for name in CI_QUALITY.names]
            paper_like = [normal(scores[name]["normal"]) for name in CI_QUALITY.names]
            rows.append([source, judge, *map(in_percent, formal), *judged, *paper_like])
    for row in published:
        formal_cells: list[Cell] = [row["structure_standard"], row["tonal_standard"]]
        means: list[Cell] = [float(row[name]) for name in CI_QUALITY.names]
        name = f"{row['model']} form_aware (CCiV)"
        rows.append([name, "mean of three", *formal_cells, *means, None, None])
    names = [ENGLISH[name] for name in CI_QUALITY.names]
    estimates = ["structure, standard form", "tone, standard form", *names]
    return Table(
        "table_3",
        "Form, % of ci, and quality, 1-5 by LLM judges (CCiV, Table 3).",
        ["source", "judge", *estimates, *(f"{name}, mean ± 1.96 SE" for name in names)],
        rows,
        [
            "[95 % interval], bootstrap over poems; ± 1.96 standard errors over all judged "
            "samples as if they were independent, as in CCiV.",
            "The form is of all ci of the source, the quality of those drawn to be rated.",
            "The rubric's text is the project's own (conf/prompt/ci_quality.yaml): the paper's "
            "stands in a figure that its text does not give.",
        ],
        estimates=estimates,
    )


def formal_numbers(ci: Document, source: str) -> Document:
    """The numbers of ci.json for a source as judges' results name it."""
    generator, _, prompt = source.rpartition(" ")
    found: Document = ci["generated"].get(generator, {}).get(prompt, {})
    return ci["human"] if source == "human" else found


def in_percent(found: Estimate | None) -> Estimate | None:
    if found is None:
        return None
    value, low, high = (
        None if x is None else 100 * x for x in (found.value, found.low, found.high)
    )
    return Estimate(value, low, high, found.n, found.n_unscored, found.reason)


def normal(found: Document) -> str | None:
    """2.90 ± 0.31 (n 36)."""
    if found["value"] is None or found["high"] is None:
        return None
    return f"{found['value']:.2f} ± {found['high'] - found['value']:.2f} (n {found['n']})"


def agreement(quality: Document) -> Table:
    """How far judges agree with each other and with themselves, and what could be read."""
    rows: list[list[Cell]] = []
    told = quality["agreement"]
    groups = {"between judges": told["between_judges"]} | {
        f"between repeats of {judge}": found for judge, found in told["between_repeats"].items()
    }
    for what, found in groups.items():
        for name in CI_QUALITY.names:
            alpha = found[name]
            told_alpha = (estimate(alpha), alpha["n"], alpha.get("reason"))
            rows.append(["Krippendorff's alpha", what, ENGLISH[name], *told_alpha])
    for judge, found in quality["parsed"].items():
        reasons = "; ".join(f"{reason} ({n})" for reason, n in found["unscored_reasons"].items())
        rows.append(["share read whole", judge, "both", estimate(found), found["n"], reasons])
    return Table(
        "quality_agreement",
        "Agreement of the judges of quality, and the share of their replies that could be read.",
        ["what", "of", "dimension", "value", "n", "remarks"],
        rows,
        ["Krippendorff's alpha for interval data; 1 is full agreement, 0 what chance gives."],
        estimates=["value"],
    )


def form_and_quality(paths: PathsParams, made: Document) -> Table:
    """Spearman's rho of a ci's quality and how well it keeps its form (CCiV, section 3.4)."""
    judgments = rated_for_quality(read_records(paths.judgments, Judgment))
    poems = [poem for path in (paths.poems, paths.generated) for poem in read_records(path, Poem)]
    checks = {check.poem_id: check for check in read_records(paths.ci_checks, CiCheck)}
    generated = {poem.poem_id: poem for poem in poems if poem.generation is not None}
    judges = list(dict.fromkeys(j.judge for j in judgments))
    rows: list[list[Cell]] = []
    for judge in [*judges, *([ALL_JUDGES] if len(judges) > 1 else [])]:
        own = [j for j in judgments if judge in (j.judge, ALL_JUDGES) and j.item_id in generated]
        quality = mean_scores(own)
        for name in CI_QUALITY.names:
            for formal, words in FORMAL.items():
                found = correlation(
                    {item: scores[name] for item, scores in quality.items()},
                    {item: getattr(checks.get(item), formal, None) for item in quality},
                    {item: family_of(generated[item]) for item in quality},
                    resamples=made["resamples"],
                    seed=made["seed"],
                )
                rows.append([judge, ENGLISH[name], words, found, found.n, found.reason])
    return Table(
        "form_and_quality",
        "Spearman's rho of an LLM ci's quality and how well it keeps its form.",
        ["judge", "dimension", "form", "rho", "ci", "remarks"],
        rows,
        [
            "[95 % interval], bootstrap over cipai and human poems; LLM ci only, of all models "
            "and prompts."
        ],
        estimates=["rho"],
    )


def correlation(
    quality: Mapping[str, float | None],
    formal: Mapping[str, float | None],
    group_of: Mapping[str, str],
    *,
    resamples: int,
    seed: int,
) -> Estimate:
    """Spearman's rho over the ci that have both numbers."""
    pairs = {
        item: (float(value), float(other))
        for item, value in quality.items()
        if value is not None and (other := formal.get(item)) is not None
    }
    unscored = len(quality) - len(pairs)
    if len(pairs) < FEWEST:
        reason = f"{len(pairs)} ci are too few for a correlation"
        return Estimate(None, None, None, len(pairs), unscored, reason)
    first, second = (np.array(side, np.float64) for side in zip(*pairs.values(), strict=True))
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        reason = "every ci has the same " + ("quality" if np.ptp(first) == 0 else "form")
        return Estimate(None, None, None, len(pairs), unscored, reason)
    draws = Draws.of((group_of[item] for item in pairs), resamples, seed)
    columns = draws.columns(group_of[item] for item in pairs)
    rho = spearman(first, second, columns, draws)
    return rho.estimate(len(pairs), len(draws.groups), unscored)
