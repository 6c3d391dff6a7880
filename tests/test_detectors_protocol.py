"""Which poems train and which test, in every table."""

from collections import Counter

import pytest
from detector_fakes import evaluated, evaluator_of, halves, noisy, pairs, scored, written

from shiyan.detectors.evaluation.cells import difference
from shiyan.detectors.evaluation.poems import evaluated_poems
from shiyan.detectors.protocol import EVERYBODY, OUT_OF_DOMAIN, Protocol, subset_order
from shiyan.errors import UserError
from shiyan.families import family_of


def protocol_of(poems):
    return Protocol.of(evaluated_poems(poems, halves(poems)))


PROMPTS = tuple(f"P{i}" for i in range(1, 14))


def corpus(n=8, poets=4, prompts=PROMPTS, generators=("a", "b")):
    """Poems whose poet is the number's remainder."""
    poems = pairs(n, prompts, generators)
    return {
        p: poem
        if poem.generation
        else poem.model_copy(update={"author": f"poet{int(p[1:]) % poets}"})
        for p, poem in poems.items()
    }


def warmer(poems, temperature):
    """The same LLM poems once more, written at another temperature."""
    found = {}
    for poem in poems.values():
        if poem.generation:
            made = poem.generation.model_copy(
                update={"temperature": temperature, "sample_index": int(10 * temperature)}
            )
            poem_id = f"{poem.poem_id}-{temperature:g}"
            found[poem_id] = poem.model_copy(update={"poem_id": poem_id, "generation": made})
    return found


def test_no_group_is_learnt_from_and_tested_on_in_any_setting():
    poems = corpus()
    poems |= warmer(corpus(prompts=("P1",)), 0.7) | warmer(corpus(prompts=("P1",)), 1.5)
    protocol = protocol_of(poems)
    kinds = {setting.kind for setting in protocol.settings}
    assert kinds == {
        "in_domain",
        "out_of_domain",
        "temperature",
        "generator",
        "generator_left_out",
        "poet_left_out",
    }
    for setting in protocol.settings:
        lesson = protocol.lessons[setting.lesson]
        assert lesson.train and setting.test, setting
        assert set(setting.test) <= set(lesson.test)
        learnt = {family_of(poems[p]) for p in lesson.train}
        assert learnt.isdisjoint({family_of(poems[p]) for p in setting.test}), setting


def test_table_4_has_the_papers_cells():
    poems = corpus()
    protocol = protocol_of(poems)
    cells = {(s.trained_on, s.tested_on) for s in protocol.of_kind("out_of_domain")}
    assert cells == {(a, b) for a, columns in OUT_OF_DOMAIN.items() for b in columns}
    of_d2 = protocol.lessons["D2+4+5"]
    prompts = {poems[p].generation.prompt_id for p in of_d2.train if poems[p].generation}
    assert prompts == {"P2", "P4", "P5"}


def test_a_poet_or_generator_that_is_left_out_is_not_learnt_from():
    poems = corpus()
    protocol = protocol_of(poems)
    for setting in protocol.of_kind("generator_left_out"):
        train = protocol.lessons[setting.lesson].train
        made = {poems[p].generation.generator for p in train if poems[p].generation}
        assert made == {"a", "b"} - {setting.tested_on}
    for setting in protocol.of_kind("poet_left_out"):
        train = protocol.lessons[setting.lesson].train
        assert setting.tested_on not in {poems[p].author for p in train if not poems[p].generation}
        seeds = {poems[p].generation.seed_poem_id for p in train if poems[p].generation}
        assert setting.tested_on not in {poems[s].author for s in seeds}


def test_temperatures_go_both_ways_on_p1_for_all_and_for_each_generator():
    poems = corpus(prompts=("P1", "P2"))
    poems |= warmer(poems, 0.0) | warmer(poems, 1.5)
    found = protocol_of(poems).of_kind("temperature")
    assert {(s.generator, s.trained_on, s.tested_on) for s in found} == {
        (g, a, b) for g in (EVERYBODY, "a", "b") for a in ("0", "1.5") for b in ("0", "1.5")
    }
    warm = next(s for s in found if (s.generator, s.tested_on) == ("a", "1.5"))
    made = [poems[p].generation for p in warm.test if poems[p].generation]
    assert {(g.generator, g.prompt_id, g.temperature) for g in made} == {("a", "P1", 1.5)}


def with_some_cooler():
    """P1 and P2 at 1.0 by a, b and c, and P1 at 0.7 by a and c alone."""
    poems = {p: poem for p, poem in corpus().items() if not poem.generation}
    poems |= warmer(corpus(prompts=("P1", "P2"), generators=("a", "b", "c")), 1.0)
    return poems | warmer(corpus(prompts=("P1",), generators=("a", "c")), 0.7)


def written_in(poems, poem_ids):
    return Counter(
        (made.generator, made.temperature) for p in poem_ids if (made := poems[p].generation)
    )


def test_all_generators_are_only_those_that_have_the_temperatures_compared():
    poems = with_some_cooler()
    found = protocol_of(poems).of_kind("temperature")
    assert {s.generator for s in found} == {EVERYBODY, "a", "c"}
    for setting in found:
        if setting.generator == EVERYBODY:
            degree = float(setting.tested_on)
            assert written_in(poems, setting.test) == {("a", degree): 4, ("c", degree): 4}
    of_two = {p: q for p, q in poems.items() if not q.generation or q.generation.generator != "c"}
    found = protocol_of(of_two).of_kind("temperature")
    assert {s.generator for s in found} == {EVERYBODY, "a"}
    for setting in found:
        assert {whose for whose, _ in written_in(of_two, setting.test)} == {"a"}


