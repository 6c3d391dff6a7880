"""A GGUF file as the float32 safetensors that transformers loads in seconds."""

import os
from pathlib import Path
from typing import Any

from shiyan.errors import UserError
from shiyan.lm.tokenizer import check_tokenizer
from shiyan.weights import read_gguf_header


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

    architecture = read_gguf_header(path).architecture
    if architecture not in GGUF_SUPPORTED_ARCHITECTURES:
        raise UserError(
            f"{path}: architecture {architecture} is not known to transformers "
            f"{transformers.__version__}; generation by llama.cpp may work, scoring not"
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
    path.chmod(0o644)
