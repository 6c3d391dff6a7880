"""Poller's tables from the last run: means, errors, one dimension alone, probes, agreement.

What the paper prints stands beside ours where the prompts are the paper's (`poller`); the
prompts for ci (`poller_ci`) are others, so that their numbers are shown alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from shiyan.config import PathsParams
from shiyan.errors import UserError
from shiyan.report.documents import Document, needed_metrics_of, packaged
from shiyan.report.table import Cell, Table, estimate

AVERAGE = "Avg"
BASELINE = "P0"
RUN, PAPER = "this run", "Poller"
PEOPLE = "people"
RATED = ("human", "published")
"""References that people vouch for."""
DIMENSIONS = ("内容", "语言", "意象", "修辞手法", "节奏", "陌生化", "思想情感", "现代性")
COLUMNS = (*DIMENSIONS, AVERAGE)
SCORES = "Scores 0-100; [95 % interval], bootstrap over poems."


def tables(paths: PathsParams) -> Iterator[Table]:
    """Every table for which the last run has numbers.

    Raises:
        UserError: the judge stage has not run.
    """
    found = needed_metrics_of(paths.judge_metrics, "judge")
    if not found["judges"] and found["counts"]["judgments"] == 0:
        raise UserError(
            f"{paths.judge_metrics} has no judgment: nothing was read; set "
            "generate.understanding.poems or collect.understandings and run the judge stage again"
        )
    yield table_1(found)
    if beside_paper(found) or rated_source(found):
        yield table_3(found)
        yield reductions(found)
    if beside_paper(found) or found["one_dimension"]:
        yield table_4(found)
    yield table_10(found)
    if rated_source(found):
        yield best(found)
        if found.get("between_prompts", {}).get(rated_source(found)):
            yield between_prompts(found)
        yield from agreement(found)
    if wrong := list(wrong_rows(found)):
        yield wrong_readings(found, wrong)
    if found["probes"]:
        yield probes(found)
    if found["self_preference"]:
        yield self_preference(found)
    if any("spread_over_repeats" in told for _, _, told in cells(found)):
        yield spread(found)
    yield accounts(found)
    yield unscored(found)


def figures(paths: PathsParams, folder: Path) -> Iterator[Path]:
    """Judge error by dimension, a panel a judge."""
    from shiyan.report.judging_figures import errors_by_dimension

    found = needed_metrics_of(paths.judge_metrics, "judge")
    drawn = errors_by_dimension(error_series(found), folder / "error_by_dimension.png")
    if drawn is not None:
        yield drawn


# --- what is read -------------------------------------------------------------------


def published() -> Document:
    """What the paper prints; see data/published/poller.md."""
    return packaged("published/poller.json")


def beside_paper(found: Document) -> bool:
    """Were the paper's own prompts asked? Those for ci are never set beside its numbers."""
    return bool(found["made"]["rubric"] == "poller")


def cells(found: Document) -> Iterator[tuple[str, str, Document]]:
    """(judge, prompt, what is told of the two)."""
    for judge, prompts in found["judges"].items():
        for prompt, told in prompts.items():
            yield judge, prompt, told


def rated_source(found: Document) -> str:
    """The reference that people vouch for; "" where there is none."""
    return next((source for source in RATED if source in found["raters"]), "")


def what(found: Document) -> str:
    return "readings of modern poems" if beside_paper(found) else "readings of ci"


def prompts_note(found: Document) -> list[str]:
    made = found["made"]
    note = f"Prompts {made['prompt_set']}, temperature {made['temperature']:g}."
    if beside_paper(found):
        return [note, "Rows of Poller: as printed, over 40 unpublished poems."]
    return [note, "The paper's prompts are for modern poems: no number of its stands beside these."]


def printed(prompts: Sequence[str]) -> Iterator[tuple[Document, dict[str, float]]]:
    """(row of Table 10, dimension (and Avg) -> mean) of the paper, for these prompts."""
    for row in published()["judge_means"]:
        if row["prompt_id"] in prompts:
            yield row, {**row["scores"], AVERAGE: row["average"]}


