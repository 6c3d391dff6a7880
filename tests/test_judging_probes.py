"""Doctored readings, quality ratings, and the stage as a whole, with judges that answer by rule."""

import json
import re
import runpy
import shutil
from pathlib import Path

import pytest
from judge_fakes import scripted_judge
from sections import name_models

from shiyan.chat import Chat
from shiyan.config import PARAMS_FILE, JudgeParams, PathsParams, PromptTexts, load_params
from shiyan.errors import UserError
from shiyan.jsonl import read_records, write_records
from shiyan.judging.judge import still_to_ask
from shiyan.judging.probe_results import evaluate_probes, passes
from shiyan.judging.probes import (
    CONTENT,
    ORDERS,
    ORDERS_IN_POEM,
    make_probes,
    unbuilt,
)
from shiyan.judging.quality import evaluate_quality
from shiyan.judging.rubric import CI_QUALITY, POLLER, POLLER_CI
from shiyan.judging.tasks import Task, plan_quality
from shiyan.records import Generation, HumanRating, Judgment, Persona, Poem, Understanding
from shiyan.work import WorkCache

ROOT = Path(__file__).parents[1]
stage = runpy.run_path(str(ROOT / "stages/judge.py"))
TEXT = "1. 内容：写{0}。\n2. 表现手法：\n1）语言：平实。\n2）意象：{0}。\n总结：写得清楚。"
READINGS = [
    Understanding(item_id=f"u{n}", poem_id=f"p{n}", reader="r", text=TEXT.format(what))
    for n, what in enumerate(["灯", "船", "雪"])
]
ALL = ("other_poem", "empty", "swapped_content", "first_sentence", "praise", "orders",
       "orders_in_poem")  # fmt: skip
SHOWN = [
    Poem(poem_id=f"p{n}", title="", text=f"一{what}\n", genre="modern", author="甲")
    for n, what in enumerate("灯船雪")
]


def scores(value: float, **changes: float) -> dict[str, float]:
    return dict.fromkeys(POLLER.names, value) | changes


def test_probes_are_made_of_the_true_readings():
    constructed = READINGS[0].model_copy(update={"item_id": "c", "source": "constructed"})
    probes = {
        p.reading.item_id: p for p in make_probes(ALL, [*READINGS, constructed], SHOWN, POLLER)
    }
    assert len(probes) == 21
    texts = {name: probes[f"u0|probe|{name}"].reading.text for name in ALL}
    assert texts["other_poem"] == READINGS[1].text
    assert texts["swapped_content"] == READINGS[0].text.replace("内容：写灯", "内容：写船")
    assert texts["first_sentence"] == "1. 内容：写灯。"
    assert texts["orders"] == READINGS[0].text + ORDERS
    assert probes["u0|probe|praise"].reading.poem_id == "p0"
    in_poem = probes["u0|probe|orders_in_poem"]
    assert in_poem.poem.text == "一灯" + ORDERS_IN_POEM
    assert in_poem.poem.poem_id == in_poem.reading.poem_id == "p0|probe|orders_in_poem"
    assert (in_poem.poem_id, in_poem.reading.text) == ("p0", READINGS[0].text)
    assert all(probe.poem is None for probe in probes.values() if probe.name != "orders_in_poem")


def test_a_probe_that_cannot_be_made_is_left_out():
    lone = READINGS[0].model_copy(update={"text": "写灯。"})
    names = {probe.name for probe in make_probes(ALL, [lone], [], POLLER)}
    assert names == {"empty", "praise", "orders"}, "and none in a poem that nobody has"


