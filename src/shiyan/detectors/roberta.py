"""RoBERTa and its kin with a head for two classes: from random weights, or pretrained.

Whatever its name says, a checkpoint is loaded by the classes that its own
config.json names: hfl/chinese-roberta-wwm-ext is a BERT.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from shiyan.config import (
    ApiModelParams,
    HubEncoderParams,
    HubModelParams,
    LocalModelParams,
    ScratchEncoderParams,
    TrainingDtype,
)
from shiyan.errors import UserError

Models = Mapping[str, LocalModelParams | HubModelParams | ApiModelParams]
"""By name, as in conf/model/."""

Dtype = Literal["float32", "bfloat16"]

ID2LABEL = {0: "human", 1: "LLM"}
HUMAN_NAMES = frozenset({"human", "real", "person", "human-written", "人", "人类", "真人"})
LLM_NAMES = frozenset(
    {
        "llm",
        "ai",
        "machine",
        "fake",
        "chatgpt",
        "gpt",
        "generated",
        "ai-generated",
        "machine-generated",
        "llm-generated",
        "机器",
        "模型",
        "人工智能",
    }
)
BREAK_PROBE = ("山\n水", "山水")


@dataclass(frozen=True)
class Encoding:
    """What an encoder reads of one text.

    Attributes:
        ids: token ids with the special ones, cut to what the encoder can read.
        n_tokens: how many there would be without the cut.
        unknown_share: share of the text's tokens that the tokenizer does not know.
    """

    ids: tuple[int, ...]
    n_tokens: int
    unknown_share: float

    @property
    def is_cut(self) -> bool:
        return self.n_tokens > len(self.ids)


@dataclass(frozen=True)
class Classifier:
    """A tokenizer, and how to build its model anew.

    Attributes:
        build: a transformers model for sequence classification, what is random of it
            drawn from the seed.
        identity: what decides its weights before training, the seed apart.
        max_tokens: of which the model can read no more; special ones count.
        reads_line_breaks: do breaks change the tokens?
        dtype: of the matrix products; what is trained is float32 whatever it says.
    """

    tokenizer: Any
    build: Callable[[int], Any]
    identity: str
    max_tokens: int
    reads_line_breaks: bool
    dtype: Dtype = "float32"

    def encode(self, text: str) -> Encoding:
        """A text's own `<s>` or `[SEP]` is text: special tokens are only put at the ends."""
        read = self.tokenizer(text, split_special_tokens=True, truncation=False, verbose=False)
        ids = read["input_ids"]
        special = self.tokenizer.num_special_tokens_to_add()
        unknown = ids.count(self.tokenizer.unk_token_id)
        # The head of the poem is read; a closing special token stays at the end.
        closing = ids[-1:] if special else []
        kept = ids
        if len(ids) > self.max_tokens:
            kept = [*ids[: self.max_tokens - len(closing)], *closing]
        return Encoding(tuple(kept), len(ids), unknown / max(len(ids) - special, 1))


class ClassifierFactory(Protocol):
    """A classifier for these train texts; a pretrained one does not look at them."""

    def __call__(self, train_texts: Sequence[str]) -> Classifier: ...


def classifier_factory(
    params: ScratchEncoderParams | HubEncoderParams, max_tokens: int, dtype: TrainingDtype
) -> ClassifierFactory:
    """The factory that the config names; a pretrained checkpoint is fetched and checked now."""
    if isinstance(params, ScratchEncoderParams):
        # It trains in seconds, and in float32 it ends alike on more machines.
        small: Dtype = "float32" if dtype == "auto" else dtype
        return lambda train_texts: replace(
            scratch_encoder(params, train_texts, max_tokens), dtype=small
        )
    loaded = pretrained_encoder(*checkpoint_folder(params), max_tokens)
    classifier = replace(loaded, dtype=working_dtype(dtype))
    return lambda train_texts: classifier


def working_dtype(wanted: TrainingDtype) -> Dtype:
    """What a network's products are taken in; auto: bfloat16 on a machine that is made for it."""
    import torch

    if wanted != "auto":
        return wanted
    if torch.cuda.is_available():
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        # A step of a BERT took 0.5 of the time in bfloat16 with avx512_bf16 alone.
        able = torch.cpu.get_capabilities()
        fast = bool(able.get("amx_bf16") or able.get("avx512_bf16"))
    return "bfloat16" if fast else "float32"


# --- from random weights --------------------------------------------------------------

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
MIN_POEMS = 2
"""A character that only one train poem holds is unknown, so that `<unk>` is learnt too."""


