"""A causal language model that gives logits for chosen positions only."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shiyan.errors import UserError
from shiyan.lm.tokenizer import Tokenizer, unloadable
from shiyan.models import ScoringModel

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Reading:
    """How texts are read.

    `dtype` and `bos` decide a score; `device` and `batch_tokens` only how fast it comes.

    Attributes:
        dtype: of the weights; logits and all reductions are float32.
        device: auto takes the first GPU, if there is one.
        min_tokens, max_tokens: a text outside is not read at all.
        batch_tokens: tokens of a batch, padding included.
        bos: put the end-of-text token first, so that the first token is predicted too.
    """

    dtype: str = "float32"
    device: str = "auto"
    min_tokens: int = 2
    max_tokens: int = 1024
    batch_tokens: int = 2048
    bos: bool = False


class CausalLM:
    """A language model that gives float32 logits for chosen positions only.

    Attributes:
        name: as in conf/model/.
        width: tokens of its vocabulary, without padding rows.
    """

    def __init__(self, model: ScoringModel, tokenizer: Tokenizer, reading: Reading) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        self.name = model.name
        self.device = device_of(reading)
        outcome: Any
        try:
            outcome = AutoModelForCausalLM.from_pretrained(
                model.folder,
                dtype=getattr(torch, reading.dtype),
                local_files_only=True,
                output_loading_info=True,
            )
        except (OSError, ValueError, ImportError, RuntimeError) as error:
            raise unloadable(model, error) from error
        loaded, info = outcome
        if reads_both_ways(loaded.config):
            raise UserError(
                f"{model.name} is a {loaded.config.model_type}, which is not a causal model: it "
                "reads what follows a token too, so it cannot score; choose another model"
            )
        # transformers gives these random values and only warns. A tied head is not among them.
        if missing := sorted(info["missing_keys"]):
            raise UserError(
                f"{model.folder}: {len(missing)} weights that {model.name} needs are not in its "
                f"files, e.g. {', '.join(missing[:3])}; take a whole checkpoint"
            )
        loaded.eval().requires_grad_(False).to(self.device)
        self.body = loaded.base_model
        head = loaded.get_output_embeddings()
        self.width = min(tokenizer.width, head.weight.shape[0])
        # In bfloat16 logits of neighbours collide; a float32 output matrix keeps them apart.
        self.head = head.weight[: self.width].float()
        bias = getattr(head, "bias", None)
        self.bias = None if bias is None else bias[: self.width].float()
        self._check_head(loaded)

    def hidden(self, ids: "Tensor") -> "Tensor":
        """Last hidden states, (batch, tokens, hidden).

        Right padding needs no mask: no position looks to its right.
        """
        states: Tensor = self.body(input_ids=ids, use_cache=False).last_hidden_state
        return states

    def logits(self, hidden: "Tensor", out: "Tensor") -> "Tensor":
        """Logits of the vocabulary for some positions, (positions, width), in `out`."""
        import torch

        target = out[: hidden.shape[0]]
        torch.mm(hidden.float(), self.head.T, out=target)
        return target if self.bias is None else target.add_(self.bias)

    def _check_head(self, loaded: Any) -> None:
        """Are the model's logits nothing but output matrix times last hidden state?"""
        import torch

        with torch.inference_mode():
            ids = torch.arange(4, device=self.device)[None]
            own = loaded(input_ids=ids, use_cache=False).logits[0, :, : self.width].float()
            hidden = self.hidden(ids)[0]
            ours = self.logits(hidden, torch.empty_like(own))
            # What is not finite is no matter of scale: its texts will be unscored.
            finite = own.isfinite()
            own, ours = own[finite], ours[finite]
            largest = float(own.abs().max()) if own.numel() else 0.0
            tolerance = largest * (1e-3 if hidden.dtype == torch.float32 else 2e-2)
            if not torch.allclose(own, ours, rtol=0, atol=tolerance):
                raise UserError(
                    f"{self.name}: its logits are not its output matrix times its last hidden "
                    "states (it scales or caps them), so it cannot score; choose another model"
                )


def reads_both_ways(config: Any) -> bool:
    """Is it an encoder's, such as BERT's, whose tokens see what follows?"""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING

    return type(config) in MODEL_FOR_MASKED_LM_MAPPING and not getattr(config, "is_decoder", False)


def device_of(reading: Reading) -> str:
    """cpu or cuda.

    Raises:
        UserError: a GPU is asked for and there is none.
    """
    import torch

    if reading.device == "cuda" and not torch.cuda.is_available():
        raise UserError("device: cuda, but torch sees no GPU here; set device: auto", 2)
    auto = "cuda" if torch.cuda.is_available() else "cpu"
    return auto if reading.device == "auto" else reading.device
