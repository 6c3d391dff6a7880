"""How each table of detectors is made of the cells: its columns, notes, and what it needs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shiyan.report.published import MEAN, published
from shiyan.report.table import Cell, estimate

Found = Mapping[str, Any]
"""A detector's numbers in one place of a table, as the file of cells has them."""

EVERYBODY = "all"
BASELINE = "D1"
BESIDE = (
    "AIGenPoetry's values stand beside ours where it has the cell; its test sets have 400 human "
    "and 400 LLM poems, its F1 is macro-F1, and its RoBERTa's numbers are of hard labels: "
    "compare them with “own labels”."
)
MEANS = (
    "Mean: of the generators, each with a threshold of its own, as AIGenPoetry's mean of four LLMs "
    "beside it is; all: their poems together under one threshold, of which it has no number."
)


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        of: the value of a detector's numbers in one place.
        is_estimate: it has an interval.
    """

    title: str
    of: Callable[[str, Found], Cell]
    is_estimate: bool = False


def fact(title: str, *path: str) -> Column:
    """A text, a count, or a yes that stands beside the estimates."""

    def value(_: str, found: Found) -> Cell:
        inner: Any = found
        for name in path:
            inner = inner.get(name) if isinstance(inner, Mapping) else None
        if isinstance(inner, bool):
            return "yes" if inner else ""
        return inner if isinstance(inner, str | int | float) else None

    return Column(title, value)


def metric(title: str, name: str) -> Column:
    return Column(title, lambda _, found: estimate(found.get(name)), is_estimate=True)


def paper(title: str, table: int, name: str, whose: str = "") -> Column:
    """AIGenPoetry's number of the same cell, 0 … 1; `whose`: another generator's than the row's."""

    def value(detector: str, found: Found) -> Cell:
        subset = found.get("subset", "")
        trained_on, tested_on = found.get("trained_on", subset), found.get("tested_on", subset)
        generator = MEAN if found["generator"].startswith("mean of") else found["generator"]
        return published(table, name, trained_on, tested_on, whose or generator, detector)

    return Column(title, value)


DETECTOR = Column("detector", lambda detector, _: detector)
LEARNT_FROM = fact("learnt from", "learnt_from")
THRESHOLD = fact("threshold from", "threshold", "fitted_on")
COUNTS = (fact("human", "n_human"), fact("LLM", "n_llm"), fact("unscored", "n_unscored"))
MACRO_F1 = metric("macro-F1", "macro_f1")
AUROC = metric("AUROC", "auroc")
HARD = metric("AUROC from hard labels", "auroc_from_labels")
ACCURACY = metric("accuracy", "accuracy")
OWN = metric("macro-F1 of own labels", "macro_f1_of_own_labels")
TPR = (metric("TPR at FPR 1 %", "tpr_at_fpr_1"), metric("TPR at FPR 5 %", "tpr_at_fpr_5"))
BRIER = metric("Brier", "brier")


def of_paper(table: int) -> tuple[Column, ...]:
    return (
        paper("macro-F1 (AIGenPoetry)", table, "macro_f1"),
        paper("macro-F1 (AIGenPoetry, mean of 4 LLMs)", table, "macro_f1", MEAN),
    )


@dataclass(frozen=True)
class Layout:
    """How one table of the report is made of the cells.

    Attributes:
        source: the table of the file of cells.
        columns: left to right.
        keeps: which places are shown.
        needs: what a run must have for the table; told where it is empty.
    """

    name: str
    caption: str
    source: str
    columns: Sequence[Column]
    notes: Sequence[str] = ()
    keeps: Callable[[Found], bool] = lambda found: True
    needs: str = ""


def is_merged(subset: str) -> bool:
    return subset.startswith("D") and ("+" in subset or "-" in subset)


def _is_prompts(found: Found) -> bool:
    """Of one prompt's poems, D1 apart."""
    subset = found["subset"]
    return subset not in (BASELINE, EVERYBODY) and not is_merged(subset)


def _of_subset(table: int) -> tuple[Column, ...]:
    return (
        fact("subset", "subset"),
        fact("generator", "generator"),
        DETECTOR,
        LEARNT_FROM,
        MACRO_F1,
        *of_paper(table),
        OWN,
        AUROC,
        HARD,
        ACCURACY,
        THRESHOLD,
        *COUNTS,
    )


