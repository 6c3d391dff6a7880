"""The report of the poems: lengths, nouns, emotions and asked counts of a few known poems."""

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from shiyan.config import PathsParams, load_params
from shiyan.errors import UserError
from shiyan.jsonl import write_records
from shiyan.metrics import Estimate
from shiyan.records import Generation, Poem
from shiyan.report import of_poems, poem_figures
from shiyan.report.fonts import Font
from shiyan.report.of_poems import figures, kept_counts, tables
from shiyan.report.table import Table
from shiyan.report.words import emotion_lists, tagged, words_of

ROOT = Path(__file__).resolve().parent.parent


def poem(poem_id: str, text: str, prompt: str | None = None, by: str = "glm-4", **more) -> Poem:
    generation = prompt and Generation(
        generator=by, prompt_id=prompt, seed_poem_id="h1", sample_index=0, reply_sha256="0"
    )
    fields = {"title": "题", "genre": "modern", "author": "甲"} | more
    return Poem(poem_id=poem_id, text=text, generation=generation or None, **fields)


HUMAN = [poem("h1", "风吹着石头\n\n石头不说话"), poem("h2", "我很悲伤")]
WRITTEN = [
    poem("w1", "风吹过天空", "P1"),
    poem("w9", "石头", "P9"),
    poem("w10", "快乐的天空\n天空", "P10"),
    poem("w13", "我害怕", "P13"),
]
ESTIMATE = Estimate(0.5, 0.25, 1.0, 4, 1).as_dict()
STRUCTURE = {"glm-4": {"P6": {"stanzas_kept": ESTIMATE, "stanzas_difference": ESTIMATE}}}


@pytest.fixture
def paths(tmp_path, monkeypatch) -> PathsParams:
    """A project that has collected and generated a few poems."""
    found = load_params("paths", PathsParams, ROOT / "params.yaml")
    monkeypatch.chdir(tmp_path)
    write_records(found.poems, HUMAN)
    write_records(found.generated, WRITTEN)
    found.generate_metrics.parent.mkdir(exist_ok=True)
    found.generate_metrics.write_text(json.dumps({"structure": STRUCTURE}), encoding="utf-8")
    return found


def by_name(paths: PathsParams) -> dict[str, Table]:
    return {table.name: table for table in tables(paths)}


def row(table: Table, *names: str) -> dict[str, object]:
    """The row that begins with these names, by column."""
    found = next(row for row in table.rows if tuple(row[: len(names)]) == names)
    return dict(zip(table.columns, found, strict=True))


# --- words ----------------------------------------------------------------------------


def test_a_line_ends_a_word_and_no_word_is_guessed():
    assert [word for word, _ in tagged("石\n头")] == ["石", "头"]
    assert [word for word, _ in tagged("光落在雪上")] == ["光", "落", "在", "雪", "上"]


def test_nouns_by_hand_names_too_and_both_scripts_alike():
    found = words_of([poem("a", "風吹着石頭，\n石头在城市里\n1927，美丽的飞鸟")])
    assert found.nouns == Counter({"石头": 2, "城市": 1, "飞鸟": 1})
    assert found.most_frequent(1) == [("石头", 2)]


@pytest.mark.parametrize("reading", ["wide", "narrow"])
def test_every_word_of_the_lists_is_a_word_of_the_dictionary(reading):
    lists = emotion_lists(reading)
    assert [*lists] == ["joy", "sadness", "anger", "fear"]
    assert [w for own in lists.values() for w in own if [t for t, _ in tagged(w)] != [w]] == []
    assert sum(map(len, lists.values())) == len(frozenset().union(*lists.values()))
    assert all(own <= emotion_lists("wide")[name] for name, own in lists.items())


@pytest.mark.parametrize(
    ("text", "emotions"),
    [
        ("他很高兴", {"joy"}),
        ("我不快乐，也不害怕", {"joy", "fear"}),  # a denied one is named
        ("慈悲的音乐", set()),  # neither 悲 nor 乐 stands there as a word
        ("春天生气勃勃", set()),
        ("絕望，憤怒", {"sadness", "anger"}),
        ("石头和风", set()),
    ],
)
def test_which_emotions_a_text_names(text, emotions):
    assert words_of([poem("a", text)]).wide == [emotions]


def test_the_narrow_list_holds_what_the_prompts_say():
    prompts = (ROOT / "conf/prompt/modern.yaml").read_text(encoding="utf-8")
    asked = [word for own in emotion_lists("narrow").values() for word in own]
    assert len(asked) == 6
    assert all(word in prompts for word in asked)


# --- tables ---------------------------------------------------------------------------


def test_table_1_has_totals_beside_the_papers(paths):
    table = by_name(paths)["table_1"]
    assert row(table, "human") == {
        "source": "human",
        "poems": 2,
        "stanzas": 3,
        "lines": 4 + 2,  # title, two lines and a blank one; title and a line
        "body lines": 3,
        "characters": 14,
        "symbols": 14,
    }
    assert row(table, "AIGenPoetry: human")["characters"] == "137K"
    assert row(table, "AIGenPoetry: GLM-4")["stanzas"] == "56.2K"
    # The others did not write here.
    assert [r[0] for r in table.rows] == [
        "human",
        "glm-4",
        "AIGenPoetry: human",
        "AIGenPoetry: GLM-4",
    ]


