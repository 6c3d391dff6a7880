"""Hides an API key that a server echoes, however it is spelt.

Servers quote the request's headers in their errors, and a model may be told its own key.
What came in goes through `Hiding` before anything is cut, kept or told.
"""

import re
from typing import Any

HIDDEN = "…"
SECRET_NAME = r"[\w.-]*(?:key|token|secret|password)[\w.-]*|sig(?:nature)?"
"""Of a field in an address that holds a credential."""
LEAST = 4
"""A key of fewer characters (vLLM takes any) is no secret, and stands in every text."""
LONG = 8
"""A shorter key is hidden only where it stands alone, since a word may hold it."""


class Hiding:
    """What must not be told.

    Args:
        secrets: keys; empty ones and such as nobody could hide are left out.
    """

    def __init__(self, *secrets: str) -> None:
        patterns = [_spellings(secret) for secret in secrets if len(secret) >= LEAST]
        self._pattern = re.compile("|".join(patterns)) if patterns else None

    def text(self, text: str) -> str:
        """The text with every spelling of a secret replaced."""
        return self._pattern.sub(HIDDEN, text) if self._pattern else text

    def value(self, value: Any) -> Any:
        """The same for all strings of a JSON value, its names too."""
        if self._pattern is None:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(name): self.value(item) for name, item in value.items()}
        return value


def _spellings(secret: str) -> str:
    """A pattern of the secret as it is, JSON-escaped, URL-quoted, and any of these again."""
    spelt = "".join(_spellings_of(character) for character in secret)
    alone = len(secret) < LONG
    return rf"(?<![A-Za-z0-9]){spelt}(?![A-Za-z0-9])" if alone else spelt


def _spellings_of(character: str) -> str:
    # The counts are bounded: a text of backslashes alone would else take quadratic time.
    code = "".join(f"[{digit}{digit.upper()}]" for digit in f"{ord(character):02x}")
    # A letter is never escaped by a backslash alone: \n is no n.
    plain = re.escape(character) if character.isalnum() else rf"\\{{0,8}}{re.escape(character)}"
    return rf"(?:{plain}|\\{{1,8}}u00{code}|%(?:25){{0,4}}{code})"
