"""An LLM as detector: it is asked who wrote a poem, and how sure it is.

The question offers two lettered answers. Where the server tells log-probabilities, the
score is ln p(LLM) - ln p(human) of the letters at the answer's first letter; elsewhere
it is the verdict, 1 or -1. Models prefer a letter whatever it stands for, so the answers
may change places in a second request; the score is then the mean of both.
"""

import math
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from shiyan import poem as parser
from shiyan.chat import AnyModelParams, Budget, Chat, ChatFailure, ChatReply, ChatRequest, Message
from shiyan.config import AskedParams
from shiyan.families import family_of
from shiyan.records import Assignment, DetectorScore, Poem
from shiyan.work import WorkCache

LETTERS = ("A", "B")
TOP = 20
"""Most likely tokens that a server is asked for at each place; no common server gives more."""

LEAST_LEFT = 1e-6
"""Probability that a server's rounded log-probabilities may leave to tokens untold."""
LONE_LETTER = re.compile(r"(?<![A-Za-z])(A(?! [a-z])|B)(?![A-Za-z])")
NAMED_ANSWER = re.compile(r"(?:答案|[Aa]nswer)(?:是|为| is)?[^\w\n]*([AB])(?![A-Za-z])")

NOT_ASKED = "not asked about: zero_shot_score.asked.poems limits it"

LogProbabilities = Sequence[Sequence[tuple[str, float]]]
"""The likeliest tokens and their ln p at each place of a reply."""


@dataclass(frozen=True)
class Question:
    """One request about one poem."""

    poem_id: str
    llm_letter: str
    request: ChatRequest


@dataclass
class Asked:
    """What was answered.

    Attributes:
        scores: of every poem that was asked about, by every detector.
        made: how the scores were made.
    """

    scores: list[DetectorScore] = field(default_factory=list)
    made: dict[str, str] = field(default_factory=dict)


def detector_name(model: str, shots: int) -> str:
    return f"asked_{model}" + (f"_{shots}_shots" if shots else "")


def ask(
    poems: Mapping[str, Poem],
    attacked: Mapping[str, Poem],
    assignments: Mapping[str, Assignment],
    params: AskedParams,
    models: Mapping[str, AnyModelParams],
    texts: Mapping[str, str],
    cache: WorkCache,
) -> Asked:
    """Ask every model about the chosen poems, with each number of examples.

    Args:
        attacked: attacked poems under ids of their own; all of them are asked about.
        texts: prompts.detection.

    Raises:
        UserError: as `Chat.ask_all`; finished replies are kept.
    """
    chosen = {**chosen_poems(poems, assignments, params), **attacked}
    examples = shown_examples(poems, assignments, params.seed)
    budget = Budget(params.budget, "asking.asked.budget")
    found = Asked()
    for name in params.models:
        chat = Chat(name, models[name], cache=cache, at_once=params.requests_at_once, budget=budget)
        with chat:
            for shots in params.shots:
                detector = detector_name(name, shots)
                questions = [
                    question
                    for poem in chosen.values()
                    for question in _questions(
                        poem, shots, _others(poem, examples, assignments), params, texts
                    )
                ]
                answers = _answers(chat, questions, params.log_probabilities)
                scores, how = _scores(detector, chosen, questions, answers)
                found.scores += scores + _not_asked(detector, poems, chosen)
                found.made[detector] = (
                    f"{chat.identity}, {shots} examples a class, "
                    f"{'both orders' if params.both_orders else 'one order'}, score: {how}"
                )
    return found


def _not_asked(
    detector: str, poems: Mapping[str, Poem], chosen: Mapping[str, Poem]
) -> list[DetectorScore]:
    return [
        DetectorScore(poem_id=p, detector=detector, score=None, unscored_reason=NOT_ASKED)
        for p in poems
        if p not in chosen
    ]


