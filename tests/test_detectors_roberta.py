"""RoBERTa from random weights and pretrained: what it reads, how it trains, where it resumes."""

import importlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from detector_fakes import halves, human, pairs, written
from sections import pretrained
from shared import BUGS, needs_shared

from shiyan.config import NGramParams, ScratchEncoderParams, TrainRobertaParams
from shiyan.detectors import finetune
from shiyan.detectors.crossfit import UnlearntError
from shiyan.detectors.finetune import Checkpoint, CurvePoint, Recipe, Sample, fine_tune
from shiyan.detectors.roberta import (
    checkpoint_folder,
    llm_index,
    log_odds,
    pretrained_encoder,
    quiet_transformers,
    scratch_encoder,
    working_dtype,
)
from shiyan.detectors.surface import LinearNGrams
from shiyan.detectors.trained import train_detectors
from shiyan.errors import UserError
from shiyan.work import WorkCache

pytestmark = pytest.mark.training

TINY = ScratchEncoderParams(kind="scratch", layers=1, hidden=16, heads=2)
RECIPE = Recipe(
    epochs=2,
    learning_rate=0.01,
    batch_size=4,
    warmup_share=0.1,
    weight_decay=0.01,
    balance="class_weights",
    seed=3,
)
TEXTS = (
    "山水\n云月",
    "风花\n雪雨",
    "江河\n草木",
    "梦心\n光影",
    "星海\n尘烟",
    "霜露\n虹霞",
    "梦光\n海",
)
LABELS = np.array([0, 0, 0, 1, 1, 1, 1])


def tiny(max_tokens: int = 16):
    # Twice, or a character of one text alone would be unknown.
    return scratch_encoder(TINY, TEXTS * 2, max_tokens)


def trained_by(recipe: Recipe, checkpoint: Checkpoint, watch=lambda point: None):
    classifier = tiny()
    sample = Sample.of(classifier, TEXTS, LABELS)
    return fine_tune(
        classifier, sample, recipe, checkpoint, name=("d", "all"), held_out=sample, watch=watch
    )


def checkpoint_in(folder: Path, seconds: float = 0.0) -> Checkpoint:
    return Checkpoint(WorkCache(folder), {"run": 1}, seconds)


def same_weights(a, b) -> bool:
    pairs_of = zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs_of)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return trained_by(RECIPE, checkpoint_in(tmp_path_factory.mktemp("whole")))


# --- what it reads ----------------------------------------------------------------------


def test_a_token_a_character_and_a_line_break_is_one():
    classifier = scratch_encoder(TINY, ["山\n水", "<s>"] * 2, 16)
    encoding = classifier.encode("山\n\n水")
    tokens = classifier.tokenizer.convert_ids_to_tokens(list(encoding.ids))
    assert tokens == ["<s>", "山", "\n", "\n", "水", "</s>"]
    assert classifier.reads_line_breaks


def test_a_special_token_in_a_poem_is_text():
    classifier = scratch_encoder(TINY, ["山<s>水"] * 2, 16)
    tokens = classifier.tokenizer.convert_ids_to_tokens(list(classifier.encode("<s>山").ids))
    assert tokens == ["<s>", "<", "s", ">", "山", "</s>"]


def test_characters_outside_the_train_fold_are_unknown_and_their_share_is_told():
    assert tiny().encode("山水龘䨻").unknown_share == 0.5
    assert tiny().encode("山水").unknown_share == 0


@pytest.mark.parametrize("n", [2, 19, 40])
def test_a_character_of_one_poem_is_unknown_however_many_poems_there_are(n):
    """So that `<unk>` is learnt, and no rare character betrays its poem."""
    classifier = scratch_encoder(TINY, ["山水"] * n + ["山龘"], 16)
    assert classifier.encode("山水龘").unknown_share == pytest.approx(1 / 3)


def test_a_long_poem_is_read_from_its_head_and_the_cut_is_known():
    classifier = tiny(max_tokens=8)
    a, b = classifier.encode("山水云月风花雪雨"), classifier.encode("山水云月风花江河草木")
    assert a.ids == b.ids
    assert (a.n_tokens, b.n_tokens, len(a.ids)) == (10, 12, 8)
    assert a.is_cut
    assert not classifier.encode("山水云月风花").is_cut
    assert a.ids[-1] == classifier.tokenizer.eos_token_id


