"""Simplified and traditional characters, as OpenCC has them."""

from functools import cache, lru_cache
from typing import Any


@lru_cache(maxsize=4096)
def simplified(text: str) -> str:
    """The text in simplified characters."""
    return str(_converter("t2s").convert(text))


def traditional(text: str) -> str:
    """The text in traditional characters."""
    return str(_converter("s2t").convert(text))


@cache
def _converter(configuration: str) -> Any:
    from opencc import OpenCC

    return OpenCC(configuration)
