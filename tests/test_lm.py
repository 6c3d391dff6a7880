"""Token statistics against the slow and obvious way, and what must never move them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from lm_fakes import BYTES, edit_head, save_tokenizer, tiny_model
from transformers import AutoModelForCausalLM

from shiyan.errors import UserError
from shiyan.lm import reduce, statistics
from shiyan.lm.causal import CausalLM, Reading
from shiyan.lm.reduce import Plan
from shiyan.lm.statistics import batches, token_statistics
from shiyan.lm.tokenizer import check_tokenizer, load_tokenizer, refuse_other_tokens
from shiyan.models import ScoringModel
from shiyan.token_statistics import ModelStatistics, PairStatistics
from shiyan.work import WorkCache

TEXTS = ["石桥", "灯下\n\n有人磨墨", "雪落在井沿上，\n没有声音", "a", "渡口◎🙂", "钟" * 30]
PLAN = Plan(("p", "q"), (("q", "p"), ("p", "p")))


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Models this small only wait for a second thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, ScoringModel]:
    folder = tmp_path_factory.mktemp("models")
    return {"p": tiny_model(folder, "p", seed=1), "q": tiny_model(folder, "q", seed=2)}


@pytest.fixture
def cache(tmp_path) -> WorkCache:
    return WorkCache(tmp_path / "work")


def obvious(model: ScoringModel, ids: list[int], width: int = BYTES) -> np.ndarray:
    """ln p at each position, (n, width), from all logits at once, in float64."""
    loaded = AutoModelForCausalLM.from_pretrained(model.folder, dtype=torch.float32)
    with torch.no_grad():
        logits = loaded(torch.tensor([ids])).logits[0, :, :width].double()
    return logits.log_softmax(-1).numpy()


def arrays(found, keys=("p", "q", ("q", "p"), ("p", "p"))) -> list[np.ndarray]:
    """All rows of a text's statistics."""
    parts = [found.models[k] if isinstance(k, str) else found.pairs[k] for k in keys]
    return [row for part in parts for row in vars(part).values()]