def test_temperatures_of_several_prompts_are_compared_on_the_prompts_that_have_them():
    poems = {p: poem for p, poem in corpus().items() if not poem.generation}
    poems |= warmer(corpus(prompts=("P2", "P3"), generators=("a",)), 1.0)
    poems |= warmer(corpus(prompts=("P2",), generators=("a",)), 0.7)
    for setting in protocol_of(poems).of_kind("temperature"):
        prompts = {poems[p].generation.prompt_id for p in setting.test if poems[p].generation}
        assert prompts == {"P2"}


def test_no_other_setting_pools_temperatures_or_counts_an_imitation_twice():
    poems = with_some_cooler()
    protocol = protocol_of(poems)
    others = [s for s in protocol.settings if s.kind != "temperature"]
    assert {s.kind for s in others} > {"in_domain", "generator", "poet_left_out"}
    for setting in others:
        for poem_ids in (setting.test, protocol.lessons[setting.lesson].train):
            assert {degree for _, degree in written_in(poems, poem_ids)} <= {1.0}
    d1 = next(s for s in others if s.lesson == "D1")
    assert written_in(poems, d1.test) == {("a", 1.0): 4, ("b", 1.0): 4, ("c", 1.0): 4}


def test_every_table_is_of_the_poems_of_one_temperature():
    poems = with_some_cooler()
    short = poems["a-P2-0-1"].model_copy(update={"text": "短"})
    poems[short.poem_id] = short
    scores = [s for d in "xy" for s in scored(poems, d, noisy(poems, 1.0, seed=ord(d)))]
    tables = evaluated(poems, scores, resamples=20).tables
    assert tables["detectors"]["all"]["x"]["n_llm"] == 6 * 4
    assert tables["restricted"]["LLM poems of 3 lines or more"]["x"]["n_llm"] == 6 * 4 - 1
    assert tables["differences"]["y"]["x"]["auroc"]["n"] == 4 + 6 * 4


def test_what_the_poems_do_not_allow_is_not_there():
    poems = corpus(prompts=("P1",), generators=("a",), poets=1)
    kinds = {s.kind for s in protocol_of(poems).settings}
    assert kinds == {"in_domain"}


def test_subsets_are_in_the_papers_order():
    names = ["D10-13", "D2", "direct", "D13", "D2+4+5", "D1", "D10"]
    assert sorted(names, key=subset_order) == [
        "direct",
        "D1",
        "D2",
        "D2+4+5",
        "D10",
        "D10-13",
        "D13",
    ]


def test_a_detector_that_learnt_from_all_is_not_shown_where_it_must_not_have():
    poems = corpus(20)
    found = evaluator_of(
        poems, scored(poems, "zero", noisy(poems, 1.0)), scored(poems, "net", noisy(poems, 2.0))
    )
    for setting in found.protocol.settings:
        assert found.learnt_from("zero", setting) == "threshold"
        shown = found.cell("net", setting)
        assert (shown is not None) == (setting.kind == "in_domain"), setting
        assert found.learnt_from("net", setting) == ("all" if shown else None)


def test_a_lessons_scores_stand_before_those_of_the_whole_fold():
    poems = corpus(20)
    lesson = [
        s.model_copy(update={"setting": "D2"}) for s in scored(poems, "net", noisy(poems, 6.0))
    ]
    found = evaluator_of(poems, (), [*scored(poems, "net", noisy(poems, 0.0)), *lesson])
    cells = {s.lesson: found.cell("net", s) for s in found.protocol.of_kind("in_domain")}
    assert cells["D2"].sampled["auroc"].value > 0.99
    assert cells["D3"].sampled["auroc"].value < 0.9
    assert found.detectors == ["net"]


def test_a_difference_of_two_subsets_is_paired():
    poems = corpus(40)
    found = evaluator_of(poems, scored(poems, "zero", noisy(poems, 1.0)))
    d1, d2 = (
        found.cell("zero", s)
        for name in ("D1", "D2")
        for s in found.protocol.of_kind("in_domain")
        if s.lesson == name
    )
    found = difference(d2, d1, "auroc")
    assert found.value == pytest.approx(d2.sampled["auroc"].value - d1.sampled["auroc"].value)
    assert difference(d2, None, "auroc") is None


def test_the_fusion_is_fitted_in_each_lesson():
    poems = corpus(20)
    scores = scored(poems, "lrr", noisy(poems, 1.0)) + scored(
        poems, "log_rank", noisy(poems, 1.0, seed=1)
    )
    found = evaluator_of(poems, scores)
    assert found.detectors == ["lrr", "log_rank", "fusion"]
    d2, d3 = (
        next(s for s in found.protocol.of_kind("in_domain") if s.lesson == name)
        for name in ("D2", "D3")
    )
    assert found.learnt_from("fusion", d2) == "D2"
    shared = [i for i, p in enumerate(poems.values()) if not p.generation]
    assert not (found.scores("fusion", d2)[shared] == found.scores("fusion", d3)[shared]).all()


def test_a_split_that_leaks_and_a_stranger_are_refused():
    poems = corpus(4, prompts=("P1",), generators=("a",))
    leaky = {**halves(poems)}
    leaky["a-P1-1"] = leaky["a-P1-1"].model_copy(update={"fold": "test"})
    with pytest.raises(UserError, match="leaks"):
        evaluator_of(poems, folds=leaky)
    strange = scored({"x": written("x", "h0")}, "zero", {"x": 1.0})
    with pytest.raises(UserError, match="'x'"):
        evaluator_of(poems, strange)