def scratch_encoder(
    params: ScratchEncoderParams, train_texts: Sequence[str], max_tokens: int
) -> Classifier:
    """A small RoBERTa, a token a character (a line break is one), its vocabulary from train.

    Characters are ordered by code point, so equal train folds give equal ids.
    """
    tokenizer = character_tokenizer(train_texts, max_tokens)

    def build(seed: int) -> Any:
        import torch
        from transformers import RobertaConfig, RobertaForSequenceClassification

        torch.manual_seed(seed)
        return RobertaForSequenceClassification(
            RobertaConfig(
                vocab_size=len(tokenizer),
                hidden_size=params.hidden,
                num_hidden_layers=params.layers,
                num_attention_heads=params.heads,
                intermediate_size=4 * params.hidden,
                # With it attention takes five times as long on a CPU.
                attention_probs_dropout_prob=0.0,
                # RoBERTa's positions begin after the padding's own, hence two more.
                max_position_embeddings=max_tokens + 2,
                bos_token_id=tokenizer.bos_token_id,
                pad_token_id=tokenizer.pad_token_id,
                eos_token_id=tokenizer.eos_token_id,
                type_vocab_size=1,
                id2label=ID2LABEL,
                label2id={name: index for index, name in ID2LABEL.items()},
            )
        )

    shape = f"{params.layers} layers, hidden {params.hidden}, {params.heads} heads"
    return Classifier(
        tokenizer,
        build,
        f"RoBERTa from random weights, {shape}, {len(tokenizer)} tokens",
        max_tokens,
        reads_line_breaks(tokenizer),
    )


def character_tokenizer(train_texts: Sequence[str], max_tokens: int) -> Any:
    """One token a character of the train texts, `<s>` before and `</s>` after."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    holders: dict[str, int] = {}
    for text in train_texts:
        for character in set(text):
            holders[character] = holders.get(character, 0) + 1
    known = sorted(character for character, n in holders.items() if n >= MIN_POEMS)
    vocabulary = {token: index for index, token in enumerate((*SPECIAL, *known))}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    ends = [(token, vocabulary[token]) for token in ("<s>", "</s>")]
    backend.post_processor = processors.TemplateProcessing("<s> $A </s>", None, ends)
    fast: Any = PreTrainedTokenizerFast
    return fast(
        tokenizer_object=backend,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token="<mask>",
        model_max_length=max_tokens,
    )


def reads_line_breaks(tokenizer: Any) -> bool:
    broken, joined = (tokenizer(text)["input_ids"] for text in BREAK_PROBE)
    return bool(broken != joined)


# --- pretrained ------------------------------------------------------------------------


def checkpoint_folder(params: HubEncoderParams) -> tuple[Path, str]:
    """(folder, identity) of a checkpoint on this machine or on the hub."""
    from shiyan.models import checked_folder, folder_model, folder_sum

    if params.path is not None:
        folder = checked_folder(Path(params.path).expanduser())
        return folder, f"sha256:{folder_sum(folder)}"
    source = HubModelParams(
        kind="hub",
        repository=params.repository,
        revision=params.revision,
        family="encoder",
        weights_only_bin=True,
    )
    try:
        model = folder_model("train_roberta.encoder", source)
    except UserError as error:
        reason = str(error).partition("; connect")[0]
        raise UserError(
            f"{reason}; connect and run again, set train_roberta.encoder.path to its folder, "
            "or train the small one by train_roberta=scratch"
        ) from error
    return model.folder, model.identity


def pretrained_encoder(folder: Path, identity: str, max_tokens: int) -> Classifier:
    """A checkpoint's encoder with a fresh head.

    Raises:
        UserError: no encoder, or one whose weights do not fit its own config.json.
    """
    from transformers import AutoConfig, AutoTokenizer
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING

    try:
        config = AutoConfig.from_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(
            f"{folder}: no checkpoint that transformers reads: {_first(error)}"
        ) from error
    if type(config) not in MODEL_FOR_MASKED_LM_MAPPING or getattr(config, "is_decoder", False):
        raise UserError(
            f"{folder} holds a {config.model_type}, which is no encoder; take a checkpoint such "
            "as hfl/chinese-roberta-wwm-ext here, and a causal model under train_roberta.lora"
        )
    refuse_without_padding(tokenizer, folder)
    readable = config.max_position_embeddings - (2 if config.model_type == "roberta" else 0)

    def build(seed: int) -> Any:
        return build_pretrained(folder, seed)

    return Classifier(
        tokenizer,
        build,
        f"{config.model_type} {identity}",
        min(max_tokens, readable),
        reads_line_breaks(tokenizer),
    )


def refuse_without_padding(tokenizer: Any, folder: Path) -> None:
    """Texts of a batch are filled up to one length, with a token that stands for nothing.

    Raises:
        UserError: the tokenizer has none.
    """
    if tokenizer.pad_token_id is None:
        raise UserError(
            f"{folder}: its tokenizer has no padding token (pad_token, such as [PAD]), so texts "
            "cannot be read in batches; name it in tokenizer_config.json"
        )


def build_pretrained(
    folder: Path, seed: int, *, dtype: str = "float32", pad_token_id: int | None = None
) -> Any:
    """The checkpoint's encoder with every one of its weights, and a head drawn from the seed.

    A head that the checkpoint brings is not used: which of its classes is the LLM's
    is for its makers to say, and ours learns it from the train fold.

    Raises:
        UserError: a weight of the encoder is missing or has another shape.
    """
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification

    torch.manual_seed(seed)
    config = AutoConfig.from_pretrained(
        folder, id2label=ID2LABEL, label2id={name: index for index, name in ID2LABEL.items()}
    )
    if pad_token_id is not None:
        config.pad_token_id = pad_token_id
    has_safetensors = any(folder.glob("*.safetensors"))
    try:
        with quiet_transformers():
            model, info = AutoModelForSequenceClassification.from_pretrained(
                folder,
                config=config,
                dtype=getattr(torch, dtype),
                ignore_mismatched_sizes=True,
                output_loading_info=True,
                use_safetensors=has_safetensors,
                # A .bin is a pickle; without this it could run code.
                weights_only=True,
            )
    except UnpicklingError as error:
        raise UserError(
            f"{folder}: a .bin there holds more than weights (it could run code) or is damaged, so "
            "it was not read; take a checkpoint in safetensors"
        ) from error
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(f"{folder}: the weights could not be read: {_first(error)}") from error
    prefix = f"{model.base_model_prefix}."
    wanting = [*info["missing_keys"], *(key for key, *_ in info["mismatched_keys"])]
    # A pooler belongs to the head: masked-language-model checkpoints come without one.
    lost = sorted(k for k in wanting if k.startswith(prefix) and ".pooler." not in k)
    if lost:
        raise UserError(
            f"{folder}: {len(lost)} weights of the encoder are missing or misshapen, e.g. "
            f"{lost[0]!r}, so it is not the {config.model_type} that its config.json names; "
            "take a checkpoint whose weights fit"
        )
    for name, weights in model.named_parameters():
        if name.startswith(prefix) and not torch.isfinite(weights).all():
            raise UserError(f"{folder}: the weight {name!r} holds numbers that are not finite")
    torch.manual_seed(seed)
    for name, module in model.named_children():
        if name != model.base_model_prefix:
            _draw(module, config.initializer_range)
    return model


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Without its bars and its report on a fresh head, which here is as it should be."""
    from transformers.utils import logging as untyped

    logging: Any = untyped
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    _switch(logging.disable_progress_bar)
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        _switch(logging.enable_progress_bar)


