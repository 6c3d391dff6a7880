"""Detectors without a language model, and cross-fitted scores."""

import json

import numpy as np
import pytest
from detector_fakes import evaluated, halves, human, pairs, written

from shiyan.config import NGramParams
from shiyan.detectors.crossfit import Corpus, as_records, fit_and_score, group_folds
from shiyan.detectors.metrics import auroc
from shiyan.detectors.surface import (
    LAYOUT,
    LinearNGrams,
    SurfaceName,
    facts,
    layout,
    learner,
    length,
    scores_of,
    typography,
)

NGRAM = NGramParams(shortest=1, longest=2)
NAMES: tuple[SurfaceName, ...] = (
    "char_ngrams",
    "char_ngrams_svm",
    "char_ngrams_forest",
    "typography_only",
    "han_only",
    "layout_only",
    "length_only",
)


def fitted(name: SurfaceName, poems, folds: int = 4):
    corpus = Corpus.of(poems, halves(poems))
    kept: dict = {}
    return corpus, fit_and_score(learner(name, corpus, NGRAM, 0, kept), corpus, folds, 0), kept


def metrics_of(poems, name: SurfaceName, resamples: int = 200):
    corpus, found, _ = fitted(name, poems)
    evaluation = evaluated(poems, trained=as_records(name, corpus, found), resamples=resamples)
    return evaluation.headlines()[name]["all"]


def test_characters_tell_classes_of_which_layout_knows_nothing():
    poems = pairs(40)
    assert metrics_of(poems, "char_ngrams")["auroc"]["value"] > 0.95
    layout_only = metrics_of(poems, "layout_only")
    # Every poem has the same layout, so the scores are equal and there is nothing to say.
    assert "equal" in layout_only["auroc"]["reason"]


def test_layout_tells_classes_that_differ_in_layout_only():
    poems = {}
    for i in range(20):
        poems[f"h{i}"] = human(f"h{i}", "山水云月\n" * (3 + i % 3))
        poems[f"l{i}"] = written(f"l{i}", f"h{i}", "山水云月，\n\n" * (3 + i % 3))
    found = metrics_of(poems, "layout_only")["auroc"]
    assert found["value"] == 1.0


def test_features_by_hand():
    assert length("山水\n云") == [pytest.approx(np.log(4))]
    named = dict(zip(LAYOUT, layout("山水，\n云 月\n\n风"), strict=True))
    assert named == {
        "lines": 3,
        "stanzas": 2,
        "mean characters a line": pytest.approx(5 / 3),
        "deviation of characters a line": pytest.approx(np.std([2, 2, 1])),
        "longest line": 2,
        "shortest line": 1,
        "share of punctuation": pytest.approx(1 / 6),
        "share of lines that end in punctuation": pytest.approx(1 / 3),
        "share of lines with a blank inside": pytest.approx(1 / 3),
    }


@pytest.mark.parametrize("name", NAMES)
def test_labels_drawn_by_lot_leave_nothing_to_learn(name):
    """50 give or take its interval, for every detector; poems by lot into folds and classes."""
    rng = np.random.default_rng(1)
    originals = list(pairs(60).values())
    texts = [poem.text + "\n" + "云" * int(rng.integers(1, 6)) for poem in originals]
    rng.shuffle(texts)
    shuffled = {
        poem.poem_id: poem.model_copy(update={"text": text})
        for poem, text in zip(originals, texts, strict=True)
    }
    found = metrics_of(shuffled, name)["auroc"]
    assert found["low"] < 0.5 < found["high"]


def test_a_leak_would_look_like_skill_and_whole_groups_prevent_it():
    """Labels by lot again, but each group's poems share a rare character and a class.

    Were groups parted, a detector would know a poem by its twin's character. Folds of
    whole groups leave it at chance; the same learner on folds that ignore groups is
    nearly perfect, which is what a leak looks like.
    """
    rng = np.random.default_rng(0)
    signs = [chr(0x4E00 + i) for i in range(40)]
    labels = np.repeat(rng.permutation(np.repeat([0, 1], 20)), 4)
    texts = tuple(sign * 3 + "山水" for sign in signs for _ in range(4))
    groups = tuple(f"g{i}" for i in range(40) for _ in range(4))
    ids = tuple(str(i) for i in range(160))
    found = {}
    for name, kept_groups in (("whole", groups), ("leaky", ids)):
        corpus = Corpus(ids, texts, labels, kept_groups, np.ones(160, bool), {})
        learn = learner("char_ngrams", corpus, NGRAM, 0, {})
        found[name] = auroc(labels, fit_and_score(learn, corpus, 5, 0).scores)
    assert found["leaky"] > 0.95
    assert found["whole"] < 0.7


def test_no_train_poem_is_scored_by_what_learnt_its_group():
    poems = pairs(12, prompts=("P1", "P2"))
    corpus = Corpus.of(poems, halves(poems))
    seen: list[tuple[set[str], set[str], str]] = []

    def learn(rows, fold):
        learnt = {corpus.groups[row] for row in rows}

        def score(held_out):
            seen.append((learnt, {corpus.groups[row] for row in held_out}, fold))
            return np.zeros(len(held_out))

        return score

    fit_and_score(learn, corpus, 3, 0)
    assert [fold for *_, fold in seen] == ["fold 1", "fold 2", "fold 3"]
    assert all(not learnt & asked for learnt, asked, _ in seen)
    test = {corpus.groups[row] for row in corpus.rows(train=False)}
    assert all(test < asked for _, asked, _ in seen)
    assert set.union(*(asked for _, asked, _ in seen)) - test == {
        corpus.groups[row] for row in corpus.rows(train=True)
    }


