"""CCiV's tables and figures from the last run: structure, tone, rhyme and quality of ci.

Published numbers stand beside ours wherever the paper has them, and the human ci beside
the LLMs': nobody keeps a standard form that poets do not keep either.
"""

import csv
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from shiyan.config import PathsParams
from shiyan.report.documents import Document, metrics_of, needed_metrics_of, packaged
from shiyan.report.table import Cell, Table, estimate

Source = tuple[str, str, Document]
"""Generator, prompt and the numbers of both; of the human ci `HUMAN`, "" and theirs."""

HUMAN = "human ci"
RUN, PAPER = "this run", "CCiV"
MEASURES = ("structure_standard", "structure_any", "tonal_standard", "tonal_any")
NAMES = {
    "structure_standard": "structure, standard form",
    "structure_any": "structure, any form",
    "tonal_standard": "tone, standard form",
    "tonal_any": "tone, any form",
}
TABLE_2 = (
    *(("direct", name) for name in MEASURES),
    ("form_aware", "structure_standard"),
    ("form_aware", "tonal_standard"),
)
"""The columns of the paper's Table 2: prompt and measure."""
HOW = (
    "Percent of the ci that came; [95 % interval], bootstrap over cipai and human poems; none "
    "where all have one value, though 0 in 30 cipai leaves room for 10 % (3 in 30).",
    "Tone is the share of characters that fit, 0 where the structure is broken; "
    "a caesura (读) is a line break.",
)


def tables(paths: PathsParams) -> Iterator[Table]:
    """Every table for which the last run has numbers.

    Raises:
        UserError: eval_ci has not run.
    """
    ci = needed_metrics_of(paths.ci_metrics, "eval_ci")
    collected, judged = metrics_of(paths.collect_metrics), metrics_of(paths.judge_metrics)
    counts = (collected or {}).get("source") or {}
    yield table_1(ci, counts)
    if counts:
        yield most_frequent(counts)
    yield table_2(ci)
    yield beside(ci)
    yield gains_of_variants(ci)
    yield gains_of_prompt(ci)
    yield readings(ci)
    yield beyond(ci)
    yield samples(ci)
    yield accounts(ci)
    yield lengths(ci)
    yield from by_cipai(paths.ci_by_cipai)
    yield forms_written(ci)
    yield failures(ci)
    quality = (judged or {}).get("ci_quality")
    if quality:
        from shiyan.report.ci_quality import agreement, form_and_quality, table_3

        yield table_3(ci, quality, published()["table_3"])
        yield agreement(quality)
        yield form_and_quality(paths, ci["made"])


def figures(paths: PathsParams, folder: Path) -> Iterator[Path]:
    """The heat maps, and where a model told its reasoning, each trace beside its ci."""
    from shiyan.report.ci_figures import heat_maps, reasoning

    yield from heat_maps(cipai_rows(paths.ci_by_cipai), folder)
    yield from reasoning(paths, folder)


# --- what is read -------------------------------------------------------------------


def published() -> Document:
    """The paper's Tables 1-3, percent as printed."""
    return packaged("published/cciv.json")