def _switch(bars: Callable[[], None]) -> None:
    with warnings.catch_warnings():
        # The hub's library minds it each time where HF_HUB_DISABLE_PROGRESS_BARS has the say.
        warnings.simplefilter("ignore", UserWarning)
        bars()


def _draw(head: Any, deviation: float) -> None:
    """Draw a head's weights anew, whatever the checkpoint put there."""
    import torch

    for name, weights in head.named_parameters():
        with torch.no_grad():
            weights.zero_() if name.endswith("bias") else weights.normal_(0.0, deviation)


# --- which class is the LLM's ------------------------------------------------------------


def llm_index(id2label: Mapping[int, str], where: str) -> int:
    """The class of a two-class head that stands for an LLM, by its name.

    Raises:
        UserError: not two classes, or names that do not say which is which
            (LABEL_0, a sentiment); index 1 is never assumed.
    """
    names = {int(index): name.strip().lower().replace("_", "-") for index, name in id2label.items()}
    if len(names) != 2:
        raise UserError(f"{where}: the head has {len(names)} classes; a detector has two")
    llm = [index for index, name in names.items() if name in LLM_NAMES]
    human = [index for index, name in names.items() if name in HUMAN_NAMES]
    if len(llm) != 1 or len(human) != 1:
        raise UserError(
            f"{where}: the classes are called {', '.join(map(repr, id2label.values()))}, which "
            "does not say which is an LLM's; set id2label in config.json to human and LLM"
        )
    return llm[0]


def log_odds(logits: NDArray[np.float64], id2label: Mapping[int, str], where: str) -> Any:
    """Scores from logits of shape (n, 2): ln P(LLM) / P(human); (n,)."""
    llm = llm_index(id2label, where)
    return logits[:, llm] - logits[:, 1 - llm]


def _first(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
