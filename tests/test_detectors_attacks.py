"""Attacks: what each changes and what it leaves alone, and what it costs a detector."""

import random

import pytest
from detector_fakes import halves, human, noisy, pairs, scored, written
from fakes import says, serving

from shiyan.chinese import traditional
from shiyan.config import AttackParams
from shiyan.detectors.attacks import (
    DROPS,
    attack_records,
    attacked_poems,
    drops,
    human_lines,
    line_breaks_moved,
    line_breaks_removed,
    paraphrased,
    punctuation_removed,
    traditional_and_back,
    unmet_prompts,
    victims_of,
    with_attacked,
)
from shiyan.families import family_of
from shiyan.poem import characters, lines, stanzas
from shiyan.records import DetectorScore
from shiyan.work import WorkCache

TEXT = "灯在窗里亮着，\n我听见了风。\n\n路走进夜色——\n没有回头！"


def params(*names: str, **more) -> AttackParams:
    return AttackParams.model_validate({"names": names, **more})


def test_line_breaks_go_and_stanzas_stay():
    assert line_breaks_removed(TEXT) == "灯在窗里亮着，我听见了风。\n\n路走进夜色——没有回头！"


@pytest.mark.parametrize("seed", range(20))
def test_moved_line_breaks_leave_text_stanzas_and_number_of_lines(seed):
    moved = line_breaks_moved(TEXT, random.Random(seed))
    assert moved.replace("\n", "") == TEXT.replace("\n", "")
    assert [len(s) for s in stanzas(moved)] == [2, 2]
    assert all(lines(moved))


@pytest.mark.parametrize("text", ["山", "山\n水", "山\n\n水", "一 \n二 三"])
def test_moved_line_breaks_of_the_shortest_texts(text):
    moved = line_breaks_moved(text, random.Random(0))
    assert characters(moved) == characters(text)
    assert len(stanzas(moved)) == len(stanzas(text))


def test_punctuation_goes_and_a_mark_inside_a_line_leaves_a_blank():
    assert punctuation_removed("灯亮，风起。\n《夜》") == "灯亮 风起\n夜"


def test_traditional_and_back():
    assert traditional("风吹过门里的发丝") == "風吹過門裏的髮絲"
    assert traditional_and_back("风吹过门里的发丝") == "风吹过门里的发丝"


@pytest.mark.parametrize(("share", "replaced"), [(0.25, 1), (0.5, 2), (0.75, 3), (0.01, 1)])
def test_a_share_of_lines_is_the_human_poems(share, replaced):
    mixed = human_lines(TEXT, "甲\n乙\n丙", share, random.Random(0))
    assert [len(s) for s in stanzas(mixed)] == [2, 2]
    assert sum(line in ("甲", "乙", "丙") for line in lines(mixed)) == replaced
    assert sum(line in lines(TEXT) for line in lines(mixed)) == 4 - replaced


def test_only_llm_poems_of_the_test_fold_are_attacked_each_by_every_attack():
    poems = pairs(10, prompts=("P1", "P2"))
    found = attacked_poems(poems, halves(poems), params("traditional", "line_breaks_removed"), {})
    assert len(found) == 2 * 10
    assert {poems[item.of].label for item in found} == {1}
    assert {halves(poems)[item.of].fold for item in found} == {"test"}
    assert len({item.poem.poem_id for item in found}) == len(found)
    assert attacked_poems(poems, halves(poems), params(), {}) == []


def test_so_many_human_poems_and_these_prompts_and_the_same_for_every_attack():
    poems = pairs(20, prompts=("P1", "P2", "P3"))
    chosen = victims_of(poems, halves(poems), params("traditional", poems=4, prompts=["P1", "P3"]))
    assert len({family_of(p) for p in chosen}) == 4
    assert [p.generation.prompt_id for p in chosen].count("P1") == 4
    assert len(chosen) == 8
    again = victims_of(poems, halves(poems), params("human_lines", poems=4, prompts=["P1", "P3"]))
    assert chosen == again


def test_a_prompt_that_no_poem_is_of_is_named_with_those_that_there_are():
    poems = pairs(4, prompts=("P1", "P2"))
    (notice,) = unmet_prompts(poems, halves(poems), params("traditional", prompts=["P1", "P9"]))
    assert "is of P9, so" in notice
    assert notice.endswith("there are P1, P2")
    assert unmet_prompts(poems, halves(poems), params("traditional", prompts=["P1"])) == []
    assert unmet_prompts(poems, halves(poems), params("traditional")) == []
    assert unmet_prompts(poems, halves(poems), params(prompts=["P9"])) == []


def test_an_attack_does_not_depend_on_the_others():
    poems = pairs(6)
    alone = attacked_poems(poems, halves(poems), params("line_breaks_moved"), {})
    both = attacked_poems(poems, halves(poems), params("human_lines", "line_breaks_moved"), {})
    assert alone == [item for item in both if item.attack == "line_breaks_moved"]


