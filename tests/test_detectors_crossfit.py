"""Cross-fitting: the mean of K aligned models, by hand, and what is said where it says little."""

import numpy as np
import pytest
from detector_fakes import halves, human, pairs, written

from shiyan.detectors.crossfit import (
    ONE_MODEL,
    Alignment,
    Corpus,
    UnlearntError,
    alignment_notices,
    as_records,
    fit_and_score,
    one_label_notices,
    spread_notices,
)
from shiyan.detectors.metrics import auroc


def corpus_of(poems) -> Corpus:
    return Corpus.of(poems, halves(poems))


def by_fold(corpus, score_of):
    """A learner whose fold k scores row r as score_of(k, r)."""

    def learn(rows, fold):
        number = 0 if fold == "all" else int(fold.split()[1])
        return lambda asked: np.array([score_of(number, row) for row in asked], np.float64)

    return learn


def test_an_alignment_by_hand():
    scores, labels = np.array([9.0, 1.0, 2.0, 3.0, 4.0, 5.0]), np.array([0, 1, 1, 1, 1, 1])
    alignment = Alignment.of(scores, labels)
    assert (alignment.median, alignment.spread, alignment.n) == (3.0, 2.0, 5)
    np.testing.assert_allclose(alignment(np.array([3.0, 5.0, 0.0])), [0.0, 1.0, -1.5])


def test_where_all_llm_poems_score_alike_all_held_out_ones_are_the_scale_and_then_nothing():
    labels = np.array([0, 0, 1, 1])
    some = Alignment.of(np.array([0.0, 1.0, 2.0, 2.0]), labels)
    assert (some.median, some.spread, some.spread_of) == (2.0, 1.25, "all held-out poems")
    none = Alignment.of(np.array([2.0, 2.0, 2.0, 2.0]), labels)
    assert (none.median, none.spread, none.spread_of) == (2.0, 1.0, "none")


def test_a_test_poems_score_is_the_mean_of_the_aligned_models_and_a_train_poems_its_own():
    poems = pairs(12, prompts=("P1", "P2", "P3"))
    corpus = corpus_of(poems)
    own = np.random.default_rng(0).normal(size=len(corpus)) + corpus.labels
    shift, stretch = (0.0, 50.0, -7.0), (1.0, 0.001, 400.0)
    found = fit_and_score(
        by_fold(corpus, lambda k, row: shift[k - 1] + stretch[k - 1] * own[row]), corpus, 3, 0
    )
    assert len(found.models) == 3
    test, train = corpus.rows(train=False), corpus.rows(train=True)
    aligned = []
    for model in found.models:
        held_out = [row for row in train if np.isfinite(model.raw[row])]
        of_llm = model.raw[[row for row in held_out if corpus.labels[row]]]
        low, high = np.percentile(of_llm, (25, 75))
        aligned.append((model.raw - np.median(of_llm)) / (high - low))
        np.testing.assert_allclose(found.scores[held_out], aligned[-1][held_out])
        np.testing.assert_allclose(found.raw[held_out], model.raw[held_out])
    np.testing.assert_allclose(found.scores[test], np.mean(aligned, axis=0)[test])
    raw = np.mean([model.raw for model in found.models], axis=0)
    np.testing.assert_allclose(found.raw[test], raw[test])


def test_shift_and_stretch_of_a_model_change_no_score():
    """What a longer training does to a network must not decide who wrote a poem."""
    poems = pairs(20, prompts=("P1", "P2"))
    corpus = corpus_of(poems)
    own = np.random.default_rng(1).normal(size=len(corpus)) + corpus.labels
    plain = fit_and_score(by_fold(corpus, lambda k, row: own[row]), corpus, 4, 0)
    apart = fit_and_score(by_fold(corpus, lambda k, row: 9.0 * k + k * own[row]), corpus, 4, 0)
    np.testing.assert_allclose(apart.scores, plain.scores, atol=1e-9)
    train = corpus.rows(train=True)
    assert auroc(corpus.labels[train], apart.raw[train]) < auroc(
        corpus.labels[train], apart.scores[train]
    )


def test_own_labels_are_by_the_mean_of_raw_scores_at_the_border():
    poems = pairs(8)
    corpus = corpus_of(poems)
    found = fit_and_score(
        by_fold(corpus, lambda k, row: 0.6 if corpus.labels[row] else 0.4 + row / 1000),
        corpus,
        2,
        0,
    )
    at_half = {r.poem_id: r.own_label for r in as_records("d", corpus, found, border=0.5)}
    assert at_half == {p: poem.label for p, poem in poems.items()}
    assert {r.own_label for r in as_records("d", corpus, found)} == {1}


