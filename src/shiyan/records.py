"""The records that pass between stages, one JSON object a line of a .jsonl file."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Source = Literal["human", "constructed", "published"]
"""Who vouches for a reference: people, a construction of ours, or a paper's table."""

Fold = Literal["train", "test"]


class Record(BaseModel):
    """Base of all records: immutable, and a field nobody declared is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Written(Record):
    """By which LLM a poem was written, and to what; null is what finished replies did not tell."""

    generator: str
    prompt_id: str
    seed_poem_id: str | None
    """The human poem whose title, style or form was asked for; null where the theme
    came from the list of common themes."""
    temperature: float | None = Field(default=None, ge=0)


class Generation(Written):
    """How an LLM came to write a poem."""

    sample_index: int = Field(ge=0)
    theme: str | None = None
    theme_source: Literal["title", "topic", "list"] | None = None
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = None
    reply_sha256: str
    """Of the raw reply, which stands in the file of replies."""
    finish_reason: str | None = None
    flags: tuple[str, ...] = ()
    """Names of the cleaning rules that fired, in the order in which they did."""


class Poem(Record):
    """A poem, by a person or by an LLM."""

    poem_id: str = Field(min_length=1)
    title: str
    text: str
    """The body: a newline parts two lines, an empty line two stanzas (`poem.normalised`)."""
    genre: Literal["modern", "ci"]
    author: str
    cipai: str | None = None
    generation: Generation | None = None
    date: str | None = None
    """As the source writes it; `poem.year_of` reads a year where it is sure of one."""
    beside: dict[str, tuple[str, ...]] = {}
    """What stood in the text but is no verse (`poem.parts`): kind -> lines."""

    @property
    def label(self) -> int:
        """1 if an LLM wrote it, 0 if a person did."""
        return int(self.generation is not None)


class Reply(Record):
    """A raw reply to a request for a poem or a reading, and what became of it."""

    reply_id: str
    """Equals the poem_id (or item_id) that came of it, or would have."""
    kind: Literal["poem", "understanding"]
    generator: str
    prompt_id: str
    seed_poem_id: str | None
    cipai: str | None = None
    """That a ci was asked to."""
    text: str
    reasoning: str | None = None
    served_model: str | None = None
    """As the server named it; an API may change what a name means."""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    attempts: int = Field(default=1, ge=1)
    outcome: Literal["kept", "missing"]
    missing_reason: str | None = None
    """A cleaning rule or a kind of failure, by name."""
    missing_detail: str | None = None
    """The server's own words, where it failed."""
    flags: tuple[str, ...] = ()
    removed: tuple[tuple[str, str], ...] = ()
    """(rule, text) of what cleaning took away."""


class Persona(Record):
    """What a judge that plays the poet is told about the poet."""

    poet_id: str
    """The name that `Poem.author` holds."""
    basic_information: str
    views_on_poetry: str
    critics_comments: str
    sources: tuple[str, ...] = ()


class Understanding(Record):
    """A reading of a poem, to be judged."""

    item_id: str
    poem_id: str
    reader: str
    """An LLM's name, or a person's."""
    text: str
    dimension: str = "all"
    source: Source | Literal["generated"] = "generated"
    """`constructed`: a reading that belongs to another poem."""


class HumanRating(Record):
    """One rater's scores of one understanding, or a reference that was constructed."""

    item_id: str
    rater_id: str
    rubric: str
    scores: dict[str, float | None]
    source: Source


class Assignment(Record):
    """The fold of one poem, and the group that must not be parted."""

    poem_id: str
    group_id: str
    fold: Fold


class EvaluatedPoem(Record):
    """A poem as the evaluation of detectors sees it: whose it is and where it stands, no text.

    An attacked poem is a row of its own, with the attack's name and the id of the poem `of`
    which it was made; no setting but those of attacks holds it.
    """

    poem_id: str
    group_id: str
    fold: Fold
    family: str
    """The human poem that it is or imitates, or its cipai, or itself."""
    author: str
    poet: str
    """Whose poem it is, or whose poem it imitates; empty where nobody is named."""
    generation: Written | None
    n_lines: int = Field(ge=0)
    n_characters: int = Field(ge=0)
    seed_overlap: float | None = Field(default=None, ge=0, le=1)
    """Share of the imitated poem's 3-grams that stand in it; null where it imitates none."""
    memorised: bool = False
    """A scoring model recites it: a person's poem whose likelihood tells of the training data."""
    attack: str | None = None
    of: str | None = None

    @property
    def label(self) -> int:
        """1 if an LLM wrote it, 0 if a person did."""
        return int(self.generation is not None)


class DetectorScore(Record):
    """One detector's score of one poem; higher: more likely an LLM's."""

    poem_id: str
    detector: str
    score: float | None
    n_tokens: int | None = None
    n_read: int | None = None
    """Tokens that the detector read, where it could not read all of them."""
    unknown_share: float | None = None
    """Share of the text's tokens that the detector's tokenizer does not know."""
    own_label: Literal[0, 1] | None = None
    """1 where a detector that learns says LLM of itself, 0 where it says human: by its raw
    score, whatever threshold is chosen. Null of a detector that says neither."""
    unscored_reason: str | None = None
    setting: str | None = None
    """The lesson that the detector learnt in (`detectors.protocol`); null: the whole train
    fold, or nothing to learn."""
    attack: str | None = None
    """What was done to the poem before it was scored; null: nothing."""