def printed_errors() -> Iterator[tuple[Document, dict[str, float]]]:
    """Table 3, which follows from Table 10; Avg is the mean of the eight errors."""
    human = published()["human"]
    for row in published()["judge_means"]:
        errors = {name: round(abs(row["scores"][name] - human[name]), 2) for name in DIMENSIONS}
        yield row, {**errors, AVERAGE: sum(errors.values()) / len(errors)}


# --- the paper's tables ---------------------------------------------------------------


def table_1(found: Document) -> Table:
    """With P1 as in the paper; where it was not asked, with the prompts that were."""
    ran = {prompt for _, prompt, _ in cells(found)} - {BASELINE}
    paper = {"P1"} if beside_paper(found) else set()
    with_persona = sorted((ran & {"P1"} or ran) | paper) or ["P1"]
    which = f"without (P0) and with ({', '.join(with_persona)}) the poet's persona"
    return means(found, "table_1", which, (BASELINE, *with_persona))


def table_10(found: Document) -> Table:
    return means(found, "table_10", "under every prompt", ("P0", "P1", "P2", "P3", "P4"))


def means(found: Document, name: str, which: str, prompts: Sequence[str]) -> Table:
    rows: list[list[Cell]] = []
    if source := rated_source(found):
        rated = found["raters"][source]["mean"]
        rows.append([PEOPLE, "", RUN, *(estimate(rated.get(c)) for c in COLUMNS)])
    rows += [
        [judge, prompt, RUN, *(estimate(told["generated"]["mean"].get(c)) for c in COLUMNS)]
        for judge, prompt, told in cells(found)
        if prompt in prompts and "generated" in told
    ]
    if beside_paper(found):
        human = {**published()["human"], AVERAGE: published()["human_average"]}
        rows.append([PEOPLE, "", PAPER, *(human[c] for c in COLUMNS)])
        rows += [
            [row["ours"], row["prompt_id"], PAPER, *(mean[c] for c in COLUMNS)]
            for row, mean in printed(prompts)
        ]
    number = name.removeprefix("table_")
    return Table(
        name,
        f"Mean scores of {what(found)} {which} (after Poller, Table {number})",
        ("evaluator", "prompt", "source", *COLUMNS),
        rows,
        [SCORES, *prompts_note(found)],
        estimates=COLUMNS,
    )


def table_3(found: Document) -> Table:
    source = rated_source(found)
    rows: list[list[Cell]] = [
        [judge, prompt, RUN, *(estimate(told[source]["error"].get(c)) for c in COLUMNS)]
        for judge, prompt, told in cells(found)
        if source in told
    ]
    if beside_paper(found):
        rows += [
            [row["ours"], row["prompt_id"], PAPER, *(errors[c] for c in COLUMNS)]
            for row, errors in printed_errors()
        ]
    return Table(
        "table_3",
        f"Error |mean of the judge - mean of the people| on {what(found)} (after Poller, Table 3)",
        ("evaluator", "prompt", "source", *COLUMNS),
        rows,
        [SCORES, "Avg is the mean of the eight errors.", *_unrated(found), *prompts_note(found)],
        estimates=COLUMNS,
    )


def _unrated(found: Document) -> list[str]:
    if rated_source(found):
        return []
    return ["Nobody rated the readings of this run, so that it has no error against people."]


def reductions(found: Document) -> Table:
    """By how much each prompt shrinks P0's error (section 7)."""
    source = rated_source(found)
    rows: list[list[Cell]] = [
        [judge, prompt, RUN, *(estimate(told[source]["reduction_percent"].get(c)) for c in COLUMNS)]
        for judge, prompt, told in cells(found)
        if source in told and "reduction_percent" in told[source]
    ]
    if beside_paper(found):
        baseline = {r["ours"]: e for r, e in printed_errors() if r["prompt_id"] == BASELINE}
        rows += [
            [
                row["ours"],
                row["prompt_id"],
                PAPER,
                *(100 * (1 - round(errors[c], 2) / round(baseline[row["ours"]][c], 2))
                  for c in COLUMNS),
            ]
            for row, errors in printed_errors()
            if row["prompt_id"] != BASELINE
        ]  # fmt: skip
    return Table(
        "reductions",
        f"Percent by which a prompt shrinks the error of P0 on {what(found)} (Poller, section 7)",
        ("evaluator", "prompt", "source", *COLUMNS),
        rows,
        [
            "Below 0: the prompt's error is larger than P0's.",
            "Ours on the readings that were scored under both prompts, dimension by dimension; the "
            "paper's from its errors rounded to two decimals.",
            *_unrated(found),
        ],
        estimates=COLUMNS,
    )


