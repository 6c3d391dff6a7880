"""Which readings are judged by whom under which prompt: every judgment that is to exist."""

import itertools
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from shiyan.chat import AnyModelParams, structured_by
from shiyan.config import JudgeParams, PromptTexts
from shiyan.errors import UserError
from shiyan.judging.prompts import (
    Answer,
    JudgePrompt,
    Texts,
    judge_prompt,
    poller_request,
    quality_request,
)
from shiyan.judging.rubric import RUBRICS, Rubric
from shiyan.judging.shape import shape
from shiyan.records import Persona, Poem, Understanding

QUALITY = "quality"
"""The prompt_id of ci quality ratings."""

GENRE = {"poller": "modern", "poller_ci": "ci"}
"""The prompts of a set name the genre, so they fit no other."""


@dataclass(frozen=True)
class Task:
    """One judgment that is to exist."""

    item_id: str
    poem_id: str
    judge: str
    prompt_id: str
    rubric: Rubric
    sample_index: int = 0
    persona_id: str | None = None
    text: str = ""
    """The request; empty where there is an obstacle."""
    again: str = ""
    """How to ask once more; see `prompts.again_request`."""
    schema: str | None = None
    """The shape that the reply is held to, where the judge's server can do that."""
    obstacle: str | None = None
    """Why nobody can be asked."""

    @property
    def judgment_id(self) -> str:
        parts = (self.item_id, self.judge, self.rubric.name, self.prompt_id, str(self.sample_index))
        return "/".join(parts)


def plan_readings(
    params: JudgeParams,
    texts: Texts,
    poems: Iterable[Poem],
    personas: Iterable[Persona],
    understandings: Iterable[Understanding],
    *,
    probes: Iterable[Understanding] = (),
    structured: Collection[str] = (),
) -> list[Task]:
    """Every judgment of the readings, in the order in which they are best asked.

    One judge after the other; within it persona by persona and prompt by prompt, then
    poem by poem: neighbours share the longest common beginning, which a server keeps.

    Args:
        probes: doctored readings, judged with `params.probe_prompts` alone.
        structured: judges that are asked for JSON; see `structured_judges`.

    Raises:
        UserError: an unknown prompt, two readings of one item_id, a reading of an unknown
            poem or dimension, or a poem of a genre that the prompt set is not for.
    """
    poem_of = {poem.poem_id: poem for poem in poems}
    persona_of = {persona.poet_id: persona for persona in personas}
    understandings = list(understandings)
    cells_of = _Cells(params, understandings)
    tasks: dict[str, Task] = {}
    judged = [*((False, reading) for reading in understandings), *((True, r) for r in probes)]
    for is_probe, reading in judged:
        poem = _read_poem(reading, poem_of, params.prompt_set)
        for judge, prompt_id in cells_of(reading, is_probe):
            prompt, asks_json = judge_prompt(prompt_id), judge in structured
            first = _task(
                params, texts, judge, prompt_id, prompt, poem, reading, persona_of, asks_json
            )
            for sample in range(params.repeats):
                task = replace(first, sample_index=sample)
                if task.judgment_id in tasks:
                    raise UserError(
                        f"two readings have the item_id {task.item_id!r}; give them names "
                        "of their own, since judgments and ratings go by it"
                    )
                tasks[task.judgment_id] = task
    judges = list(params.judges)
    return sorted(
        tasks.values(),
        key=lambda task: (
            judges.index(task.judge),
            task.persona_id or "",
            task.prompt_id,
            task.poem_id,
            task.item_id,
            task.sample_index,
        ),
    )


Cell = tuple[str, str]
"""A judge and a prompt."""


class _Cells:
    """By which judges and prompts a reading is judged.

    Raises:
        UserError: an unknown prompt or dimension in the parameters.
    """

    def __init__(self, params: JudgeParams, understandings: Iterable[Understanding]) -> None:
        self._rubric = RUBRICS[params.prompt_set]
        self._usual = _pairs(params.models, params.prompts)
        self._of_probes = _pairs(params.models, _probe_prompts(params))
        self._of_dimension = {
            self._rubric.only(dimension).names[0]: (judge.model, judge.prompt)
            for dimension, judge in params.by_dimension.items()
        }
        for _, prompt_id in (*self._usual, *self._of_dimension.values()):
            judge_prompt(prompt_id)
        # Poem -> the judges of its readings of one dimension.
        self._beside: dict[str, list[Cell]] = {}
        for reading in understandings:
            if (cell := self._alone(reading)) is not None:
                self._beside.setdefault(reading.poem_id, []).append(cell)

    def _alone(self, reading: Understanding) -> Cell | None:
        """The one judge of a reading of one dimension, where the parameters name one."""
        names = self._rubric.only(reading.dimension).names
        return self._of_dimension.get(names[0]) if len(names) == 1 else None

    def __call__(self, reading: Understanding, is_probe: bool) -> Iterable[Cell]:
        if is_probe:
            return self._of_probes
        if (cell := self._alone(reading)) is not None:
            return [cell]
        # Readings of all are judged by the same judge, so that the two can be paired.
        beside = self._beside.get(reading.poem_id, []) if reading.source != "constructed" else []
        return dict.fromkeys((*self._usual, *beside))


def _pairs(models: Iterable[str], prompts: Iterable[str]) -> list[Cell]:
    return list(dict.fromkeys(itertools.product(models, prompts)))