def test_alone_in_a_batch_and_reversed_a_text_scores_the_same(undisturbed):
    model, _ = undisturbed
    classifier = tiny()
    texts = ["山", *TEXTS, "梦心光影星海尘烟霜露", "山"]
    encodings = [classifier.encode(text) for text in texts]
    together = finetune.encoded_scores(model, classifier, encodings)
    alone = [finetune.encoded_scores(model, classifier, [e])[0] for e in encodings]
    backwards = finetune.encoded_scores(model, classifier, encodings[::-1])[::-1]
    np.testing.assert_allclose(together, alone, atol=1e-4)
    np.testing.assert_allclose(together, backwards, atol=1e-4)
    assert together[0] == together[-1]


# --- training, and being killed -----------------------------------------------------------


def test_the_loss_falls_and_the_curve_has_every_step(undisturbed):
    _, points = undisturbed
    train = [p for p in points if p.part == "train"]
    assert [p.step for p in train] == [1, 2, 3, 4]
    assert [(p.step, p.epoch) for p in points if p.part == "held_out"] == [(2, 1), (4, 2)]
    model, longer = trained_by_many_epochs()
    assert longer[-1].loss < 0.1
    scores = finetune.encoded_scores(model, tiny(), [tiny().encode(t) for t in TEXTS])
    assert ((scores > 0) == (LABELS == 1)).all()


def trained_by_many_epochs():
    class Nowhere(Checkpoint):
        def load(self):
            return None

        def save(self, state):
            pass

    return trained_by(
        replace(RECIPE, epochs=30), Nowhere(WorkCache(Path("unused")), {}, float("inf"))
    )


@pytest.mark.parametrize("killed_after", [1, 2, 3, 4])
@pytest.mark.parametrize("seconds", [0.0, float("inf")])
def test_killed_at_any_step_it_ends_in_the_same_weights(
    killed_after, seconds, undisturbed, tmp_path
):
    """With a checkpoint each step, and with none at all before the kill."""

    class Kill(BaseException):
        pass

    def stop(point: CurvePoint) -> None:
        if point.step == killed_after and point.part == "train":
            raise Kill

    with pytest.raises(Kill):
        trained_by(RECIPE, checkpoint_in(tmp_path, seconds), stop)
    model, points = trained_by(RECIPE, checkpoint_in(tmp_path, seconds))
    assert same_weights(model, undisturbed[0])
    assert points == undisturbed[1]


def test_a_spoilt_checkpoint_is_begun_anew(undisturbed, tmp_path):
    checkpoint = checkpoint_in(tmp_path)
    checkpoint.cache.put(checkpoint.KIND, checkpoint.key, b"PK half a file")
    assert same_weights(trained_by(RECIPE, checkpoint)[0], undisturbed[0])


def test_a_finished_run_is_only_loaded(undisturbed, tmp_path):
    trained_by(RECIPE, checkpoint_in(tmp_path))
    seen: list[CurvePoint] = []
    model, points = trained_by(RECIPE, checkpoint_in(tmp_path), seen.append)
    assert same_weights(model, undisturbed[0])
    assert seen == points == undisturbed[1]


def test_another_seed_gives_other_weights(undisturbed, tmp_path):
    model, _ = trained_by(replace(RECIPE, seed=4), checkpoint_in(tmp_path))
    assert not same_weights(model, undisturbed[0])


def test_weights_that_run_away_are_a_reason_and_leave_no_checkpoint(tmp_path):
    checkpoint = checkpoint_in(tmp_path)
    with pytest.raises(UnlearntError, match=r"loss not finite at step 2\); lower"):
        trained_by(replace(RECIPE, learning_rate=1e9), checkpoint)
    assert checkpoint.load() is None
    one_step = replace(RECIPE, learning_rate=1e9, epochs=1, batch_size=16)
    with pytest.raises(UnlearntError, match="loss not finite after step 1"):
        trained_by(one_step, checkpoint)
    sample = Sample.of(tiny(), TEXTS, LABELS)
    with pytest.raises(UnlearntError, match="not finite after the last step"):
        fine_tune(tiny(), sample, one_step, checkpoint, name=("d", "all"))


