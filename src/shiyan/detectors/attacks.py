"""What a cheat could do to an LLM's poem, and what it costs each detector.

The poems of LLMs in the test fold are changed, the human ones stay as they are, and so
do the detector and its threshold, which know nothing of the attack. Each attack is a
function of the text, the human poem that was imitated and a random generator; a
paraphrase is an LLM's.
"""

import os
import random
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from shiyan import lost
from shiyan import poem as parser
from shiyan.chat import AnyModelParams, Budget, Chat, ChatFailure, ChatReply, ChatRequest, Message
from shiyan.chinese import simplified, traditional
from shiyan.config import AttackName, AttackParams
from shiyan.detectors.evaluate import unusable
from shiyan.metrics import Cell, Draws, Estimate, Floats, Sampled, Threshold
from shiyan.records import Assignment, DetectorScore, Poem
from shiyan.work import WorkCache

UNIMITATED = "the human poem that it imitates is not known"


class UnattackedError(ValueError):
    """Why a poem cannot be attacked."""


@dataclass(frozen=True)
class Attacked:
    """A poem after an attack, or why there is none.

    Attributes:
        poem: with the changed text, under an id of its own; None with `reason`.
        of: the id of the poem that was attacked.
    """

    attack: AttackName
    of: str
    poem: Poem | None
    reason: str = ""


def line_breaks_removed(text: str) -> str:
    """Every stanza becomes one line."""
    return "\n\n".join("".join(stanza) for stanza in parser.stanzas(text))


def line_breaks_moved(text: str, rng: random.Random) -> str:
    """Each stanza's text is cut at other places into as many lines, each of a character or more."""
    return parser.joined(tuple(_cut_anew(stanza, rng) for stanza in parser.stanzas(text)))


def _cut_anew(stanza: tuple[str, ...], rng: random.Random) -> tuple[str, ...]:
    whole = "".join(stanza)
    places = range(1, len(whole))
    n_cuts = min(len(stanza) - 1, len(places))
    cuts = [0, *sorted(rng.sample(places, n_cuts)), len(whole)]
    # A blank at a cut is no part of either line; a line of nothing but blanks is none.
    found = (whole[a:b].strip() for a, b in pairwise(cuts))
    return tuple(line for line in found if line)


def punctuation_removed(text: str) -> str:
    """A mark at a line's end goes, one within a line becomes a blank."""
    bare = "".join(" " if _is_mark(symbol) else symbol for symbol in parser.normalised(text))
    return parser.normalised(bare)


def _is_mark(symbol: str) -> bool:
    return unicodedata.category(symbol).startswith("P")


def traditional_and_back(text: str) -> str:
    """To traditional characters and back: variants that differ then are what remains."""
    return simplified(traditional(text))


