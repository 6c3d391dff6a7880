"""Simplified and traditional characters, as OpenCC has them."""

import re
from functools import cache, lru_cache
from typing import Any

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half a character, which JSON can hold and no file: OpenCC ends on one."""


@lru_cache(maxsize=4096)
def simplified(text: str) -> str:
    """The text in simplified characters, as long as before where each has one."""
    return _converted("t2s", text)


def traditional(text: str) -> str:
    """The text in traditional characters."""
    return _converted("s2t", text)


def _converted(configuration: str, text: str) -> str:
    return str(_converter(configuration).convert(_LONE_SURROGATE.sub("\ufffd", text)))


@cache
def _converter(configuration: str) -> Any:
    from opencc import OpenCC

    return OpenCC(configuration)
