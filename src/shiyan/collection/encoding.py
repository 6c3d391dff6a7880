"""Bytes to text: UTF-8 first and strictly; else decoded right and named, or refused."""

from functools import cache

from shiyan.chinese import simplified
from shiyan.errors import UserError

_FULL_WIDTH = map(chr, range(0xFF01, 0xFF5F))
_MARKS = frozenset("　、。〈〉《》「」『』【】〔〕·—…‘’“”").union(_FULL_WIDTH)
"""Chinese punctuation, and the full-width digits, letters and marks that tables are full of."""
PLAUSIBLE = 0.85
"""Share of non-ASCII symbols that must be common characters or Chinese marks."""
MARGIN = 0.15
"""How much more plausible one legacy encoding must be than the other."""
SAMPLE = 100_000
"""How much of a text is looked at, in characters."""
LEGACY = {"GB18030": "gb18030", "Big5": "cp950"}


def decoded(raw: bytes, place: str) -> tuple[str, str]:
    """(text, name of the encoding) of a file's bytes; a BOM is no part of the text.

    A text that is not UTF-8 is GB18030 or Big5 if read so it consists of common
    characters (the 3,755 of GB 2312's first level, traditional forms mapped to
    simplified ones) and read otherwise it does not: bytes that are valid in an
    encoding are not therefore written in it.

    Raises:
        UserError: no encoding fits; names the first byte that is not UTF-8.
    """
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        try:
            return raw.decode("utf-16"), "UTF-16"
        except UnicodeDecodeError:
            raise UserError(f"{place} begins as UTF-16 but is cut; save it as UTF-8") from None
    try:
        return raw.decode("utf-8-sig"), "UTF-8"
    except UnicodeDecodeError as error:
        first_bad = error.start + 1
    readings = {name: _read(raw, codec) for name, codec in LEGACY.items()}
    (name, text, share), (_, _, other) = sorted(
        ((name, text, plausibility(text)) for name, text in readings.items()),
        key=lambda reading: -reading[2],
    )
    if text is not None and share >= PLAUSIBLE and share - other >= MARGIN:
        return text, name
    raise UserError(
        f"{place} is not UTF-8 (byte {first_bad}) and reads as neither GB18030 nor Big5; "
        "save it as UTF-8 and run again"
    )


def decoded_lines(raw: bytes, place: str) -> tuple[list[bytes], str]:
    """The lines as UTF-8 bytes. A file with one line in UTF-8 is a UTF-8 file, and a line that
    is not is that line's fault; a file without one is decoded as a whole."""
    lines = raw.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    wide = [line for line in lines if not line.isascii()]
    if raw[:2] not in (b"\xff\xfe", b"\xfe\xff") and (not wide or any(map(_is_utf8, wide))):
        return lines, "UTF-8"
    try:
        text, encoding = decoded(raw, place)
    except UserError:
        return lines, "UTF-8"
    return text.encode("utf-8").split(b"\n"), encoding


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _read(raw: bytes, codec: str) -> str | None:
    try:
        return raw.decode(codec)
    except UnicodeDecodeError:
        return None


def plausibility(text: str | None) -> float:
    """Share of the non-ASCII symbols that are common in Chinese; 0 for what is no text."""
    sample = (text or "")[:SAMPLE]
    symbols = [char for char in simplified(sample) if ord(char) >= 0x80]
    if not symbols or "\0" in sample:
        return 0.0
    common = _common_characters()
    return sum(char in common or char in _MARKS for char in symbols) / len(symbols)


@cache
def _common_characters() -> frozenset[str]:
    """GB 2312's first level: rows 16 to 55, the characters in everyday use."""
    rows = range(0xB0, 0xD8)
    codes = (bytes((row, cell)) for row in rows for cell in range(0xA1, 0xFF))
    return frozenset("".join(code.decode("gb2312", errors="ignore") for code in codes))
