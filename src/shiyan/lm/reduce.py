"""From token ids to a few numbers a token: one pass a model, logits a chunk at a time.

The hidden states of a batch meet the output matrix for a chunk of positions, and the
chunk's logits are reduced at once, so the tensor (batch, tokens, vocabulary) never is.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from shiyan.lm.causal import CausalLM
from shiyan.token_statistics import (
    PREDICTED,
    ModelStatistics,
    Pair,
    PairStatistics,
    Row,
    Statistics,
    names_of,
)

if TYPE_CHECKING:
    from torch import Tensor

CHUNK = 256
"""Positions whose logits exist at once: enough for the output matrix to be worth reading."""
CPU_ROWS = 8
"""Positions reduced at once on a CPU, so that their logits stay in its caches."""

Key = str | Pair
"""A model's name stands for its own statistics, a pair of names for a pair's."""


def kind_of(key: Key) -> type[Statistics]:
    """What a key stands for."""
    return ModelStatistics if isinstance(key, str) else PairStatistics


@dataclass(frozen=True)
class Plan:
    """Which statistics are wanted.

    Attributes:
        models: names of the models that speak for themselves.
        pairs: (reference, scoring) names.
    """

    models: tuple[str, ...]
    pairs: tuple[Pair, ...]

    @property
    def wanted(self) -> tuple[Key, ...]:
        return (*self.models, *self.pairs)

    @property
    def names(self) -> list[str]:
        """Every model that is needed, each once."""
        paired = (name for pair in self.pairs for name in pair)
        return list(dict.fromkeys([*self.models, *paired]))


def batch_rows(
    models: Mapping[str, CausalLM], plan: Plan, sequences: Sequence[Sequence[int]]
) -> list[dict[Key, Row]]:
    """The wanted rows of each sequence of token ids, each (k, n), in one pass a model.

    A model under two names is passed once.
    """
    import torch

    lengths = [len(ids) for ids in sequences]
    longest = max(lengths)
    device = models[plan.names[0]].device
    with torch.inference_mode():
        # What pads a row on its right changes nothing on its left.
        padded = torch.tensor([[*ids, *[0] * (longest - len(ids))] for ids in sequences])
        read = torch.arange(longest)[None] < torch.tensor(lengths)[:, None]
        padded, read = padded.to(device), read.to(device)
        following = padded.roll(-1, dims=1)[read]
        distinct = {models[name] for name in plan.names}
        hidden = {model: model.hidden(padded)[read] for model in distinct}
        found = {key: rows.cpu().numpy() for key, rows in _reduced(models, plan, hidden, following)}
    ends = np.cumsum(lengths)
    for key, rows in found.items():
        # The position after the last token predicts nothing that is there.
        for row, name in zip(rows, names_of(kind_of(key)), strict=True):
            if name in PREDICTED:
                row[ends - 1] = np.nan
    return [
        {key: rows[:, end - length : end] for key, rows in found.items()}
        for end, length in zip(ends, lengths, strict=True)
    ]


def _reduced(
    models: Mapping[str, CausalLM],
    plan: Plan,
    hidden: Mapping[CausalLM, "Tensor"],
    following: "Tensor",
) -> Iterator[tuple[Key, "Tensor"]]:
    """Yield each key's rows over all positions, (k, positions)."""
    import torch

    total, device = len(following), following.device
    found = {
        key: torch.empty(len(names_of(kind_of(key))), total, device=device) for key in plan.wanted
    }
    buffers = {
        model: torch.empty(min(CHUNK, total), model.width, device=device) for model in hidden
    }
    for start in range(0, total, CHUNK):
        logits = {
            model: model.logits(states[start : start + CHUNK], buffers[model])
            for model, states in hidden.items()
        }
        step = CPU_ROWS if device.type == "cpu" else CHUNK
        for row in range(0, min(CHUNK, total - start), step):
            here = slice(start + row, min(start + row + step, start + CHUNK))
            part = _Part({m: z[row : row + step] for m, z in logits.items()}, following[here])
            for key, into in found.items():
                if isinstance(key, str):
                    values = part.of_model(models[key])
                else:
                    values = part.of_pair(models[key[0]], models[key[1]])
                torch.stack(values, out=into[:, here])
    yield from found.items()


class _Part:
    """Reductions over the vocabulary at a few positions, each computed once.

    Args:
        logits: model -> (positions, width), float32.
        following: id of the token that follows each position; (positions,).
    """

    def __init__(self, logits: Mapping[CausalLM, "Tensor"], following: "Tensor") -> None:
        self.logits = logits
        self.following = following[:, None]
        self._log_probs: dict[tuple[CausalLM, int], Tensor] = {}

    def log_probs(self, model: CausalLM, width: int) -> "Tensor":
        """ln p over the first `width` tokens of the vocabulary; (positions, width)."""
        if (model, width) not in self._log_probs:
            self._log_probs[model, width] = self.logits[model][:, :width].log_softmax(-1)
        return self._log_probs[model, width]

    def of_model(self, model: CausalLM) -> list["Tensor"]:
        """The rows of `ModelStatistics`."""
        import torch

        logits = self.logits[model]
        log_probs = self.log_probs(model, model.width)
        own = logits.gather(1, self.following)
        scratch = torch.empty_like(logits)
        # Counting the likelier tokens costs a hundredth of sorting them all.
        likelier = torch.gt(logits, own, out=scratch).sum(-1)
        as_likely = torch.eq(logits, own, out=scratch).sum(-1)
        negated_entropy = torch.exp(log_probs, out=scratch).mul_(log_probs).sum(-1)
        return [
            log_probs.gather(1, self.following)[:, 0],
            likelier + 1,
            as_likely - 1,
            -negated_entropy,
            log_probs.amax(-1),
        ]

    def of_pair(self, reference: CausalLM, scoring: CausalLM) -> list["Tensor"]:
        """The rows of `PairStatistics`, over the tokens that both models know."""
        width = min(reference.width, scoring.width)
        q = self.log_probs(reference, width).exp()
        log_p = self.log_probs(scoring, width)
        mean = (q * log_p).sum(-1)
        # Around the mean: E[x^2] - E[x]^2 cancels where the reference is sure of one token.
        variance = (log_p - mean[:, None]).square_().mul_(q).sum(-1)
        return [mean, variance]