def _probe_prompts(params: JudgeParams) -> Sequence[str]:
    """Raises UserError where a probe's prompt is none of the prompts."""
    if params.probe_prompts is None:
        return params.prompts
    for prompt_id in params.probe_prompts:
        if prompt_id not in params.prompts:
            raise UserError(
                f"judge.probe_prompts names {prompt_id!r}, which judge.prompts does not: a probe "
                "is compared with the true reading under the same prompt",
                2,
            )
    return params.probe_prompts


def structured_judges(params: JudgeParams, models: Mapping[str, AnyModelParams]) -> frozenset[str]:
    """The judges that are asked for JSON: all whose server can be held to it, if wanted."""
    if not params.structured:
        return frozenset()
    return frozenset(name for name in params.judges if structured_by(models[name]) is not None)


def _task(
    params: JudgeParams,
    texts: Texts,
    judge: str,
    prompt_id: str,
    prompt: JudgePrompt,
    poem: Poem,
    reading: Understanding,
    persona_of: Mapping[str, Persona],
    asks_json: bool,
) -> Task:
    """The first sample of a reading by a judge under a prompt."""
    persona = persona_of.get(poem.author)
    lacks = prompt.persona and persona is None
    rubric = RUBRICS[params.prompt_set].only(reading.dimension)
    answer = Answer.JSON if asks_json else Answer.LINES
    text = "" if lacks else poller_request(prompt, texts, rubric, poem, reading, persona, answer)
    return Task(
        item_id=reading.item_id,
        poem_id=poem.poem_id,
        judge=judge,
        prompt_id=prompt_id,
        rubric=rubric,
        persona_id=poem.author if prompt.persona else None,
        text=text,
        again=texts["again_json" if asks_json else "again"],
        schema=shape(rubric, prompt.declares_role) if asks_json else None,
        obstacle=f"there is no persona of {poem.author!r}" if lacks else None,
    )


def plan_quality(
    params: JudgeParams,
    texts: Texts,
    poems: Iterable[Poem],
    *,
    structured: Collection[str] = (),
) -> list[Task]:
    """Ratings of ci on Informativeness and Aesthetic (CCiV, section 2.3), a judge after the other.

    `params.quality_poems` of each source, drawn by seed: of the human ci, and of every
    generator with every prompt.
    """
    rubric = RUBRICS["ci_quality"]
    sources: dict[str, list[Poem]] = {}
    for poem in poems:
        if poem.genre == "ci":
            sources.setdefault(source_of(poem), []).append(poem)
    chosen: list[Poem] = []
    for source, own in sorted(sources.items()):
        drawn = random.Random(f"{params.seed}|{source}")
        own = sorted(own, key=lambda poem: poem.poem_id)
        chosen += drawn.sample(own, min(params.quality_poems, len(own)))
    tasks = []
    for judge in dict.fromkeys(params.models):
        asks_json = judge in structured
        answer = Answer.JSON if asks_json else Answer.LINES
        for poem in chosen:
            first = Task(
                poem.poem_id,
                poem.poem_id,
                judge,
                QUALITY,
                rubric,
                text=quality_request(texts, rubric, poem, answer),
                again=texts["again_json" if asks_json else "again"],
                schema=shape(rubric, False) if asks_json else None,
            )
            tasks += [replace(first, sample_index=sample) for sample in range(params.repeats)]
    return tasks


def source_of(poem: Poem) -> str:
    """`human`, or the generator and its prompt."""
    if poem.generation is None:
        return "human"
    return f"{poem.generation.generator} {poem.generation.prompt_id}"


def _read_poem(understanding: Understanding, poem_of: Mapping[str, Poem], prompt_set: str) -> Poem:
    poem = poem_of.get(understanding.poem_id)
    if poem is None:
        raise UserError(
            f"the reading {understanding.item_id!r} is of the poem {understanding.poem_id!r}, "
            "which is not among the poems; run the stages before judge again"
        )
    if poem.genre != GENRE[prompt_set]:
        fitting = next(name for name, genre in GENRE.items() if genre == poem.genre)
        raise UserError(
            f"judge.prompt_set is {prompt_set}, whose prompts are for {GENRE[prompt_set]} poems, "
            f"but {poem.poem_id!r} is of the genre {poem.genre}; set judge={fitting}",
            2,
        )
    return poem


def texts_of(prompts: PromptTexts, prompt_set: str) -> Texts:
    """The pieces of a prompt set.

    Raises:
        UserError: pieces that the assembly needs are missing.
    """
    texts: Texts = getattr(prompts, prompt_set)
    missing = [
        name for name in (*REQUIRED[prompt_set], *RUBRICS[prompt_set].names) if name not in texts
    ]
    if missing:
        raise UserError(
            f"prompts.{prompt_set} lacks {', '.join(missing)}; see conf/prompt/{prompt_set}.yaml", 2
        )
    return texts


_ASKING = ("answer", "answer_line", "answer_json", "again", "again_json")
_SHARED = ("task", "meanings", "rules", "material", *_ASKING)
_OF_POLLER = (
    "persona", "details", "owns_poem", "role", "no_role", "eight", "eight_and_sentence", "one",
    "declares_role",
)  # fmt: skip
REQUIRED = {
    "poller": (*_OF_POLLER, *_SHARED),
    "poller_ci": (*_OF_POLLER, *_SHARED),
    "ci_quality": _SHARED,
}