def chosen_poems(
    poems: Mapping[str, Poem], assignments: Mapping[str, Assignment], params: AskedParams
) -> dict[str, Poem]:
    """All poems, or those of groups of `params.poems` human poems in each fold."""
    if params.poems is None:
        return dict(poems)
    kept: set[str] = set()
    for fold in ("train", "test"):
        human = sorted(
            assignments[p].group_id
            for p, poem in poems.items()
            if poem.generation is None and assignments[p].fold == fold
        )
        groups = sorted(set(human))
        size = min(params.poems, len(groups))
        kept |= set(random.Random(f"{params.seed}|{fold}").sample(groups, size))
    return {p: poem for p, poem in poems.items() if assignments[p].group_id in kept}


@dataclass(frozen=True)
class Example:
    """A train poem with its answer."""

    poem: Poem
    group: str


def shown_examples(
    poems: Mapping[str, Poem], assignments: Mapping[str, Assignment], seed: int
) -> dict[int, list[Example]]:
    """Label -> train poems in the order in which they are shown, each of another group."""
    rng = random.Random(seed)
    found: dict[int, list[Example]] = {0: [], 1: []}
    order = [p for p in sorted(poems) if assignments[p].fold == "train"]
    rng.shuffle(order)
    seen: set[tuple[int, str]] = set()
    for poem_id in order:
        poem, group = poems[poem_id], assignments[poem_id].group_id
        if (poem.label, group) not in seen and parser.characters(poem.text):
            seen.add((poem.label, group))
            found[poem.label].append(Example(poem, group))
    return found


def _others(
    poem: Poem,
    examples: Mapping[int, Sequence[Example]],
    assignments: Mapping[str, Assignment],
) -> dict[int, list[Example]]:
    """The examples but the poem itself and all of its group, its near-duplicates too."""
    own = {family_of(poem)}
    if (assignment := assignments.get(poem.poem_id)) is not None:
        own.add(assignment.group_id)
    return {
        label: [e for e in of_label if own.isdisjoint((family_of(e.poem), e.group))]
        for label, of_label in examples.items()
    }


def _questions(
    poem: Poem,
    shots: int,
    examples: Mapping[int, Sequence[Example]],
    params: AskedParams,
    texts: Mapping[str, str],
) -> list[Question]:
    if not parser.characters(poem.text):
        return []
    orders = LETTERS if params.both_orders else LETTERS[1:]
    return [
        Question(poem.poem_id, letter, _request(poem, letter, shots, examples, params, texts))
        for letter in orders
    ]


def _request(
    poem: Poem,
    llm_letter: str,
    shots: int,
    examples: Mapping[int, Sequence[Example]],
    params: AskedParams,
    texts: Mapping[str, str],
) -> ChatRequest:
    letter_of = {1: llm_letter, 0: other(llm_letter)}
    answers = {
        letter_of[0]: texts["human"].replace("{letter}", letter_of[0]),
        letter_of[1]: texts["llm"].replace("{letter}", letter_of[1]),
    }
    shown = [
        (examples[label][number].poem, letter_of[label])
        for number, label in product(range(shots), (0, 1))
        if number < len(examples[label])
    ]
    told = "\n".join(
        texts["example"].replace("{letter}", letter).replace("{poem}", parser.normalised(p.text))
        for p, letter in shown
    )
    fields = {
        "{first}": answers[LETTERS[0]],
        "{second}": answers[LETTERS[1]],
        "{examples}": texts["examples"].replace("{shown}", told) if shown else "",
        "{poem}": parser.normalised(poem.text),
    }
    # In one pass: nothing is filled in within what was filled in.
    pattern = "|".join(map(re.escape, fields))
    content = re.sub(pattern, lambda name: fields[name[0]], texts["question"])
    return ChatRequest(
        messages=(Message("user", content),),
        temperature=0.0,
        top_p=1.0,
        max_tokens=params.max_tokens,
        seed=params.seed,
        top_log_probs=TOP if params.log_probabilities else 0,
    )


def other(letter: str) -> str:
    """The other of the two letters."""
    return LETTERS[1 - LETTERS.index(letter)]


# --- answers ----------------------------------------------------------------------------


