"""What a judge is asked to score, on which scale, and under which names."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from shiyan.errors import UserError


@dataclass(frozen=True)
class Dimension:
    """One thing to score.

    Attributes:
        name: as it stands in prompts, records and metrics.
        aliases: other names a judge may give it. A name that is not listed is not
            guessed: 情绪 is no score for 思想情感.
    """

    name: str
    aliases: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)


@dataclass(frozen=True)
class Rubric:
    """Dimensions and their scale.

    Attributes:
        name: results of two rubrics are never pooled.
        lowest, highest: the ends of the scale, both allowed.
        asides: what a prompt names beside the dimensions; read over, never scored.
    """

    name: str
    dimensions: tuple[Dimension, ...]
    lowest: float
    highest: float
    asides: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dimension.name for dimension in self.dimensions)

    def allows(self, score: float) -> bool:
        return self.lowest <= score <= self.highest

    def dimension(self, key: str) -> str | None:
        """The dimension that a column, a table cell or a JSON key is the name of, as a whole."""
        return dimension_of(key, self)

    def only(self, dimension: str) -> "Rubric":
        """The rubric for a reading of one dimension (Poller, section 8), or of `all`.

        Raises:
            UserError: there is no such dimension.
        """
        if dimension == "all":
            return self
        chosen = tuple(d for d in self.dimensions if dimension in d.names)
        if not chosen:
            raise UserError(
                f"{dimension!r} is no dimension of the rubric {self.name}; "
                f"allowed are all, {', '.join(self.names)}"
            )
        return replace(self, dimensions=chosen)

    def spellings(self) -> Iterator[tuple[str, str]]:
        """Every (spelling, dimension name), the longest spelling first."""
        pairs = [(spelling, d.name) for d in self.dimensions for spelling in d.names]
        yield from sorted(pairs, key=lambda pair: -len(pair[0]))


_POLLER_DIMENSIONS = (
    Dimension("内容", ("主要内容", "诗歌内容", "Contents", "Content", "Cont")),
    Dimension("语言", ("诗歌语言", "语言表达", "Use of Language", "Language", "Lang")),
    Dimension("意象", ("意像", "Imageries", "Imagery", "Imag")),
    Dimension(
        "修辞手法",
        (
            "修辞技巧",
            "修辞手段",
            "修辞方法",
            "修辞方式",
            "修辞",
            "Rhetorical Techniques",
            "Rhetorical Technique",
            "Rhetorical Devices",
            "rhetorical_techniques",
            "Rhetoric",
            "Rhet",
        ),
    ),
    Dimension("节奏", ("诗歌节奏", "节奏感", "Rhythm", "Rhyt")),
    Dimension(
        "陌生化",
        (
            "陌生化表达",
            "陌生化手法",
            "陌生化效果",
            "Defamiliarization",
            "Defamiliarisation",
            "Defa",
        ),
    ),
    Dimension(
        "思想情感",
        (
            "思想与情感",
            "思想和情感",
            "思想及情感",
            "思想、情感",
            "思想/情感",
            "思想&情感",
            "思想 & 情感",
            "思想感情",
            "情感思想",
            "情感与思想",
            "Thought & Emotion",
            "Thoughts & Emotions",
            "Thought and Emotion",
            "Thoughts and Emotions",
            "Thought/Emotion",
            "thought_emotion",
            "thought_and_emotion",
            "Thou",
        ),
    ),
    Dimension("现代性", ("现代意识", "Modernity", "Mode")),
)

_POETIC_SENTENCE = (
    "最具诗意的句子",
    "最有诗意的句子",
    "最富诗意的句子",
    "最具诗意的一句",
    "最有诗意的一句",
    "最具诗意句",
    "最有诗意句",
    "最具诗意",
    "诗意句",
    "诗意",
    "The Most Poetic Sentence",
    "Most Poetic Sentence",
    "Poeticity",
)
"""Prompts 1, 2 and 4 ask about it (Tables 7-9); neither people nor the paper's tables score it."""

POLLER = Rubric("poller", _POLLER_DIMENSIONS, 0, 100, _POETIC_SENTENCE)
"""Poller, section 4.1: eight dimensions, 0 (wholly wrong) to 100 (wholly right)."""

POLLER_CI = replace(POLLER, name="poller_ci")
"""The same for readings of ci, whose prompts are others; never pooled with `POLLER`."""

CI_QUALITY = Rubric(
    "ci_quality",
    (
        Dimension("信息量", ("内容信息量", "信息性", "Informativeness", "Informative")),
        Dimension("审美", ("审美性", "艺术性", "美感", "Aesthetics", "Aesthetic")),
    ),
    1,
    5,
)
"""CCiV, section 2.3: substance, and artistic merit with coherence to the theme."""

RUBRICS = {rubric.name: rubric for rubric in (POLLER, POLLER_CI, CI_QUALITY)}


# --- names of dimensions ------------------------------------------------------------


@lru_cache(maxsize=64)
def name_pattern(rubric: Rubric) -> tuple[re.Pattern[str], Mapping[str, str | None]]:
    """A pattern of every spelling, and spelling -> dimension (None: named, not scored)."""
    meaning: dict[str, str | None] = {folded(a): None for a in rubric.asides}
    meaning |= {folded(spelling): name for spelling, name in rubric.spellings()}
    spellings = sorted([s for s, _ in rubric.spellings()] + list(rubric.asides), key=len)
    return re.compile("|".join(map(_spelled, reversed(spellings))), re.I), meaning


def folded(spelling: str) -> str:
    return re.sub(r"[\s_&-]+", "", spelling).lower()


def _spelled(name: str) -> str:
    """A pattern of one spelling; a Latin one stands as a word of its own, blanks are free."""
    pattern = r"[\s_-]*".join(re.escape(part) for part in re.split(r"[\s_]+", name))
    return rf"(?<![a-zA-Z]){pattern}(?![a-zA-Z])" if name[0].isascii() else pattern


def dimension_of(key: str, rubric: Rubric) -> str | None:
    """The dimension that a table cell or a JSON key is the name of, as a whole."""
    bare = re.sub(r"^[\s\d.、)）(（*_`#]+|[\s*_`:：]+$", "", key)
    bare = re.sub(r"[（(][^（）()]*[)）]$", "", bare).strip()
    bare = re.sub(r"(?:维度|方面|的?理解)$", "", bare)
    return name_pattern(rubric)[1].get(folded(bare))