def human_lines(text: str, human: str, share: float, rng: random.Random) -> str:
    """A share of the lines, one at least, drawn by lot, gives way to lines of the human poem.

    A line is replaced by the human poem's at about the same place.
    """
    stanzas = [list(stanza) for stanza in parser.stanzas(text)]
    places = [(row, column) for row, stanza in enumerate(stanzas) for column in range(len(stanza))]
    theirs = parser.lines(human)
    n_replaced = max(1, round(share * len(places)))
    for index in rng.sample(range(len(places)), min(n_replaced, len(places))):
        row, column = places[index]
        stanzas[row][column] = theirs[index * len(theirs) // len(places)]
    return parser.joined(tuple(tuple(stanza) for stanza in stanzas))


OF_TEXT: Mapping[str, Callable[[str], str]] = {
    "line_breaks_removed": line_breaks_removed,
    "punctuation_removed": punctuation_removed,
    "traditional": traditional,
    "traditional_and_back": traditional_and_back,
}


def attacked_poems(
    poems: Mapping[str, Poem],
    assignments: Mapping[str, Assignment],
    params: AttackParams,
    paraphrases: Mapping[str, str | None],
) -> list[Attacked]:
    """Every chosen poem under every attack, in the order of the attacks.

    Args:
        paraphrases: by poem id; None where the model gave none.
    """
    victims = victims_of(poems, assignments, params)
    return [
        _attacked(name, poem, poems, params, paraphrases)
        for name in dict.fromkeys(params.names)
        for poem in victims
    ]


def victims_of(
    poems: Mapping[str, Poem], assignments: Mapping[str, Assignment], params: AttackParams
) -> list[Poem]:
    """The LLM poems of the test fold that are attacked, the same for every attack."""
    if not params.names:
        return []
    inside = [
        poem
        for poem in poems.values()
        if poem.generation is not None
        and assignments[poem.poem_id].fold == "test"
        and (params.prompts is None or poem.generation.prompt_id in params.prompts)
    ]
    groups = sorted({assignments[poem.poem_id].group_id for poem in inside})
    if params.poems is not None and params.poems < len(groups):
        groups = random.Random(params.seed).sample(groups, params.poems)
    chosen = set(groups)
    return [poem for poem in inside if assignments[poem.poem_id].group_id in chosen]


def unmet_prompts(
    poems: Mapping[str, Poem], assignments: Mapping[str, Assignment], params: AttackParams
) -> list[str]:
    """A notice where no poem is attacked of a prompt that `params.prompts` names."""
    if not params.names:
        return []
    there = {
        poem.generation.prompt_id
        for poem in poems.values()
        if poem.generation is not None and assignments[poem.poem_id].fold == "test"
    }
    unmet = [prompt for prompt in dict.fromkeys(params.prompts or ()) if prompt not in there]
    if not unmet:
        return []
    return [
        f"attacks.prompts: no LLM poem of the test fold is of {', '.join(unmet)}, so none of them "
        f"is attacked; there are {', '.join(sorted(there)) or 'none'}"
    ]


def _attacked(
    name: AttackName,
    poem: Poem,
    poems: Mapping[str, Poem],
    params: AttackParams,
    paraphrases: Mapping[str, str | None],
) -> Attacked:
    # The same draw whatever else is attacked.
    rng = random.Random(f"{params.seed}|{name}|{poem.poem_id}")
    try:
        changes = _changes(name, poem, poems, params, paraphrases, rng)
    except UnattackedError as error:
        return Attacked(name, poem.poem_id, None, str(error))
    poem_id = f"{poem.poem_id}|attack {name}"
    return Attacked(name, poem.poem_id, poem.model_copy(update={"poem_id": poem_id, **changes}))


def _changes(
    name: AttackName,
    poem: Poem,
    poems: Mapping[str, Poem],
    params: AttackParams,
    paraphrases: Mapping[str, str | None],
    rng: random.Random,
) -> dict[str, str]:
    """The poem's fields that an attack changes."""
    if name == "title_removed":
        return {"title": ""}
    if not parser.characters(poem.text):
        raise UnattackedError("no Chinese character")
    if name in OF_TEXT:
        return {"text": OF_TEXT[name](poem.text)}
    if name == "line_breaks_moved":
        return {"text": line_breaks_moved(poem.text, rng)}
    if name == "paraphrase":
        if (text := paraphrases.get(poem.poem_id)) is None:
            raise UnattackedError("the model gave no paraphrase")
        return {"text": text}
    seed_poem = poem.generation.seed_poem_id if poem.generation else None
    if seed_poem is None or not parser.lines(poems[seed_poem].text if seed_poem in poems else ""):
        raise UnattackedError(UNIMITATED)
    return {"text": human_lines(poem.text, poems[seed_poem].text, params.human_share, rng)}


def with_attacked(
    poems: Mapping[str, Poem], assignments: Mapping[str, Assignment], attacked: Sequence[Attacked]
) -> tuple[dict[str, Poem], dict[str, Assignment]]:
    """The poems and, as further poems of the test fold, what attacks made of them."""
    changed = [(item.poem, assignments[item.of]) for item in attacked if item.poem is not None]
    return (
        {**poems, **{poem.poem_id: poem for poem, _ in changed}},
        {**assignments, **{poem.poem_id: own for poem, own in changed}},
    )


def attack_records(
    scores: Iterable[DetectorScore], attacked: Sequence[Attacked], detectors: Iterable[str]
) -> list[DetectorScore]:
    """Scores of attacked poems under the attacked poem's id, and a reason where there is none.

    Args:
        scores: under the ids of `Attacked.poem`; a detector that left some out did not
            read them.
        detectors: who were to score them.
    """
    by_id = {item.poem.poem_id: item for item in attacked if item.poem is not None}
    found = [
        score.model_copy(update={"poem_id": item.of, "attack": item.attack})
        for score in scores
        if (item := by_id.get(score.poem_id)) is not None
    ]
    failed = [item for item in attacked if item.poem is None]
    return found + [
        DetectorScore(
            poem_id=item.of,
            detector=detector,
            score=None,
            unscored_reason=item.reason,
            attack=item.attack,
        )
        for detector in dict.fromkeys(detectors)
        for item in failed
    ]


# --- paraphrases ------------------------------------------------------------------------


def paraphrased(
    poems: Mapping[str, Poem],
    assignments: Mapping[str, Assignment],
    params: AttackParams,
    models: Mapping[str, AnyModelParams],
    texts: Mapping[str, str],
    cache: WorkCache,
) -> dict[str, str | None]:
    """A paraphrase of each chosen poem by `params.paraphraser`; None where it gave none.

    Args:
        texts: prompts.detection.

    Raises:
        UserError: as `Chat.ask_all`; finished replies are kept.
    """
    if "paraphrase" not in params.names or params.paraphraser is None:
        return {}
    victims = victims_of(poems, assignments, params)
    requests = {poem.poem_id: _request(poem, params, texts["paraphrase"]) for poem in victims}
    budget = Budget(params.budget, "attacks.budget")
    name = params.paraphraser
    at_once = params.requests_at_once
    with Chat(name, models[name], cache=cache, at_once=at_once, budget=budget) as chat:
        outcomes = dict(chat.ask_all(list(requests.values()), "paraphrases"))
    failed = (outcome.kind for outcome in outcomes.values() if isinstance(outcome, ChatFailure))
    # Two stages ask for paraphrases; the later one finds them kept.
    stage = os.environ.get("DVC_STAGE", "zero_shot_score")
    lost.tell(stage, lost.counted(len(outcomes), failed))
    return {poem_id: _body(outcomes[request]) for poem_id, request in requests.items()}


def _request(poem: Poem, params: AttackParams, template: str) -> ChatRequest:
    return ChatRequest(
        messages=(Message("user", template.replace("{poem}", parser.normalised(poem.text))),),
        temperature=params.temperature,
        top_p=params.top_p,
        max_tokens=params.max_tokens,
        seed=params.seed,
    )


def _body(outcome: object) -> str | None:
    """The verse of a reply; None where there is no Chinese character in it."""
    if not isinstance(outcome, ChatReply):
        return None
    answer = outcome.answer.replace("<poem>", "").replace("</poem>", "")
    verse, _ = parser.parts(answer)
    return verse if parser.characters(verse) else None


# --- what it costs ----------------------------------------------------------------------


@dataclass(frozen=True)
class Drop:
    """A detector's numbers on the attacked poems before and after, and what was lost.

    Each with all human poems of the test fold as the other class; `found` is the share
    of the LLM poems that the detector finds at its threshold.
    """

    detector: str
    attack: str
    n_changed: int
    n_human: int
    n_llm: int
    before: Mapping[str, Estimate]
    after: Mapping[str, Estimate]
    lost: Mapping[str, Estimate]


DROPS = ("auroc", "macro_f1", "found")


def drops(
    scores: Iterable[DetectorScore],
    attacked_scores: Iterable[DetectorScore],
    poems: Mapping[str, Poem],
    assignments: Mapping[str, Assignment],
    *,
    resamples: int,
    seed: int,
) -> list[Drop]:
    """Of every detector and attack, paired by poem: what lacks either score is unscored."""
    before: dict[str, dict[str, float | None]] = {}
    for score in scores:
        before.setdefault(score.detector, {})[score.poem_id] = score.score
    after: dict[tuple[str, str], dict[str, float | None]] = {}
    for score in attacked_scores:
        own = after.setdefault((score.detector, score.attack or ""), {})
        own[score.poem_id] = score.score
    test = [p for p in poems if assignments[p].fold == "test"]
    human = [p for p in test if poems[p].generation is None]
    draws = Draws.of((assignments[p].group_id for p in test), resamples, seed)
    found = []
    for (detector, attack), new in after.items():
        old = before.get(detector, {})
        threshold = _threshold(old, poems, assignments)
        both = [p for p in new if new[p] is not None and old.get(p) is not None]
        people = [p for p in human if old.get(p) is not None]
        n_unscored = len(new) - len(both) + len(human) - len(people)
        columns = draws.columns(assignments[p].group_id for p in (*people, *both))
        labels = np.array([0] * len(people) + [1] * len(both), np.int_)
        cells = [
            Cell(labels, _values(people, old, both, source), columns, draws)
            for source in (old, new)
        ]
        n_changed = sum(new[p] != old[p] for p in both)
        found.append(_drop(detector, attack, n_changed, cells, threshold, n_unscored))
    return found


def _values(
    people: Sequence[str],
    old: Mapping[str, float | None],
    both: Sequence[str],
    source: Mapping[str, float | None],
) -> Floats:
    return np.array([*(old[p] for p in people), *(source[p] for p in both)], np.float64)


def _threshold(
    scores: Mapping[str, float | None],
    poems: Mapping[str, Poem],
    assignments: Mapping[str, Assignment],
) -> Threshold | None:
    train = [p for p, s in scores.items() if s is not None and assignments[p].fold == "train"]
    labels = np.array([poems[p].label for p in train], np.int_)
    values = np.array([scores[p] for p in train], np.float64)
    return None if unusable(labels, values) else Threshold.youden(labels, values, "train:all")


def _drop(
    detector: str,
    attack: str,
    n_changed: int,
    cells: Sequence[Cell],
    threshold: Threshold | None,
    n_unscored: int,
) -> Drop:
    first = cells[0]
    n, n_llm = len(first.labels), int(first.is_llm.sum())
    counts = (n_changed, n - n_llm, n_llm)
    if reason := unusable(first.labels, first.scores):
        nothing = dict.fromkeys(DROPS, Estimate(None, None, None, n, n_unscored, reason))
        return Drop(detector, attack, *counts, nothing, nothing, nothing)
    old, new = (_numbers(cell, threshold) for cell in cells)
    lacking = Estimate(None, None, None, n, n_unscored, "no threshold")

    def told(sampled: Mapping[str, Sampled]) -> dict[str, Estimate]:
        return {
            name: sampled[name].estimate(n, first.n_groups, n_unscored)
            if name in sampled
            else lacking
            for name in DROPS
        }

    lost = {name: old[name].minus(new[name]) for name in old}
    return Drop(detector, attack, *counts, told(old), told(new), told(lost))


def _numbers(cell: Cell, threshold: Threshold | None) -> dict[str, Sampled]:
    numbers = {"auroc": cell.auroc()}
    if threshold is not None:
        numbers["macro_f1"] = cell.at_threshold(threshold)["macro_f1"]
        numbers["found"] = cell.rates(threshold)[0]
    return numbers