def test_what_cannot_be_attacked_says_why():
    poems = pairs(4)
    poems["x0"] = written("x0", "h0", "……")
    stranger = written("s0", "h90")
    poems["s0"] = stranger
    folds = halves(poems)
    found = attacked_poems(poems, folds, params("human_lines"), {})
    reasons = {item.of: item.reason for item in found if item.poem is None}
    assert reasons == {
        "x0": "no Chinese character",
        "s0": "the human poem that it imitates is not known",
    }
    records = attack_records([], found, ["d", "d", "e"])
    assert {(r.detector, r.poem_id, r.attack, r.score) for r in records} == {
        (d, p, "human_lines", None) for d in "de" for p in ("x0", "s0")
    }


def test_title_removed_changes_nothing_that_detectors_read():
    poems = pairs(2)
    titled = {p: poem.model_copy(update={"title": "题"}) for p, poem in poems.items()}
    (item,) = attacked_poems(titled, halves(titled), params("title_removed"), {})
    assert (item.poem.title, item.poem.text) == ("", titled[item.of].text)


def test_attacked_poems_stand_beside_the_others_in_the_same_fold():
    poems = pairs(4)
    found = attacked_poems(poems, halves(poems), params("traditional"), {})
    everything, folds = with_attacked(poems, halves(poems), found)
    assert len(everything) == len(poems) + len(found)
    assert all(folds[item.poem.poem_id] == halves(poems)[item.of] for item in found)


def test_paraphrases_are_asked_once_and_a_refusal_is_none(tmp_path):
    poems = pairs(4)
    chosen = params("paraphrase", paraphraser="m")

    def answer(body):
        asked = body["messages"][0]["content"]
        return says("No.") if poems["m-P1-0"].text in asked else says("<poem>\n星落下\n</poem>")

    with serving(answer) as server:
        models = {"m": server.params()}
        texts = {"paraphrase": "改写：{poem}"}
        for _ in range(2):
            found = paraphrased(poems, halves(poems), chosen, models, texts, WorkCache(tmp_path))
        assert len(server.requests) == 2
    assert found == {"m-P1-0": None, "m-P1-2": "星落下"}
    items = attacked_poems(poems, halves(poems), chosen, found)
    assert {i.of: i.reason for i in items} == {
        "m-P1-0": "the model gave no paraphrase",
        "m-P1-2": "",
    }


def test_no_paraphrase_without_a_model():
    with pytest.raises(ValueError, match=r"attacks\.paraphraser"):
        params("paraphrase")


def attack_scores(values, attack="a", detector="d"):
    return [
        DetectorScore(poem_id=p, detector=detector, score=v, attack=attack)
        for p, v in values.items()
    ]


def test_a_drop_is_paired_and_counts_what_lacks_a_score():
    poems = pairs(60)
    before: dict[str, float | None] = noisy(poems, 3.0)
    after = {
        p: before[p] - 1.5 for p, a in halves(poems).items() if a.fold == "test" and poems[p].label
    }
    after["m-P1-0"] = None
    before["h2"] = None
    (found,) = drops(
        scored(poems, "d", before),
        attack_scores(after),
        poems,
        halves(poems),
        resamples=200,
        seed=0,
    )
    assert (found.detector, found.attack, found.n_changed) == ("d", "a", 29)
    assert found.lost["auroc"].low > 0
    for name in DROPS:
        assert found.lost[name].value == pytest.approx(
            found.before[name].value - found.after[name].value
        )
        assert (found.before[name].n, found.before[name].n_unscored) == (58, 2)


def test_an_attack_that_changes_nothing_costs_nothing():
    poems = pairs(20)
    before = noisy(poems, 1.0)
    same = {p: v for p, v in before.items() if poems[p].label and halves(poems)[p].fold == "test"}
    (found,) = drops(
        scored(poems, "d", before), attack_scores(same), poems, halves(poems), resamples=50, seed=0
    )
    assert found.n_changed == 0
    assert {found.lost[name].value for name in DROPS} == {0.0}


@pytest.mark.parametrize("value", [None, 1.0])
def test_a_detector_that_tells_nothing_drops_nothing_and_says_so(value):
    poems = pairs(6)
    before = dict.fromkeys(poems, value)
    after = {"m-P1-0": value}
    (found,) = drops(
        scored(poems, "d", before), attack_scores(after), poems, halves(poems), resamples=20, seed=0
    )
    assert {found.lost[name].value for name in DROPS} == {None}
    assert found.lost["auroc"].reason


def test_human_poems_are_never_attacked():
    poems = {"h0": human("h0"), "h1": human("h1")}
    assert attacked_poems(poems, halves(poems), params("traditional"), {}) == []
