"""Groups never straddle a fold, classes weigh equally: over random corpora and by hand."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiyan.errors import UserError
from shiyan.records import Generation, Poem
from shiyan.splits import (
    assign_folds,
    at_main_temperature,
    class_weights,
    group_poems,
    leave_one_generator_out,
    leave_one_poet_out,
    main_temperatures,
    seed_overlap,
    subsets_of,
    twins_across_folds,
    up_sampled,
)


def human(poem_id: str, author: str = "甲", cipai: str | None = None) -> Poem:
    genre = "ci" if cipai else "modern"
    return Poem(poem_id=poem_id, title="", text="诗", genre=genre, author=author, cipai=cipai)


def written(
    poem_id: str,
    seed: str | None,
    prompt: str = "P1",
    generator: str = "m",
    cipai: str | None = None,
) -> Poem:
    generation = Generation(
        generator=generator, prompt_id=prompt, seed_poem_id=seed, sample_index=0, reply_sha256="0"
    )
    return human(poem_id, generator, cipai).model_copy(update={"generation": generation})


@st.composite
def corpora(draw):
    """Human poems by some poets, imitations by some generators, some LLM ci, some twins."""
    poets = draw(st.lists(st.sampled_from("甲乙丙丁"), min_size=2, max_size=12))
    cipai = draw(
        st.lists(st.sampled_from([None, None, "如梦令", "忆江南"]), min_size=12, max_size=12)
    )
    poems = [human(f"h{i}", poet, cipai[i]) for i, poet in enumerate(poets)]
    for i in range(len(poets)):
        for prompt in draw(st.sets(st.sampled_from(["P1", "P2", "P4", "P5", "P6"]), max_size=5)):
            for generator in draw(st.sets(st.sampled_from(["a", "b"]), max_size=2)):
                poems.append(written(f"{generator}-{prompt}-{i}", f"h{i}", prompt, generator))
    for name in draw(st.sets(st.sampled_from(["如梦令", "忆江南"]))):
        poems.append(written(f"ci-{name}", None, "direct", "a", name))
    ids = st.sampled_from([p.poem_id for p in poems])
    families = draw(st.lists(st.sets(ids, min_size=2, max_size=3), max_size=2))
    return draw(st.permutations(poems)), families


@settings(max_examples=80, deadline=None)
@given(corpora(), st.integers(0, 99), st.sampled_from([0.3, 0.5, 0.7]))
def test_no_group_straddles_a_fold_in_any_subset_and_classes_weigh_equally(corpus, seed, share):
    poems, families = corpus
    groups = group_poems(poems, families)
    try:
        assignments = assign_folds(poems, groups, share, seed)
    except UserError as error:
        assert "\n" not in str(error)
        return
    fold_of = {a.poem_id: a.fold for a in assignments}
    assert [a.poem_id for a in assignments] == [p.poem_id for p in poems]
    by_id = {p.poem_id: p for p in poems}
    for family in families:  # twins, and what they drag along, share a fold
        if any(by_id[p].label == 0 for p in family):
            assert len({fold_of[p] for p in family}) == 1
    assert all(by_id[p].label for f in twins_across_folds(families, fold_of) for p in f)
    for poem in poems:
        if poem.generation and poem.generation.seed_poem_id:
            assert fold_of[poem.poem_id] == fold_of[poem.generation.seed_poem_id]
        if poem.generation and poem.cipai:
            same = [p for p in poems if p.cipai == poem.cipai]
            assert {fold_of[p.poem_id] for p in same} == {fold_of[poem.poem_id]}
    for members in subsets_of(poems).values():
        sides = {fold: [p for p in members if fold_of[p] == fold] for fold in ("train", "test")}
        crossing = {groups[p] for p in sides["train"]} & {groups[p] for p in sides["test"]}
        assert not crossing
        for side in sides.values():
            labels = [by_id[p].label for p in side]
            if len(set(labels)) < 2:
                with pytest.raises(ValueError, match="weigh equally"):
                    class_weights(labels)
                continue
            weights = class_weights(labels)
            llm = sum(w for w, label in zip(weights, labels, strict=True) if label)
            assert llm == pytest.approx(sum(weights) / 2) == pytest.approx(len(labels) / 2)
            repeated = up_sampled(side, labels, seed)
            counts = Counter(by_id[p].label for p in repeated)
            assert counts[0] == counts[1]
            assert set(repeated) == set(side)


@given(corpora(), st.integers(0, 9))
@settings(max_examples=40, deadline=None)
def test_the_order_of_the_poems_does_not_matter(corpus, seed):
    poems, families = corpus

    def folds(order):
        try:
            drawn = assign_folds(order, group_poems(order, families), 0.5, seed)
        except UserError as error:
            return str(error).split("(")[0]
        return {a.poem_id: (a.group_id, a.fold) for a in drawn}

    assert folds(poems) == folds(poems[::-1])


def paired(n: int, poets: str) -> list[Poem]:
    people = [human(f"h{i}", poets[i % len(poets)]) for i in range(n)]
    return people + [written(f"w{i}", f"h{i}") for i in range(n)]


@pytest.mark.parametrize("seed", range(5))
def test_half_of_800_pairs_is_400_and_400_and_every_poet_is_halved(seed):
    poems = paired(800, "甲乙丙丁戊己庚辛")
    drawn = assign_folds(poems, group_poems(poems), 0.5, seed)
    test = {a.poem_id for a in drawn if a.fold == "test"}
    assert sum(p.label == 0 and p.poem_id in test for p in poems) == 400
    for poet in "甲乙丙丁戊己庚辛":
        assert 49 <= sum(p.author == poet and p.poem_id in test for p in poems) <= 51


@pytest.mark.parametrize("seed", range(5))
def test_each_class_is_halved_though_few_poems_have_imitations(seed):
    people = [human(f"h{i}", "甲乙丙"[i % 3]) for i in range(90)]
    imitated = [written(f"w{i}-{p}", f"h{i}", f"P{p}") for i in range(20) for p in range(1, 14)]
    poems = people + imitated
    drawn = assign_folds(poems, group_poems(poems), 0.5, seed)
    test = {a.poem_id for a in drawn if a.fold == "test"}
    assert 44 <= len(test & {p.poem_id for p in people}) <= 46
    assert len(test & {p.poem_id for p in imitated}) == 130


def test_the_seed_decides_and_different_seeds_differ():
    poems = paired(40, "甲乙")
    groups = group_poems(poems)
    drawn = [assign_folds(poems, groups, 0.5, seed) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_poet_with_one_poem_falls_to_either_fold():
    poems = [*paired(20, "甲"), human("one", "乙"), written("w-one", "one")]
    groups = group_poems(poems)
    folds = {
        next(a.fold for a in assign_folds(poems, groups, 0.5, seed) if a.poem_id == "one")
        for seed in range(12)
    }
    assert folds == {"train", "test"}


def test_llm_ci_join_the_human_ci_of_their_cipai():
    poems = [
        human("h1", "甲", "如梦令"),
        human("h2", "乙", "如梦令"),
        human("h3", "甲", "忆江南"),
        written("w1", None, "direct", "m", "如梦令"),
        written("w2", None, "direct", "n", "忆江南"),
        written("w3", None),
    ]
    assert group_poems(poems) == {
        "h1": "cipai:如梦令",
        "h2": "cipai:如梦令",
        "h3": "cipai:忆江南",
        "w1": "cipai:如梦令",
        "w2": "cipai:忆江南",
        "w3": "w3",
    }
    assert len(set(group_poems(poems, [("h2", "h3")]).values())) == 2


def test_two_names_of_one_tune_are_one_cipai():
    poems = [
        human("h1", "甲", "贺新郎"),
        human("h2", "乙", "金缕曲"),
        human("h3", "丙", "忆江南"),
        written("w1", None, "direct", "m", "金缕曲"),
        written("w2", "h3", "direct", "m", "望江南"),
        human("h4", "丁", "望江南"),
    ]
    tunes = {"金缕曲": "贺新郎", "贺新郎": "贺新郎", "望江南": "忆江南"}
    groups = group_poems(poems, tunes=tunes)
    assert groups["h1"] == groups["h2"] == groups["w1"] == "cipai:金缕曲"
    # Where no theme came from the list, a cipai ties nothing: the human poem does.
    assert groups["h3"] == groups["w2"] != groups["h4"]
    assert group_poems(poems)["h1"] == "h1"
    listed = [*poems, written("w3", None, "direct", "n", "贺新郎")]
    assert len({group_poems(listed, tunes=tunes)[p] for p in ("h1", "h2", "w1", "w3")}) == 1


def test_llm_twins_join_groups_until_they_would_tie_a_fifth_of_all_poems_together():
    poems = paired(20, "甲乙")
    assert len(set(group_poems(poems, [("w0", "w1", "w2")]).values())) == 18
    groups = group_poems(poems, [[f"w{n}" for n in range(20)], ("w3", "w4")])
    assert len(set(groups.values())) == 19  # the generator that says one thing stays in 19
    assert groups["h3"] == groups["w4"]
    everything = group_poems(poems, [["h0", *(f"w{n}" for n in range(20))]])
    assert len(set(everything.values())) == 1  # a human poem that is copied always joins


def test_ci_whose_theme_is_a_human_poems_are_grouped_by_that_poem():
    poems = [human("h1", "甲", "如梦令"), human("h2", "乙", "如梦令")]
    poems += [written(f"w{i}", f"h{i}", "direct", "m", "如梦令") for i in (1, 2)]
    assert len(set(group_poems(poems).values())) == 2


def test_subsets_have_the_papers_names():
    poems = [human("h")]
    poems += [written(f"{g}{i}", "h", f"P{i}", g) for g in "ab" for i in range(1, 14)]
    subsets = subsets_of(poems)
    numbered = [f"D{i}" for i in range(1, 14)] + ["D2+4+5", "D6-8", "D10-13"]
    assert [*subsets] == ["all", "a", "b", *numbered, *(f"{g}/{n}" for g in "ab" for n in numbered)]
    assert subsets["a/D2+4+5"] == ("h", "a2", "a4", "a5")
    assert len(subsets["D10-13"]) == 1 + 8
    assert len(subsets["all"]) == 27
    assert [*subsets_of([human("h"), written("w", "h", "direct", cipai="如梦令")])] == (
        ["all", "m", "direct"]
    )


def at(prompt: str, degree: float | None, n: int = 1, generator: str = "m") -> list[Poem]:
    """n poems to a prompt at a temperature."""
    found = []
    for i in range(n):
        poem = written(f"{generator}-{prompt}-{degree}-{i}", f"h{i}", prompt, generator)
        made = poem.generation.model_copy(update={"temperature": degree})
        found.append(poem.model_copy(update={"generation": made}))
    return found


@pytest.mark.parametrize(
    ("poems", "main"),
    [
        # AIGenPoetry: 13 prompts at 1.5, P1 at 0.7 and 0 too.
        (
            [*at("P1", 1.5), *at("P2", 1.5), *at("P1", 0.7), *at("P1", 0.0)],
            {"P1": 1.5, "P2": 1.5},
        ),
        # P1 alone, and more replies without a poem where it was hot.
        ([*at("P1", 0.7, n=5), *at("P1", 1.5, n=3)], {"P1": 1.5}),
        # Most prompts come first, then the height.
        ([*at("P1", 1.0), *at("P2", 1.0), *at("P1", 1.5)], {"P1": 1.0, "P2": 1.0}),
        # A prompt that the main temperature lacks keeps its poems.
        (
            [*at("P1", 1.0), *at("P2", 1.0), *at("P1", 0.7), *at("P3", 0.7)],
            {"P1": 1.0, "P2": 1.0, "P3": 0.7},
        ),
    ],
)
def test_a_generators_poems_to_a_prompt_are_of_one_temperature(poems, main):
    assert main_temperatures(poems) == {("m", prompt): t for prompt, t in main.items()}
    kept = at_main_temperature([human("h0"), *poems])
    assert [p.poem_id for p in kept] == ["h0"] + [
        p.poem_id for p in poems if p.generation.temperature == main[p.generation.prompt_id]
    ]
    assert at_main_temperature(kept) == kept


def test_generators_may_differ_and_a_temperature_not_told_is_the_main_one():
    poems = [*at("P1", 1.0), *at("P1", 0.7), *at("P1", 0.6, generator="n"), *at("P1", None)]
    assert at_main_temperature(poems) == [poems[0], *poems[2:]]
    assert subsets_of(poems)["D1"] == tuple(p.poem_id for p in (poems[0], poems[3], poems[2]))
    assert subsets_of(poems)["m"] == tuple(p.poem_id for p in (poems[0], poems[3]))


def test_leave_one_poet_out_tests_on_the_poet_with_all_imitations():
    poems = [human("h1", "甲"), human("h2", "乙"), human("h3", "")]
    poems += [written(f"w{i}", f"h{i}") for i in (1, 2, 3)]
    held = list(leave_one_poet_out(poems, group_poems(poems)))
    assert [(h.name, h.train, h.test) for h in held] == [
        ("乙", ("h1", "h3", "w1", "w3"), ("h2", "w2")),
        ("甲", ("h2", "h3", "w2", "w3"), ("h1", "w1")),
    ]
    twins = list(leave_one_poet_out(poems, group_poems(poems, [("h1", "h2")])))
    assert [h.test for h in twins] == [("h1", "h2", "w1", "w2")] * 2
    assert list(leave_one_poet_out(poems[:1] + poems[3:4], {"h1": "h1", "w1": "h1"})) == []


def test_leave_one_generator_out_knows_neither_the_generator_nor_the_test_poems():
    poems = [human("h1"), human("h2")]
    poems += [written(f"{g}{i}", f"h{i}", generator=g) for g in "ab" for i in (1, 2)]
    folds = {p.poem_id: "train" if p.poem_id.endswith("1") else "test" for p in poems}
    held = {h.name: h for h in leave_one_generator_out(poems, folds)}
    assert (held["a"].train, held["a"].test) == (("h1", "b1"), ("h2", "a2"))
    assert (held["b"].train, held["b"].test) == (("h1", "a1"), ("h2", "b2"))
    assert list(leave_one_generator_out(poems[:3], folds)) == []


@pytest.mark.parametrize(
    ("poems", "said"),
    [
        ([human("h"), written("w", "h")], "belong to one group"),
        ([human("h1"), human("h2")], "no LLM poem"),
        ([written("w1", "x"), written("w2", "y")], "no human poem"),
        ([human("h1"), human("h2"), written("w", "h1")], "no draw of the 2 groups"),
    ],
)
def test_what_cannot_be_split_is_said_in_one_sentence(poems, said):
    with pytest.raises(UserError, match=said):
        assign_folds(poems, group_poems(poems), 0.5, 0)


def test_weights_and_copies_by_hand():
    assert class_weights([0, 1, 1, 1]) == pytest.approx([2, 2 / 3, 2 / 3, 2 / 3])
    assert Counter(up_sampled("hwxyz", [0, 1, 1, 1, 1], 0)) == Counter("hhhhwxyz")
    repeated = Counter(up_sampled("ghvwxyz", [0, 0, 1, 1, 1, 1, 1], 0))
    assert sorted((repeated["g"], repeated["h"])) == [2, 3]
    with pytest.raises(ValueError, match="missing"):
        up_sampled("wx", [1, 1], 0)


def test_a_copy_is_told_by_its_share_of_the_human_poems_passages():
    source = human("h").model_copy(update={"text": "渡口有人数鞋\n旧木船"})
    poems = {"h": source}

    def imitation(text: str, seed: str | None = "h") -> Poem:
        poem = written("w", seed or "h")
        made = poem.generation.model_copy(update={"seed_poem_id": seed})
        return poem.model_copy(update={"text": text, "generation": made})

    assert seed_overlap(imitation("渡口有人数鞋，旧木船！"), poems) == 1.0
    # Five characters are three 3-grams, of which 渡口有 alone stands in the human poem.
    assert seed_overlap(imitation("渡口有灯火"), poems) == 1 / 3
    assert seed_overlap(imitation("谁把灯芯拨亮"), poems) == 0.0
    assert seed_overlap(imitation("……"), poems) == 0.0
    assert seed_overlap(imitation("渡口有灯火", "another"), poems) is None
    assert seed_overlap(imitation("渡口有灯火", None), poems) is None
    assert seed_overlap(source, poems) is None