def table_4(found: Document) -> Table:
    """Readings of one dimension beside readings of all (section 8)."""
    rows: list[list[Cell]] = [
        [
            name,
            judge,
            prompt,
            RUN,
            *(estimate(told[key]) for key in ("all_dimensions", "single_dimension", "difference")),
        ]
        for judge, prompts in found["one_dimension"].items()
        for prompt, dimensions in prompts.items()
        for name, told in dimensions.items()
    ]
    if beside_paper(found):
        rows += [
            [
                row["dimension"],
                row["ours"],
                row["prompt_id"],
                PAPER,
                row["all_dimensions"],
                row["single_dimension"],
                row["single_dimension"] - row["all_dimensions"],
            ]
            for row in published()["table_4"]
        ]
    estimates = ("all dimensions", "single dimension", "difference")
    return Table(
        "table_4",
        f"Scores of {what(found)} of all dimensions at once and of one alone "
        "(after Poller, Table 4)",
        ("dimension", "evaluator", "prompt", "source", *estimates),
        rows,
        [
            SCORES,
            "Ours are paired on the same poems; the paper's column of all dimensions is over "
            "40 poems, the other over 20.",
        ],
        estimates=estimates,
    )


def best(found: Document) -> Table:
    """Which judge and prompt come closest to people on each dimension (section 7)."""
    ours = found["best"][rated_source(found)]
    rows: list[list[Cell]] = [[name, RUN, *_best_cells(told)] for name, told in ours.items()]
    if beside_paper(found):
        errors = list(printed_errors())
        for name in COLUMNS:
            row, least = min(errors, key=lambda entry: entry[1][name])
            rows.append([name, PAPER, row["ours"], row["prompt_id"], least[name], None, None, None])
    few = dict.fromkeys(
        f"{cell['judge']} {cell['prompt']}"
        for told in ours.values()
        for cell in told.get("left_out", [])
    )
    against_p0, lead = ("error", "error minus that of its P0"), "error minus the runner-up's"
    return Table(
        "best",
        f"Judge and prompt with the least error on {what(found)}, by dimension (Poller, section 7)",
        ("dimension", "source", "evaluator", "prompt", *against_p0, "runner-up", lead),
        rows,
        [
            SCORES,
            "Differences on the readings that both scored; one whose interval holds 0 is no "
            "improvement and no lead that can be relied on.",
            *([f"Left out where they scored too few readings: {', '.join(few)}."] if few else []),
        ],
        estimates=(*against_p0, lead),
    )


def _best_cells(told: Document) -> list[Cell]:
    second = told.get("runner_up", {})
    return [
        told["judge"],
        told["prompt"],
        estimate(told["error"]),
        estimate(told.get("difference_to_P0")),
        f"{second['judge']} {second['prompt']}" if second else None,
        estimate(second.get("difference")),
    ]


# --- beyond the paper -----------------------------------------------------------------


def between_prompts(found: Document) -> Table:
    """How the errors of two prompts of a judge differ; those against P0 stand with `best`."""
    differences = found["between_prompts"][rated_source(found)]
    rows: list[list[Cell]] = [
        [judge, pair, *(estimate(told.get(c)) for c in COLUMNS)]
        for judge, pairs in differences.items()
        for pair, told in pairs.items()
    ]
    return Table(
        "between_prompts",
        f"Error under one prompt minus that under another of the same judge, {what(found)}",
        ("evaluator", "prompts", *COLUMNS),
        rows,
        [
            SCORES,
            "Below 0: the first is closer to people. Paired on the readings that were scored under "
            "both, dimension by dimension.",
        ],
        estimates=COLUMNS,
    )