def cipai_rows(path: Path) -> list[dict[str, str]]:
    """eval_ci's table by cipai and source; an empty cell is a score that does not exist."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def sources(ci: Document, human: bool = True) -> list[Source]:
    """The human ci first, then every generator with every prompt."""
    generated = [
        (generator, prompt, numbers)
        for generator, prompts in ci["generated"].items()
        for prompt, numbers in prompts.items()
    ]
    return [(HUMAN, "", ci["human"]), *generated] if human else generated


def of_paper(model: str, prompt: str, measure: str) -> float | None:
    """What the paper has for a model of conf/model/, as a share."""
    row = next((row for row in published()["table_2"] if row["ours"] == model), None)
    return percent(row.get(prompt, {}).get(measure)) if row else None


def percent(value: float | None) -> float | None:
    return None if value is None else value / 100


# --- Table 1 and the corpus ---------------------------------------------------------


TABLE_1 = ("works", "share", "standard characters", "structures", "mean characters")


def table_1(ci: Document, counts: Document) -> Table:
    """Works, standard length, structures and their mean length, ours and the paper's."""
    paper = {row["cipai"]: row for row in published()["table_1"]}
    works, total = counts.get("asked_for", {}), counts.get("works", 0)
    rows: list[list[Cell]] = []
    for cipai, own in ci["cipai"].items():
        theirs = paper.get(cipai, {})
        n = works.get(cipai, own["works"])
        rows.append(
            [
                cipai,
                n,
                theirs.get("works"),
                f"{100 * n / total:.2f} %" if total else None,
                f"{theirs['percent']:.2f} %" if theirs else None,
                own["standard_characters"],
                theirs.get("standard_characters"),
                own["structure_variants"],
                theirs.get("structure_variants"),
                float(own["mean_characters"]),
                float(theirs["mean_characters"]) if theirs else None,
            ]
        )
    whole = f"of {total} ci of the corpus's source" if total else "human ci of this run"
    return Table(
        "table_1",
        "The cipai: works and forms, beside CCiV's Table 1.",
        ["cipai", *(f"{name}{whose}" for name in TABLE_1 for whose in ("", f" ({PAPER})"))],
        rows,
        [
            f"Works: {whole}; a ci under two names counts for both.",
            "Structures: distinct sequences of line lengths in 钦定词谱 and 龙榆生, "
            "a caesura (读) a line break.",
        ],
    )


def most_frequent(counts: Document) -> Table:
    """The names with most works in the corpus's source (CCiV, section 2.1)."""
    chosen = {row["cipai"] for row in published()["table_1"]}
    rows: list[list[Cell]] = [
        [place, name, n, n / counts["works"], "yes" if name in chosen else "no"]
        for place, (name, n) in enumerate(counts["most_frequent"].items(), 1)
    ]
    return Table(
        "most_frequent",
        f"The {len(rows)} most frequent cipai among the source's {counts['works']} ci.",
        ["place", "cipai", "works", "share, %", "among CCiV's 30"],
        rows,
        [
            f"{counts['names']} names; {counts['works_under_two_names']} ci stand under two and "
            f"count for both; the tune of {counts['works_whose_tune_is_lost']} is lost.",
        ],
        scale=100,
    )


# --- Table 2 ------------------------------------------------------------------------


def table_2(ci: Document) -> Table:
    """As the paper prints it: human ci, this run's models, then the paper's 17."""
    human = [estimate(ci["human"][measure]) for _, measure in TABLE_2]
    rows: list[list[Cell]] = [[HUMAN, RUN, *human]]
    for generator, prompts in ci["generated"].items():
        cells = [estimate(prompts.get(prompt, {}).get(measure)) for prompt, measure in TABLE_2]
        rows.append([generator, RUN, *cells])
    for row in published()["table_2"]:
        printed = [percent(row[prompt][measure]) for prompt, measure in TABLE_2]
        rows.append([row["model"], PAPER, *printed])
    columns = [f"{prompt}: {NAMES[measure]}" for prompt, measure in TABLE_2]
    return Table(
        "table_2",
        "Ci that keep structure and tone, % (CCiV, Table 2).",
        ["model", "from", *columns],
        rows,
        [
            *HOW,
            "CCiV's rows are its printed figures, 300 titles x 3 samples; it tells no interval.",
        ],
        estimates=columns,
        scale=100,
    )


def beside(ci: Document) -> Table:
    """Every measure of every source with the human ceiling and the paper's figure beside it."""
    rows: list[list[Cell]] = []
    for generator, prompt, numbers in sources(ci, human=False):
        for measure in MEASURES:
            own = estimate(numbers[measure])
            rows.append(
                [
                    generator,
                    prompt,
                    NAMES[measure],
                    own,
                    estimate(ci["human"][measure]),
                    of_paper(generator, prompt, measure),
                ]
            )
    return Table(
        "table_2_beside",
        "The same, each number beside the human ci's and the paper's for the same model, %.",
        ["model", "prompt", "measure", RUN, HUMAN, PAPER],
        rows,
        HOW,
        estimates=[RUN, HUMAN],
        scale=100,
    )