def assert_equal(one, other, tolerance=1e-5):
    for a, b in zip(arrays(one), arrays(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def test_every_row_is_what_all_logits_at_once_give(models, cache):
    text = TEXTS[2]
    found = token_statistics(models, PLAN, TEXTS, Reading(), cache)[text]
    ids = list(load_tokenizer(models["p"]).encode([text])[0])
    log_p, log_q = obvious(models["p"], ids), obvious(models["q"], ids)
    steps = np.arange(len(ids) - 1)
    own = found.models["p"]
    np.testing.assert_allclose(own.log_prob, log_p[steps, ids[1:]], atol=1e-5)
    order = np.argsort(-log_p, axis=1)
    ranks = [1 + list(order[t]).index(ids[t + 1]) for t in steps]
    assert own.rank.tolist() == ranks
    assert own.ties.tolist() == [0] * len(steps)
    np.testing.assert_allclose(own.entropy, -(np.exp(log_p) * log_p).sum(1), atol=1e-5)
    np.testing.assert_allclose(own.top_log_prob, log_p.max(1), atol=1e-5)
    mean = (np.exp(log_q) * log_p).sum(1)
    pair = found.pairs["q", "p"]
    np.testing.assert_allclose(pair.expected_log_prob, mean, rtol=1e-5)
    spread = (np.exp(log_q) * (log_p - mean[:, None]) ** 2).sum(1)
    np.testing.assert_allclose(pair.variance, spread, rtol=1e-4)


def test_a_model_expects_of_itself_its_negated_entropy(models, cache):
    found = token_statistics(models, PLAN, TEXTS, Reading(), cache)[TEXTS[1]]
    expected = found.pairs["p", "p"].expected_log_prob
    np.testing.assert_allclose(expected, -found.models["p"].entropy, rtol=1e-5)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("budget", [1, 50, 10_000])
def test_order_batch_mates_and_chunks_move_no_score(models, tmp_path, monkeypatch, rows, budget):
    alone = {
        text: token_statistics(models, PLAN, [text], Reading(), WorkCache(tmp_path / "a"))[text]
        for text in TEXTS
        if len(text) > 1
    }
    monkeypatch.setattr(reduce, "CPU_ROWS", rows)
    monkeypatch.setattr(reduce, "CHUNK", 5 * rows)
    reading = Reading(batch_tokens=budget)
    together = token_statistics(models, PLAN, TEXTS[::-1], reading, WorkCache(tmp_path / "b"))
    for text, found in alone.items():
        assert_equal(found, together[text])


def test_padding_on_the_left_would_give_the_same(models, cache):
    text = TEXTS[1]
    found = token_statistics(models, PLAN, TEXTS, Reading(), cache)[text]
    ids = load_tokenizer(models["p"]).encode([text])[0]
    loaded = AutoModelForCausalLM.from_pretrained(models["p"].folder, dtype=torch.float32)
    padded = torch.tensor([[0] * 7 + ids])
    mask = torch.tensor([[0] * 7 + [1] * len(ids)])
    with torch.no_grad():
        logits = loaded(padded, attention_mask=mask).logits[0, 7:]
    own = logits.log_softmax(-1)[:-1].gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
    np.testing.assert_allclose(found.models["p"].log_prob, own, atol=1e-5)


def test_a_text_that_stands_twice_is_read_once_and_a_kept_one_never(models, cache, monkeypatch):
    read = []
    real = statistics.batch_rows

    def counted(models, plan, sequences):
        read.extend(map(tuple, sequences))
        return real(models, plan, sequences)

    monkeypatch.setattr(statistics, "batch_rows", counted)
    first = token_statistics(models, PLAN, [TEXTS[0], TEXTS[1], TEXTS[0]], Reading(), cache)
    assert len(read) == len(set(read)) == 2
    monkeypatch.setattr(statistics, "CausalLM", None)  # A second run must not load a model.
    again = token_statistics(models, PLAN, TEXTS[:2], Reading(batch_tokens=1), cache)
    assert_equal(first[TEXTS[0]], again[TEXTS[0]], tolerance=0)


def test_a_killed_run_goes_on_where_it_was(models, tmp_path, monkeypatch):
    whole = token_statistics(models, PLAN, TEXTS, Reading(), WorkCache(tmp_path / "whole"))
    cache, reading = WorkCache(tmp_path / "killed"), Reading(batch_tokens=20)
    real, seen = statistics.batch_rows, []

    def killed(models, plan, sequences):
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(len(sequences))
        return real(models, plan, sequences)

    monkeypatch.setattr(statistics, "batch_rows", killed)
    with pytest.raises(KeyboardInterrupt):
        token_statistics(models, PLAN, TEXTS, reading, cache)
    seen_before, left = sum(seen), []

    def resumed(models, plan, sequences):
        left.extend(sequences)
        return real(models, plan, sequences)

    monkeypatch.setattr(statistics, "batch_rows", resumed)
    found = token_statistics(models, PLAN, TEXTS, reading, cache)
    readable = [text for text in TEXTS if found[text].models]
    assert len(left) == len(readable) - seen_before
    for text in readable:
        assert_equal(found[text], whole[text])


def test_a_full_disk_stops_the_run_and_keeps_what_was_written(models, cache, monkeypatch):
    real, written = WorkCache.put, []

    def filling(self, kind, key, value):
        if len(written) == 4:
            raise UserError("the disk is full")
        written.append(key)
        real(self, kind, key, value)

    monkeypatch.setattr(WorkCache, "put", filling)
    monkeypatch.setattr(statistics, "WRITERS", 1)
    with pytest.raises(UserError, match="the disk is full"):
        token_statistics(models, PLAN, TEXTS, Reading(batch_tokens=20), cache)
    monkeypatch.undo()
    assert sum(path.is_file() for path in cache.root.rglob("*")) == 4


def test_only_what_is_missing_is_computed(models, cache, monkeypatch):
    token_statistics(models, Plan(("p",), ()), TEXTS, Reading(), cache)
    plans = []
    real = statistics.batch_rows
    monkeypatch.setattr(
        statistics, "batch_rows", lambda m, plan, s: plans.append(plan) or real(m, plan, s)
    )
    token_statistics(models, Plan(("p",), (("q", "p"),)), TEXTS, Reading(), cache)
    assert set(plans) == {Plan((), (("q", "p"),))}


@pytest.mark.parametrize("spoilt", [b"", b"\x93NUMPY", b"{}"])
def test_a_spoilt_entry_of_the_work_cache_is_computed_again(models, cache, spoilt):
    text = TEXTS[0]
    first = token_statistics(models, PLAN, [text], Reading(), cache)[text]
    for path in cache.root.rglob("*"):
        if path.is_file():
            path.write_bytes(spoilt)
    assert_equal(first, token_statistics(models, PLAN, [text], Reading(), cache)[text])


def test_rows_that_pad_a_wider_vocabulary_take_no_part(models, tmp_path, cache):
    wide = tiny_model(tmp_path, "wide", seed=3, width=BYTES + 40)
    edit_head(wide, BYTES + 5, 9.0)  # An untrained row may be anything.
    text, both = TEXTS[2], {**models, "wide": wide}
    plan = Plan(("wide",), (("wide", "p"), ("p", "wide")))
    found = token_statistics(both, plan, [text], Reading(), cache)[text]
    ids = load_tokenizer(wide).encode([text])[0]
    log_w, log_p = obvious(wide, ids), obvious(models["p"], ids)
    entropy = -(np.exp(log_w) * log_w).sum(1)
    np.testing.assert_allclose(found.models["wide"].entropy, entropy, atol=1e-4)
    mean = (np.exp(log_w) * log_p).sum(1)
    np.testing.assert_allclose(found.pairs["wide", "p"].expected_log_prob, mean, rtol=1e-4)


def test_tokenizers_that_differ_are_named_before_a_model_is_loaded(
    models, tmp_path, cache, monkeypatch
):
    other = tiny_model(tmp_path, "other", shuffled=True)
    monkeypatch.setattr(statistics, "CausalLM", None)
    plan = Plan(("p",), (("other", "p"),))
    with pytest.raises(UserError, match=r"tokenizers of p and other differ \('.+' is \d+ in"):
        token_statistics({**models, "other": other}, plan, TEXTS, Reading(), cache)


def test_one_more_token_of_text_is_refused_by_its_name(models):
    """Cut from one of the two softmaxes it would take its probability along."""
    plain = load_tokenizer(models["p"])
    larger = replace(plain, name="more", ids={**plain.ids, "灯": plain.width})
    for pair in ([plain, larger], [larger, plain]):
        with pytest.raises(UserError, match=r"'灯' is no token in p, \d+ in more"):
            refuse_other_tokens(pair)


def test_one_tokenizer_may_know_more_special_tokens_than_the_other(models, tmp_path, capsys):
    more = tiny_model(tmp_path, "more")
    tokenizer = load_tokenizer(more)
    tokenizer.backend.add_special_tokens({"additional_special_tokens": ["<|pad|>"]})
    tokenizer.backend.save_pretrained(more.folder)
    larger = load_tokenizer(more)
    assert larger.width == BYTES + 1
    refuse_other_tokens([load_tokenizer(models["p"]), larger])
    assert "more has control tokens that p lacks (<|pad|>)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        MemoryError(),
    ],
)
def test_out_of_memory_halves_the_batch_and_says_so(models, cache, monkeypatch, capsys, error):
    real = statistics.batch_rows

    def small_only(models, plan, sequences):
        if sum(map(len, sequences)) > 100:
            raise error
        return real(models, plan, sequences)

    monkeypatch.setattr(statistics, "batch_rows", small_only)
    found = token_statistics(models, PLAN, TEXTS, Reading(batch_tokens=1000), cache)
    assert all(found[text].models for text in TEXTS if len(text) > 1)
    assert "out of memory: going on with batches of" in capsys.readouterr().err


