"""Near-duplicates against brute force over all pairs."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st
from shared import BUGS, needs_shared

from shiyan import twins
from shiyan.jsonl import read_objects

LINE = "屋檐下的水滴了一夜\n石阶记住了它的节奏\n我没有醒来"


def test_title_script_and_punctuation_do_not_hide_a_twin():
    texts = {
        "a": LINE,
        "b": LINE.replace("\n", "，\n\n") + "。",
        "c": "屋簷下的水滴了一夜\n石階記住了它的節奏\n我沒有醒來",
        "d": "另一首完全不同的诗",
        "e": "",
        "f": "。",
    }
    assert twins.twins(texts, 0.8) == [("a", "b", "c")]


def test_short_poems_are_twins_only_if_equal():
    assert twins.twins({"a": "网", "b": "网。", "c": "鱼", "d": "网鱼"}, 0.8) == [("a", "b")]


def jaccard(a: str, b: str) -> float:
    first, second = twins.grams(a), twins.grams(b)
    return len(first & second) / len(first | second) if first | second else 0.0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(alphabet="春江花月", max_size=9), max_size=9),
    st.sampled_from([0.05, 0.3, 0.5, 0.8, 1.0]),
)
def test_the_same_families_as_by_comparing_all_pairs(drawn, threshold):
    texts = {f"{i}": text for i, text in enumerate(drawn)}
    linked = [
        {a, b} for a, b in combinations(texts, 2) if jaccard(texts[a], texts[b]) >= threshold - 1e-9
    ]
    families: list[set[str]] = []
    for pair in linked:
        touching = [family for family in families if family & pair]
        families = [f for f in families if f not in touching] + [pair.union(*touching)]
    assert twins.twins(texts, threshold) == sorted(tuple(sorted(f)) for f in families)


def test_copies_are_told_as_one_line():
    texts = {"a": LINE, "b": LINE + "。", "c": "另一首", "d": LINE.replace("\n", "\n\n")}
    assert twins.copies(twins.twins(texts, 0.8)) == ["3 copies of 1 poem: a, b, d"]


@needs_shared
def test_bug_06_four_copies_of_one_poem():
    rows = read_objects(BUGS / "06-duplicate-twins/poems.jsonl")
    texts = {row["id"]: row["text"] for _, row in rows if row["id"] != "p6"}
    assert twins.copies(twins.twins(texts, 0.8)) == ["4 copies of 1 poem: p1, p2, p3, p4"]