def log_odds(places: LogProbabilities, llm_letter: str) -> float | None:
    """ln p(LLM) - ln p(human) at the first place where a letter is the likeliest token.

    A letter that is not among the tokens told is as likely as the least likely of them at
    most, and as what they leave of 1, and is taken for that: the log-odds are then a lower
    bound of their size.
    """
    for place in places:
        told = [(token, log_p) for token, log_p in place if math.isfinite(log_p)]
        letters = _letters(told)
        if letters and _letter_of(told[0][0]):
            left = max(1 - sum(math.exp(log_p) for _, log_p in told), LEAST_LEFT)
            floor = min(math.log(left), *(log_p for _, log_p in told))
            return letters.get(llm_letter, floor) - letters.get(other(llm_letter), floor)
    return None


def _letters(place: Sequence[tuple[str, float]]) -> dict[str, float]:
    """ln of each letter's probability, its spellings (" A", "A.") together."""
    found: dict[str, list[float]] = {}
    for token, log_p in place:
        if letter := _letter_of(token):
            found.setdefault(letter, []).append(math.exp(log_p))
    return {letter: math.log(sum(ps)) for letter, ps in found.items() if sum(ps) > 0}


def _letter_of(token: str) -> str | None:
    bare = token.strip().strip('.。．、，:：()（）*"“”').upper()
    return bare if bare in LETTERS else None


def verdict(answer: str, llm_letter: str) -> float | None:
    """1 for an LLM, -1 for a person, None where the answer names no letter or both.

    A letter that belongs to a word (AI, human, the article in "A human wrote it") is none;
    one that is named as the answer goes before others.
    """
    bare = _letter_of(answer)
    named = {bare} if bare else set(NAMED_ANSWER.findall(answer))
    if len(named) != 1:
        named = set(LONE_LETTER.findall(answer))
    if len(named) != 1:
        return None
    return 1.0 if named == {llm_letter} else -1.0


def _answers(
    chat: Chat, questions: Sequence[Question], log_probabilities: bool
) -> dict[ChatRequest, ChatReply | ChatFailure]:
    """Each question's outcome; a server that minds being asked for log-probabilities is not."""
    requests = [question.request for question in questions]
    if log_probabilities and requests:
        first = chat.kept(requests[0]) or chat.ask(requests[0])
        if isinstance(first, ChatFailure) and first.kind == "rejected":
            plain = [replace(request, top_log_probs=0) for request in requests]
            found = dict(chat.ask_all(plain, "verdicts"))
            return {r: found[p] for r, p in zip(requests, plain, strict=True)}
    return dict(chat.ask_all(requests, "verdicts"))


def _scores(
    detector: str,
    poems: Mapping[str, Poem],
    questions: Iterable[Question],
    answers: Mapping[ChatRequest, ChatReply | ChatFailure],
) -> tuple[list[DetectorScore], str]:
    """(a record for every poem, what the score is): all log-odds, or all verdicts."""
    by_poem: dict[str, list[Question]] = {}
    for question in questions:
        by_poem.setdefault(question.poem_id, []).append(question)
    replies = [a for a in answers.values() if isinstance(a, ChatReply)]
    surely = any(reply.log_probs for reply in replies)
    records = []
    for poem_id in poems:
        values = [
            _read(answers[question.request], question.llm_letter, surely)
            for question in by_poem.get(poem_id, [])
        ]
        reasons = [value for value in values if isinstance(value, str)]
        numbers = [value for value in values if not isinstance(value, str)]
        if not values:
            reasons = ["no Chinese character"]
        records.append(
            DetectorScore(
                poem_id=poem_id,
                detector=detector,
                score=None if reasons else sum(numbers) / len(numbers),
                unscored_reason=reasons[0] if reasons else None,
            )
        )
    return records, "log-odds of the answer's letters" if surely else "the verdict, 1 or -1"


def _read(outcome: ChatReply | ChatFailure, llm_letter: str, surely: bool) -> float | str:
    """A score, or why there is none."""
    if isinstance(outcome, ChatFailure):
        return f"{outcome.kind}: {outcome.reason}"
    if not surely:
        called = verdict(outcome.answer, llm_letter)
        return called if called is not None else f"no verdict in {outcome.answer[:40]!r}"
    if not outcome.log_probs:
        return "the server told no log-probabilities for this reply"
    found = log_odds(outcome.log_probs, llm_letter)
    return found if found is not None else f"no verdict in {outcome.answer[:40]!r}"