def _transfer(table: int | None = None) -> tuple[Column, ...]:
    return (
        fact("generator", "generator"),
        fact("learnt from", "trained_on"),
        fact("tested on", "tested_on"),
        DETECTOR,
        MACRO_F1,
        *([paper("macro-F1 (AIGenPoetry)", table, "macro_f1")] if table else []),
        *([fact("generators", "generators")] if table == 5 else []),
        OWN,
        AUROC,
        HARD,
        THRESHOLD,
        *COUNTS,
    )


LAYOUTS: Sequence[Layout] = (
    Layout(
        "detectors",
        "Every detector on the whole test fold: all generators and prompts.",
        "detectors",
        (
            DETECTOR,
            LEARNT_FROM,
            fact("scorer is generator", "scorer_is_generator"),
            MACRO_F1,
            AUROC,
            metric("AUROC, interval over poets", "auroc_over_poets"),
            HARD,
            ACCURACY,
            OWN,
            *TPR,
            BRIER,
            metric("ECE", "ece"),
            fact("inverted", "threshold", "inverted"),
            THRESHOLD,
            *COUNTS,
        ),
        (
            "Inverted: on the train fold human poems score higher (AUROC under 50), or no "
            "threshold does better than calling every poem a person's.",
            "Poems of one poet are not independent: the second interval resamples poets, and "
            "speaks of poets like these; the first speaks of these poets.",
        ),
    ),
    Layout(
        "choices_of_poems",
        "The whole test fold without some of its poems, and what they change.",
        "restricted",
        (
            fact("poems", "poems"),
            DETECTOR,
            MACRO_F1,
            metric("change of macro-F1", "macro_f1_change"),
            AUROC,
            metric("change of AUROC", "auroc_change"),
            fact("left out", "n_left_out"),
            *COUNTS,
        ),
        ("Change: minus the number of the whole test fold, paired by resample.",),
    ),
    Layout(
        "table_2",
        "Detectors on D1, in-domain (AIGenPoetry, Table 2).",
        "in_domain",
        (
            fact("generator", "generator"),
            DETECTOR,
            LEARNT_FROM,
            MACRO_F1,
            *of_paper(2),
            OWN,
            AUROC,
            paper("AUROC (AIGenPoetry)", 2, "auroc"),
            HARD,
            paper("AUROC from hard labels (AIGenPoetry)", 2, "auroc_from_labels"),
            ACCURACY,
            *TPR,
            THRESHOLD,
            *COUNTS,
        ),
        (BESIDE, MEANS),
        lambda found: found["subset"] == BASELINE,
        "poems to the prompt P1",
    ),
    Layout(
        "table_3",
        "Detectors on each prompt's poems, in-domain (AIGenPoetry, Table 3).",
        "in_domain",
        _of_subset(3),
        (BESIDE, MEANS),
        _is_prompts,
        "poems to other prompts than P1",
    ),
    Layout(
        "merged",
        "Detectors on the merged subsets, in-domain, by generator.",
        "in_domain",
        _of_subset(3),
        (BESIDE, MEANS),
        lambda found: is_merged(found["subset"]),
        "poems to all prompts of D2+4+5, D6-8 or D10-13",
    ),
    Layout(
        "against_d1",
        "Each subset minus D1 of the same generator, paired by resample.",
        "in_domain",
        (
            fact("subset", "subset"),
            fact("generator", "generator"),
            DETECTOR,
            metric("macro-F1", f"macro_f1_minus_{BASELINE}"),
            metric("AUROC", f"auroc_minus_{BASELINE}"),
            *COUNTS,
        ),
        ("The human poems of both are the same; an interval without 0 is a difference.",),
        lambda found: f"auroc_minus_{BASELINE}" in found,
        "poems to the prompt P1 and to others",
    ),
    Layout(
        "table_4",
        "Learnt from one kind of prompts, tested on others (AIGenPoetry, Table 4).",
        "out_of_domain",
        _transfer(4),
        (BESIDE,),
        needs="poems to all prompts of D2+4+5, D6-8 or D10-13",
    ),
    Layout(
        "table_5",
        "Temperatures, all generators (AIGenPoetry, Table 5).",
        "temperature",
        _transfer(5),
        (BESIDE, "Generators: those that wrote at all of these temperatures."),
        lambda found: found["generator"] == EVERYBODY,
        "poems by a generator at two temperatures",
    ),
    Layout(
        "table_6",
        "Temperatures, each generator (AIGenPoetry, Table 6).",
        "temperature",
        _transfer(6),
        (BESIDE,),
        lambda found: found["generator"] != EVERYBODY,
        "poems by a generator at two temperatures",
    ),
    Layout(
        "generator_transfer",
        "Learnt from one generator, tested on another.",
        "generator_transfer",
        _transfer(),
        needs="poems by two generators",
    ),
    Layout(
        "leave_one_generator_out",
        "Tested on a generator that was left out of learning, on the test fold's human poems.",
        "leave_one_generator_out",
        _transfer(),
        needs="poems by two generators",
    ),
    Layout(
        "leave_one_poet_out",
        "Tested on a poet that was left out of learning, with all imitations of the poet's poems.",
        "leave_one_poet_out",
        _transfer(),
        (
            "All poets: each poem is called once, by the threshold of a training set that left its "
            "group out, and poets are resampled; of such calls there is an AUROC from hard labels "
            "alone.",
            "An interval over the groups of one poet rests on as few groups as the poet has poems.",
        ),
        needs="human poems by two named poets",
    ),
    Layout(
        "differences",
        "Detector A minus detector B on the poems that both scored, paired by resample.",
        "differences",
        (
            Column("A", lambda detector, _: detector),
            fact("B", "minus"),
            MACRO_F1,
            AUROC,
            fact("surely better by AUROC", "surely_better_by_auroc"),
            fact("surely better by macro-F1", "surely_better_by_macro_f1"),
            *COUNTS[:2],
        ),
        (
            "Intervals are of each pair alone. Surely better: the simultaneous 95 % interval of "
            "all pairs (max-T) leaves 0 out; what only a single interval shows is exploratory.",
        ),
    ),
    Layout(
        "several_poems",
        "Sets of k poems by one author: a poet's, or a generator's to one prompt.",
        "several_poems",
        (
            fact("k", "poems_a_set"),
            DETECTOR,
            AUROC,
            MACRO_F1,
            TPR[1],
            fact("human sets", "n_human"),
            fact("LLM sets", "n_llm"),
            fact("unscored sets", "n_unscored"),
        ),
        (
            "A set's score is the mean of its poems' scores; the threshold comes from sets of k of "
            "the train fold. Sets are disjoint; numbers are means over 10 draws of the sets, "
            "counts those of the first. Resampled are the groups of the split, as one where a set "
            "ties them together. Human poems without an author's name are in no set of two or "
            "more.",
        ),
    ),
    Layout(
        "attacks",
        "Poems before and after an attack; detector and threshold stay as they are.",
        "attacks",
        (
            fact("attack", "attack"),
            fact("changed", "changed"),
            DETECTOR,
            *(
                metric(f"{title}, {when}", f"{name}_{when}")
                for title, name in (
                    ("AUROC", "auroc"),
                    ("macro-F1", "macro_f1"),
                    ("LLM poems found", "true_positive_rate"),
                )
                for when in ("before", "after", "lost")
            ),
            fact("scores changed", "n_changed"),
            *COUNTS,
        ),
        (
            "Lost: before minus after, paired by poem. Changed: LLM poems, as a cheat would, or "
            "both classes: what costs little there shows itself rather than hides. Scores changed: "
            "none where a detector does not read what the attack changes.",
        ),
        needs="attacks.names",
    ),
    Layout(
        "poets",
        "Whom a detector accuses: each poet's human poems of the test fold that are called an "
        "LLM's.",
        "poets",
        (
            fact("poet", "poet"),
            DETECTOR,
            metric("false-positive rate", "false_positive_rate"),
            fact("human", "n_human"),
            fact("unscored", "n_unscored"),
        ),
        ("Intervals: Clopper and Pearson's, of one poet's poems.",),
        needs="human poems by named poets",
    ),
)