GAINS = (
    "any - standard, structure",
    "any - standard, tone",
    "structure - tone, standard",
    "structure - tone, any",
)


def gains_of_variants(ci: Document) -> Table:
    """Any form over the standard one, and structure over tone (CCiV, section 3.2), in points."""
    rows: list[list[Cell]] = [
        [
            generator,
            prompt,
            RUN,
            estimate(numbers["gain_of_any_form"]["structure"]),
            estimate(numbers["gain_of_any_form"]["tonal"]),
            estimate(numbers["gap"]["standard"]),
            estimate(numbers["gap"]["any"]),
        ]
        for generator, prompt, numbers in sources(ci)
    ]
    for row in published()["table_2"]:
        direct = {name: row["direct"][name] / 100 for name in MEASURES}
        rows.append(
            [
                row["model"],
                "direct",
                PAPER,
                direct["structure_any"] - direct["structure_standard"],
                direct["tonal_any"] - direct["tonal_standard"],
                direct["structure_standard"] - direct["tonal_standard"],
                direct["structure_any"] - direct["tonal_any"],
            ]
        )
    return Table(
        "gains_of_variants",
        "What counting every historic form gains, and how far tone lies below structure, points.",
        ["model", "prompt", "from", *GAINS],
        rows,
        ["Paired: both sides on the same resamples of cipai and human poems."],
        estimates=GAINS,
        scale=100,
    )


def gains_of_prompt(ci: Document) -> Table:
    """The form-aware prompt less the direct one (CCiV, section 3.3), in points."""
    rows: list[list[Cell]] = [
        [generator, RUN, *(estimate(gain[measure]) for measure in MEASURES)]
        for generator, gain in ci["form_aware_less_direct"].items()
    ]
    for row in published()["table_2"]:
        gain = {
            name: (row["form_aware"][name] - row["direct"][name]) / 100
            if name in row["form_aware"]
            else None
            for name in MEASURES
        }
        rows.append([row["model"], PAPER, *gain.values()])
    columns = [NAMES[measure] for measure in MEASURES]
    return Table(
        "gains_of_prompt",
        "What the form-aware prompt gains over the direct one, points.",
        ["model", "from", *columns],
        rows,
        ["Paired: both prompts have the same cipai and themes, on the same resamples."],
        estimates=columns,
        scale=100,
    )


def readings(ci: Document) -> Table:
    """The strict reading of 读 beside the optional one."""
    names = [f"{measure}{reading}" for reading in ("", "_optional") for measure in MEASURES]
    rows: list[list[Cell]] = [
        [generator, prompt, *(estimate(numbers[name]) for name in names)]
        for generator, prompt, numbers in sources(ci)
    ]
    columns = [f"{NAMES[measure]}, {how}" for how in ("strict", "free") for measure in MEASURES]
    return Table(
        "readings",
        "A caesura (读) as a line break, and left free, %.",
        ["model", "prompt", *columns],
        rows,
        [HOW[0], "Free: a form's 读 may be unbroken, a text's 、 may stand anywhere."],
        estimates=columns,
        scale=100,
    )