def agreement(found: Document) -> Iterator[Table]:
    """Item by item: mean absolute error, rank correlation, bias; and the raters' agreement."""
    source = rated_source(found)
    kinds = {
        "mean_absolute_error": "Mean of |judge - people| over items",
        "bias": "Mean of judge - people over items (above 0: the judge is milder)",
        "spearman": "Spearman's rank correlation with people over items",
    }
    for key, caption in kinds.items():
        rows: list[list[Cell]] = [
            [judge, prompt, *(estimate(told[source][key].get(name)) for name in DIMENSIONS)]
            for judge, prompt, told in cells(found)
            if source in told
        ]
        yield Table(
            f"agreement_{key}",
            f"{caption}, {what(found)}",
            ("evaluator", "prompt", *DIMENSIONS),
            rows,
            ["[95 % interval], bootstrap over poems."],
            estimates=DIMENSIONS,
        )
    alpha = found["raters"][source]["krippendorff_alpha"]
    yield Table(
        "agreement_raters",
        "Agreement among the people, Krippendorff's alpha (interval): a judge's ceiling",
        ("", *DIMENSIONS),
        [["alpha", *(estimate(alpha.get(name)) for name in DIMENSIONS)]],
        ["Over readings that two or more people rated; 1: they agree, 0: as by chance."],
        estimates=DIMENSIONS,
    )


def wrong_rows(found: Document) -> Iterator[list[Cell]]:
    for judge, prompt, told in cells(found):
        differences = told.get("generated_minus_constructed")
        if differences is not None:
            shares = [estimate(differences[name]["share_higher"]) for name in DIMENSIONS]
            yield [judge, prompt, "fall", *(estimate(differences[name]) for name in DIMENSIONS)]
            yield [judge, prompt, "share of poems", *shares]


def wrong_readings(found: Document, rows: Sequence[Sequence[Cell]]) -> Table:
    return Table(
        "wrong_readings",
        "By how much, and for what share of poems, a poem's own reading scores higher than "
        "another poem's",
        ("evaluator", "prompt", "what", *DIMENSIONS),
        rows,
        [SCORES, "Only 内容 of another poem's reading is surely wrong.", *prompts_note(found)[:1]],
        estimates=DIMENSIONS,
    )


PASSED = {
    "other_poem": "another poem's reading: every dimension 30 lower",
    "empty": "no reading: every dimension 30 lower",
    "swapped_content": "another poem's 内容: that 20 lower, the others within 10",
    "first_sentence": "cut to its first sentence: the mean falls",
    "praise": "praise that fits any poem: 内容 below 50",
    "orders": "“give 100” in the reading: no dimension moves by more than 5",
    "orders_in_poem": "“give 100” in the poem: no dimension moves by more than 5",
}
"""Probe -> what it is, and when a judge passes it."""


def probes(found: Document) -> Table:
    rows: list[list[Cell]] = [
        [
            judge,
            prompt,
            name,
            PASSED[name],
            *(estimate(told[key]) for key in ("passed", "content_fall", "mean_fall")),
        ]
        for judge, prompts in found["probes"].items()
        for prompt, of_prompt in prompts.items()
        for name, told in of_prompt.items()
    ]
    estimates = ("passed", "内容 falls by", "mean falls by")
    return Table(
        "probes",
        "Doctored readings: share of probes that a judge passed, and by how much 内容 and the mean "
        "of the dimensions fell",
        ("evaluator", "prompt", "probe", "passed where", *estimates),
        rows,
        ["Paired with the true reading of the same poem; below 0: the doctored one scored higher."],
        estimates=estimates,
    )


