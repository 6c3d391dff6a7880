"""A low-rank adapter on a frozen model: little to train, little to keep (Hu et al., 2021).

On an encoder, or on a causal language model whose last token's state goes to a
classification head.
"""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from shiyan.config import (
    ApiModelParams,
    LoraParams,
    ScratchEncoderParams,
    TrainRobertaParams,
)
from shiyan.detectors.roberta import (
    Classifier,
    Dtype,
    Models,
    build_pretrained,
    checkpoint_folder,
    pretrained_encoder,
    quiet_transformers,
    reads_line_breaks,
    refuse_without_padding,
    working_dtype,
)
from shiyan.errors import UserError


def lora_classifier(params: TrainRobertaParams, models: Models) -> Classifier:
    """The frozen model that the config names, with an adapter and a head drawn from the seed.

    Raises:
        UserError: an API model, a small encoder from random weights, an architecture
            without the matrices named in `targets`.
    """
    lora = params.lora
    assert lora is not None
    if lora.model is None:
        if isinstance(params.encoder, ScratchEncoderParams):
            raise UserError(
                "train_roberta.lora adapts pretrained weights, and train_roberta.encoder begins "
                "from random ones; choose train_roberta=chinese_roberta or set lora.model",
                2,
            )
        folder, identity = checkpoint_folder(params.encoder)
        base = pretrained_encoder(folder, identity, lora.max_tokens)
        name = params.encoder.repository
    else:
        folder, identity = _causal_folder(lora.model, models)
        base = causal_classifier(folder, identity, lora.max_tokens)
        name = lora.model

    dtype = working_dtype(lora.dtype)

    def build(seed: int) -> Any:
        return adapted(folder, seed, lora, dtype, base.tokenizer.pad_token_id, name)

    head = "" if lora.model is None else ", head from zeros"
    made = f"rank {lora.rank}, alpha {lora.alpha:g}, {dtype}{head}"
    described = f"LoRA ({made}) on {base.identity}"
    return replace(base, build=build, identity=described, dtype=dtype)


def _causal_folder(name: str, models: Models) -> tuple[Path, str]:
    from shiyan.lm.folder import scoring_model

    model = models[name]
    if isinstance(model, ApiModelParams):
        raise UserError(
            f"train_roberta.lora.model: {name} answers over HTTP and has no weights here to "
            "adapt; name a local or hub model",
            2,
        )
    found = scoring_model(name, model)
    return found.folder, found.identity


def causal_classifier(folder: Path, identity: str, max_tokens: int) -> Classifier:
    """A causal model with a classification head; line breaks are tokens to it."""
    from transformers import AutoConfig, AutoTokenizer

    with quiet_transformers():
        tokenizer = AutoTokenizer.from_pretrained(folder)
        config = AutoConfig.from_pretrained(folder)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    refuse_without_padding(tokenizer, folder)
    readable = min(max_tokens, config.max_position_embeddings)

    def build(seed: int) -> Any:
        return build_pretrained(folder, seed, pad_token_id=tokenizer.pad_token_id)

    return Classifier(
        tokenizer, build, f"{config.model_type} {identity}", readable, reads_line_breaks(tokenizer)
    )


def adapted(
    folder: Path, seed: int, lora: LoraParams, dtype: Dtype, pad_token_id: int, name: str
) -> Any:
    """The frozen model with its adapter; only adapter and head are trained and kept.

    A causal model's head begins with zeros, a half for every poem: its states are so large
    that a head drawn at random begins a dozen nats off, the same way for all poems.

    Args:
        name: stands in the adapter's own config for the model that it belongs to.
    """
    import torch
    from peft import LoraConfig, get_peft_model

    model = build_pretrained(folder, seed, dtype=dtype, pad_token_id=pad_token_id)
    if lora.model is not None:
        torch.nn.init.zeros_(model.score.weight)
    targets = lora.targets if isinstance(lora.targets, str) else list(lora.targets)
    # peft declares alpha a whole number and takes any.
    settings = LoraConfig(
        task_type="SEQ_CLS",
        r=lora.rank,
        lora_alpha=lora.alpha,  # type: ignore[arg-type]
        lora_dropout=lora.dropout,
        target_modules=targets,
    )
    torch.manual_seed(seed)
    try:
        with warnings.catch_warnings():
            # peft asks transformers by names that the next major version drops.
            warnings.simplefilter("ignore", FutureWarning)
            with_adapter = get_peft_model(model, settings)
    except ValueError as error:
        raise UserError(
            f"train_roberta.lora.targets: {name} has no {', '.join(targets)}; take names of its "
            "linear layers, or all-linear"
        ) from error
    # peft does so for the adapter alone; a head in bfloat16 would lose the small steps of AdamW.
    for weights in with_adapter.parameters():
        if weights.requires_grad:
            weights.data = weights.data.float()
    with_adapter.peft_config["default"].base_model_name_or_path = name
    return with_adapter