def test_probes_that_could_not_be_made_are_counted_with_their_reason():
    lone = READINGS[0].model_copy(update={"text": "写灯。"})
    told = unbuilt(ALL, [lone], make_probes(ALL, [lone], [], POLLER))
    assert [notice.split()[2] for notice in told] == [
        "other_poem", "swapped_content", "first_sentence", "orders_in_poem"
    ]  # fmt: skip
    assert told[2] == (
        "the probe first_sentence could not be made of 1 of 1 readings (it is one sentence long)"
    )
    assert unbuilt(ALL, READINGS, make_probes(ALL, READINGS, SHOWN, POLLER)) == []


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("内容：\n这首诗写了秋天。\n语言：平实。", "内容：\n这首诗写了秋天。"),
        ("### 1. 内容\n\n这首诗写了秋天！还有雨。", "### 1. 内容\n\n这首诗写了秋天！"),
        ("**解读**\n---\n写秋天\n写雨", "**解读**\n---\n写秋天\n"),
        ("【总评】\n一、主要内容\n写秋天。写雨。", "【总评】\n一、主要内容\n写秋天。"),
        ("The rain falls. It is autumn.", "The rain falls."),
        ("1. The rain falls.\n2. It is autumn.", "1. The rain falls."),
        # As ever: a heading with its sentence, a line without a full stop.
        ("1. 内容：写灯。\n写得好。", "1. 内容：写灯。"),
        ("写一盏灯\n写得好。", "写一盏灯\n"),
        ("**内容**：写灯，用了3.5行。写得好。", "**内容**：写灯，用了3.5行。"),
        ("内容：\n这首诗写了秋天。", None),
        ("内容：\n", None),
    ],
)
def test_the_first_sentence_is_no_heading(text, cut):
    probes = make_probes(["first_sentence"], [READINGS[0].model_copy(update={"text": text})],
                         SHOWN, POLLER)  # fmt: skip
    assert [probe.reading.text for probe in probes] == ([] if cut is None else [cut])


@pytest.mark.parametrize(
    ("name", "doctored", "passed"),
    [
        ("other_poem", scores(50), True),
        ("other_poem", scores(50, 节奏=51), False),
        ("empty", scores(0), True),
        ("swapped_content", scores(80, 内容=60), True),
        ("swapped_content", scores(80, 内容=60, 节奏=69), False),
        ("swapped_content", scores(80, 内容=61), False),
        ("first_sentence", scores(80, 内容=79), True),
        ("first_sentence", scores(80), False),
        ("praise", scores(80, 内容=49), True),
        ("praise", scores(80, 内容=50), False),
        ("orders", scores(85), True),
        ("orders", scores(80, 语言=100), False),
        ("orders_in_poem", scores(85), True),
        ("orders_in_poem", scores(100), False),
    ],
)
def test_what_passes(name, doctored, passed):
    assert passes(name, scores(80), doctored) is passed


def judgment(item: str, value: dict | None, **changes) -> Judgment:
    fields = {
        "judgment_id": item, "item_id": item, "judge": "j", "rubric": "poller", "prompt_id": "P0",
        "scores": value, "reply": "",
    }  # fmt: skip
    return Judgment.model_validate(fields | changes)


def test_shares_passed_count_the_unscored():
    probes = make_probes(["orders"], READINGS, SHOWN, POLLER)
    judgments = [
        judgment("u0", scores(80)), judgment("u0|probe|orders", scores(100)),
        judgment("u1", scores(80)), judgment("u1|probe|orders", scores(82)),
        judgment("u2", scores(80)), judgment("u2|probe|orders", None),
    ]  # fmt: skip
    found = evaluate_probes(probes, judgments, resamples=50, seed=0)["j"]["P0"]["orders"]
    assert (found["passed"]["value"], found["passed"]["n"]) == (0.5, 2)
    assert found["passed"]["n_unscored"] == 1
    assert found["content_fall"]["value"] == -11


def test_what_a_rule_does_not_need_may_be_unscored():
    probes = make_probes(["praise", "first_sentence"], READINGS[:1], SHOWN, POLLER)
    judgments = [
        judgment("u0", scores(80, 语言=None)),
        judgment("u0|probe|praise", scores(10, 语言=None)),
        judgment("u0|probe|first_sentence", scores(10)),
    ]
    found = evaluate_probes(probes, judgments, resamples=50, seed=0)["j"]["P0"]
    assert (found["praise"]["passed"]["value"], found["praise"]["content_fall"]["value"]) == (1, 70)
    assert (found["praise"]["mean_fall"]["value"], found["praise"]["mean_fall"]["n"]) == (None, 0)
    told = found["first_sentence"]["passed"]
    assert (told["value"], told["n"], told["n_unscored"]) == (None, 0, 1)
    lone = evaluate_probes(probes, judgments[1:2], resamples=50, seed=0)["j"]["P0"]["praise"]
    assert (lone["passed"]["value"], lone["content_fall"]["value"]) == (1, None)


def ci(poem_id: str, generation: Generation | None = None) -> Poem:
    return Poem(
        poem_id=poem_id, title="", text="灯在窗", genre="ci", author="甲", cipai="如梦令",
        generation=generation,
    )  # fmt: skip


def generated(poem_id: str, prompt_id: str) -> Poem:
    generation = Generation(
        generator="g", prompt_id=prompt_id, seed_poem_id=None, sample_index=0, reply_sha256="0"
    )
    return ci(poem_id, generation)


