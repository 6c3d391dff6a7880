"""Causal language models: conversion, loading, and token statistics of texts."""

import os
from pathlib import Path
from typing import Any

from shiyan.errors import UserError

PROBE = "◎𫛛 春风又绿江南岸，\n\n明月何時照我還？　乜嘢🙂"
"""A line that a tokenizer must give back: rare characters, full-width blank, empty line."""


# --- conversion ------------------------------------------------------------------------


def convert_gguf(path: Path, folder: Path) -> None:
    """Write a GGUF as float32 safetensors, config and tokenizer, with nothing tied.

    transformers dequantises a GGUF on each load and refuses to save what came of it.
    Where the file has an output matrix beside its embedding, in a quantisation of its
    own, both are kept.

    Raises:
        UserError: transformers does not know the architecture, or the file's tokenizer
            does not give back what it was given.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    _knows_architecture(path)
    source = {"gguf_file": path.name}
    tokenizer = AutoTokenizer.from_pretrained(path.parent, **source)
    check_tokenizer(tokenizer, str(path))
    tokenizer.save_pretrained(folder)
    import torch

    model = AutoModelForCausalLM.from_pretrained(path.parent, dtype=torch.float32, **source)
    config = model.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.save_pretrained(folder)
    _save_weights(model, folder / "model.safetensors")


def _knows_architecture(path: Path) -> None:
    import transformers
    from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES

    from shiyan.weights import read_gguf_header

    architecture = read_gguf_header(path).architecture
    if architecture not in GGUF_SUPPORTED_ARCHITECTURES:
        raise UserError(
            f"{path}: architecture {architecture} is not known to transformers "
            f"{transformers.__version__}; generation by llama.cpp may work, scoring not"
        )


def check_tokenizer(tokenizer: Any, where: str) -> None:
    """Does it give back a line of Chinese with rare characters, with at most one BOS?

    Raises:
        UserError: it does not, so that token statistics would be of another text.
    """
    ids = tokenizer(PROBE, add_special_tokens=False)["input_ids"]
    if (back := tokenizer.decode(ids)) != PROBE:
        raise UserError(
            f"{where}: its tokenizer turns {PROBE!r} into {back!r}; take the model's own "
            "tokenizer.json (a folder with safetensors) instead"
        )
    with_bos = tokenizer(PROBE)["input_ids"]
    if with_bos[:2] == [tokenizer.bos_token_id] * 2:
        raise UserError(
            f"{where}: its tokenizer puts the BOS token twice; mend add_bos_token in its "
            "tokenizer_config.json"
        )


def _save_weights(model: Any, path: Path) -> None:
    from safetensors.torch import save_file

    tensors, seen = {}, set()
    for name, tensor in model.state_dict().items():
        # A tied output matrix is the embedding itself; config.json says so.
        if tensor.data_ptr() not in seen:
            seen.add(tensor.data_ptr())
            tensors[name] = tensor.contiguous()
    save_file(tensors, path, metadata={"format": "pt"})
    with path.open("rb+") as file:
        os.fsync(file.fileno())