def beyond(ci: Document) -> Table:
    """Rhyme, one-reading tones and near misses, which the paper has not."""
    names = {
        "tonal_of_all_fixed_characters": "tone at 平 and 仄, all characters",
        "tonal_of_all_definite_characters": "the same, one-reading characters",
        "tonal_nearest": "tone over the nearest form",
        "rhyme_share": "rhymes kept",
        "rhyme_kept_throughout": "ci with all rhymes",
    }
    rows: list[list[Cell]] = [
        [generator, prompt, *(estimate(numbers[name]) for name in names)]
        for generator, prompt, numbers in sources(ci)
    ]
    chance = ci["made"]["chance"]
    return Table(
        "beyond",
        "Tone and rhyme beyond the paper, %.",
        ["model", "prompt", *names.values()],
        rows,
        [
            "The first, second and last column are of ci that keep a form (读 free); the others "
            "of all that could be compared.",
            f"Chance: {100 * chance['tonal']:.1f} of all characters, "
            f"{100 * chance['tonal_definite']:.1f} of one-reading ones: {chance['how']}.",
        ],
        estimates=list(names.values()),
        scale=100,
    )


def samples(ci: Document) -> Table:
    """The mean over all samples beside the first sample alone, and beside all that was asked."""
    rows: list[list[Cell]] = []
    for generator, prompt, numbers in sources(ci, human=False):
        first, asked = numbers.get("first_sample_alone", {}), numbers.get("of_all_asked", {})
        for measure in MEASURES:
            rows.append(
                [
                    generator,
                    prompt,
                    NAMES[measure],
                    estimate(numbers[measure]),
                    estimate(first.get(measure)),
                    estimate(asked.get(measure, numbers[measure])),
                ]
            )
    columns = ["all samples", "first sample", "of all asked"]
    return Table(
        "samples",
        "Mean of all samples, the first sample alone, and all that was asked, %.",
        ["model", "prompt", "measure", *columns],
        rows,
        [
            "CCiV says means of three samples, but its figures lie on a grid of 1/300, "
            "as one sample would give.",
            "Of all asked: a reply without a ci counts as one that keeps no form.",
        ],
        estimates=columns,
        scale=100,
    )


def accounts(ci: Document) -> Table:
    """What was asked, what came, what is missing and why."""
    rows: list[list[Cell]] = []
    for generator, prompt, numbers in sources(ci):
        missing, unscored = numbers["missing"], numbers["unscored"]
        rows.append(
            [
                generator,
                prompt,
                numbers["n"] + sum(missing.values()),
                numbers["n"],
                told(missing),
                told(unscored),
                numbers["characters"]["characters"],
                numbers["characters"]["unknown"],
            ]
        )
    return Table(
        "accounts",
        "What was asked and what came of it.",
        ["model", "prompt", "asked", "ci", "no ci", "unscored", "characters", "in no tone book"],
        rows,
    )


def told(counts: Mapping[str, int]) -> str:
    """truncated 3, title_only 1."""
    return ", ".join(f"{reason} {n}" for reason, n in counts.items()) or "0"


def lengths(ci: Document) -> Table:
    """Spearman's rho of a cipai's standard length and its accuracy (CCiV, section 3.1)."""
    rows: list[list[Cell]] = []

    def add(model: str, prompt: str, found: Document) -> None:
        for measure, rho in found.items():
            rows.append(
                [model, prompt, NAMES[measure], estimate(rho), rho.get("p_value"), rho["n"]]
            )

    for generator, prompt, numbers in sources(ci):
        add(generator, prompt, numbers["length_and_accuracy"])
    for prompt, found in ci["length_and_accuracy_of_all_generators"].items():
        add("mean of this run's models", prompt, found)
    paper = published()["length_and_accuracy"]
    rows.append(
        [
            f"mean of {paper['models']} models ({PAPER})",
            paper["prompt"],
            NAMES[paper["score"]],
            float(paper["rho"]),
            float(paper["p_value"]),
            paper["cipai"],
        ]
    )
    return Table(
        "length_and_accuracy",
        "Spearman's rho of a cipai's length and the share of its ci that keep the form.",
        ["model", "prompt", "measure", "rho", "p", "cipai"],
        rows,
        ["[95 % interval], bootstrap over cipai; a dash: every cipai has the same accuracy."],
        estimates=["rho"],
        digits=3,
    )


