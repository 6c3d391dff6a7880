"""Seeds of single draws, derived from a stage's one seed."""

import hashlib


def derived(seed: int, *parts: str | int) -> int:
    """A seed for the draw that `parts` name; 0 … 2**31 - 1, the same on every machine."""
    text = "|".join(map(str, (seed, *parts)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1