def test_the_learning_rate_warms_up_and_falls_to_nothing():
    recipe = Recipe(1, 1.0, 1, 0.2, 0.0, "class_weights", 0)
    rates = [recipe.rate_at(step, 10) for step in range(10)]
    assert rates == pytest.approx([0.5, 1, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8])


def test_both_ways_of_balancing_give_the_classes_equal_weight():
    for balance in ("class_weights", "up_sampling"):
        recipe = Recipe(1, 1.0, 1, 0.0, 0.0, balance, 0)
        rows, weights = finetune._balanced(LABELS, recipe)
        by_class = [weights[rows][LABELS[rows] == label].sum() for label in (0, 1)]
        assert by_class[0] == pytest.approx(by_class[1])


# --- pretrained ----------------------------------------------------------------------------

VOCABULARY = (
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "山",
    "水",
    "云",
    "梦",
    "心",
    "光",
    "，",
)


@pytest.fixture
def bert(tmp_path):
    """A BERT of random weights, saved as the hub has hfl/chinese-roberta-wwm-ext: only .bin."""
    from transformers import BertConfig, BertForMaskedLM, BertTokenizer

    folder = tmp_path / "bert"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY), encoding="utf-8")
    BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=12,
    )
    torch.manual_seed(0)
    model = BertForMaskedLM(config)
    config.architectures = ["BertForMaskedLM"]
    config.save_pretrained(folder)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return folder, model


def test_a_bin_checkpoint_loads_with_every_encoder_weight(bert):
    folder, saved = bert
    model = pretrained_encoder(folder, "x", 512).build(0)
    ours = dict(model.bert.encoder.named_parameters())
    theirs = dict(saved.bert.encoder.named_parameters())
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert type(model).__name__ == "BertForSequenceClassification"


def test_a_checkpoints_own_head_is_not_used(bert, tmp_path):
    """Which of its classes is the LLM's is unknown, so the head is drawn anew by seed."""
    folder, _ = bert
    first = pretrained_encoder(folder, "x", 512).build(0)
    with torch.no_grad():
        first.classifier.weight.fill_(9.0)
    first.save_pretrained(tmp_path / "tuned")
    pretrained_encoder(folder, "x", 512).tokenizer.save_pretrained(tmp_path / "tuned")
    again = pretrained_encoder(tmp_path / "tuned", "x", 512).build(0)
    assert again.classifier.weight.abs().max() < 1
    assert again.config.id2label == {0: "human", 1: "LLM"}


def test_no_more_is_read_than_the_checkpoint_has_positions_for(bert):
    classifier = pretrained_encoder(bert[0], "x", 512)
    assert classifier.max_tokens == 12
    encoding = classifier.encode("山水云" * 10)
    assert (encoding.n_tokens, len(encoding.ids)) == (32, 12)
    logits = finetune.encoded_scores(classifier.build(0), classifier, [encoding])
    assert np.isfinite(logits).all()


def test_whether_line_breaks_are_read_is_known(bert):
    classifier = pretrained_encoder(bert[0], "x", 512)
    assert not classifier.reads_line_breaks
    assert classifier.encode("山\n水").ids == classifier.encode("山水").ids


def test_a_tokenizer_without_a_padding_token_is_named(bert):
    from transformers import PreTrainedTokenizerFast

    folder, _ = bert
    backend = tiny().tokenizer.backend_tokenizer
    PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>").save_pretrained(folder)
    with pytest.raises(UserError, match=r"no padding token \(pad_token"):
        pretrained_encoder(folder, "x", 512)


def test_bars_that_the_environment_forbids_are_no_warning(monkeypatch, recwarn):
    bars = importlib.import_module("huggingface_hub.utils.tqdm")
    monkeypatch.setattr(bars, "HF_HUB_DISABLE_PROGRESS_BARS", True)
    with quiet_transformers():
        pass
    assert not [w for w in recwarn if "progress bars" in str(w.message)]


def test_missing_encoder_weights_are_no_detector(bert):
    folder, saved = bert
    weights = {k: v for k, v in saved.state_dict().items() if ".layer.1." not in k}
    torch.save(weights, folder / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"16 weights of the encoder are missing.*layer\.1"):
        pretrained_encoder(folder, "x", 512).build(0)


