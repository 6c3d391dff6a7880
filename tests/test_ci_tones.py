"""Tones and rhyme parts of characters, as the rhyme books have them."""

import pytest
from ci_fakes import LEVEL, OBLIQUE

from shiyan.chinese import simplified
from shiyan.ci.rhyme import check_rhymes
from shiyan.ci.tones import ToneTable, load_tones


@pytest.fixture(scope="module")
def tones():
    return load_tones()


@pytest.mark.parametrize(
    ("characters", "name"),
    [
        ("东風春云天", "平"),
        ("雨上水去夜", "仄"),
        ("一石白月国國绝", "入"),  # level in Mandarin, many of them
        ("看过間", "平仄"),  # two readings, kept as a set
        ("□※", "?"),
    ],
)
def test_tones(tones, characters, name):
    assert [tones.name(character) for character in characters] == [name] * len(characters)


def test_a_rare_reading_that_only_one_table_has_does_not_count(tones):
    assert tones.name("家") == "平"
    assert tones.name("闲") == "平"


def test_a_simplified_character_has_the_readings_of_all_it_stands_for(tones):
    assert tones.name("乾") == "平"
    assert tones.name("幹") == "仄"
    assert tones.name("干") == "平仄"


def test_a_compatibility_form_sounds_as_the_character(tones):
    assert tones.name("\uf98e") == tones.name("年") == "平"


@pytest.mark.parametrize(
    ("characters", "tone", "part"),
    [
        ("东同中钟", "平", 1),
        ("江阳塘霜", "平", 2),
        ("支微时", "平", 3),
        ("雨絮路住", "仄", 4),
        ("来台开", "平", 5),  # 灰 is two parts: 来 and 台 are of 咍
        ("回杯", "平", 3),  # and these of 灰
        ("门魂村", "平", 6),  # so is 元: 魂 here
        ("言园原", "平", 7),  # and 元 here
        ("沙鸦花", "平", 10),
        ("白客", "仄", 17),
        ("月雪", "仄", 18),
    ],
)
def test_rhyme_parts(tones, characters, tone, part):
    assert all(tones.parts(character, tone) >> part & 1 for character in characters)


def test_level_and_oblique_parts_are_kept_apart(tones):
    assert not tones.parts("花", "仄")
    assert not tones.parts("月", "平")


def test_sounds_are_bits_from_the_first_character_on(tones):
    sounds = tones.sounds("天月看□")
    assert f"{sounds.level:04b}"[::-1] == "1011"
    assert f"{sounds.oblique:04b}"[::-1] == "0111"
    assert f"{sounds.unknown:04b}"[::-1] == "0001"
    assert f"{sounds.polyphones:04b}"[::-1] == "0010"


def test_the_fakes_have_one_reading_each(tones):
    assert {tones.name(character) for character in LEVEL} == {"平"}
    assert {tones.name(character) for character in OBLIQUE} <= {"仄", "入"}


# --- rhyme ------------------------------------------------------------------------------


def test_a_group_holds_where_its_characters_share_a_part(tones):
    groups = [("甲", [(0, "平"), (1, "平")]), ("乙", [(2, "仄"), (3, "仄")])]
    rhymes = check_rhymes("花鸦雨月", groups, tones)
    assert [group.part for group in rhymes.groups] == [10, 4]
    assert (rhymes.n_kept, rhymes.n) == (3, 4)
    assert rhymes.groups[1].kept == (True, False)


def test_a_character_of_the_other_tone_breaks_the_rhyme_but_for_ye(tones):
    level = [("甲", [(0, "平"), (1, "平")])]
    across = [("甲", [(0, "平"), (1, "仄")])]
    assert check_rhymes("花马", level, tones).share == 0.5
    assert check_rhymes("花马", across, tones).share == 1


def test_an_unknown_character_is_no_evidence(tones):
    groups = [("甲", [(0, "平"), (1, "平"), (2, "平")])]
    assert check_rhymes("花□鸦", groups, tones).groups[0].kept == (True, None, True)
    assert check_rhymes("花□", [("甲", [(0, "平"), (1, "平")])], tones).share is None


def test_a_ci_rhymes_alike_in_both_scripts(tones):
    forms = {character: simplified(character) for character in tones.readings}
    for character, form in forms.items():
        # 薴 is simplified to 苧, which OpenCC takes for another traditional character.
        if forms.get(form, form) == form:
            for tone in "平仄":
                assert tones.parts(character, tone) == tones.parts(form, tone)
    groups = [("甲", [(place, "平") for place in range(4)])]
    shares = [check_rhymes(text, groups, tones).share for text in ("时台诗知", "時臺詩知")]
    assert shares == [1, 1]


def test_a_traditional_character_that_no_book_has_sounds_as_its_simplified_form():
    table = ToneTable({"说": 1 << 3}, "made up")
    assert table.name("說") == "平"
    assert table.parts("說", "平") == 1 << 3
    assert table.sounds("說").unknown == 0
