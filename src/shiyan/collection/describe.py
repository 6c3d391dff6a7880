"""What was collected, as metrics/collect.json tells it."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from shiyan.collection.corpus import Corpus
from shiyan.records import HumanRating, Persona, Poem
from shiyan.report.statistics import MADE, length_statistics
from shiyan.twins import copies, twins

LISTED = 200
"""How many authors, cipai or twin families are named; the rest are counted together."""


def described(
    corpus: Corpus,
    personas: Sequence[Persona],
    ratings: Sequence[HumanRating],
    near_duplicate: float,
    seed: int,
) -> dict[str, Any]:
    """Counts of what was kept, left out (by reason) and flagged, and of the whole source;
    lengths; twins."""
    poems = corpus.poems
    families = twins({poem.poem_id: poem.text for poem in poems}, near_duplicate)
    beside = Counter(kind for poem in poems for kind in poem.beside)
    return {
        "kept": len(poems),
        "left_out": {"total": corpus.left_out.total(), **_by_count(corpus.left_out)},
        "flagged": _by_count(corpus.flagged),
        "poems_with_lines_beside_the_verse": _by_count(beside),
        "authors": len({poem.author for poem in poems if poem.author}),
        "by_author": _by_count(Counter(poem.author or "(unknown)" for poem in poems)),
        "by_cipai": _by_count(Counter(poem.cipai for poem in poems if poem.cipai)),
        "cipai_short": {name: kept for name, (kept, _) in corpus.short.items()},
        "source": corpus.counts,
        "lengths": {"human": length_statistics(poems)},
        "twins": {
            "families": len(families),
            "poems": sum(map(len, families)),
            "named": copies(families[:LISTED]),
        },
        "personas": len(personas),
        "authors_with_persona": len({p.author for p in poems} & {p.poet_id for p in personas}),
        "ratings": len(ratings),
        "ratings_by_source": _by_count(Counter(rating.source for rating in ratings)),
        "notices": corpus.notices[:LISTED],
        "made": {
            **corpus.made,
            "poems_sha256": _sha256(poems),
            "seed": seed,
            "near_duplicate": near_duplicate,
            "twins": "Jaccard of character 3-grams, punctuation aside, script simplified",
            **MADE,
        },
    }


def _by_count(counts: Counter[str]) -> dict[str, int]:
    """The most frequent first; ties by name; the tail as one count."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rest = sum(count for _, count in ordered[LISTED:])
    return dict(ordered[:LISTED]) | ({"(others)": rest} if rest else {})


def _sha256(poems: Iterable[Poem]) -> str:
    """Of all poems in their order: two runs on the same poems have the same sum."""
    digest = hashlib.sha256()
    for poem in poems:
        digest.update(poem.model_dump_json().encode() + b"\n")
    return digest.hexdigest()