class AttackedPoem(Record):
    """A poem after an attack, or why there is none."""

    attack: str
    of: str
    """The id of the poem that was attacked."""
    of_human: bool
    """A person wrote that poem: label 0."""
    poem: Poem | None
    """With the changed text, under an id of its own; null with `reason`."""
    reason: str = ""


class Memorisation(Record):
    """How much of a poem a scoring model would recite (`detectors.memorisation`).

    All null where the model did not read the poem.
    """

    poem_id: str
    model: str
    lines: int | None = None
    """Clauses after the first with at least 4 characters that do not repeat what stood before."""
    lines_recited: int | None = None
    """Those of which every character is the model's first choice."""
    longest_run: int | None = None
    """Characters of the longest passage that is recited, repetitions not counted."""
    first_choice_share: float | None = None
    """Of the characters that do not repeat what stood before; 0 to 1."""
    mean_log_probability: float | None = None
    by_heart: bool = False
    """The model would write most of it itself, whoever wrote it."""
    flagged: bool = False
    """A human poem that the model knows by heart."""
    unscored_reason: str | None = None


class GeneratorIdentity(Record):
    """What stands behind a generator's name, as far as it is known."""

    generator: str
    identity: str | None
    """`sha256:…` of a local model's file, or an API's address and model; null: not known."""
    names: tuple[str, ...] = ()
    """By which an API was asked, or called itself."""
    family: str | None
    """As conf/model/ has it."""


class NearestForm(Record):
    """The form that a ci comes closest to, and what would have to change."""

    variant_id: str
    edits: tuple[str, ...]
    distance: int = Field(default=0, ge=0)
    """Characters too few or too many by line, and breaks to set or take away."""
    kinds: tuple[str, ...] = ()
    """What is wrong, once a kind: line_length, line_missing, line_too_many,
    lines_run_together, line_broken_in_two, not_cut_into_lines, too_far; and last
    lines_of_a_shi, where the text has a regular shi's lines."""


class CiCheck(Record):
    """Does a ci keep its cipai's form (CCiV, section 2.3)?

    `strict` reads a 读 as a line break, as the paper does; `_optional` lets a
    form's 读 be unbroken and a text's 、 stand anywhere. Tonal values are 0 where
    the structure is broken.
    """

    poem_id: str
    cipai: str
    structure_standard: bool | None
    structure_any: bool | None
    tonal_standard: float | None
    tonal_any: float | None
    structure_standard_optional: bool | None
    structure_any_optional: bool | None
    tonal_standard_optional: float | None
    tonal_any_optional: float | None
    variant_id: str | None = None
    tonal_definite: float | None = None
    """Share of fitting tones among one-reading characters at 平 or 仄 positions."""
    tonal_nearest: float | None = None
    """Over `variant_id`, or where no form fits over `nearest`."""
    nearest: NearestForm | None = None
    """Null where a form fits, and where the text is too long to compare."""
    rhyme_share: float | None = None
    """Of the rhyming lines of `variant_id`, else of `nearest`."""
    n_characters: int = 0
    n_polyphones: int = 0
    """Characters with a level and an oblique reading at 平 or 仄 positions."""
    n_unknown: int = 0
    n_fixed: int = 0
    """平 and 仄 positions of `variant_id`, and how many of them fit."""
    n_fixed_fit: int = 0
    n_definite: int = 0
    n_definite_fit: int = 0
    elsewhere: str | None = None
    """The form of another cipai that it keeps, where it keeps none of its own."""
    remarks: tuple[str, ...] = ()
    unscored_reason: str | None = None


class Judgment(Record):
    """One judge's scores of one item, or why there are none."""

    judgment_id: str
    item_id: str
    judge: str
    rubric: str
    prompt_id: str
    persona_id: str | None = None
    sample_index: int = Field(default=0, ge=0)
    scores: dict[str, float | None] | None
    """Null, or a null dimension, is unscored: never a zero."""
    reasons: dict[str, str] = {}
    unscored_reason: str | None = None
    reply: str
    other_replies: tuple[str, ...] = ()
    """Of the attempts whose verdict was not taken; scores are all of one reply."""
    reasoning: str | None = None
    finish_reason: str | None = None
    attempts: int = Field(default=1, ge=1)
    """Requests it took; one that asks again says what was missing."""
    repaired: bool = False
    """The reply held JSON that strict JSON refuses."""
    prompt_tokens: int | None = None
    """Of all attempts."""
    cached_tokens: int | None = None
    """Of the prompts', those of a beginning that the server had read already."""
    completion_tokens: int | None = None
    served_model: str | None = None
    """As the server named it; an API may change what a name means."""
