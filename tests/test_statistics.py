"""Tables 1 and 8 by hand."""

import pytest

from shiyan.records import Generation, Poem
from shiyan.report.statistics import by_source, distributions, length_statistics


def poem(poem_id: str, text: str, title: str = "题", generator: str | None = None) -> Poem:
    generation = generator and Generation(
        generator=generator, prompt_id="P1", seed_poem_id="a", sample_index=0, reply_sha256="0"
    )
    return Poem(
        poem_id=poem_id,
        title=title,
        text=text,
        genre="modern",
        author="甲",
        generation=generation or None,
    )


SHORT, LONG = poem("a", "门开着"), poem("b", "门开着，\n风来\n\n又走", title="")


def test_totals_means_and_shares_by_hand():
    found = length_statistics([SHORT, LONG])
    assert found["total"] == {
        "stanzas": 3,
        "lines": 4,
        "lines_with_title_and_blanks": 2 + 4,  # title + 1; no title, 3 and a blank one
        "characters": 10,
        "symbols": 11,
    }
    assert found["mean"]["characters"]["value"] == 5
    assert found["percent_above_mean"]["characters"] == 50
    assert found["percent_below_mean"]["characters"] == 50
    # sd of (3, 7) is sqrt(8); the standard error is 2.
    assert found["mean"]["characters"]["low"] == pytest.approx(5 - 1.96 * 2)


def test_equal_poems_are_neither_above_nor_below():
    found = length_statistics([SHORT, SHORT])
    assert found["percent_above_mean"]["lines"] == found["percent_below_mean"]["lines"] == 0


def test_no_poem_has_no_mean_but_a_reason():
    assert length_statistics([])["mean"]["lines"]["reason"] == "no poem"
    assert length_statistics([SHORT])["mean"]["lines"]["low"] is None


def test_distributions_by_hand():
    found = distributions([SHORT, LONG])
    assert found.stanzas_per_poem == {1: 1, 2: 1}
    assert found.lines_per_poem == {2: 1, 4: 1}
    assert found.lines_per_stanza == {1: 2, 2: 1}


def test_sources_are_human_first_then_generators_by_name():
    poems = [poem("w", "门", generator="z"), poem("v", "门", generator="y"), SHORT]
    assert [*by_source(poems)] == ["human", "y", "z"]
    assert [*by_source(poems[:1])] == ["z"]
