"""Tokenizers: loaded without weights, checked, and compared before a model is loaded."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shiyan.errors import UserError
from shiyan.models import ScoringModel
from shiyan.poem import Spans

PROBE = "◎𫛛 春风又绿江南岸，\n\n明月何時照我還？　乜嘢🙂"
"""A line that a tokenizer must give back: rare characters, full-width blank, empty line."""
END_OF_TEXT = "<|endoftext|>"


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


@dataclass(frozen=True)
class Tokenizer:
    """A model's tokenizer with what decides token ids.

    Attributes:
        name: the model's.
        ids: token -> id.
        positions: tokens that the model reads at most.
    """

    name: str
    backend: Any
    ids: Mapping[str, int]
    positions: int | None

    @property
    def width(self) -> int:
        """Rows of the output matrix that stand for a token; what follows is padding."""
        return max(self.ids.values()) + 1

    @property
    def start(self) -> int:
        """The id put first where `Reading.bos` asks for one."""
        for token in (END_OF_TEXT, self.backend.bos_token, self.backend.eos_token):
            if token in self.ids:
                return self.ids[token]
        raise UserError(f"{self.name} has no end-of-text token to put first; set bos: false")

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids; a text that spells a special token is read as it stands."""
        if not texts:
            return []
        encoded = self.backend(list(texts), add_special_tokens=False, split_special_tokens=True)
        return [list(ids) for ids in encoded["input_ids"]]

    def spans(self, texts: Sequence[str]) -> list[Spans] | None:
        """Where each token of `encode` stands in its text; None if the tokenizer cannot tell.

        A character that is cut into several tokens stands in each of them.
        """
        if not self.backend.is_fast:
            return None
        encoded = self.backend(
            list(texts),
            add_special_tokens=False,
            split_special_tokens=True,
            return_offsets_mapping=True,
        )
        return [tuple(map(tuple, offsets)) for offsets in encoded["offset_mapping"]]


def load_tokenizer(model: ScoringModel) -> Tokenizer:
    """A model's tokenizer, without its weights.

    Raises:
        UserError: the folder's tokenizer cannot be read, or changes what it reads.
    """
    from transformers import AutoTokenizer

    quiet_loading()
    try:
        backend = AutoTokenizer.from_pretrained(model.folder, local_files_only=True)
        config = json.loads((model.folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, ImportError) as error:
        raise unloadable(model, error) from error
    check_tokenizer(backend, model.name)
    positions = config.get("max_position_embeddings") or config.get("n_positions")
    return Tokenizer(model.name, backend, backend.get_vocab(), positions)


def refuse_other_tokens(tokenizers: Iterable[Tokenizer]) -> None:
    """Token statistics of two models compare only where their tokens are the same.

    One of them may have more control tokens, which no poem holds: both softmaxes are cut to
    the common ones, and it is told. One more token of text would be cut with its probability.

    Raises:
        UserError: the first two models whose tokens differ, and a token that does.
    """
    first, *others = tokenizers
    for other in others:
        small, large = sorted((first, other), key=lambda tokenizer: len(tokenizer.ids))
        more = large.ids.keys() - small.ids.keys()
        ordinary = more - large.backend.get_added_vocab().keys()
        is_within = small.ids.items() <= large.ids.items()
        if is_within and not ordinary and _encode_alike(first, other):
            if more:
                _tell_left_out(small, large, more)
            continue
        differing = [t for t, i in small.ids.items() if large.ids.get(t) != i] + sorted(ordinary)
        token = next(iter(differing), None)
        example = (
            f"{token!r} is {small.ids.get(token, 'no token')} in {small.name}, "
            f"{large.ids.get(token, 'no token')} in {large.name}"
            if token is not None
            else "the same tokens, but cut from a text in another way"
        )
        raise UserError(
            f"the tokenizers of {first.name} and {other.name} differ ({example}); a pair of "
            "models for Fast-DetectGPT or Binoculars needs the same tokens, as two models of one "
            "family have",
            2,
        )


def _tell_left_out(small: Tokenizer, large: Tokenizer, more: Iterable[str]) -> None:
    names = sorted(more, key=lambda token: large.ids[token])
    few = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    sys.stderr.write(
        f"notice: {large.name} has control tokens that {small.name} lacks ({few}); they are left "
        "out of what the pair of them is compared by\n"
    )


def _encode_alike(first: Tokenizer, second: Tokenizer) -> bool:
    return first.encode([PROBE]) == second.encode([PROBE])


def unloadable(model: ScoringModel, error: Exception) -> UserError:
    """The sentence for a model or tokenizer that transformers cannot load."""
    reason = " ".join(str(error).split())[:300] or type(error).__name__
    return UserError(f"{model.name} could not be loaded from {model.folder}: {reason}")


def quiet_loading() -> None:
    """No progress bars of transformers: a load takes seconds, and what takes longer is said."""
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