def test_folds_are_alike_in_classes_and_no_more_than_groups():
    labels = np.array([0, 1] * 6 + [0] * 6)
    groups = [f"pair{i // 2}" for i in range(12)] + [f"alone{i}" for i in range(6)]
    folds = group_folds(labels, groups, 3, seed=0)
    for fold in range(3):
        assert (folds[:12] == fold).sum() == 4
        assert (folds[12:] == fold).sum() == 2
    assert set(group_folds(labels[:4], groups[:4], 9, seed=0)) == {0, 1}


def test_a_train_fold_of_one_class_scores_nothing_and_says_so():
    poems = {f"h{i}": human(f"h{i}") for i in range(4)}
    corpus, found, kept = fitted("char_ngrams", poems)
    records = as_records("char_ngrams", corpus, found)
    assert all(r.score is None for r in records)
    assert all("one class (human, n=2)" in r.unscored_reason for r in records)
    assert not kept


def test_of_one_group_nothing_is_learnt():
    poems = {"h0": human("h0"), "h1": human("h1"), "l1": written("l1", "h1")}
    corpus, found, _ = fitted("char_ngrams", poems)
    by_id = {r.poem_id: r for r in as_records("char_ngrams", corpus, found)}
    assert {record.score for record in by_id.values()} == {None}
    assert all(
        record.unscored_reason.startswith("rest of the train fold: no scored poem")
        for record in by_id.values()
    )


def test_texts_without_a_character_are_unscored_and_change_nothing_else():
    poems = pairs(12)
    clean, before, _ = fitted("char_ngrams", poems)
    poems |= {"h100": human("h100", "…！"), "h101": human("h101", " \n")}
    corpus, after, _ = fitted("char_ngrams", poems)
    by_id = {r.poem_id: r for r in as_records("char_ngrams", corpus, after)}
    assert by_id["h100"].unscored_reason == "no Chinese character"
    assert by_id["h101"].unscored_reason == "empty"
    np.testing.assert_array_equal(after.scores[: len(clean)], before.scores)


@pytest.mark.parametrize("name", ["char_ngrams", "char_ngrams_svm", "han_only"])
def test_a_saved_detector_scores_as_before(name, tmp_path):
    poems = pairs(15)
    _, _, kept = fitted(name, poems)
    texts = [poem.text for poem in poems.values()] + ["从未见过的字", "山\n\n水"]
    for fold, pipeline in kept.items():
        LinearNGrams.of(name, pipeline).save(tmp_path / f"{fold}.json")
        loaded = LinearNGrams.load(tmp_path / f"{fold}.json")
        np.testing.assert_allclose(loaded.scores(texts), scores_of(pipeline, texts), atol=1e-9)
        assert loaded.weights[0] < 0 < loaded.weights[-1]
    assert len(kept) == 4


def test_the_controls_facts_are_plain_numbers():
    poems = pairs(15)
    for name in ("layout_only", "length_only", "char_ngrams_forest"):
        _, _, kept = fitted(name, poems)
        for pipeline in kept.values():
            json.dumps(facts(name, pipeline), allow_nan=False)


def test_typography_is_what_is_left_of_a_text_without_its_characters():
    assert typography("山水，云——\n\n月 a") == "字字，字——\n\n字 a"


def test_characters_alone_and_marks_alone_are_told_apart_by_their_own_control():
    """A mark decides one corpus, a character the other; layout is the same in both."""
    by_mark, by_character = {}, {}
    for i in range(24):
        common = "山水云月"[i % 4] * 2
        by_mark[f"h{i}"] = human(f"h{i}", f"{common}，\n{common}。")
        by_mark[f"l{i}"] = written(f"l{i}", f"h{i}", f"{common}；\n{common}。")
        by_character[f"h{i}"] = human(f"h{i}", f"{common}江，\n{common}。")
        by_character[f"l{i}"] = written(f"l{i}", f"h{i}", f"{common}梦，\n{common}。")

    def found(poems, name):
        corpus, scores, _ = fitted(name, poems)
        test = corpus.rows(train=False)
        return auroc(corpus.labels[test], scores.scores[test])

    assert found(by_mark, "typography_only") == found(by_character, "han_only") == 1.0
    assert found(by_mark, "han_only") == found(by_character, "typography_only") == 0.5


@pytest.mark.parametrize("n", [2, 60])
def test_an_ngram_of_one_poem_is_no_feature_however_many_poems_there_are(n):
    poems = pairs(2 * n)
    poems["h1"] = human("h1", poems["h1"].text + "龘")
    _, _, kept = fitted("char_ngrams", poems, folds=2)
    for pipeline in kept.values():
        assert "龘" not in pipeline[0].get_feature_names_out()


def test_without_a_common_ngram_nothing_is_learnt_and_that_is_said():
    signs = iter(map(chr, range(0x4E00, 0x4F00)))
    poems = {}
    for i in range(8):
        poems[f"h{i}"] = human(f"h{i}", next(signs) + next(signs))
        poems[f"l{i}"] = written(f"l{i}", f"h{i}", next(signs) + next(signs))
    corpus, found, _ = fitted("char_ngrams", poems)
    records = as_records("char_ngrams", corpus, found)
    assert {r.unscored_reason for r in records} == {"no n-gram stands in 2 train poems"}
