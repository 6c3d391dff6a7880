"""Headers of .pt files as they are."""

import pytest

from shiyan.collection.pt import PtFile, parse_pt


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("title:灯\ndate:1999年05\n\n亮着\n", PtFile("灯", "1999年05", "\n亮着")),
        ("\ufefftitle:灯\r\ndate:\r\n\r\n亮着", PtFile("灯", None, "\n亮着")),
        ("title:夜里1:13\ndate:2012｜2013\n亮着", PtFile("夜里1:13", "2012｜2013", "亮着")),
        ("title:\n\n亮着", PtFile("", None, "\n亮着")),
        ("title：灯\n亮着", PtFile("灯", None, "亮着")),
        ("title:灯\n\ntitle:行\ndate:行", PtFile("灯", None, "\ntitle:行\ndate:行")),
        ("亮着\n又灭了", PtFile("", None, "亮着\n又灭了")),
        ("", PtFile("", None, "")),
    ],
)
def test_only_the_first_lines_are_headers(text, expected):
    assert parse_pt(text) == expected
