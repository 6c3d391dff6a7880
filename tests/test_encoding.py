"""Bytes become the text that was meant, or are refused."""

import pytest

from shiyan.collection.encoding import decoded
from shiyan.errors import UserError

SIMPLIFIED = "灯还亮着\n窗外的雨下了一整夜，没有人来"
TRADITIONAL = "燈還亮著\n窗外的雨下了一整夜，沒有人來"
SHEET = "ｉｄ，ｄａｔｅ\n" + "".join(f"７{n}，１９３６－０{n}－２８\n" for n in "１２３４５６")
"""Nearly all full-width, as some input methods write digits and letters."""


@pytest.mark.parametrize(
    ("raw", "text", "encoding"),
    [
        (SIMPLIFIED.encode(), SIMPLIFIED, "UTF-8"),
        (b"\xef\xbb\xbf" + SIMPLIFIED.encode(), SIMPLIFIED, "UTF-8"),
        (SIMPLIFIED.encode("gbk"), SIMPLIFIED, "GB18030"),
        ((SIMPLIFIED + "𫛛").encode("gb18030"), SIMPLIFIED + "𫛛", "GB18030"),
        (TRADITIONAL.encode("gbk"), TRADITIONAL, "GB18030"),
        (TRADITIONAL.encode("big5"), TRADITIONAL, "Big5"),
        (SIMPLIFIED.encode("utf-16"), SIMPLIFIED, "UTF-16"),
        ("化".encode() * 2, "化化", "UTF-8"),  # valid GBK too
        (b"", "", "UTF-8"),
        (SHEET.encode("gbk"), SHEET, "GB18030"),
        (SHEET.encode("big5"), SHEET, "Big5"),
    ],
)
def test_a_text_is_read_as_it_was_written(raw, text, encoding):
    assert decoded(raw, "诗.txt") == (text, encoding)


@pytest.mark.parametrize(
    ("raw", "byte"),
    [
        (SIMPLIFIED.encode()[:-1] + b"\xff", 53),  # a broken UTF-8 text
        (SIMPLIFIED.encode("shift_jis", errors="ignore") + b"\x81", 1),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 1),
        (b"caf\xe9 au lait", 4),
    ],
)
def test_what_fits_no_encoding_is_refused_with_the_byte(raw, byte):
    with pytest.raises(UserError, match=rf"诗\.txt is not UTF-8 \(byte {byte}\)"):
        decoded(raw, "诗.txt")


def test_utf_16_that_is_cut_is_refused():
    with pytest.raises(UserError, match="UTF-16"):
        decoded("灯还".encode("utf-16")[:-1], "诗.txt")
