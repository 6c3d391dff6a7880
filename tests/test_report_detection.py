"""The report of detectors: which tables there are, what stands in a cell, and its limits."""

import csv
import shutil
from contextlib import chdir
from pathlib import Path

import pytest
from detector_fakes import evaluated, halves, noisy, pairs, scored
from omegaconf import OmegaConf

from shiyan.commands import report
from shiyan.config import PathsParams, load_params
from shiyan.errors import UserError
from shiyan.metrics import Estimate, write_metrics
from shiyan.records import DetectorScore
from shiyan.report.detection_layouts import LAYOUTS
from shiyan.report.of_detection import figures, rendered, tables
from shiyan.report.published import MEAN, published
from shiyan.report.table import Table

ROOT = Path(__file__).resolve().parent.parent
PROMPTS = tuple(f"P{i}" for i in range(1, 14))


@pytest.mark.parametrize(
    ("cell", "percent"),
    [
        ((2, "macro_f1", "D1", "D1", "glm-4", "log_rank"), 98.87),
        ((2, "auroc_from_labels", "D1", "D1", "deepseek-r1", "roberta"), 99.75),
        ((2, "macro_f1", "D1", "D1", MEAN, "roberta"), 91.17),
        ((3, "macro_f1", "D5", "D5", "gpt-4.1", "fast_detectgpt"), 33.22),
        ((4, "macro_f1", "D10-13", "D2", "all", "roberta"), 81.88),
        ((5, "macro_f1", "1.5", "0", "all", "lrr"), 69.28),
        ((6, "macro_f1", "0.7", "0.7", "gpt-4.1", "log_rank"), 96.12),
    ],
)
def test_published_values_against_the_paper(cell, percent):
    assert published(*cell) == pytest.approx(percent / 100)


def test_the_papers_roberta_has_no_auroc_from_scores_and_a_control_has_nothing():
    assert published(2, "auroc", "D1", "D1", "glm-4", "roberta") is None
    assert published(2, "macro_f1", "D1", "D1", "glm-4", "char_ngrams") is None