def self_preference(found: Document) -> Table:
    rows: list[list[Cell]] = [
        [judge, prompt, estimate(told)]
        for judge, prompts in found["self_preference"].items()
        for prompt, told in prompts.items()
    ]
    return Table(
        "self_preference",
        "How much more a judge favours readings by its own model family than judges of other "
        "families do",
        ("evaluator", "prompt", "excess"),
        rows,
        [
            "A reading's excess is the judge's mean score minus that of judges of other families "
            "under the same prompt, the reader's own family left out; shown is its mean over the "
            "family's readings minus its mean over the others.",
            "Without a judge of a third family who favours whom cannot be told.",
        ],
        estimates=("excess",),
    )


def spread(found: Document) -> Table:
    rows: list[list[Cell]] = [
        [judge, prompt, *(estimate(told["spread_over_repeats"].get(n)) for n in DIMENSIONS)]
        for judge, prompt, told in cells(found)
        if "spread_over_repeats" in told
    ]
    return Table(
        "spread",
        "Mean standard deviation of a reading's scores over repeats of the same request",
        ("evaluator", "prompt", *DIMENSIONS),
        rows,
        ["0: the judge says the same whenever it is asked."],
        estimates=DIMENSIONS,
    )


def accounts(found: Document) -> Table:
    """What could be read of the replies."""
    rows: list[list[Cell]] = [
        [judge, prompt, estimate(told["parsed"])] for judge, prompt, told in cells(found)
    ]
    counts = found["counts"]
    tokens = f"{counts['prompt_tokens']:,} tokens of prompts"
    if counts.get("cached_tokens"):
        tokens += f" ({counts['cached_tokens']:,} of them read before)"
    money = found.get("money") or {}
    spent = f", {money['spent']:.2f} {money['currency']}" if money.get("currency") else ""
    return Table(
        "accounts",
        "Share of judgments with a full set of scores",
        ("evaluator", "prompt", "share"),
        rows,
        [
            f"{counts['judgments']} judgments, {counts['n_unscored']} without a full set, "
            f"{counts['asked_again']} asked again; probes stand apart.",
            f"{tokens}, {counts['completion_tokens']:,} of replies{spent}{_by_kind(found)}.",
        ],
        estimates=("share",),
    )


def _by_kind(found: Document) -> str:
    """Whose the tokens are, where more than readings was judged."""
    kinds = found.get("tokens", {})
    if len(kinds) < 2:
        return ""
    shares = (
        f"{kind} {of['prompt_tokens']:,} and {of['completion_tokens']:,}"
        for kind, of in kinds.items()
    )
    return f" ({'; '.join(shares)})"


def unscored(found: Document) -> Table:
    rows: list[list[Cell]] = [[kind, n] for kind, n in found["unscored_reasons"].items()]
    return Table(
        "unscored",
        "Why judgments lack scores",
        ("reason", "judgments"),
        rows or [["none lacks any", 0]],
        ["Each judgment's own reason and reply stand in the judgments file."],
    )


# --- the figure -------------------------------------------------------------------------

Series = dict[str, dict[str, dict[str, float]]]
"""Panel -> prompt -> dimension -> error."""


def error_series(found: Document) -> Series:
    """Errors against people of this run's judges, then of the paper's; where nobody rated,
    against the constructed reference, which speaks of 内容 alone."""
    series: Series = {}
    source = rated_source(found)
    for judge, prompt, told in cells(found):
        if source in told:
            panel, errors = f"{judge} · {RUN}", told[source]["error"]
        elif "constructed" in told:
            panel = f"{judge} · constructed"
            errors = told["constructed"].get("absolute_error", {})
        else:
            continue
        known = {n: e["value"] for n, e in errors.items() if e["value"] is not None}
        if shown := _dimensions_of(known):
            series.setdefault(panel, {})[prompt] = shown
    if beside_paper(found):
        for row, errors in printed_errors():
            of_judge = series.setdefault(f"{row['ours']} · {PAPER}", {})
            of_judge[row["prompt_id"]] = _dimensions_of(errors)
    return series


def _dimensions_of(errors: Mapping[str, float]) -> dict[str, float]:
    return {name: errors[name] for name in DIMENSIONS if name in errors}