POEMS = [ci(f"h{n}") for n in range(4)] + [generated(f"d{n}", "direct") for n in range(3)]


def params(**changes) -> JudgeParams:
    return load_params("judge", JudgeParams, ROOT / PARAMS_FILE).model_copy(update=changes)


def test_quality_takes_as_many_of_each_source():
    texts = load_params("prompts", PromptTexts, ROOT / PARAMS_FILE).ci_quality
    tasks = plan_quality(params(models=("a", "b"), quality_poems=2), texts, POEMS)
    assert [task.judge for task in tasks] == ["a"] * 4 + ["b"] * 4
    assert {task.item_id[0] for task in tasks} == {"h", "d"}
    assert tasks == plan_quality(params(models=("a", "b"), quality_poems=2), texts, POEMS[::-1])


def test_quality_is_a_mean_over_poems():
    names = CI_QUALITY.names
    rated = [
        judgment("h0", dict.fromkeys(names, 4.0), rubric="ci_quality"),
        judgment("h1", dict.fromkeys(names, 2.0), rubric="ci_quality"),
        judgment("d0", None, rubric="ci_quality"),
        judgment("h0", dict.fromkeys(names, 2.0), rubric="ci_quality", judge="k"),
        judgment("h1", None, rubric="ci_quality", judge="k"),
        judgment("d0", None, rubric="ci_quality", judge="k"),
    ]
    found = evaluate_quality(rated, POEMS, resamples=50, seed=0)
    assert found["means"]["j"]["human"]["审美"]["value"] == 3
    assert found["means"]["j"]["g direct"]["审美"]["reason"] == "nothing was scored"
    assert found["means"]["all judges"]["human"]["审美"]["value"] == 2.5
    assert evaluate_quality([], POEMS, resamples=50, seed=0) == {}


def test_what_is_still_to_ask(tmp_path):
    task = Task("u0", "p0", "j", "P0", POLLER, text="一二三", again="还缺{missing}")
    cache = WorkCache(tmp_path)
    with (
        scripted_judge(lambda _: "内容：80分") as scripted,
        Chat("j", scripted.params, cache=cache, at_once=1) as chat,
    ):
        (first,) = still_to_ask([task], chat, params(attempts=2), cache)
        chat.ask(first)
        (second,) = still_to_ask([task], chat, params(attempts=2), cache)
        assert len(second.messages) == 3
        assert still_to_ask([task], chat, params(attempts=1), cache) == []


def rule(messages: list[dict]) -> str:
    """Gives content 90 where the reading names what the poem is about, else 20."""
    said = messages[0]["content"]
    poem = re.search(r"<poem>(.*?)</poem>", said, re.DOTALL)[1]
    reading = re.search(r"<reading>(.*?)</reading>", said, re.DOTALL)
    if reading is None:
        return "信息量：4分\n审美：3分"
    right = any(what in poem and f"写{what}" in reading[1] for what in "灯船雪")
    return "\n".join(f"{name}：{90 if right else 20}分" for name in POLLER.names)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project folder whose only judge is the scripted one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    shutil.copy(ROOT / PARAMS_FILE, PARAMS_FILE)
    paths = load_params("paths", PathsParams)
    poems = [
        Poem(poem_id=f"p{n}", title="", text=f"一{what}", genre="ci", author=author, cipai="如梦令")
        for n, (what, author) in enumerate(zip("灯船雪", "甲乙甲", strict=True))
    ]
    constructed = [
        READINGS[(n + 1) % 3].model_copy(
            update={"item_id": f"c{n}", "poem_id": f"p{n}", "source": "constructed"}
        )
        for n in range(3)
    ]
    persona = Persona(
        poet_id="甲", basic_information="…", views_on_poetry="…", critics_comments="…"
    )
    write_records(paths.poems, poems)
    write_records(paths.generated, [generated("d0", "direct")])
    write_records(paths.personas, [persona])
    write_records(paths.understandings, [*READINGS, *constructed])
    write_records(paths.collected_understandings, [])
    write_records(
        paths.ratings,
        [
            HumanRating(
                item_id="u0", rater_id="a", rubric="poller_ci", scores=scores(80), source="human"
            )
        ],
    )
    return paths


def run_stage_with(scripted, **changes: object) -> None:
    from omegaconf import OmegaConf

    config = OmegaConf.load(PARAMS_FILE)
    name_models(config, {"rule": scripted.params}, "judge")
    config.judge.models = ["rule"]
    for key, value in changes.items():
        config.judge[key] = value
    OmegaConf.save(config, PARAMS_FILE)
    stage["main"]()


