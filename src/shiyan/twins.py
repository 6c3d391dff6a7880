"""Near-duplicates: the same poem under another title, script, punctuation or id.

A shared service: `collection` names the twins, `splits` keeps them in one fold.
"""

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from tqdm import tqdm

from shiyan import poem
from shiyan.chinese import simplified

N = 3
"""Characters in a gram."""
SHARED = 3
"""How many of their rarest grams two sets must share before they are compared."""
_SAME = str.maketrans("著妳牠", "着你它")
"""What OpenCC leaves, since simplified Chinese has both; editors swap them freely."""


def twins(texts: Mapping[str, str], threshold: float) -> list[tuple[str, ...]]:
    """Families of near-duplicate texts, each sorted, of two members or more.

    Two texts are twins where the Jaccard similarity of their sets of character
    3-grams is at least `threshold`, punctuation and stanza breaks left out and
    traditional characters mapped to simplified ones. Families are what twins join:
    two members may be less alike than the threshold if a third stands between.

    Exact, without comparing all pairs: two sets as alike as that share several of
    their rarest grams (prefix filtering; Chaudhuri, Ganti and Kaushik, 2006, section
    4, with a longer prefix and more than one common member).

    Args:
        texts: poem id -> body. A text without characters has no twin.
        threshold: 0 < threshold <= 1.
    """
    parent = {name: name for name in texts}
    for a, b in _pairs(_numbered(texts), threshold):
        parent[root(parent, a)] = root(parent, b)
    families: dict[str, list[str]] = defaultdict(list)
    for name in texts:
        families[root(parent, name)].append(name)
    return sorted(tuple(sorted(family)) for family in families.values() if len(family) > 1)


def root(parent: dict[str, str], name: str) -> str:
    """The representative of a name's set (union-find with path halving)."""
    while parent[name] != name:
        parent[name] = parent[parent[name]]
        name = parent[name]
    return name


def grams(text: str) -> frozenset[str]:
    """The set of character 3-grams; a shorter text is one gram of its own."""
    bare = poem.characters(simplified(text)).translate(_SAME)
    if len(bare) <= N:
        return frozenset([bare] if bare else [])
    return frozenset(bare[i : i + N] for i in range(len(bare) - N + 1))


def copied_share(text: str, source: str) -> float:
    """Share of a text's character 3-grams that the source holds too; 0 … 1."""
    own = grams(text)
    return len(own & grams(source)) / len(own) if own else 0.0


def traditional_share(text: str) -> float:
    """Share of the characters that simplified Chinese writes otherwise; 0 … 1."""
    written = poem.characters(text)
    changed = sum(a != b for a, b in zip(written, simplified(written), strict=False))
    return changed / len(written) if written else 0.0


def _numbered(texts: Mapping[str, str]) -> "dict[str, array[int]]":
    """The grams of each text as sorted numbers: a tenth of what sets of strings would take."""
    numbers: dict[str, int] = {}
    return {
        name: array("I", sorted(numbers.setdefault(gram, len(numbers)) for gram in grams(text)))
        for name, text in texts.items()
    }


def _pairs(sets: "Mapping[str, array[int]]", threshold: float) -> Iterator[tuple[str, str]]:
    """Pairs of names whose sets are at least as alike as the threshold; of equal sets only
    as many pairs as join them all."""
    same: dict[bytes, str] = {}
    for name, members in sets.items():
        if members and same.setdefault(members.tobytes(), name) != name:
            yield same[members.tobytes()], name
    # By size, so that a set meets only smaller ones and their sizes bound the search.
    order = sorted(same.values(), key=lambda name: (len(sets[name]), name))
    frequency = Counter(gram for name in order for gram in sets[name])
    by_rarity = sorted(frequency, key=lambda gram: (frequency[gram], gram))
    rank = {gram: place for place, gram in enumerate(by_rarity)}
    index: dict[int, list[int]] = defaultdict(list)
    bar = tqdm(order, "near-duplicates", disable=len(order) < 20_000, leave=False)
    for number, name in enumerate(bar):
        own = set(sets[name])
        least = _ceil(threshold * len(own))
        prefix = sorted(map(rank.__getitem__, own))[: len(own) - least + SHARED]
        met: Counter[int] = Counter()
        for gram in prefix:
            met.update(index[gram])
            index[gram].append(number)
        wanted = min(SHARED, least)
        for other, shared in met.items():
            theirs = sets[order[other]]
            if shared < wanted or len(theirs) < threshold * len(own) - 1e-9:
                continue
            common = len(own.intersection(theirs))
            if common >= threshold * (len(own) + len(theirs) - common) - 1e-9:
                yield order[other], name


def _ceil(value: float) -> int:
    """Rounded up; 0.8 x 5 is 4, whatever floating point makes of it."""
    return math.ceil(value - 1e-9)


def copies(families: Sequence[Sequence[str]]) -> list[str]:
    """One sentence a family, e.g. '4 copies of 1 poem: p1, p2, p3, p4'."""
    return [f"{len(family)} copies of 1 poem: {', '.join(family)}" for family in families]
