"""Attacks: what each changes and what it leaves alone."""

import json
import random
from importlib import import_module
from pathlib import Path

import pytest
from detector_fakes import halves, human, pairs, written
from fakes import says, serving
from omegaconf import OmegaConf
from sections import section

from shiyan.chinese import traditional
from shiyan.config import AttackParams, PathsParams
from shiyan.detectors.attacked import attack_records, with_attacked
from shiyan.detectors.attacks import (
    attack_metrics,
    attacked_poems,
    human_lines,
    line_breaks_moved,
    line_breaks_removed,
    paraphrased,
    traditional_and_back,
    unmet_prompts,
    victims_of,
)
from shiyan.families import family_of
from shiyan.jsonl import read_records, write_records
from shiyan.poem import characters, lines, stanzas
from shiyan.records import AttackedPoem
from shiyan.work import WorkCache

TEXT = "灯在窗里亮着，\n我听见了风。\n\n路走进夜色——\n没有回头！"

ROOT = Path(__file__).resolve().parent.parent


def params(*names: str, **more) -> AttackParams:
    return section(AttackParams, "attacks", names=names, **more)


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


def test_traditional_and_back():
    assert traditional("风吹过门里的发丝") == "風吹過門裏的髮絲"
    assert traditional_and_back("风吹过门里的发丝") == "风吹过门里的发丝"


@pytest.mark.parametrize(("share", "replaced"), [(0.25, 1), (0.5, 2), (0.75, 3), (0.01, 1)])
def test_a_share_of_lines_is_the_human_poems(share, replaced):
    mixed = human_lines(TEXT, "甲\n乙\n丙", share, random.Random(0))
    assert [len(s) for s in stanzas(mixed)] == [2, 2]
    assert sum(line in ("甲", "乙", "丙") for line in lines(mixed)) == replaced
    assert sum(line in lines(TEXT) for line in lines(mixed)) == 4 - replaced


def test_every_llm_poem_of_the_test_fold_is_attacked_by_every_attack():
    poems = pairs(10, prompts=("P1", "P2"))
    found = attacked_poems(poems, halves(poems), params("traditional", "line_breaks_removed"), {})
    of_llm = [item for item in found if not item.of_human]
    assert len(of_llm) == 2 * 10
    assert {poems[item.of].label for item in of_llm} == {1}
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


def test_without_an_llm_poem_no_human_poem_is_attacked():
    poems = {"h0": human("h0"), "h1": human("h1")}
    assert attacked_poems(poems, halves(poems), params("traditional"), {}) == []


def test_human_poems_of_the_same_groups_are_attacked_too_where_nothing_is_imitated():
    poems = pairs(20)
    chosen = params("traditional", "human_lines", "paraphrase", poems=4, paraphraser="m")
    found = attacked_poems(poems, halves(poems), chosen, {})
    people = [item for item in found if item.of_human]
    assert {item.attack for item in people} == {"traditional"}
    groups = {family_of(poems[item.of]) for item in found if not item.of_human}
    assert {item.of for item in people} == groups
    assert all(item.poem.label == 0 for item in people)


def test_metrics_count_attacked_poems_by_class_and_the_others_by_reason():
    poems = pairs(8)
    poems["x0"] = written("x0", "h0", "……")
    found = attacked_poems(poems, halves(poems), params("traditional", "human_lines"), {})
    assert attack_metrics(found) == {
        "traditional": {"human": 4, "llm": 4, "missing": {"no Chinese character": 1}},
        "human_lines": {"human": 0, "llm": 4, "missing": {"no Chinese character": 1}},
    }


def test_the_stage_writes_attacked_poems_and_counts(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT)
    committed = OmegaConf.load(ROOT / "params.yaml")
    changes = {"attacks": {"names": ["traditional"], "prompts": ["P1", "P9"]}}
    OmegaConf.save(OmegaConf.merge(committed, changes), "params.yaml")
    paths = PathsParams.model_validate(OmegaConf.to_container(committed.paths))
    poems = pairs(4)
    write_records(paths.poems, [p for p in poems.values() if not p.label])
    write_records(paths.generated, [p for p in poems.values() if p.label])
    write_records(paths.splits, halves(poems).values())
    import_module("stages.attack").main()
    records = list(read_records(paths.attacked, AttackedPoem))
    assert len({item.poem.poem_id for item in records}) == len(records) == 4
    metrics = json.loads(paths.attack_metrics.read_text(encoding="utf-8"))
    assert metrics["attacks"]["traditional"] == {"human": 2, "llm": 2, "missing": {}}
    assert "P9" in metrics["notices"][0]
    assert metrics["notices"][0] in capsys.readouterr().err
