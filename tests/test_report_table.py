"""Tables of the report: text, CSV and LaTeX against what they must read."""

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest

from shiyan.metrics import Estimate
from shiyan.report.table import Table, escaped, estimate

TABLE = Table(
    name="table_2",
    caption="Detectors",
    columns=("detector", "n", "AUROC"),
    rows=(
        ("log_rank", 12, Estimate(0.5, 0.25, 0.75, 10, 2)),
        ("a|b", 3, None),
        ("甲", 4, Estimate(None, None, None, 0, 4, "no score")),
        ("乙", 5, Estimate(0.125, None, None, 5, 0)),
    ),
    notes=("95 % over groups.",),
    estimates=("AUROC",),
    digits=1,
    scale=100,
)


def test_text_shows_an_interval_a_dash_and_a_bare_value() -> None:
    lines = TABLE.markdown().splitlines()
    assert "| log_rank | 12 | 50.0 [25.0, 75.0] |" in lines
    assert "| a\\|b | 3 | — |" in lines
    assert "| 甲 | 4 | — |" in lines
    assert "| 乙 | 5 | 12.5 |" in lines
    assert lines[-1] == "- 95 % over groups."


def test_csv_keeps_every_part_of_an_estimate() -> None:
    rows = list(csv.DictReader(io.StringIO(TABLE.csv())))
    assert rows[0] == {
        "detector": "log_rank",
        "n": "12",
        "AUROC": "50.0",
        "AUROC low": "25.0",
        "AUROC high": "75.0",
        "AUROC n": "10",
        "AUROC n_unscored": "2",
        "AUROC reason": "",
    }
    assert rows[1]["AUROC"] == rows[1]["AUROC n"] == ""
    assert (rows[2]["AUROC"], rows[2]["AUROC n_unscored"]) == ("", "4")
    assert rows[2]["AUROC reason"] == "no score"


def test_the_header_of_a_csv_is_that_of_the_columns_and_not_of_the_rows() -> None:
    bare = replace(TABLE, rows=(("log_rank", 12, None),))
    assert bare.csv().splitlines()[0] == TABLE.csv().splitlines()[0]
    with pytest.raises(ValueError, match="'AUROC' is not among its estimates"):
        replace(TABLE, estimates=())


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_is_a_dash_and_an_empty_field(wrong: float) -> None:
    nothing = Estimate(wrong, wrong, wrong, 3, 0, "no score")
    table = replace(TABLE, rows=(("a", wrong, nothing), ("b", 1, Estimate(0.5, 0.25, wrong, 3))))
    assert "| a | — | — |" in table.markdown()
    assert "| b | 1 | 50.0 |" in table.markdown()
    first, second = csv.reader(io.StringIO(table.csv().partition("\n")[2]))
    assert first == ["a", "", "", "", "", "3", "0", "no score"]
    assert second == ["b", "1", "50.0", "25.0", "", "3", "0", ""]


def test_latex_escapes_what_latex_would_read() -> None:
    assert escaped(r"a_b & 5 % \x") == r"a\_b \& 5 \% \textbackslash{}x"
    text = TABLE.latex()
    assert r"log\_rank & 12 & 50.0 [25.0, 75.0] \\" in text
    assert r"\begin{tabular}{lrr}" in text


def test_latex_does_not_read_the_start_of_a_row_as_an_argument() -> None:
    rows = (("[1]", 1, None), ("*", 2, None), (" [x]", 3, None), ("x [1]", 4, None))
    lines = replace(TABLE, columns=("[n]", "n", "AUROC"), rows=rows).latex().splitlines()
    begun = [line.strip().partition(" &")[0] for line in lines if " & " in line]
    assert begun == ["{}[n]", "{}[1]", "{}*", "{} [x]", "x [1]"]


def test_a_row_of_another_width_is_refused() -> None:
    with pytest.raises(ValueError, match="1 cells, 2 columns"):
        Table("t", "c", ("a", "b"), (("x",),))


def test_files_are_written_side_by_side(tmp_path: Path) -> None:
    assert [p.name for p in TABLE.write(tmp_path)] == ["table_2.csv", "table_2.tex", "table_2.md"]


def test_an_estimate_comes_back_from_a_metrics_file() -> None:
    kept = Estimate(0.5, 0.25, 0.75, 10, 2, "one reason")
    assert estimate(kept.as_dict()) == kept
    assert estimate(None) is None
