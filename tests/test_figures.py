"""Figures for MLflow and templates for DVC's plots, from the plot files' columns."""

import csv
import json
from pathlib import Path

import pytest

from shiyan.report import figures, fonts
from shiyan.report.fonts import Font, Labels, chosen_font

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("human", "small/direct")
ROC = [
    {"detector": d, "false_positive_rate": x, "true_positive_rate": y}
    for d in ("lrr", "binoculars")
    for x, y in ((0, 0), (0, 0.5), (0.5, 1), (1, 1))
]
SCORES = [
    {
        "poem_id": f"p{i}",
        "detector": "lrr",
        "label": ("human", "LLM")[i % 2],
        "fold": "test",
        "score": i / 7,
    }
    for i in range(8)
]
CIPAI = [
    {"cipai": c, "source": s, "n": 2, "structure_any": share}
    for c, share in (("如梦令", 1.0), ("浣溪沙", ""))
    for s in SOURCES
]
ERRORS = [
    {"judge": "small", "prompt": p, "dimension": d, "source": "constructed", "error": 10, "n": 3}
    for p in ("P0", "P3")
    for d in ("内容", "语言")
]
LOSS = [
    {"detector": "small", "fold": "all", "part": "train", "step": i, "loss": 1 / i}
    for i in (1, 2, 3)
]
PLOTS = {
    "roc_by_detector": (ROC, "false_positive_rate", "true_positive_rate"),
    "scores_by_label": (SCORES, "score", "label"),
    "kept_by_cipai": (CIPAI, "structure_any", "cipai"),
    "error_by_dimension": (ERRORS, "error", "dimension"),
    "loss_by_detector": (LOSS, "step", "loss"),
}


def written(folder: Path, rows: list[dict]) -> Path:
    path = folder / "plot.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_becomes_a_picture_without_missing_glyphs(name, tmp_path, recwarn):
    figure = figures.draw(written(tmp_path, PLOTS[name][0]), tmp_path / "plot.png")
    assert figure is not None
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert [str(w.message) for w in recwarn if "Glyph" in str(w.message)] == []


def test_a_file_of_another_kind_or_without_rows_is_no_figure(tmp_path):
    assert figures.draw(written(tmp_path, [{"a": 1}]), tmp_path / "x.png") is None
    empty = tmp_path / "empty.csv"
    empty.write_text("detector,false_positive_rate,true_positive_rate\n", encoding="utf-8")
    assert figures.draw(empty, tmp_path / "x.png") is None
    assert not (tmp_path / "x.png").exists()


def test_without_a_chinese_font_names_are_numbered_and_the_figure_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "chosen_font", lambda: Font(None, "nowhere"))
    labels = Labels(Font(None, "nowhere"))
    assert [labels("浣溪沙"), labels("lrr"), labels("如梦令"), labels("浣溪沙")] == [
        "#1",
        "lrr",
        "#2",
        "#1",
    ]
    assert labels.are_numbered
    assert figures.draw(written(tmp_path, CIPAI), tmp_path / "x.png") is not None


def test_the_packaged_font_serves_a_system_without_chinese_fonts(monkeypatch):
    from matplotlib import font_manager

    monkeypatch.setattr(font_manager, "get_font_names", lambda: ["DejaVu Sans"])
    chosen_font.cache_clear()
    try:
        font = chosen_font()
    finally:
        chosen_font.cache_clear()
    assert font.chinese == "Noto Sans SC"
    assert font.origin.startswith("the package")
    assert font.families == ["Noto Sans SC", fonts.LATIN]


@pytest.mark.parametrize("name", PLOTS)
def test_a_dvc_template_fills_in(name):
    from dvc_render.vega import VegaRenderer

    rows, x, y = PLOTS[name]
    points = [{key: str(value) for key, value in row.items()} | {"rev": "HEAD"} for row in rows]
    renderer = VegaRenderer(
        points, "p", template=name, template_dir=str(ROOT / ".dvc/plots"), x=x, y=y, title="T"
    )
    filled = renderer.get_filled_template()
    assert filled["data"]["values"] == points
    assert "DVC_METRIC" not in json.dumps(filled)


def test_every_template_of_dvc_yaml_is_there():
    from dvc_render.vega_templates import TEMPLATES
    from ruamel.yaml import YAML

    stages = YAML(typ="safe").load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    plots = [plot for stage in stages.values() for plot in stage.get("plots", [])]
    named = {
        options["template"] for plot in plots for options in plot.values() if "template" in options
    }
    ours = {path.stem for path in (ROOT / ".dvc/plots").glob("*.json")}
    assert named <= ours | {template.DEFAULT_NAME for template in TEMPLATES}