def corpus():
    """Two of the paper's generators, four poets."""
    poems = pairs(16, PROMPTS, ("gpt-4.1", "glm-4"))
    return {
        p: poem
        if poem.generation
        else poem.model_copy(update={"author": f"poet{int(p[1:]) // 2 % 4}"})
        for p, poem in poems.items()
    }


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A project whose stages have run: two untrained detectors, one trained, one attack."""
    folder = tmp_path_factory.mktemp("project")
    params = OmegaConf.load(ROOT / "params.yaml")
    OmegaConf.save(params, folder / "params.yaml")
    with chdir(folder):
        write_cells(load_params("paths", PathsParams))
    return folder


@pytest.fixture
def paths(project, monkeypatch) -> PathsParams:
    monkeypatch.chdir(project)
    return load_params("paths", PathsParams)


@pytest.fixture(scope="module")
def found(project) -> dict[str, Table]:
    """The tables by name."""
    with chdir(project):
        return by_name(load_params("paths", PathsParams))


def write_cells(found: PathsParams) -> None:
    poems = corpus()
    untrained = scored(poems, "log_rank", noisy(poems, 1.0)) + scored(
        poems, "lrr", noisy(poems, 1.0, seed=1)
    )
    untrained += [
        DetectorScore(poem_id=p, detector="log_rank", score=0.0, attack="punctuation_removed")
        for p, a in halves(poems).items()
        if a.fold == "test" and poems[p].label
    ]
    trained = scored(poems, "roberta", noisy(poems, 3.0, seed=2))
    trained += [
        s.model_copy(update={"setting": "D2+4+5"})
        for s in scored(poems, "roberta", noisy(poems, 3.0, seed=3))
    ]
    cells = evaluated(poems, untrained, trained, resamples=40).as_cells()
    write_metrics(found.detection_cells, cells, levels=4)


def of_cells(poems, scores, name, folds=None, trained=()):
    """A table of the report from scores."""
    found = evaluated(poems, scores, trained, folds, resamples=20).as_cells()
    return rendered(next(layout for layout in LAYOUTS if layout.name == name), found)


def by_name(paths):
    return {table.name: table for table in tables(paths)}


def cells(table, **where):
    """Rows, as dictionaries, in which these columns hold these values."""
    rows = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    return [row for row in rows if all(row[c.replace("_", " ")] == v for c, v in where.items())]


def test_every_table_that_the_run_allows(found):
    assert list(found) == [
        "detectors",
        "choices_of_poems",
        "table_2",
        "table_3",
        "merged",
        "against_d1",
        "table_4",
        "generator_transfer",
        "leave_one_generator_out",
        "leave_one_poet_out",
        "differences",
        "several_poems",
        "attacks",
        "poets",
    ]


def test_the_published_value_stands_beside_ours(found):
    (row,) = cells(found["table_2"], generator="glm-4", detector="log_rank")
    assert isinstance(row["macro-F1"], Estimate)
    assert (row["macro-F1"].n, row["human"], row["LLM"]) == (16, 8, 8)
    assert row["macro-F1 (AIGenPoetry)"] == pytest.approx(0.9887)
    assert row["AUROC (AIGenPoetry)"] == pytest.approx(0.9983)
    (net,) = cells(found["table_2"], generator="glm-4", detector="roberta")
    assert net["AUROC (AIGenPoetry)"] is None
    assert net["AUROC from hard labels (AIGenPoetry)"] == pytest.approx(0.8738)
    (both,) = cells(found["table_2"], generator="all", detector="log_rank")
    assert both["macro-F1 (AIGenPoetry)"] is None, "it pools no generators under one threshold"
    assert both["macro-F1 (AIGenPoetry, mean of 4 LLMs)"] == pytest.approx(0.6751)
    (row,) = cells(found["table_3"], subset="D5", generator="gpt-4.1", detector="lrr")
    assert row["macro-F1 (AIGenPoetry)"] == pytest.approx(0.5014)
    (row,) = cells(found["table_4"], learnt_from="D6-8", tested_on="D1", detector="lrr")
    assert row["macro-F1 (AIGenPoetry)"] == pytest.approx(0.6097)


def test_the_papers_mean_stands_beside_a_mean(found):
    for name, where in (("table_2", {}), ("table_3", {"subset": "D5"})):
        of_log_rank = {
            row["generator"]: row for row in cells(found[name], detector="log_rank", **where)
        }
        assert list(of_log_rank) == ["glm-4", "gpt-4.1", "all", "mean of 2"]
        mean = of_log_rank["mean of 2"]
        own = [of_log_rank[generator]["macro-F1"] for generator in ("glm-4", "gpt-4.1")]
        assert mean["macro-F1"].value == pytest.approx(sum(e.value for e in own) / 2)
        assert mean["macro-F1"].low < mean["macro-F1"].value < mean["macro-F1"].high
        assert (mean["macro-F1"].n, mean["human"], mean["LLM"]) == (24, 8, 16)
        printed = mean["macro-F1 (AIGenPoetry)"]
        assert printed == mean["macro-F1 (AIGenPoetry, mean of 4 LLMs)"] is not None
        assert of_log_rank["all"]["macro-F1"].value != mean["macro-F1"].value


def test_a_mean_says_over_how_many_it_is():
    poems = {p: q for p, q in pairs(16, generators=("a", "b", "c")).items() if p[:2] != "c-"}
    # c wrote in the train fold alone.
    poems |= {p: q for p, q in pairs(16, generators=("c",)).items() if q.label and int(p[5:]) % 2}
    table = of_cells(poems, scored(poems, "d", noisy(poems, 1.0)), "table_2")
    (mean,) = cells(table, generator="mean of 3")
    assert mean["AUROC"].value is not None
    assert mean["AUROC"].reason.startswith("the mean is over 2 of 3 generators")
    assert any("mean is over 2 of 3 generators" in note for note in table.notes)
    only = {p: q for p, q in poems.items() if not q.label or p[:2] == "c-"}
    only |= {p.replace("c-", "e-"): as_e(q) for p, q in only.items() if q.label}
    none = of_cells(only, scored(only, "d", noisy(only, 1.0)), "table_2")
    (mean,) = cells(none, generator="mean of 2")
    assert mean["AUROC"].value is None
    assert mean["AUROC"].reason == "the mean is over 0 of 2 generators"


def as_e(poem):
    made = poem.generation.model_copy(update={"generator": "e"})
    update = {"poem_id": poem.poem_id.replace("c-", "e-"), "generation": made}
    return poem.model_copy(update=update)


def test_every_row_says_where_its_threshold_is_from(found):
    for table in found.values():
        assert not any("train fold of the same subset" in note for note in table.notes)
    for table, where, learnt in (
        ("table_4", {"learnt_from": "D2+4+5", "tested_on": "D1"}, "train:D2+4+5"),
        ("generator_transfer", {"learnt_from": "glm-4", "tested_on": "gpt-4.1"}, "train:glm-4"),
        ("leave_one_generator_out", {"tested_on": "glm-4"}, "train:without glm-4"),
        ("leave_one_poet_out", {"tested_on": "poet1"}, "train:without poet1"),
        ("table_3", {"subset": "D2", "generator": "glm-4"}, "train:glm-4/D2"),
        ("detectors", {}, "train:all"),
    ):
        (row,) = cells(found[table], detector="log_rank", **where)
        assert row["threshold from"] == learnt


def test_what_a_detector_learnt_from_is_told_and_what_it_must_not_have_seen_is_left_out(found):
    rows = cells(found["table_3"], subset="D2", generator="all")
    learnt = {row["detector"]: row["learnt from"] for row in rows}
    assert learnt == {"log_rank": "threshold", "lrr": "threshold", "fusion": "D2", "roberta": "all"}
    assert {row["learnt from"] for row in cells(found["table_4"], detector="roberta")} == {"D2+4+5"}
    assert not cells(found["leave_one_poet_out"], detector="roberta")
    assert any("Not shown: roberta" in note for note in found["leave_one_poet_out"].notes)


def test_all_poets_are_pooled_by_calls(found):
    table = found["leave_one_poet_out"]
    (pooled,) = cells(table, tested_on="all poets", detector="log_rank")
    assert (pooled["human"], pooled["LLM"], pooled["unscored"]) == (16, 16 * 26, 0)
    single = [r for r in cells(table, detector="log_rank") if r["tested on"] != "all poets"]
    assert sum(row["human"] for row in single) == 16
    assert min(r["macro-F1"].value for r in single) <= pooled["macro-F1"].value
    assert pooled["AUROC"] is None, "scores of two lessons do not compare"
    assert pooled["AUROC from hard labels"].value is not None
    assert all(r["AUROC from hard labels"].value is not None for r in single)


def test_a_group_of_two_poets_is_pooled_once():
    """h0 and h4 are twins by two poets: their group is tested when either is left out."""
    poems = pairs(16)
    for i in range(16):
        poems[f"h{i}"] = poems[f"h{i}"].model_copy(update={"author": f"poet{i % 8 // 2}"})
    twins = {
        p: a.model_copy(update={"group_id": "h0"}) if a.group_id == "h4" else a
        for p, a in halves(poems).items()
    }
    values = noisy(poems, 1.0)
    scores = scored(poems, "d", values | {"h0": None})
    table = of_cells(poems, scores, "leave_one_poet_out", folds=twins)
    (pooled,) = cells(table, tested_on="all poets")
    single = [row for row in cells(table) if row["tested on"] != "all poets"]
    assert sum(row["human"] for row in single) > 15
    assert (pooled["human"], pooled["LLM"], pooled["unscored"]) == (15, 16, 1)
    assert pooled["macro-F1"].n == 31


def test_a_difference_names_the_better_only_where_it_is_sure(found):
    table = found["differences"]
    (sure,) = cells(table, A="log_rank", B="roberta")
    assert sure["surely better by AUROC"] == "roberta"
    (unsure,) = cells(table, A="log_rank", B="lrr")
    assert unsure["surely better by AUROC"] == ""


def test_a_number_that_is_not_there_has_its_reason_in_the_notes(found):
    table = found["several_poems"]
    rows = cells(table, k="8", detector="log_rank")
    assert rows[0]["AUROC"].value is None
    assert any("no human poem" in note for note in table.notes)


def at_temperatures(name, **degrees: list[float]) -> Table:
    """A table of P1 by generators at their temperatures, scored by one detector; 20 humans."""
    poems = {p: poem for p, poem in pairs(20).items() if not poem.generation}
    for generator, own in degrees.items():
        for poem in [p for p in pairs(20, generators=(generator,)).values() if p.generation]:
            for degree in own:
                made = poem.generation.model_copy(update={"temperature": degree})
                poem_id = f"{poem.poem_id}-{degree:g}"
                update = {"poem_id": poem_id, "generation": made}
                poems[poem_id] = poem.model_copy(update=update)
    return of_cells(poems, scored(poems, "d", noisy(poems, 1.0)), name)


def test_tables_of_temperatures_compare_the_same_generators():
    degrees = {"a": [1.0, 0.7], "b": [1.0], "c": [1.0, 0.7]}
    all_of_them = at_temperatures("table_5", **degrees)
    assert {(row["LLM"], row["generators"]) for row in cells(all_of_them)} == {(20, "a, c")}
    each = at_temperatures("table_6", **degrees)
    assert {(row["generator"], row["LLM"]) for row in cells(each)} == {("a", 10), ("c", 10)}


def test_of_one_generator_with_temperatures_it_is_told_which():
    degrees = {"a": [1.0, 0.7], "b": [1.0]}
    found = cells(at_temperatures("table_5", **degrees))
    assert {(row["LLM"], row["generators"]) for row in found} == {(10, "a")}
    assert {row["generator"] for row in cells(at_temperatures("table_6", **degrees))} == {"a"}


def test_a_table_that_compares_no_temperatures_holds_one_and_says_which():
    table = at_temperatures("table_2", a=[1.0, 0.7], b=[0.8])
    assert {row["LLM"] for row in cells(table, generator="all")} == {20}
    assert any(note.endswith("elsewhere: a 1; b 0.8.") for note in table.notes)
    plain = at_temperatures("table_2", a=[1.0], b=[0.8])
    assert not any("elsewhere" in note for note in plain.notes)


def test_poems_that_name_no_author_are_in_no_set():
    poems = pairs(8)
    poems["h2"] = poems["h2"].model_copy(update={"author": ""})
    table = of_cells(poems, scored(poems, "d", noisy(poems, 1.0)), "several_poems")
    assert [row["human sets"] for row in cells(table)] == [4, 1, 0, 0]
    assert any("without an author's name are in no set" in note for note in table.notes)


def test_no_note_says_what_detectors_read_since_params_decide_that(found):
    told = " ".join(found["attacks"].notes)
    assert "none where a detector does not read what the attack changes" in told
    assert "detectors read the body" not in told


def test_the_command_writes_csv_and_latex_of_every_table(paths, found, capsys):
    assert report.render("detection", paths, Path("out")) > 0
    names = {path.stem for path in Path("out").glob("*.csv")}
    assert names == {path.stem for path in Path("out").glob("*.tex")} == set(found)
    with Path("out/table_2.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["macro-F1 n"] == "16"
    assert 0 <= float(rows[0]["macro-F1"]) <= 100
    assert "**Detectors on D1, in-domain" in capsys.readouterr().out


def test_without_cells_there_is_a_sentence(paths, project, tmp_path, monkeypatch):
    shutil.copytree(project, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    paths.detection_cells.unlink()
    with pytest.raises(UserError, match="`dvc repro evaluate`"):
        list(tables(paths))


def test_a_table_that_the_run_does_not_allow_says_what_it_needs(paths, capsys):
    assert "table_5" not in by_name(paths)
    assert "there is no table_5; it needs poems by a generator at two" in capsys.readouterr().err


def test_figures_are_the_stages_plots(paths, tmp_path, capsys):
    assert list(figures(paths, tmp_path / "figures")) == []
    told = capsys.readouterr().err
    assert f"{paths.detection_roc} is not there, so detection_roc.png is not drawn" in told