def test_weights_of_another_architecture_are_refused(bert):
    folder, _ = bert
    classifier = tiny()
    torch.save(classifier.build(0).state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"not the bert that its config\.json names"):
        pretrained_encoder(folder, "x", 512).build(0)


def test_a_causal_model_is_no_encoder(tmp_path, bert):
    from transformers import Qwen2Config

    folder, _ = bert
    Qwen2Config(
        vocab_size=12,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        intermediate_size=8,
    ).save_pretrained(folder)
    with pytest.raises(UserError, match=r"holds a qwen2, which is no encoder"):
        pretrained_encoder(folder, "x", 512)


def test_a_bin_that_would_run_code_is_not_read(bert):
    folder, _ = bert

    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(folder / "owned"),)

    torch.save({"bert.x": Bomb()}, folder / "pytorch_model.bin")
    with pytest.raises(UserError, match="could run code"):
        pretrained_encoder(folder, "x", 512).build(0)
    assert not (folder / "owned").exists()


def test_a_checkpoint_that_is_nowhere_says_what_else_would_do(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    params = pretrained(repository="hfl/nowhere")
    with pytest.raises(UserError, match=r"hfl/nowhere.*encoder\.path.*train_roberta=scratch"):
        checkpoint_folder(params)


# --- which class is the LLM's ----------------------------------------------------------------

CLASS_NAMES = {
    "Fake, Real": ({0: "Fake", 1: "Real"}, 0.9526),
    "Human, ChatGPT": ({0: "Human", 1: "ChatGPT"}, 0.0474),
    "ours": ({0: "human", 1: "LLM"}, 0.0474),
    "LABEL_0": ({0: "LABEL_0", 1: "LABEL_1"}, None),
    "A, B": ({0: "A", 1: "B"}, None),
    "one class": ({0: "Fake"}, None),
    "a sentiment": ({0: "negative", 1: "positive"}, None),
}


@pytest.mark.parametrize("id2label, probability", CLASS_NAMES.values(), ids=CLASS_NAMES)
def test_the_llms_class_is_told_by_its_name_and_never_by_its_index(id2label, probability):
    logits = np.array([[2.0, -1.0]])
    if probability is None:
        with pytest.raises(UserError, match=r"config\.json|two"):
            llm_index(id2label, "folder")
        return
    score = log_odds(logits, id2label, "folder")[0]
    assert 1 / (1 + np.exp(-score)) == pytest.approx(probability, abs=1e-4)


# --- the whole stage's work ---------------------------------------------------------------------


def params(encoder=TINY, **changes) -> TrainRobertaParams:
    values = {
        "name": "roberta_tiny",
        "encoder": encoder,
        "epochs": 2,
        "learning_rate": 0.01,
        "batch_size": 8,
        "max_tokens": 20,
        "warmup_share": 0.0,
        "weight_decay": 0.0,
        "balance": "up_sampling",
        "seed": 0,
        "ngram": NGramParams(shortest=1, longest=2),
        "controls": ("length_only",),
        "folds": 2,
        "evaluate_every": None,
        "patience": None,
        "dtype": "float32",
        "text": "body",
        "lessons": {"controls": (), "networks": (), "network_folds": 2},
        "lora": None,
    }
    return TrainRobertaParams(**{**values, **changes})


def test_every_poem_gets_a_score_or_a_reason_from_every_detector(tmp_path):
    poems = pairs(8)
    poems["h8"] = human("h8", "……")
    poems["l8"] = written("l8", "h8", "梦" * 40)
    trained = train_detectors(poems, halves(poems), params(), {}, WorkCache(tmp_path / "work"))
    by_detector: dict[str, dict] = {}
    for score in trained.scores:
        by_detector.setdefault(score.detector, {})[score.poem_id] = score
    assert set(by_detector) == {"char_ngrams", "length_only", "roberta_tiny"}
    for scores in by_detector.values():
        assert scores.keys() == poems.keys()
        assert scores["h8"].unscored_reason == "no Chinese character"
    long = by_detector["roberta_tiny"]["l8"]
    assert (long.n_tokens, long.n_read) == (42, 20)
    assert trained.reading["roberta_tiny"]["test"]["LLM"]["n_cut"] >= 1
    assert any("first 20 tokens" in notice for notice in trained.notices)
    assert trained.made["n_train_human"] == trained.made["n_train_LLM"] == 4
    assert trained.made["networks"]["roberta_tiny"]["optimizer_steps"] == {"fold_1": 2, "fold_2": 2}
    trained.save(tmp_path / "models")
    files = {
        p.relative_to(tmp_path / "models").as_posix() for p in (tmp_path / "models").rglob("*")
    }
    assert {f"roberta_tiny/fold_{k}/model.safetensors" for k in (1, 2)} <= files
    assert not [f for f in files if f.endswith((".bin", ".pkl", ".pt", ".joblib"))]
    trained.forget_checkpoints()
    assert not [p for p in (tmp_path / "work" / "training").rglob("*") if p.is_file()]


def test_the_mean_of_the_saved_and_aligned_fold_models_is_a_test_poems_score(tmp_path):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    poems = pairs(6)
    trained = train_detectors(poems, halves(poems), params(), {}, WorkCache(tmp_path / "work"))
    trained.save(tmp_path / "models")
    made = json.loads((tmp_path / "models/made.json").read_text(encoding="utf-8"))
    test = [p for p, a in halves(poems).items() if a.fold == "test"]
    aligned, raw = [], []
    for fold, alignment in made["alignments"]["roberta_tiny"].items():
        folder = tmp_path / "models/roberta_tiny" / fold
        model = AutoModelForSequenceClassification.from_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        kept = trained.networks["roberta_tiny"][fold.replace("_", " ")].classifier
        for text in ("山水\n云", "梦心龘"):
            assert tokenizer(text)["input_ids"] == list(kept.encode(text).ids)
        encodings = [kept.encode(poems[p].text) for p in test]
        own = finetune.encoded_scores(model, kept, encodings)
        raw.append(own)
        aligned.append((own - alignment["median"]) / alignment["spread"])
        assert model.config.id2label == {0: "human", 1: "LLM"}
    assert len(aligned) == 2
    scores = {s.poem_id: s for s in trained.scores if s.detector == "roberta_tiny"}
    np.testing.assert_allclose(
        [scores[p].score for p in test], np.mean(aligned, axis=0), rtol=1e-3, atol=1e-3
    )
    labels = [int(value >= 0) for value in np.mean(raw, axis=0)]
    assert [scores[p].own_label for p in test] == labels


def test_saved_surface_models_and_their_alignments_are_the_detector_too(tmp_path):
    poems = pairs(6)
    trained = train_detectors(poems, halves(poems), params(), {}, WorkCache(tmp_path / "work"))
    trained.save(tmp_path / "models")
    made = json.loads((tmp_path / "models/made.json").read_text(encoding="utf-8"))
    scores = {s.poem_id: s.score for s in trained.scores if s.detector == "char_ngrams"}
    aligned = []
    for fold, alignment in made["alignments"]["char_ngrams"].items():
        own = LinearNGrams.load(tmp_path / "models/char_ngrams" / f"{fold}.json")
        raw = own.scores([poem.text for poem in poems.values()])
        aligned.append((raw - alignment["median"]) / alignment["spread"])
    found = dict(zip(poems, np.mean(aligned, axis=0), strict=True))
    for poem_id, assignment in halves(poems).items():
        if assignment.fold == "test":
            assert scores[poem_id] == pytest.approx(found[poem_id], abs=1e-6)


def test_a_second_run_asks_nothing_again_and_gives_the_same_scores(tmp_path, monkeypatch):
    poems = pairs(6)
    first = train_detectors(poems, halves(poems), params(), {}, WorkCache(tmp_path))
    monkeypatch.setattr(finetune, "_loss", None)
    second = train_detectors(poems, halves(poems), params(), {}, WorkCache(tmp_path))
    assert second.scores == first.scores
    assert second.curve == first.curve


def test_a_pretrained_encoder_goes_the_same_way(bert, tmp_path):
    encoder = pretrained(path=str(bert[0]))
    poems = pairs(6)
    trained = train_detectors(
        poems, halves(poems), params(encoder, controls=()), {}, WorkCache(tmp_path / "work")
    )
    assert trained.made["networks"]["roberta_tiny"]["model"].startswith("bert sha256:")
    assert trained.made["networks"]["roberta_tiny"]["reads_line_breaks"] is False
    assert trained.reading["roberta_tiny"]["train"]["human"]["mean_unknown_share"] > 0
    assert all(s.score is not None for s in trained.scores)


def test_without_an_llm_poem_nothing_is_trained_and_nothing_fails(tmp_path):
    poems = {f"h{i}": human(f"h{i}") for i in range(4)}
    trained = train_detectors(poems, halves(poems), params(), {}, WorkCache(tmp_path / "work"))
    assert all(s.score is None and s.unscored_reason for s in trained.scores)
    assert any("not trained" in notice for notice in trained.notices)
    trained.save(tmp_path / "models")
    assert json.loads((tmp_path / "models/controls.json").read_text(encoding="utf-8")) == {}


def test_a_network_that_diverged_scores_nothing_and_is_named(tmp_path):
    poems = pairs(8) | {"h9": human("h9", "……")}
    wild = params(learning_rate=1e9, epochs=3, controls=())
    trained = train_detectors(poems, halves(poems), wild, {}, WorkCache(tmp_path / "work"))
    mine = [s for s in trained.scores if s.detector == "roberta_tiny" and s.poem_id != "h9"]
    assert all(s.score is None and "training diverged" in s.unscored_reason for s in mine)
    assert trained.notices[0].startswith("roberta_tiny: not trained, training diverged (loss not")
    trained.save(tmp_path / "models")


def test_one_group_of_train_poems_is_not_said_to_be_cross_fitted(tmp_path):
    poems = pairs(2)
    trained = train_detectors(poems, halves(poems), params(), {}, WorkCache(tmp_path))
    assert trained.made["cross_fitting"].startswith("none: cross-fitting needs two groups")
    assert any("not trained, rest of the train fold" in n for n in trained.notices)
    poems = pairs(4)
    trained = train_detectors(poems, halves(poems), params(), {}, WorkCache(tmp_path))
    assert trained.made["cross_fitting"].startswith("mean of 2 models")


def test_one_fold_is_one_model_with_own_labels_and_no_score_of_a_train_poem(tmp_path):
    poems = pairs(6)
    one = params(folds=1, patience=1)
    trained = train_detectors(poems, halves(poems), one, {}, WorkCache(tmp_path / "work"))
    folds = halves(poems)
    for score in trained.scores:
        if folds[score.poem_id].fold == "train":
            assert (score.score, score.own_label) == (None, None)
            assert score.unscored_reason.startswith("folds: 1")
        else:
            border = 0.0
            assert score.own_label == int(score.score > border)
    assert {point.part for point in trained.curve} == {"train"}
    assert trained.alignments["roberta_tiny"] == {"all": None}
    trained.save(tmp_path / "models")
    assert (tmp_path / "models/roberta_tiny/all/model.safetensors").exists()


# --- the weights that are kept ----------------------------------------------------------------


def overfitted(folder: Path, recipe: Recipe, watch=lambda point: None, seconds=0.0):
    """Trained on labels of which the held-out ones are the opposite: each step makes it worse."""
    classifier = tiny()
    train = Sample.of(classifier, TEXTS, LABELS)
    held_out = Sample.of(classifier, TEXTS, 1 - LABELS)
    checkpoint = checkpoint_in(folder, seconds)
    model, points = fine_tune(
        classifier, train, recipe, checkpoint, name=("d", "1"), held_out=held_out, watch=watch
    )
    return model, points, (classifier, held_out)


def test_the_weights_of_the_lowest_held_out_loss_are_kept(tmp_path):
    model, points, (classifier, held_out) = overfitted(tmp_path, replace(RECIPE, epochs=6))
    losses = [point.loss for point in points if point.part == "held_out"]
    assert len(losses) == 6
    assert losses[-1] > min(losses)
    scores = finetune.encoded_scores(model, classifier, held_out.encodings)
    each = np.logaddexp(0, np.where(held_out.labels == 1, -scores, scores))
    by_class = [each[held_out.labels == label].mean() for label in (0, 1)]
    assert np.mean(by_class) == pytest.approx(min(losses), abs=1e-5)


@pytest.mark.parametrize(("every", "steps"), [(1, [1, 2, 3, 4]), (3, [3, 4]), (None, [2, 4])])
def test_the_held_out_loss_is_looked_at_as_often_as_said_and_at_the_end(every, steps, tmp_path):
    _, points, _ = overfitted(tmp_path, replace(RECIPE, evaluate_every=every))
    assert [point.step for point in points if point.part == "held_out"] == steps


def test_patience_ends_a_training_that_gets_worse(tmp_path):
    recipe = replace(RECIPE, epochs=20, patience=2)
    _, points, _ = overfitted(tmp_path, recipe)
    losses = [point.loss for point in points if point.part == "held_out"]
    assert len(losses) - 1 - int(np.argmin(losses)) == 2
    assert len(losses) < 20


@pytest.mark.parametrize("killed_after", [1, 3, 5, 6])
def test_killed_before_or_after_the_best_step_it_keeps_the_same_weights(killed_after, tmp_path):
    recipe = replace(RECIPE, epochs=8, evaluate_every=1, patience=4)

    class Kill(BaseException):
        pass

    def stop(point: CurvePoint) -> None:
        if point.step == killed_after and point.part == "held_out":
            raise Kill

    whole, points, _ = overfitted(tmp_path / "whole", recipe)
    if any(point.step == killed_after for point in points):
        with pytest.raises(Kill):
            overfitted(tmp_path / "killed", recipe, stop)
    model, again, _ = overfitted(tmp_path / "killed", recipe)
    assert same_weights(model, whole)
    assert again == points


# --- bfloat16 ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cuda", "cpu", "wanted", "found"),
    [
        (None, {"amx_bf16": True}, "auto", "bfloat16"),
        (None, {"avx512_bf16": True}, "auto", "bfloat16"),
        (None, {"avx2": True}, "auto", "float32"),
        (None, {}, "bfloat16", "bfloat16"),
        (None, {"amx_bf16": True}, "float32", "float32"),
        (True, {}, "auto", "bfloat16"),
        (False, {"amx_bf16": True}, "auto", "float32"),
    ],
)
def test_bfloat16_is_taken_where_the_machine_is_made_for_it(monkeypatch, cuda, cpu, wanted, found):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda is not None)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: cuda)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: cpu)
    assert working_dtype(wanted) == found


