"""What a source of human poems gives, and what it left out and why."""

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from shiyan import poem as parser
from shiyan.records import Poem
from shiyan.twins import traditional_share

NAMED = 10
"""How many left-out poems are named one by one on stderr; the rest are counted."""
TRADITIONAL = 0.1
"""Share of traditional characters from which a text is written in them."""


@dataclass
class Corpus:
    """Human poems of one source.

    Attributes:
        poems: what was kept, ids distinct.
        left_out: reason -> how many poems.
        flagged: what a reader should know of kept poems -> how many.
        notices: one sentence each.
        made: where the poems are from, for the metrics.
        short: cipai -> (kept, wanted), where the source holds too few.
        counts: what the whole source holds, of which the poems are a choice.
    """

    poems: list[Poem] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    flagged: Counter[str] = field(default_factory=Counter)
    notices: list[str] = field(default_factory=list)
    made: dict[str, str | int] = field(default_factory=dict)
    short: dict[str, tuple[int, int]] = field(default_factory=dict)
    counts: dict[str, Any] = field(default_factory=dict)


def flags(poem: Poem) -> list[str]:
    """What is peculiar about a kept poem, by name."""
    n_characters = len(parser.characters(poem.text))
    traditional = traditional_share(poem.text)
    found = {
        "in traditional characters": traditional >= TRADITIONAL,
        "a few traditional characters": 0 < traditional < TRADITIONAL,
        "no Han character": n_characters == 0,
        "one character": n_characters == 1,
        "lost character (U+FFFD)": "\ufffd" in poem.text,
        "no title": not poem.title,
        "no author": not poem.author,
    }
    return [name for name, holds in found.items() if holds]


def tell(notices: Iterable[str]) -> None:
    """Say each notice on stderr, the first few of them in full."""
    every = list(notices)
    for notice in every[:NAMED]:
        sys.stderr.write(f"notice: {notice}\n")
    if len(every) > NAMED:
        sys.stderr.write(f"notice: and {len(every) - NAMED} more like these\n")