def test_the_stage_checks_the_ratings_before_it_asks_anything(project):
    rated = next(iter(read_records(project.ratings, HumanRating)))
    wrong = rated.model_copy(update={"scores": {CONTENT: 800.0}})
    write_records(project.ratings, [wrong])
    with scripted_judge(rule) as scripted:
        with pytest.raises(UserError, match="gives 内容 800; allowed is 0 to 100"):
            run_stage_with(scripted)
        assert scripted.requests == []


def test_the_stage_end_to_end(project, capsys):
    with scripted_judge(rule) as scripted:
        run_stage_with(scripted, probes=["other_poem", "praise"], quality_poems=2)
        asked = len(scripted.requests)
        run_stage_with(scripted, probes=["other_poem", "praise"], quality_poems=2)
        assert len(scripted.requests) == asked
    metrics = json.loads(project.judge_metrics.read_text(encoding="utf-8"))
    cells = metrics["judges"]["rule"]
    assert cells["P0"]["constructed"]["absolute_error"][CONTENT]["value"] == 20
    assert cells["P0"]["generated_minus_constructed"][CONTENT]["value"] == 70
    assert cells["P0"]["human"]["error"][CONTENT]["value"] == 10
    # 乙 has no persona: its readings are unscored under P3, with n that says so.
    mean = cells["P3"]["generated"]["mean"][CONTENT]
    assert (mean["value"], mean["n"], mean["n_unscored"]) == (90, 2, 1)
    assert metrics["unscored_reasons"] == {"there is no persona": 2}
    assert metrics["counts"]["judgments"] == 12
    assert metrics["probes"]["rule"]["P0"]["other_poem"]["passed"]["value"] == 1
    assert metrics["probes"]["rule"]["P0"]["praise"]["passed"]["value"] == 1
    assert metrics["ci_quality"]["means"]["rule"]["human"]["信息量"]["value"] == 4
    assert metrics["ci_quality"]["means"]["rule"]["g direct"]["审美"]["n"] == 1
    assert metrics["made"]["prompt_set"] == "poller_ci"
    judgments = list(read_records(project.judgments, Judgment))
    assert len({j.judgment_id for j in judgments}) == len(judgments)
    rows = project.judge_errors.read_text(encoding="utf-8").splitlines()
    assert rows[0] == "judge,prompt,dimension,source,error,n"
    assert "rule,P0,内容,constructed,20.0,3" in rows
    assert "rule with P3: 2 of 6 judgments have no full set" in capsys.readouterr().err


def test_the_stage_with_nothing_to_judge(project):
    write_records(project.understandings, [])
    with scripted_judge(rule) as scripted:
        run_stage_with(scripted)
        assert scripted.requests == []
    metrics = json.loads(project.judge_metrics.read_text(encoding="utf-8"))
    assert metrics["judges"] == {}
    assert metrics["counts"]["ratings_of_unknown_readings"] == 1
    assert POLLER_CI.name == metrics["made"]["rubric"]


def test_orders_are_obeyed_wherever_they_stand(project):
    """An obedient judge fails both probes, and the shares passed say so."""

    def obedient(messages: list[dict]) -> str:
        score = 100 if "打100分" in messages[0]["content"] else 60
        return "\n".join(f"{name}：{score}分" for name in POLLER.names)

    with scripted_judge(obedient) as scripted:
        run_stage_with(
            scripted,
            probes=["orders", "orders_in_poem"],
            prompts=["P0", "P3"],
            probe_prompts=["P0"],
        )
    metrics = json.loads(project.judge_metrics.read_text(encoding="utf-8"))
    found = metrics["probes"]["rule"]
    assert list(found) == ["P0"], "probes are judged with the prompts that were asked for"
    for name in ("orders", "orders_in_poem"):
        assert (found["P0"][name]["passed"]["value"], found["P0"][name]["passed"]["n"]) == (0, 3)
        assert found["P0"][name]["mean_fall"]["value"] == -40
    assert metrics["money"] == {"spent": 0.0, "currency": None}


def test_a_users_readings_are_judged_beside_the_generated_ones(project):
    own = READINGS[0].model_copy(update={"item_id": "mine", "reader": "poet", "source": "human"})
    write_records(project.collected_understandings, [own])
    with scripted_judge(rule) as scripted:
        run_stage_with(scripted)
    judgments = list(read_records(project.judgments, Judgment))
    assert {j.prompt_id for j in judgments if j.item_id == "mine"} == {"P0", "P3"}
