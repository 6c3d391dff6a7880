"""Simplified and traditional characters."""

import pytest

from shiyan.chinese import simplified, traditional


def test_there_and_back():
    assert simplified("溪邊風細") == "溪边风细"
    assert traditional("溪边风细") == "溪邊風細"


@pytest.mark.parametrize("convert", [simplified, traditional])
def test_half_a_character_is_an_unknown_one(convert):
    assert convert("山\ud800水\udfff") == "山\ufffd水\ufffd"
