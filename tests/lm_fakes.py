"""Tiny causal models with random weights and a tokenizer of bytes, written as folders."""

from pathlib import Path

from shiyan.models import ScoringModel

BYTES = 257
"""Tokens of the fakes: 256 bytes and the end of text."""


def save_tokenizer(folder: Path, shuffled: bool = False) -> None:
    """A tokenizer that gives each byte of UTF-8 a token."""
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet(), reverse=shuffled)
    backend = Tokenizer(BPE({letter: i for i, letter in enumerate(letters)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<|endoftext|>", clean_up_tokenization_spaces=False
    ).save_pretrained(folder)


def tiny_model(
    folder: Path, name: str = "tiny", seed: int = 0, width: int = BYTES, shuffled: bool = False
) -> ScoringModel:
    """A Qwen2 of two layers; `width` above BYTES pads its vocabulary with untrained rows."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=width,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=512,
        initializer_range=0.5,
        tie_word_embeddings=False,
    )
    where = folder / name
    Qwen2ForCausalLM(config).save_pretrained(where)
    save_tokenizer(where, shuffled)
    return ScoringModel(name, where, f"sha256:{name}-{seed}-{width}")


def edit_head(model: ScoringModel, row: int | slice, value: float) -> None:
    """Set one row, or all, of a fake's output matrix."""
    from transformers import Qwen2ForCausalLM

    loaded = Qwen2ForCausalLM.from_pretrained(model.folder)
    loaded.lm_head.weight.data[row] = value
    loaded.save_pretrained(model.folder)