def test_a_detector_says_human_on_its_own_border():
    """As scikit-learn's predict, which takes the first of two equally likely classes."""
    poems = pairs(8)
    corpus = corpus_of(poems)
    learn = by_fold(corpus, lambda k, row: 0.5 + 0.1 * corpus.labels[row])
    found = fit_and_score(learn, corpus, 2, 0)
    by_id = {r.poem_id: r.own_label for r in as_records("char_ngrams_forest", corpus, found, 0.5)}
    assert by_id == {poem_id: poem.label for poem_id, poem in poems.items()}


def test_a_part_without_an_llm_poem_has_no_scale_and_says_so():
    poems = {f"h{i}": human(f"h{i}") for i in range(8)}
    poems |= {"l1": written("l1", "h1"), "l2": written("l2", "h2"), "l3": written("l3", "h3")}
    corpus = corpus_of(poems)
    found = fit_and_score(by_fold(corpus, lambda k, row: float(row)), corpus, 4, 0)
    records = {r.poem_id: r for r in as_records("d", corpus, found)}
    reasons = {r.unscored_reason for r in records.values() if r.score is None}
    assert reasons
    assert all("holds out no LLM poem" in reason for reason in reasons)
    assert len(found.models) == 2
    assert all(records[p].score is not None for p in ("h0", "h2", "l1", "l2", "l3"))


def test_a_model_that_learns_nothing_leaves_the_others_mean_and_its_own_part_unscored():
    poems = pairs(8)
    corpus = corpus_of(poems)

    def learn(rows, fold):
        if fold == "fold 2":
            raise UnlearntError("no luck")
        return lambda asked: asked.astype(float)

    found = fit_and_score(learn, corpus, 2, 0)
    assert [model.name for model in found.models] == ["fold 1"]
    assert np.isfinite(found.scores[corpus.rows(train=False)]).all()
    assert set(found.reasons.values()) == {"no luck"}
    assert len(found.reasons) == 4


def test_a_test_poem_that_one_model_cannot_score_has_no_mean():
    poems = pairs(8)
    corpus = corpus_of(poems)
    silent = corpus.poem_ids.index("h0")
    found = fit_and_score(
        by_fold(corpus, lambda k, row: np.nan if (k, row) == (1, silent) else float(row)),
        corpus,
        2,
        0,
    )
    record = next(r for r in as_records("d", corpus, found) if r.poem_id == "h0")
    assert (record.score, record.own_label) == (None, None)
    assert record.unscored_reason == "the detector gave no finite score"


def test_one_fold_is_one_model_whose_raw_scores_stand_for_themselves():
    poems = pairs(6)
    corpus = corpus_of(poems)
    seen = []

    def learn(rows, fold):
        seen.append((fold, rows.tolist()))
        return lambda asked: asked - 5.0

    found = fit_and_score(learn, corpus, 1, 0)
    train, test = corpus.rows(train=True), corpus.rows(train=False)
    assert seen == [("all", train.tolist())]
    np.testing.assert_array_equal(found.scores[test], test - 5.0)
    assert np.isnan(found.scores[train]).all()
    assert {found.reasons[row] for row in train.tolist()} == {ONE_MODEL}


def test_models_that_lie_further_apart_than_poems_are_told_of():
    poems = pairs(12)
    corpus = corpus_of(poems)
    test = corpus.rows(train=False)
    apart = fit_and_score(by_fold(corpus, lambda k, row: k + row / 1e4), corpus, 3, 0)
    (notice,) = spread_notices("net", apart, test)
    assert notice.startswith("net: raw scores of 12 test poems")
    assert "medians of the 3 models lie 2 apart" in notice
    near = fit_and_score(by_fold(corpus, lambda k, row: k / 1e4 + row), corpus, 3, 0)
    assert spread_notices("net", near, test) == []


def test_one_label_for_all_is_told_of_and_an_alignment_without_a_scale_too():
    poems = pairs(12)
    corpus = corpus_of(poems)
    test = corpus.rows(train=False)
    found = fit_and_score(by_fold(corpus, lambda k, row: 5.0), corpus, 2, 0)
    (notice,) = one_label_notices("net", found, test)
    assert notice == "net: by its own labels every one of 12 test poems is LLM"
    notices = alignment_notices("net", found)
    assert len(notices) == 2
    assert "fold 1 holds out have an interquartile range of 0" in notices[0]
    good = fit_and_score(by_fold(corpus, lambda k, row: row - 7.5), corpus, 2, 0)
    assert one_label_notices("net", good, test) == alignment_notices("net", good) == []


@pytest.mark.parametrize("text", ["body", "unpunctuated"])
def test_the_body_is_read_with_or_without_punctuation(text):
    poems = {"h1": human("h1", "灯亮，风起。\n夜"), "l1": written("l1", "h1", "梦……")}
    corpus = Corpus.of(poems, halves(poems), text=text)
    wanted = {"body": ("灯亮，风起。\n夜", "梦……"), "unpunctuated": ("灯亮 风起\n夜", "梦")}
    assert corpus.texts == wanted[text]