def test_no_memory_for_one_text_is_one_sentence_and_other_faults_are_not_hidden(
    models, cache, monkeypatch
):
    def never(models, plan, sequences):
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(statistics, "batch_rows", never)
    with pytest.raises(UserError, match="not memory enough for one text of 90 tokens"):
        token_statistics(models, PLAN, TEXTS, Reading(), cache)

    def broken(models, plan, sequences):
        raise RuntimeError("shapes do not fit")

    monkeypatch.setattr(statistics, "batch_rows", broken)
    with pytest.raises(RuntimeError, match="shapes"):
        token_statistics(models, PLAN, TEXTS, Reading(), cache)


def test_a_text_outside_the_limits_is_not_read_but_counted(models, cache):
    reading = Reading(min_tokens=7, max_tokens=20)
    found = token_statistics(models, PLAN, TEXTS, reading, cache)
    assert [bool(found[text].models) for text in TEXTS] == [False, True, False, False, True, False]
    assert [found[text].n_tokens for text in ("石桥", "a", "钟" * 30)] == [6, 1, 90]


def test_the_model_has_a_limit_of_its_own(models, cache):
    text = "钟" * 171  # 513 tokens, 512 positions.
    found = token_statistics(models, PLAN, [text], Reading(max_tokens=10_000), cache)[text]
    assert (found.n_tokens, found.models, found.longest) == (513, {}, 512)