def test_an_encoder_trained_in_bfloat16_is_near_and_is_read_in_float32(bert, tmp_path):
    scores = {}
    for dtype in ("float32", "bfloat16"):
        classifier = replace(pretrained_encoder(bert[0], "x", 12), dtype=dtype)
        sample = Sample.of(classifier, ["山水", "云", "梦心", "光"], np.array([0, 0, 1, 1]))
        checkpoint = Checkpoint(WorkCache(tmp_path), {"dtype": dtype})
        model, _ = fine_tune(classifier, sample, RECIPE, checkpoint, name=("d", "all"))
        assert {p.dtype for p in model.parameters()} == {torch.float32}
        scores[dtype] = finetune.encoded_scores(model, classifier, sample.encodings)
    np.testing.assert_allclose(scores["bfloat16"], scores["float32"], atol=0.1)
    coarse = torch.tensor(scores["bfloat16"]).to(torch.bfloat16).double().numpy()
    assert (coarse != scores["bfloat16"]).any()


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import test_detectors_roberta as t
point = [0]
def kill(_):
    point[0] += 1
    if point[0] == 3:
        os.kill(os.getpid(), signal.SIGKILL)
t.trained_by(t.RECIPE, t.checkpoint_in(Path(sys.argv[1])), kill)
"""


def test_kill_9_and_a_new_process_end_in_the_same_weights(undisturbed, tmp_path):
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(Path(__file__).parent)]
    killed = subprocess.run(command, check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert same_weights(trained_by(RECIPE, checkpoint_in(tmp_path))[0], undisturbed[0])


@needs_shared
def test_the_case_of_a_long_poem_and_of_rare_characters():
    long_a, long_b = (
        (BUGS / f"41-longer-than-512/tail_{x}.txt").read_text(encoding="utf-8") for x in "ab"
    )
    classifier = scratch_encoder(TINY, [long_a], 512)
    a, b = classifier.encode(long_a), classifier.encode(long_b)
    assert a.ids == b.ids
    assert a.is_cut
    assert b.is_cut
    rare = (BUGS / "43-unknown-characters-roberta/rare.txt").read_text(encoding="utf-8")
    assert classifier.encode(rare).unknown_share > 0.5
