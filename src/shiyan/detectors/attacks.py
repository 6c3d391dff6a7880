"""What a cheat could do to an LLM's poem.

Poems of LLMs in the test fold are changed; detectors and their thresholds know nothing
of it. Each attack is a function of the text, the human poem that was imitated and a
random generator; a paraphrase is an LLM's. What needs no imitated poem is also done to
the human poems of the same groups: an attack that moves both classes alike hides nobody.
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

from shiyan import lost
from shiyan import poem as parser
from shiyan.chat import AnyModelParams, Budget, Chat, ChatFailure, ChatReply, ChatRequest, Message
from shiyan.chinese import simplified, traditional
from shiyan.config import AttackName, AttackParams
from shiyan.records import Assignment, AttackedPoem, Poem
from shiyan.work import WorkCache

UNIMITATED = "the human poem that it imitates is not known"


class UnattackedError(ValueError):
    """Why a poem cannot be attacked."""


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
    "punctuation_removed": parser.unpunctuated,
    "traditional": traditional,
    "traditional_and_back": traditional_and_back,
}


OF_LLM_ALONE: frozenset[AttackName] = frozenset({"human_lines", "paraphrase"})
"""Done to no human poem: they take a poem that was imitated, or make an LLM's of it."""


def attacked_poems(
    poems: Mapping[str, Poem],
    assignments: Mapping[str, Assignment],
    params: AttackParams,
    paraphrases: Mapping[str, str | None],
) -> list[AttackedPoem]:
    """Every chosen poem under every attack, in the order of the attacks.

    Args:
        paraphrases: by poem id; None where the model gave none.
    """
    victims = victims_of(poems, assignments, params)
    human = _human_beside(victims, poems, assignments)
    return [
        _attacked(name, poem, poems, params, paraphrases)
        for name in dict.fromkeys(params.names)
        for poem in (victims if name in OF_LLM_ALONE else [*victims, *human])
    ]


def _human_beside(
    victims: Iterable[Poem], poems: Mapping[str, Poem], assignments: Mapping[str, Assignment]
) -> list[Poem]:
    """The human poems of the test fold in the groups of the victims."""
    groups = {assignments[poem.poem_id].group_id for poem in victims}
    return [
        poem
        for poem in poems.values()
        if poem.generation is None
        and assignments[poem.poem_id].fold == "test"
        and assignments[poem.poem_id].group_id in groups
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
) -> AttackedPoem:
    # The same draw whatever else is attacked.
    rng = random.Random(f"{params.seed}|{name}|{poem.poem_id}")
    try:
        changes = _changes(name, poem, poems, params, paraphrases, rng)
    except UnattackedError as error:
        return _record(name, poem, None, str(error))
    poem_id = f"{poem.poem_id}|attack {name}"
    return _record(name, poem, poem.model_copy(update={"poem_id": poem_id, **changes}))


def _record(name: AttackName, poem: Poem, changed: Poem | None, reason: str = "") -> AttackedPoem:
    return AttackedPoem(
        attack=name,
        of=poem.poem_id,
        of_human=poem.generation is None,
        poem=changed,
        reason=reason,
    )


def attack_metrics(attacked: Iterable[AttackedPoem]) -> dict[str, Any]:
    """Attack -> attacked poems of each class, and poems that were not attacked by reason."""
    found: dict[str, dict[str, Any]] = {}
    for item in attacked:
        counts = found.setdefault(item.attack, {"human": 0, "llm": 0, "missing": Counter()})
        if item.poem is None:
            counts["missing"][item.reason] += 1
        else:
            counts["human" if item.of_human else "llm"] += 1
    return found


def _changes(
    name: AttackName,
    poem: Poem,
    poems: Mapping[str, Poem],
    params: AttackParams,
    paraphrases: Mapping[str, str | None],
    rng: random.Random,
) -> dict[str, str]:
    """The poem's fields that an attack changes."""
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
    budget = Budget(params.budget, "asking.attacks.budget")
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