def test_with_bos_the_first_token_is_predicted_too(models, cache):
    text = TEXTS[1]
    without = token_statistics(models, PLAN, [text], Reading(), cache)[text]
    with_bos = token_statistics(models, PLAN, [text], Reading(bos=True), cache)[text]
    assert with_bos.n_tokens == without.n_tokens == len(without.models["p"].log_prob) + 1
    assert len(with_bos.models["p"].log_prob) == without.n_tokens
    ids = [BYTES - 1, *load_tokenizer(models["p"]).encode([text])[0]]
    first = obvious(models["p"], ids)[0, ids[1]]
    assert with_bos.models["p"].log_prob[0] == pytest.approx(first, abs=1e-5)


def test_a_text_that_spells_a_special_token_is_read_as_it_stands(models):
    encoded = load_tokenizer(models["p"]).encode(["<|endoftext|>"])[0]
    assert len(encoded) == len("<|endoftext|>")
    assert BYTES - 1 not in encoded


class Codepoints:
    """A tokenizer of code points that can be made to lose or to double something."""

    bos_token_id = 1

    def __init__(self, lost: str = "", n_bos: int = 0) -> None:
        self.lost, self.n_bos = lost, n_bos

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        start = [self.bos_token_id] * self.n_bos if add_special_tokens else []
        return {"input_ids": start + [ord(c) for c in text if c not in self.lost]}

    def decode(self, ids: list[int]) -> str:
        return "".join(map(chr, ids))


def test_a_tokenizer_must_give_back_what_it_reads_with_one_bos_at_most():
    check_tokenizer(Codepoints(n_bos=1), "x.gguf")
    with pytest.raises(UserError, match=r"x\.gguf: its tokenizer turns '◎.*take the model's own"):
        check_tokenizer(Codepoints(lost="𫛛"), "x.gguf")
    with pytest.raises(UserError, match="puts the BOS token twice"):
        check_tokenizer(Codepoints(n_bos=2), "x.gguf")


def test_bfloat16_weights_still_give_float32_logits(models, cache):
    text = TEXTS[2]
    exact = token_statistics(models, PLAN, [text], Reading(), cache)[text]
    coarse = token_statistics(models, PLAN, [text], Reading(dtype="bfloat16"), cache)[text]
    np.testing.assert_allclose(
        coarse.models["p"].log_prob, exact.models["p"].log_prob, rtol=0.1, atol=0.3
    )
    assert not np.array_equal(coarse.models["p"].log_prob, exact.models["p"].log_prob)
    model = CausalLM(models["p"], load_tokenizer(models["p"]), Reading(dtype="bfloat16"))
    logits = model.logits(torch.randn(3, 16).bfloat16(), torch.empty(3, BYTES))
    assert logits.dtype == torch.float32
    assert not torch.equal(logits, logits.bfloat16().float())


def test_a_model_that_caps_its_logits_is_refused(tmp_path):
    from transformers import Gemma2Config, Gemma2ForCausalLM

    folder = tmp_path / "capped"
    config = Gemma2Config(
        vocab_size=BYTES,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        final_logit_softcapping=1.0,
        initializer_range=0.5,
    )
    Gemma2ForCausalLM(config).save_pretrained(folder)
    save_tokenizer(folder)
    model = ScoringModel("capped", folder, "x")
    with pytest.raises(UserError, match="scales or caps them"):
        CausalLM(model, load_tokenizer(model), Reading())


