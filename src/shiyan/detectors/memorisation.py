"""Does a scoring model know a poem by heart? Read off the statistics of the one pass.

A model that has often read a poem recites it: its first choice for each next token is the
poem's own, so that greedy decoding goes on with the poem (extractable memorisation: Carlini
et al., 2023, Definition 3.1). The ranks tell it without another pass: as long as every token
was the first choice, what the model has read is what it would have written. To a zero-shot
detector such a poem looks like an LLM's, and a single one decides a TPR at a low FPR.

Marks and line breaks do not count, since editions differ in them. What a poem says twice (a
refrain, lines of one pattern) a model goes on with that never met the poem, so only *new*
characters count: those in no 3-gram that stood in the poem before.

The rule is the share of new characters that are the model's first choice. Qwen2.5-Coder-1.5B
guesses 0.32 to 0.89 of each of 34 famous Song ci and flags 33, and one of 60 drawn ci (0.84); of
the other 59 and of 42 modern poems, 15 of them with refrains, none is above 0.30, none of
their beginnings of 20 characters above 0.35, and a poem with its lines shuffled is flagged
only where the poem itself is. The 0.5B knows none (0.27 at most). Whole clauses
miss more (two or more: 23 of the 34), and a mean log-probability flags refrains
(at -3: 4 of the 42).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiyan.detectors.zero_shot import ZeroShot, not_finite, plan_for, text_of, why_unread
from shiyan.poem import Spans, character_runs
from shiyan.records import Memorisation, Poem
from shiyan.token_statistics import ModelStatistics, TextStatistics

SHORTEST_LINE = 4
"""New characters of a clause that counts: shorter ones are idioms and guesses."""
BY_HEART = 0.4
"""Share of new characters that are the first choice, from which a poem is known by heart."""
FEWEST = 20
"""New characters under which a share says too little."""
NO_SPANS = "the tokenizer does not tell where in the text its tokens stand"


@dataclass(frozen=True)
class Recited:
    """How much of a text a model would recite.

    Attributes:
        n_new: characters of the text that do not repeat what stood before.
        first_choice_share, lines, lines_recited, longest_run, mean_log_probability: as in
            `Memorisation`.
    """

    n_new: int
    first_choice_share: float
    lines: int
    lines_recited: int
    longest_run: int
    mean_log_probability: float

    @property
    def by_heart(self) -> bool:
        """Whether the text is known by heart."""
        return self.n_new >= FEWEST and self.first_choice_share >= BY_HEART


def recited(text: str, spans: Spans, p: ModelStatistics) -> Recited:
    """What a model would recite of a normalised text, if it wrote greedily.

    Args:
        spans: of the text's tokens, (n,); p has a value for the last T of them.
    """
    known, new = _first_choices(spans, p), _new_characters(text)
    runs = character_runs(text)
    clauses = [
        range(*run) for run in runs[1:] if len(new.intersection(range(*run))) >= SHORTEST_LINE
    ]
    longest = here = 0
    for position in (position for run in runs for position in range(*run)):
        here = here + (position in new) if position in known else 0
        longest = max(longest, here)
    return Recited(
        len(new),
        len(new & known) / max(len(new), 1),
        len(clauses),
        sum(known.issuperset(clause) for clause in clauses),
        longest,
        float(np.mean(p.log_prob, dtype=np.float64)),
    )


def _first_choices(spans: Spans, p: ModelStatistics) -> set[int]:
    """Positions in the text all of whose tokens were the model's one first choice."""
    greedy = (p.rank == 1) & (p.ties == 0)
    first = len(spans) - len(greedy)
    missed = {i for span in spans[:first] for i in range(*span)}
    missed |= {
        i for span, hit in zip(spans[first:], greedy, strict=True) if not hit for i in range(*span)
    }
    return {i for span in spans for i in range(*span)} - missed


def _new_characters(text: str) -> set[int]:
    """Positions of the characters in no 3-gram of characters that stood before."""
    positions = [i for run in character_runs(text) for i in range(*run)]
    seen: set[str] = set()
    repeated: set[int] = set()
    for n in range(len(positions) - 2):
        here = positions[n : n + 3]
        gram = "".join(text[i] for i in here)
        if gram in seen:
            repeated.update(here)
        seen.add(gram)
    return set(positions) - repeated


def memorised(
    zero_shot: ZeroShot, poems: Iterable[Poem], statistics: Mapping[str, TextStatistics]
) -> list[Memorisation]:
    """What each model that speaks for itself knows of each poem; only human ones are flagged.

    An LLM's poem that its own model would write again is nothing memorised.
    """
    names = plan_for(zero_shot.detectors, zero_shot.roles).models
    return [
        _of_poem(zero_shot, poem, statistics[poem.poem_id], name)
        for poem in poems
        for name in names
    ]


def _of_poem(
    zero_shot: ZeroShot, poem: Poem, statistics: TextStatistics, model: str
) -> Memorisation:
    text = text_of(poem, zero_shot.text)
    reason = why_unread(text, statistics, zero_shot.reading)
    if reason is None and not np.isfinite(statistics.models[model].log_prob).all():
        reason = not_finite(model)
    spans = statistics.spans
    if reason is not None or spans is None:
        reason = reason or NO_SPANS
        return Memorisation(poem_id=poem.poem_id, model=model, unscored_reason=reason)
    found = recited(text, spans, statistics.models[model])
    return Memorisation(
        poem_id=poem.poem_id,
        model=model,
        lines=found.lines,
        lines_recited=found.lines_recited,
        longest_run=found.longest_run,
        first_choice_share=found.first_choice_share,
        mean_log_probability=found.mean_log_probability,
        by_heart=found.by_heart,
        flagged=found.by_heart and poem.generation is None,
    )


def counted(found: Sequence[Memorisation], poems: Mapping[str, Poem]) -> dict[str, Any]:
    """For the metrics: the rule, and by model which human poems are flagged; LLMs' apart."""
    counts: dict[str, Any] = {"rule": RULE}
    for model in dict.fromkeys(record.model for record in found):
        own = [record for record in found if record.model == model]
        human = [record for record in own if poems[record.poem_id].generation is None]
        counts[model] = {
            "n_human": len(human),
            "n_flagged": sum(record.flagged for record in human),
            "flagged": [record.poem_id for record in human if record.flagged],
            "n_llm": len(own) - len(human),
            "n_llm_recited": sum(record.by_heart and not record.flagged for record in own),
            "n_unscored": sum(record.unscored_reason is not None for record in own),
        }
    return counts


def told(found: Iterable[Memorisation]) -> list[str]:
    """A sentence for each model that knows human poems by heart."""
    flagged: dict[str, list[str]] = {}
    for record in found:
        if record.flagged:
            flagged.setdefault(record.model, []).append(record.poem_id)
    return [
        f"{model} knows {len(ids)} human poems by heart ({', '.join(ids[:3])}"
        f"{' …' if len(ids) > 3 else ''}), which its detectors take for an LLM's"
        for model, ids in flagged.items()
    ]


RULE = (
    f"known by heart: of {FEWEST} or more characters that repeat nothing before them, "
    f"{BY_HEART:.0%} or more are the model's first choice"
)