def test_table_8_has_means_and_shares_beside_the_papers(paths):
    table = by_name(paths)["table_8"]
    human = row(table, "human")
    assert human["stanzas"].value == 1.5
    assert (human["stanzas > mean, %"], human["stanzas < mean, %"]) == (50, 50)
    assert row(table, "AIGenPoetry: human")["characters"] == 171.95
    assert row(by_name(paths)["table_8_other_readings"], "human")["characters a body line"] == (
        pytest.approx(14 / 3)
    )


def test_table_9_has_the_nouns_of_each_source_side_by_side(paths):
    table = by_name(paths)["table_9"]
    first = row(table, 1)
    assert (first["human"], first["human, times"]) == ("石头", 2)
    assert (first["glm-4"], first["glm-4, times"]) == ("天空", 3)
    assert (first["AIGenPoetry: human"], first["AIGenPoetry: human, times"]) == ("人", 265)
    assert len(table.rows) == 8
    assert row(table, 8)["human"] is None


def test_emotions_by_subset(paths):
    table = by_name(paths)["emotions"]
    human, all_llm = row(table, "human", "all"), row(table, "glm-4", "all")
    assert (human["any"].value, human["sadness"].value, human["any, narrow list"].value) == (
        (50, 50, 50)
    )
    assert (all_llm["poems"], all_llm["any"].value, all_llm["any, narrow list"].value) == (
        (4, 50, 25)
    )
    assert row(table, "glm-4", "D10")["joy"].value == 100
    assert row(table, "glm-4", "D9")["any"].value == 0
    assert [r[1] for r in table.rows] == ["all", "all", "D1", "D9", "D10", "D13"]


def test_asked_counts_are_percent_and_differences_are_numbers(paths):
    table = by_name(paths)["kept_counts"]
    kept = row(table, "glm-4", "P6")
    assert (kept["poems"], kept["missing"]) == (4, 1)
    assert kept["exactly so many, %"] == Estimate(50.0, 25.0, 100.0, 4, 1)
    assert kept["more than asked, mean"].value == 0.5


def test_ci_have_no_published_numbers_beside_them(paths):
    write_records(paths.poems, [poem("c", "风吹石头", genre="ci", cipai="如梦令")])
    paths.generated.unlink()
    paths.generate_metrics.unlink()
    assert kept_counts(paths) is None
    found = by_name(paths)
    assert "kept_counts" not in found
    assert [r[0] for r in found["table_8"].rows] == ["human"]
    assert found["table_9"].columns == ("rank", "human", "human, times")


def test_without_poems_the_stage_to_run_is_named(paths):
    paths.poems.unlink()
    with pytest.raises(UserError, match="dvc repro collect"):
        by_name(paths)


# --- figures --------------------------------------------------------------------------


def test_each_figure_comes_with_its_counts(paths, tmp_path, recwarn):
    written = list(figures(paths, tmp_path / "out"))
    assert [path.name for path in written] == [
        *("stanzas_per_poem.csv", "stanzas_per_poem.png"),
        *("lines_per_poem.csv", "lines_per_poem.png"),
        *("lines_per_stanza.csv", "lines_per_stanza.png"),
        "nouns.png",
    ]
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in written if p.suffix == ".png")
    with written[0].open(encoding="utf-8", newline="") as file:
        counts = [(r["source"], r["length"], r["count"]) for r in csv.DictReader(file)]
    assert counts == [("human", "1", "1"), ("human", "2", "1"), ("glm-4", "1", "4")]
    assert [str(w.message) for w in recwarn if "Glyph" in str(w.message)] == []


def test_a_poem_of_ten_thousand_lines_does_not_flatten_the_others(tmp_path):
    poems = [*(poem(f"h{i}", "风\n雨") for i in range(99)), poem("long", "风\n" * 10_000)]
    own = Counter({3: 99, 10_001: 1})
    assert poem_figures._seen(own) == 3
    written = [*poem_figures.length_figures({"human": poems}, tmp_path)]
    assert len(written) == 6
    assert "human,10001,1" in written[2].read_text(encoding="utf-8")


def test_no_nouns_no_figure(tmp_path):
    assert (
        list(poem_figures.noun_figure({"human": words_of([poem("a", "我很好")])}, tmp_path)) == []
    )


def test_without_a_chinese_font_the_nouns_are_numbered(tmp_path, monkeypatch):
    monkeypatch.setattr(poem_figures, "chosen_font", lambda: Font(None, "nowhere"))
    (drawn,) = poem_figures.noun_figure({"human": words_of(HUMAN)}, tmp_path)
    assert drawn.read_bytes().startswith(b"\x89PNG")


def test_what_is_printed_is_whole():
    for table in ("table_1", "table_8", "table_9"):
        assert of_poems.published()[table].keys() == of_poems.published()["names"].keys()
    assert all(len(nouns) == 8 for nouns in of_poems.published()["table_9"].values())
