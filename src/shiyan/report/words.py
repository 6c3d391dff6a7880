"""Words of poems: nouns (AIGenPoetry, Table 9) and words that name an emotion (A.4).

Words and parts of speech are those of jieba's dictionary, which `rjieba` carries in its
wheel. Words that are not in it are not guessed: in verse the guess glues characters that
meet by chance (光落), and of eighty 风 finds thirty. A line's end ends a word.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Literal

from shiyan import poem as parser
from shiyan.chinese import simplified
from shiyan.records import Poem
from shiyan.report.documents import Document, packaged

Tagged = tuple[str, str]
"""A word and its part of speech, in jieba's tags."""

Lists = Mapping[str, frozenset[str]]
"""Emotion -> the words that name it."""


def _data() -> Document:
    return packaged("words.json")


@cache
def emotion_lists(reading: Literal["wide", "narrow"]) -> Lists:
    """The emotions that P10 … P13 ask for, in their order, and the words that name them.

    A list of ours, since the paper prints none: `wide` holds words of each emotion,
    `narrow` those by which the prompts themselves ask for it.
    """
    lists = _data()["emotions"][reading]
    return {name: frozenset(words.split()) for name, words in lists.items()}


@cache
def not_nouns() -> frozenset[str]:
    """Words that the dictionary enters as nouns and verse uses otherwise (飞, 美丽)."""
    return frozenset(_data()["not_nouns"]["words"].split())


def segmenter() -> str:
    """Name and version of what parted the words; part of a number's signature."""
    return f"rjieba {version('rjieba')} (jieba's dictionary, no new words guessed)"


def tagged(text: str) -> Iterator[Tagged]:
    """The words of a body with their tags, line by line, in simplified characters."""
    import rjieba

    for line in parser.lines(simplified(text)):
        yield from rjieba.tag(line, hmm=False)


def is_noun(word: str, tag: str) -> bool:
    """A noun by jieba's tags, names included (n, ng, nr, ns, nt, nz), of characters alone.

    A tag is the dictionary's, whatever stands around the word; `not_nouns` corrects the
    worst of that.
    """
    return tag.startswith("n") and parser.characters(word) == word and word not in not_nouns()


@dataclass(frozen=True)
class Words:
    """What was counted in some poems.

    Attributes:
        nouns: noun -> how often it stands in the bodies.
        wide: of each poem, in order, the emotions that it names.
        narrow: the same by the narrow list.
    """

    nouns: Counter[str]
    wide: Sequence[frozenset[str]]
    narrow: Sequence[frozenset[str]]

    def most_frequent(self, count: int) -> list[tuple[str, int]]:
        """Nouns with their frequency, the most frequent first; ties by code point."""
        return sorted(self.nouns.items(), key=lambda item: (-item[1], item[0]))[:count]


def words_of(poems: Iterable[Poem]) -> Words:
    """Nouns and emotions of the bodies; titles, which a prompt gives, are left out."""
    nouns: Counter[str] = Counter()
    wide: list[frozenset[str]] = []
    narrow: list[frozenset[str]] = []
    for poem in poems:
        words = list(tagged(poem.text))
        nouns.update(word for word, tag in words if is_noun(word, tag))
        there = {word for word, _ in words}
        wide.append(named(there, emotion_lists("wide")))
        narrow.append(named(there, emotion_lists("narrow")))
    return Words(nouns, wide, narrow)


def named(words: set[str], lists: Lists) -> frozenset[str]:
    """The emotions of which a word is among these; a denied one (不快乐) is named too."""
    return frozenset(emotion for emotion, names in lists.items() if not names.isdisjoint(words))