def test_a_model_that_reads_both_ways_is_no_causal_one(tmp_path):
    from transformers import BertConfig, BertForMaskedLM

    folder = tmp_path / "bert"
    config = BertConfig(
        vocab_size=BYTES,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
    )
    BertForMaskedLM(config).save_pretrained(folder)
    save_tokenizer(folder)
    model = ScoringModel("bert", folder, "x")
    with pytest.raises(UserError, match="bert is a bert, which is not a causal model"):
        CausalLM(model, load_tokenizer(model), Reading())


def test_a_model_under_two_names_is_loaded_and_passed_once(models, cache, monkeypatch):
    passes = []
    real = CausalLM.hidden
    monkeypatch.setattr(CausalLM, "hidden", lambda self, ids: passes.append(1) or real(self, ids))
    twice = {"a": models["p"], "b": models["p"]}
    token_statistics(twice, Plan(("a",), (("b", "a"),)), TEXTS[:1], Reading(), cache)
    assert len(passes) == 2  # One to check the output matrix at loading, one for the text.


def test_a_device_that_is_not_there_is_said(models, cache):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(UserError, match="torch sees no GPU"):
        token_statistics(models, PLAN, TEXTS, Reading(device="cuda"), cache)


def test_a_folder_without_weights_is_one_sentence(models, tmp_path, cache):
    model = tiny_model(tmp_path, "bare")
    (model.folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match="bare could not be loaded from"):
        token_statistics({"bare": model}, Plan(("bare",), ()), TEXTS, Reading(), cache)


@pytest.mark.parametrize(
    ("lengths", "budget", "expected"),
    [
        ([3, 9, 4], 12, [[1], [2, 0]]),
        ([5, 5, 5], 10, [[0, 1], [2]]),
        ([50], 10, [[0]]),
        ([90, 60, 60, 20], 1000, [[0, 1, 2], [3]]),  # 30 + 30 tokens of padding, not 70 more
        ([], 10, []),
    ],
)
def test_batches_hold_like_lengths_within_a_token_budget(lengths, budget, expected):
    assert batches(lengths, budget) == expected


@pytest.mark.parametrize("rows", [3, slice(None)])
def test_logits_that_are_not_finite_are_kept_for_a_reason_to_be_given(tmp_path, cache, rows):
    broken = tiny_model(tmp_path, "broken")
    edit_head(broken, rows, float("nan"))
    plan = Plan(("broken",), (("broken", "broken"),))
    found = token_statistics({"broken": broken}, plan, TEXTS[:1], Reading(), cache)[TEXTS[0]]
    assert np.isnan(found.models["broken"].log_prob).all()
    assert np.isnan(found.pairs["broken", "broken"].variance).all()


def test_statistics_have_the_shapes_that_they_say(models, cache):
    found = token_statistics(models, PLAN, TEXTS, Reading(), cache)[TEXTS[4]]
    n = found.n_tokens
    assert {len(row) for row in vars(found.pairs["q", "p"]).values()} == {n}
    own = found.models["p"]
    assert [len(row) for row in (own.log_prob, own.rank, own.ties)] == [n - 1] * 3
    assert [len(row) for row in (own.entropy, own.top_log_prob)] == [n] * 2
    assert isinstance(own, ModelStatistics)
    assert isinstance(found.pairs["q", "p"], PairStatistics)


@pytest.mark.parametrize("lost", ["lm_head.weight", "model.layers.1.mlp.up_proj.weight"])
def test_weights_that_are_not_in_the_file_are_refused_by_name(tmp_path, lost):
    from safetensors.torch import load_file, save_file

    model = tiny_model(tmp_path)
    file = model.folder / "model.safetensors"
    weights = load_file(file)
    del weights[lost]
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(UserError, match=rf"not in its files, e\.g\. .*{lost}"):
        CausalLM(model, load_tokenizer(model), Reading())


def test_weights_under_other_names_are_refused(tmp_path):
    from safetensors.torch import load_file, save_file

    model = tiny_model(tmp_path)
    file = model.folder / "model.safetensors"
    renamed = {f"base_model.model.{name}": value for name, value in load_file(file).items()}
    save_file(renamed, file, metadata={"format": "pt"})
    with pytest.raises(UserError, match="not in its files"):
        CausalLM(model, load_tokenizer(model), Reading())
