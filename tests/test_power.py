"""What a test fold can show, against a simulation of its own; the paper's cells from digits."""

import csv
import math
from importlib.resources import files
from statistics import NormalDist

import numpy as np
import pytest

from shiyan.detectors.metrics import auroc
from shiyan.detectors.power import (
    confusions,
    detectable_differences,
    interval_of_published,
    macro_f1_of,
    smallest_difference,
    told,
)


@pytest.mark.parametrize(("level", "groups", "n_llm"), [(75, 15, 10), (95, 30, 1)])
def test_the_table_is_what_a_simulation_finds(level, groups, n_llm):
    """2.8 deviations of the difference of two detectors that share half of their noise."""
    rng = np.random.default_rng(5)
    effect = 2 * NormalDist().inv_cdf(level / 100)
    labels = np.tile(np.repeat([0, 1], [1, n_llm]), groups)

    def noise():
        own = rng.normal(size=len(labels))
        return np.repeat(rng.normal(size=groups), 1 + n_llm) + own

    differences = []
    for _ in range(400):
        shared = noise()
        a, b = (
            auroc(labels, effect * labels + (shared + noise()) / math.sqrt(2)) for _ in range(2)
        )
        differences.append(a - b)
    found = 280 * np.std(differences)
    assert smallest_difference("auroc", level, groups, n_llm) == pytest.approx(found, rel=0.12)


def test_more_poems_show_smaller_differences():
    table = detectable_differences()
    assert len(table) == 2 * 2 * 7 * 3
    for metric in ("auroc", "macro_f1"):
        for level in (75, 95):
            sizes = [smallest_difference(metric, level, g, 4) for g in (5, 10, 20, 50, 400, 1600)]
            assert sizes == sorted(sizes, reverse=True)
            assert sizes[-1] == pytest.approx(sizes[-2] / 2)
            between = smallest_difference(metric, level, 15, 2.5)
            assert table[metric, level, 15, 4] < between < table[metric, level, 15, 1]
    with pytest.raises(ValueError, match="both classes"):
        smallest_difference("auroc", 75, 0, 1)


def test_a_plans_sentence():
    sentence = told(15, 13.0)
    assert sentence.startswith("with 15 human poems in the test fold and 13 LLM poems to each")
    assert "of AUROC 16 points near 75 and 8 near 95" in sentence


def test_counts_come_back_from_digits():
    tables = confusions(round(macro_f1_of(350 / 400, 30 / 400), 4), 400)
    assert (350, 30) in {(table.found, table.accused) for table in tables}
    exact = confusions(round(macro_f1_of(350 / 400, 30 / 400), 4), 400, accuracy=0.9)
    assert {table.found - table.accused for table in exact} == {320}
    assert interval_of_published(0.0001, 400) is None


def test_the_papers_zero_shot_means_differ_within_their_intervals():
    """67.5 and 68.7 of 400 + 400 poems."""
    low, high = interval_of_published(0.675, 400)
    assert low < 0.65
    assert high > 0.687
    low, high = interval_of_published(0.3333, 400)
    assert low <= 1 / 3 <= high < 0.36


def test_every_cell_of_the_papers_roberta_has_an_interval():
    file = files("shiyan") / "data/published/aigenpoetry_detection.tsv"
    rows = csv.DictReader(file.read_text(encoding="utf-8").splitlines(), delimiter="\t")
    cells = [
        float(row["percent"]) / 100
        for row in rows
        if (row["detector"], row["metric"]) == ("roberta", "macro_f1")
        and row["table"] in "23"
        and row["generator"] != "mean"
    ]
    assert len(cells) == 52
    for value in cells:
        low, high = interval_of_published(value, 400)
        assert low - 1e-4 <= value <= high + 1e-4
        assert high - low < 0.08
