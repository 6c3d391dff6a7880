"""Names that MLflow accepts, and back: legal, reversible, never colliding.

MLflow admits letters of any script, digits, `_ - . /` and blanks, and no name
that reads as another path. A name here is a path of parts joined by `/`; what a
part may not hold is written `-u<code point in hex>-`; so is a dot that begins a
part, and a `-` before a `u`, so that every `-u` in a legal name begins an escape.
"""

import hashlib
import re
from collections.abc import Mapping

LONGEST = 250
_ILLEGAL = re.compile(r"[^\w .-]|-(?=u)|^\.")
_ESCAPED = re.compile(r"-u([0-9a-f]*)-")
_SHORTENED = "-ux"


def legal_name(*parts: str) -> str:
    """The MLflow name of a path, e.g. ('ci', '浣溪沙', 'TPR@FPR=1%').

    A name of over 250 characters is cut and ends in a part of its sha256; the
    full one must then be kept elsewhere.
    """
    name = uncut_name(*parts)
    if len(name) <= LONGEST:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[: LONGEST - 20]}{_SHORTENED}{digest}"


def uncut_name(*parts: str) -> str:
    """The name as `legal_name` would give it if no name were too long."""
    return "/".join(map(_legal_part, parts))


def _legal_part(part: str) -> str:
    if not part:
        # No character at all: an escape without a code.
        return "-u-"
    return _ILLEGAL.sub(lambda match: f"-u{ord(match[0]):x}-", part)


def original_path(name: str, long_names: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The path that `legal_name` made a name of.

    Args:
        long_names: legal name -> the name before it was cut, for the ones that were.

    Raises:
        KeyError: the name was cut and `long_names` does not hold it.
    """
    if is_shortened(name):
        name = (long_names or {})[name]
    return tuple(_ESCAPED.sub(_character, part) for part in name.split("/"))


def _character(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else ""


def is_shortened(name: str) -> bool:
    return bool(re.search(rf"{_SHORTENED}[0-9a-f]{{16}}$", name))
