"""Adapters on an encoder and on a causal model: what is trained, what is kept, what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from detector_fakes import halves, pairs
from sections import pretrained

from shiyan.config import (
    ApiModelParams,
    LocalModelParams,
    LoraParams,
    NGramParams,
    ScratchEncoderParams,
    TrainRobertaParams,
)
from shiyan.detectors import finetune
from shiyan.detectors.finetune import Checkpoint, Recipe, Sample, fine_tune
from shiyan.detectors.lora import lora_classifier
from shiyan.detectors.trained import train_detectors
from shiyan.errors import UserError
from shiyan.work import WorkCache

pytestmark = pytest.mark.training

TINY = ScratchEncoderParams(kind="scratch", layers=1, hidden=16, heads=2)
LORA = {
    "name": "lora_tiny",
    "model": "tiny",
    "rank": 2,
    "alpha": 4.0,
    "dropout": 0.1,
    "targets": "all-linear",
    "dtype": "float32",
    "epochs": 2,
    "learning_rate": 0.01,
    "batch_size": 8,
    "max_tokens": 20,
}


def params(encoder=TINY, **changes) -> TrainRobertaParams:
    return TrainRobertaParams(
        name="roberta_tiny",
        encoder=encoder,
        epochs=1,
        learning_rate=0.01,
        batch_size=8,
        max_tokens=20,
        warmup_share=0.0,
        weight_decay=0.0,
        balance="class_weights",
        seed=0,
        ngram=NGramParams(shortest=1, longest=1),
        controls=(),
        folds=2,
        evaluate_every=None,
        patience=None,
        dtype="float32",
        text="body",
        lessons={"controls": (), "networks": (), "network_folds": 2},
        lora=LoraParams(**{**LORA, **changes}),
    )


@pytest.fixture(scope="module")
def causal(tmp_path_factory) -> tuple[Path, dict]:
    """A Qwen of random weights with a tokenizer of bytes, and the config that names it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    folder = tmp_path_factory.mktemp("qwen")
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: i for i, symbol in enumerate([*symbols, "<|endoftext|>"])}
    backend = Tokenizer(models.BPE(vocabulary, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    end = "<|endoftext|>"
    PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=end, pad_token=end).save_pretrained(
        folder
    )
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    local = LocalModelParams(kind="local", file="tiny", path=str(folder), family="qwen")
    return folder, {"tiny": local}


def test_only_adapter_and_head_are_trained(causal):
    folder, models = causal
    classifier = lora_classifier(params(), models)
    model = classifier.build(0)
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert trained
    assert all("lora_" in name or "score" in name for name in trained)
    from transformers import AutoModelForCausalLM

    frozen = dict(AutoModelForCausalLM.from_pretrained(folder).named_parameters())
    q = "model.layers.0.self_attn.q_proj"
    assert torch.equal(
        model.get_parameter(f"base_model.model.{q}.base_layer.weight"), frozen[f"{q}.weight"]
    )


def test_under_bfloat16_weights_what_is_trained_is_float32_and_small_steps_are_kept(causal):
    classifier = lora_classifier(params(dtype="bfloat16", learning_rate=1e-5), causal[1])
    texts = ["山水", "云月", "梦心", "光影"]
    sample = Sample.of(classifier, texts, np.array([0, 0, 1, 1]))
    model = classifier.build(0)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    kinds = {p.requires_grad: p.dtype for p in model.parameters()}
    assert kinds == {True: torch.float32, False: torch.bfloat16}
    # 1e-5 is under the distance of two bfloat16 numbers near a head's 0.02.
    recipe = Recipe(1, 1e-5, 4, 0.0, 0.0, "class_weights", 0)
    checkpoint = Checkpoint(WorkCache(causal[0] / "w"), {})
    trained, _ = fine_tune(classifier, sample, recipe, checkpoint, name=("d", "all"))
    moved = {n for n, p in trained.named_parameters() if not torch.equal(p, before[n])}
    assert any("score" in name for name in moved)
    head = next(n for n in moved if "score" in n)
    step = (trained.get_parameter(head) - before[head]).abs()
    assert float(step.max().detach()) == pytest.approx(1e-5, rel=0.01)
    scores = finetune.encoded_scores(trained, classifier, sample.encodings)
    whole = lora_classifier(params(), causal[1])
    near = finetune.encoded_scores(whole.build(0), whole, sample.encodings)
    np.testing.assert_allclose(scores, near, atol=0.02)


def test_a_causal_model_reads_the_head_of_a_poem_without_special_tokens(causal):
    classifier = lora_classifier(params(), causal[1])
    long, short = classifier.encode("山" * 10), classifier.encode("山" * 6 + "水" * 4)
    assert long.ids[:18] == short.ids[:18]
    assert (long.n_tokens, len(long.ids)) == (30, 20)
    assert classifier.reads_line_breaks
    end = classifier.tokenizer.eos_token_id
    assert end not in classifier.encode("<|endoftext|>山").ids


def test_alone_and_in_a_batch_a_text_scores_the_same(causal):
    classifier = lora_classifier(params(), causal[1])
    model = classifier.build(0)
    head = next(p for n, p in model.named_parameters() if "score" in n and p.requires_grad)
    assert not head.any()
    torch.nn.init.normal_(head)
    encodings = [classifier.encode(t) for t in ("山", "水云月风", "梦\n心", "山水云月风花")]
    together = finetune.encoded_scores(model, classifier, encodings)
    alone = [finetune.encoded_scores(model, classifier, [e])[0] for e in encodings]
    np.testing.assert_allclose(together, alone, atol=1e-4)
    assert np.ptp(together) > 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_killed_and_resumed_the_adapter_is_the_same(causal, tmp_path, dtype):
    classifier = lora_classifier(params(dtype=dtype), causal[1])
    sample = Sample.of(classifier, ["山水", "云月", "梦心", "光影"], np.array([0, 0, 1, 1]))
    recipe = Recipe(3, 0.01, 2, 0.0, 0.0, "class_weights", 0)

    def run(folder: Path, watch=lambda point: None):
        checkpoint = Checkpoint(WorkCache(tmp_path / folder), {}, 0.0)
        return fine_tune(classifier, sample, recipe, checkpoint, name=("d", "all"), watch=watch)[0]

    class Kill(BaseException):
        pass

    def stop(point):
        if point.step == 4:
            raise Kill

    with pytest.raises(Kill):
        run("killed", stop)
    weights = (run(folder).state_dict() for folder in ("killed", "whole"))
    for ours, theirs in zip(*(w.items() for w in weights), strict=True):
        assert ours[0] == theirs[0]
        assert torch.equal(ours[1], theirs[1])


def test_an_adapter_is_one_more_detector_and_is_kept_small(causal, tmp_path):
    poems = pairs(6)
    trained = train_detectors(poems, halves(poems), params(), causal[1], WorkCache(tmp_path / "w"))
    scores = [s for s in trained.scores if s.detector == "lora_tiny"]
    assert len(scores) == len(poems)
    assert all(s.score is not None for s in scores)
    made = trained.made["networks"]["lora_tiny"]
    assert made["model"].startswith(
        "LoRA (rank 2, alpha 4, float32, head from zeros) on qwen2 sha256:"
    )
    assert made["epochs"] == 2
    assert made["optimizer_steps"] == {"fold_1": 2, "fold_2": 2}
    trained.save(tmp_path / "models")
    folder = tmp_path / "models/lora_tiny/fold_2"
    assert (folder / "adapter_model.safetensors").stat().st_size < 100_000
    saved = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    assert saved["base_model_name_or_path"] == "tiny"
    assert str(tmp_path) not in json.dumps(saved)


def test_an_encoder_takes_an_adapter_too(tmp_path):
    from transformers import BertConfig, BertModel, BertTokenizer

    folder = tmp_path / "bert"
    folder.mkdir()
    tokens = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "山", "水", "梦", "心")
    (folder / "vocab.txt").write_text("\n".join(tokens), encoding="utf-8")
    BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    BertModel(
        BertConfig(
            vocab_size=len(tokens),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=24,
        )
    ).save_pretrained(folder)
    encoder = pretrained(path=str(folder))
    classifier = lora_classifier(params(encoder, model=None, targets=("query", "value")), {})
    trained = {n for n, p in classifier.build(0).named_parameters() if p.requires_grad}
    assert any("query.lora_A" in name for name in trained)
    assert any("classifier" in name for name in trained)
    assert not any("embeddings" in name for name in trained)


def test_weights_that_are_not_finite_are_named(causal, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder, _ = causal
    model = AutoModelForCausalLM.from_pretrained(folder)
    model.model.norm.weight.data[0] = float("nan")
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path)
    spoilt = LocalModelParams(kind="local", file="tiny", path=str(tmp_path), family="qwen")
    with pytest.raises(UserError, match=r"norm\.weight' holds numbers that are not finite"):
        lora_classifier(params(), {"tiny": spoilt}).build(0)


def test_what_cannot_be_adapted_is_said_before_any_work(causal):
    _, models = causal
    with pytest.raises(UserError, match=r"begins\s+from random ones"):
        lora_classifier(params(model=None), models)
    api = ApiModelParams(kind="api", base_url="http://x", model="m", key_variable=None, family="x")
    with pytest.raises(UserError, match="over HTTP"):
        lora_classifier(params(), {"tiny": api})
    with pytest.raises(UserError, match="has no nonsense"):
        lora_classifier(params(targets=("nonsense",)), models).build(0)


def test_two_detectors_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two detectors are called 'roberta_tiny'"):
        params(name="roberta_tiny")