# --- by cipai, form and failure -----------------------------------------------------


def by_cipai(path: Path) -> Iterator[Table]:
    """Structure and tone of every cipai and source, the human ci first."""
    rows = cipai_rows(path)
    if not rows:
        sys.stderr.write(
            f"{path} is not there or empty, so tables by cipai and heat maps are left out; "
            "`dvc repro eval_ci` writes it\n"
        )
        return
    names = list(dict.fromkeys(row["source"] for row in rows))
    cell = {(row["cipai"], row["source"]): row for row in rows}
    length = {row["cipai"]: int(row["standard_characters"]) for row in rows}
    for what in ("structure", "tonal"):
        scores = [f"{what}_{form}" for form in ("standard", "any")]
        body: list[list[Cell]] = [
            [
                cipai,
                n or None,
                *(number(cell.get((cipai, m), {}).get(s)) for m in names for s in scores),
            ]
            for cipai, n in length.items()
        ]
        yield Table(
            f"by_cipai_{what}",
            f"{NAMES[f'{what}_any'].partition(',')[0].capitalize()} by cipai, long ones first, %.",
            ["cipai", "characters"]
            + [f"{name}: {s.partition('_')[2]}" for name in names for s in scores],
            body,
            ["A dash: no ci came; few ci stand behind each number, see the CSV of eval_ci."],
            digits=0,
            scale=100,
        )


def number(text: str | None) -> float | None:
    return float(text) if text else None


def forms_written(ci: Document) -> Table:
    """Which forms each model writes, its cipai's own and others' (CCiV, Appendix B.1)."""
    standard = {cipai["standard_form"] for cipai in ci["cipai"].values()}
    all_sources = sources(ci)
    forms = dict.fromkeys(
        form
        for _, _, numbers in sources(ci, human=False)
        for kind in ("variants_written", "other_cipai_written")
        for form in numbers[kind]
    )
    rows: list[list[Cell]] = []
    for form in sorted(forms):
        kind = "another cipai" if " as " in form else "standard" if form in standard else "variant"
        counts = [
            numbers["variants_written"].get(form, 0) + numbers["other_cipai_written"].get(form, 0)
            for _, _, numbers in all_sources
        ]
        rows.append([form, kind, *counts])
    shi = [sum(numbers["shi_written"].values()) for _, _, numbers in all_sources]
    rows.append(["4 or 8 lines of 5 or 7", "a shi's lines", *shi])
    return Table(
        "forms_written",
        "Forms that the models' ci keep, and how many ci keep each.",
        ["form", "kind", *(label(generator, prompt) for generator, prompt, _ in all_sources)],
        rows,
        [
            "A caesura (读) is left free here; of forms kept equally well the best in tone counts.",
            "浪淘沙 as 浪淘沙令/钦1: asked for 浪淘沙, whose form is not kept, the ci keeps the "
            "other's.",
        ],
    )


def failures(ci: Document) -> Table:
    """How many ci fail in which way; one may fail in several."""
    all_sources = sources(ci)
    kinds = dict.fromkeys(kind for _, _, numbers in all_sources for kind in numbers["failures"])
    rows: list[list[Cell]] = [["ci", *(numbers["n"] for _, _, numbers in all_sources)]]
    rows += [
        [
            kind.replace("_", " "),
            *(numbers["failures"].get(kind, 0) for _, _, numbers in all_sources),
        ]
        for kind in sorted(kinds)
    ]
    return Table(
        "failures",
        "Ci that fail, by kind.",
        ["kind", *(label(generator, prompt) for generator, prompt, _ in all_sources)],
        rows,
        [
            "structure: keeps no form of its cipai, 读 free; below it, what differs from the "
            "nearest form.",
            "tone and rhyme: of ci whose structure is whole, those with a character or a rhyme "
            "that does not fit.",
        ],
    )


def label(generator: str, prompt: str) -> str:
    return " · ".join(filter(None, (generator, prompt)))
