"""Plans, retries, finished replies, readings and counts, against a scripted LLM."""

import json
from collections import Counter
from pathlib import Path

import pytest
from fakes import Answer, completion, fails, says, serving
from shared import SHARED, needs_shared

from shiyan.config import GenerateParams, PromptTexts, load_params
from shiyan.errors import UserError
from shiyan.families import family_of
from shiyan.generation import finished, report, run
from shiyan.generation import generate as poems
from shiyan.generation import understand as readings
from shiyan.generation.generate import CiForms
from shiyan.generation.prompts import fill
from shiyan.generation.seeds import derived
from shiyan.records import Poem, Understanding
from shiyan.work import WorkCache

ROOT = Path(__file__).parents[1]
PROMPTS = load_params("prompts", PromptTexts, ROOT / "params.yaml")
FORMS = CiForms(
    describe=lambda cipai: f"{cipai}的格律",
    topic=lambda title: title.partition("·")[2],
    longest={"如梦令": 66, "贺新郎": 117, "忆江南": 59}.__getitem__,
)
STANZAS = "檐下有灯\n灯下有雨\n\n雨里有人\n人在等灯"


def params(**changes) -> GenerateParams:
    base = load_params("generate", GenerateParams, ROOT / "params.yaml").model_dump()
    reading = base["understanding"] | {"poems": 0, "readers": ["llm"]}
    return GenerateParams.model_validate(
        base
        | {"models": ["llm"], "understanding": reading, "tokens_per_character": None, "attempts": 3}
        | changes
    )


def modern(number: int, **changes) -> Poem:
    fields = {
        "poem_id": f"h{number}",
        "title": f"灯之{'一二三四五六七八九'[number]}",
        "text": STANZAS,
        "genre": "modern",
        "author": f"甲{number % 3}",
    }
    return Poem.model_validate(fields | changes)


def ci(number: int, cipai: str, title: str = "", author: str = "乙") -> Poem:
    return Poem(
        poem_id=f"c{number}",
        title=title or cipai,
        text="小楼听雨。\n灯火不眠。",
        genre="ci",
        author=author,
        cipai=cipai,
    )


def planned(human: list[Poem], **changes) -> list[poems.Task]:
    return poems.plan_poems(human, params(**changes), PROMPTS, FORMS)


# --- plans ----------------------------------------------------------------------------


def test_a_modern_poem_is_asked_for_once_a_prompt_and_human_poem():
    tasks = planned([modern(0), modern(1)], prompts=[f"P{n}" for n in range(1, 14)])
    assert len(tasks) == 26
    assert len({task.poem_id for task in tasks}) == 26
    assert tasks[0].poem_id == "llm|P1|h0|0"
    requests = [task.request(params().sampling, 0, 0) for task in tasks]
    assert len({request.seed for request in requests}) == 26, "each draws by a seed of its own"


def test_the_prompts_of_table_7_say_what_it_says():
    human = modern(0, title="夜灯")
    text = {task.prompt_id: task.prompt for task in planned([human], prompts=list(P))}
    for prompt, parts in P.items():
        assert all(part in text[prompt] for part in parts), prompt
    shown = {prompt for prompt in text if STANZAS in text[prompt]}
    assert shown == {"P2", "P3", "P4", "P5"}
    for task in planned([human], prompts=list(P)):
        assert (task.asked.title is None) == (task.prompt_id in {"P2", "P4", "P5"})
        assert STANZAS not in task.asked.request
        assert "{" not in task.prompt


P = {
    "P1": ["题为“夜灯”的中国现代诗"],
    "P2": ["风格模仿", "题目和内容完全不同"],
    "P3": ["风格模仿", "题目与下面这首诗相同", "内容完全不同"],
    "P4": ["思想感情与下面这首诗相同", "题目和内容完全不同"],
    "P5": ["主题与下面这首诗相同", "题目和内容完全不同"],
    "P6": ["“夜灯”", "共2节"],
    "P7": ["“夜灯”", "总共4行"],
    "P8": ["“夜灯”", "共2节", "总共4行"],
    "P9": ["“夜灯”", "不表达任何情感"],
    "P10": ["“夜灯”", "快乐和喜悦"],
    "P11": ["“夜灯”", "悲伤和绝望"],
    "P12": ["“夜灯”", "愤怒"],
    "P13": ["“夜灯”", "恐惧"],
}


def test_a_ci_takes_its_own_titles_first_and_then_the_list():
    human = [ci(0, "如梦令"), ci(1, "如梦令", "如梦令·夜雨"), ci(2, "浣溪沙")]
    tasks = planned(human, titles_per_cipai=2, themes=["春日", "秋夜", "夜雨"])
    themes = {(task.asked.cipai, task.theme.text, task.theme.source) for task in tasks}
    own = {t for t in themes if t[0] == "如梦令"}
    assert ("如梦令", "夜雨", "topic") in own
    assert {source for _, _, source in own} == {"topic", "list"}
    assert all(t.theme.text != "夜雨" or t.seed_poem_id == "c1" for t in tasks if "如" in t.poem_id)
    ids = [task.poem_id for task in tasks]
    assert "llm|direct|c1|0" in ids
    assert any(name.startswith("llm|direct|浣溪沙-") for name in ids)
    by_prompt = {
        p: {t.draw[1:] for t in tasks if t.prompt_id == p} for p in ("direct", "form_aware")
    }
    assert by_prompt["direct"] == by_prompt["form_aware"], "both prompts have the same themes"


def test_only_the_form_aware_prompt_tells_the_form():
    tasks = planned([ci(0, "如梦令")])
    assert ["如梦令的格律" in task.prompt for task in tasks] == [False, True]


def limits(**changes) -> dict[str, int]:
    human = [ci(0, "如梦令"), ci(1, "贺新郎"), ci(2, "忆江南")]
    sampling = params(**changes).sampling
    return {
        task.asked.cipai: task.request(sampling, 0, 0).max_tokens
        for task in planned(human, prompts=["direct"], **changes)
    }


def test_a_ci_may_have_tokens_by_its_longest_form():
    assert set(limits().values()) == {params().sampling.max_tokens}
    # 2 x 66 and 2 x 117, and 40 for the title; 2 x 59 and 40 are fewer than 160.
    assert limits(tokens_per_character=2.0) == {"如梦令": 172, "贺新郎": 274, "忆江南": 160}
    few = {"temperature": 0.7, "top_p": 0.95, "max_tokens": 200}
    assert limits(tokens_per_character=2.0, sampling=few)["贺新郎"] == 200


def test_too_few_themes_are_told():
    with pytest.raises(UserError, match=r"如梦令 has 0 titles of its own and generate\.themes 1"):
        planned([ci(0, "如梦令")], titles_per_cipai=2, themes=["春日"])


def test_a_prompt_of_the_other_genre_is_told():
    with pytest.raises(UserError, match=r"'direct', which is no prompt for poems of genre modern"):
        planned([modern(0)], prompts=["direct"])
    with pytest.raises(UserError, match=r"'P14'.*known: P1, P2"):
        planned([modern(0)], prompts=["P14"])
    with pytest.raises(UserError, match="no human poems"):
        planned([])


def test_braces_in_a_poem_are_text():
    assert fill("《{title}》{poem}", {"title": "{poem}", "poem": "{x}"}, "p") == "《{poem}》{x}"
    with pytest.raises(UserError, match=r"prompts\.modern\.P1 names \{titel\}.*\{title\}"):
        fill("{titel}", {"title": "x"}, "prompts.modern.P1")


def test_seeds_are_the_same_everywhere():
    # The first 31 bits of what `printf '0|P1|h0|0|0' | sha256sum` prints.
    assert derived(0, "P1", "h0", 0, 0) == 964950202
    assert len({derived(0, "P1", "h0", 0, attempt) for attempt in range(100)}) == 100


# --- asking ---------------------------------------------------------------------------


GOOD = "夜灯\n\n灯把雨数了一遍\n数到最后睡着了"


def carried_out(folder: Path, script, human, **changes):
    given = params(**changes)
    with serving(script) as server:
        models = {"llm": server.params(requests_at_once=2)}
        work = run.plan(human, ["甲1"], given, models, PROMPTS, FORMS, WorkCache(folder))
        return run.carry_out(work), work, server


def test_what_is_no_poem_is_asked_for_again_by_another_seed(tmp_path):
    seeds = []

    def answer(body: dict) -> Answer:
        seeds.append(body["seed"])
        return says("《夜灯》") if len(seeds) < 3 else says(GOOD)

    made, _, server = carried_out(tmp_path, answer, [modern(0)], prompts=["P1"])
    assert len(set(seeds)) == len(seeds) == 3
    (reply,) = made.replies
    assert (reply.outcome, reply.attempts, reply.text) == ("kept", 3, GOOD)
    (poem,) = made.poems
    assert (poem.poem_id, poem.label, family_of(poem)) == ("llm|P1|h0|0", 1, "h0")
    assert poem.text == "灯把雨数了一遍\n数到最后睡着了"
    assert poem.generation.seed == seeds[-1] == server.requests[-1]["seed"]


def test_attempts_are_bounded_and_what_fails_is_a_reply_with_a_reason(tmp_path):
    made, work, server = carried_out(tmp_path, [says("《夜灯》")], [modern(0)], prompts=["P1"])
    assert len(server.requests) == 3
    (reply,) = made.replies
    assert (reply.outcome, reply.missing_reason, reply.attempts) == ("missing", "title_only", 3)
    assert made.poems == []
    counts = report.metrics(work, made)["poems"]["llm"]["P1"]
    assert counts["asked"] == 1
    assert counts["kept"] == 0
    assert counts["missing"] == {"title_only": 1}
    assert (counts["attempts"], counts["prompt_tokens"], counts["completion_tokens"]) == (3, 15, 9)


def test_at_temperature_0_another_attempt_would_say_the_same(tmp_path):
    cold = {"temperature": 0.0, "top_p": 0.95, "max_tokens": 50}
    _, _, server = carried_out(
        tmp_path, [says("《夜灯》")], [modern(0)], prompts=["P1"], sampling=cold
    )
    assert len(server.requests) == 1


def test_a_filtered_request_is_not_asked_again(tmp_path):
    script = [fails(400, "blocked", "content_filter")]
    made, work, server = carried_out(tmp_path, script, [modern(0)], prompts=["P1"])
    assert len(server.requests) == 1
    (reply,) = made.replies
    assert reply.missing_reason == "filtered"
    assert "blocked" in reply.missing_detail
    counts = report.metrics(work, made)["poems"]["llm"]["P1"]
    assert counts["failed_requests"] == {"filtered": 1}


def test_a_second_run_asks_for_nothing_and_makes_the_same(tmp_path):
    human = [modern(0), ci(0, "如梦令")]

    def answer(body: dict) -> Answer:
        return says(GOOD if body["seed"] % 2 else "《夜灯》")

    once, _, first = carried_out(tmp_path, answer, human, prompts=["P1", "direct"])
    given = params(prompts=["P1", "direct"])
    models = {"llm": first.params()}
    work = run.plan(human, [], given, models, PROMPTS, FORMS, WorkCache(tmp_path))
    assert run.still_to_ask(work, "llm") == ([], [])
    again = run.carry_out(work)  # the server is gone: nothing may be asked
    assert again.poems == once.poems
    assert again.replies == once.replies


def test_what_is_still_to_ask_is_what_a_run_asks(tmp_path):
    human = [modern(0), modern(1), modern(2)]
    with serving([says(GOOD), says("《夜灯》"), says(GOOD)]) as server:
        models = {"llm": server.params()}
        given = params(prompts=["P1"], attempts=1)
        work = run.plan(human, [], given, models, PROMPTS, FORMS, WorkCache(tmp_path))
        assert len(run.still_to_ask(work, "llm")[0]) == 3
        run.carry_out(work)
        more = params(prompts=["P1"], attempts=2)
        work = run.plan(human, [], more, models, PROMPTS, FORMS, WorkCache(tmp_path))
        assert len(run.still_to_ask(work, "llm")[0]) == 1, "the one that was no poem"


def test_the_key_is_looked_for_before_another_model_works(tmp_path, monkeypatch):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with serving([says(GOOD)]) as server:
        models = {"llm": server.params(), "dear": server.params(key_variable="NO_SUCH_KEY")}
        given = params(models=["llm", "dear"], prompts=["P1"])
        work = run.plan([modern(0)], [], given, models, PROMPTS, FORMS, WorkCache(tmp_path))
        with pytest.raises(UserError, match="NO_SUCH_KEY"):
            run.carry_out(work)
        assert server.requests == []


def test_a_ci_has_the_corpus_layout_and_title(tmp_path):
    human = [ci(0, "如梦令"), ci(1, "如梦令", "如梦令·夜雨")]
    reply = "**如梦令·夜雨**\n\n小楼听雨，\n灯火不眠。\n\n一夜到天明。"
    made, _, _ = carried_out(tmp_path, [says(reply)], human, prompts=["direct"])
    (poem,) = made.poems
    assert (poem.title, poem.cipai) == ("如梦令·夜雨", "如梦令")
    assert poem.text == "小楼听雨，灯火不眠。\n一夜到天明。", "the corpus has no blank lines"
    assert poem.generation.theme == "夜雨"
    assert family_of(poem) == "c1"


def test_dates_and_notes_stand_beside_the_verse(tmp_path):
    reply = f"{GOOD}\n\n2024年3月5日于檐下"
    made, _, _ = carried_out(tmp_path, [says(reply)], [modern(0)], prompts=["P1"])
    assert made.poems[0].text == "灯把雨数了一遍\n数到最后睡着了"
    assert made.poems[0].beside == {"date": ("2024年3月5日于檐下",)}


# --- stanza and line counts -----------------------------------------------------------


def test_how_well_asked_counts_were_kept(tmp_path):
    replies = {
        "h0": "夜\n\n" + STANZAS,  # 2 stanzas, 4 lines, but a copy: see below
        "h1": "夜\n\n一行在此\n二行在此\n三行在此\n\n四行在此\n五行在此",  # 2 stanzas, 5 lines
        "h2": "夜\n\n只有一节\n也只有两行",  # 1 stanza, 2 lines
    }
    human = [modern(n, title=f"题{n}") for n in range(3)]

    def answer(body: dict) -> Answer:
        asked = body["messages"][0]["content"]
        return says(next(r for name, r in replies.items() if f"题{name[1]}" in asked))

    made, work, _ = carried_out(tmp_path, answer, human, prompts=["P6", "P7", "P8"])
    table = report.metrics(work, made)["structure"]["llm"]
    assert list(table) == ["P6", "P7", "P8"]
    assert set(table["P6"]) == {"stanzas_kept", "stanzas_difference"}
    assert set(table["P7"]) == {"lines_kept", "lines_difference"}
    # h0 copied the human poem and is missing: unscored, never a zero.
    lines = table["P8"]["lines_difference"]
    assert (lines["value"], lines["n"], lines["n_unscored"]) == (-0.5, 2, 1)
    assert table["P8"]["stanzas_kept"]["value"] == 0.5
    assert table["P8"]["lines_kept"]["value"] == 0.0


# --- finished replies -----------------------------------------------------------------


def written_to(folder: Path, *lines: dict) -> Path:
    path = folder / "replies.jsonl"
    path.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines), "utf-8")
    return path


def test_finished_replies_pass_the_same_cleaning(tmp_path, capsys):
    path = written_to(
        tmp_path,
        {"seed_poem_id": "h0", "prompt_id": "P1", "text": f"《灯之一》\n\n{GOOD}", "note": "x"},
        {"seed_poem_id": "h0", "prompt_id": "P1", "text": "灯之一", "generator": "m", "votes": 3},
        {"seed_poem_id": "h0", "prompt_id": "P1", "text": None, "generator": "m"},
        {"seed_poem_id": "zz", "text": "不知是谁的\n也是一首诗"},
        {"text": "什么都不知道\n也是一首诗"},
    )
    made = finished.read_finished(path, [modern(0)], PROMPTS, FORMS)
    assert [item.reply.reply_id for item in made] == [
        "unknown|P1|h0|0",
        "m|P1|h0|0",
        "m|P1|h0|1",
        "unknown|unknown|zz|0",
        "unknown|unknown|unknown|0",
    ]
    assert [item.reply.missing_reason for item in made] == [None, "title_only", "empty", None, None]
    first, last = made[0].poem, made[-1].poem
    assert first.generation.temperature is None
    assert first.generation.seed is None
    assert first.generation.finish_reason is None
    assert [first.label, last.label] == [1, 1], "an LLM's whatever is unknown"
    assert (last.generation.seed_poem_id, family_of(last)) == (None, last.poem_id)
    told = capsys.readouterr().err
    assert told.count("ignored the fields note, votes") == 1
    assert "1 replies name 1 seed poems that are not among the collected ones (zz)" in told


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"prompt_id": "P1"}, ":1 is not a finished reply: 'text' is missing"),
        ({"text": 3}, ":1 is not a finished reply: 'text' is 3"),
        ({"text": "诗", "temperature": -1}, "'temperature' is -1"),
    ],
)
def test_a_bad_line_of_finished_replies_is_named(tmp_path, line, words):
    with pytest.raises(UserError, match=words):
        finished.read_finished(written_to(tmp_path, line), [], PROMPTS, FORMS)


def test_an_empty_file_of_finished_replies_is_told(tmp_path):
    (tmp_path / "r.jsonl").write_text("", "utf-8")
    with pytest.raises(UserError, match="holds no reply"):
        finished.read_finished(tmp_path / "r.jsonl", [], PROMPTS, FORMS)


@needs_shared
def test_the_collected_replies_of_the_1_5b():
    """520 replies: 40 poems, 13 prompts. Read by us: 90 kept ones and all the others."""
    human = [
        Poem(poem_id=p["id"], title=p["title"], text=p["text"], genre="modern", author=p["author"])
        for p in map(json.loads, (SHARED / "data/modern_pd.jsonl").open(encoding="utf-8"))
    ]
    path = SHARED / "data/generated_modern.jsonl"
    made = finished.read_finished(path, human, PROMPTS, FORMS)
    missing = Counter(item.reply.missing_reason for item in made)
    assert missing == {
        None: 365,
        "title_only": 123,
        "copy_of_seed": 25,
        "truncated": 5,
        "loop": 2,
    }
    counts = report.by_prompt(made)["Qwen2.5-Coder-1.5B-Instruct-Q4_K_M"]
    assert len(counts) == 13
    assert all(cell["asked"] == 40 for cell in counts.values())
    kept = [item.poem for item in made if item.poem]
    assert not [p.poem_id for p in kept if "只输出" in p.text or "题目：" in p.text.split("\n")[0]]


# --- readings -------------------------------------------------------------------------


READING = "内容：这首诗写灯与雨。\n思想情感：守候。"


def reading_params(**changes) -> dict:
    base = params().understanding.model_dump()
    return {"understanding": base | {"poems": 3, "constructed": True} | changes}


def test_authors_with_a_persona_are_read_first_and_in_turn():
    human = [modern(n) for n in range(9)]  # three authors, three poems each
    chosen = readings.choose_poems(human, 5, seed=0, known=["甲1"])
    assert [poem.author for poem in chosen[:3]] == ["甲1"] * 3
    assert len({poem.author for poem in chosen[3:]}) == 2
    assert chosen == readings.choose_poems(human[::-1][::-1], 5, seed=0, known=["甲1"])
    assert len(readings.choose_poems(human, 99, 0, [])) == 9


def test_a_constructed_reading_belongs_to_another_poem(tmp_path):
    human = [modern(n) for n in range(6)]

    def answer(body: dict) -> Answer:
        return says(f"{READING}{body['seed']}")

    made, work, _ = carried_out(tmp_path, answer, human, prompts=["P1"], **reading_params())
    own = [u for u in made.understandings if u.source == "generated"]
    constructed = [u for u in made.understandings if u.source == "constructed"]
    assert len(own) == len(constructed) == 3
    text_of = {u.poem_id: u.text for u in own}
    for item in constructed:
        poem_id, _, other, reader = item.item_id.split("|")
        assert (item.poem_id, reader) == (poem_id, "llm")
        assert other != poem_id
        assert item.text == text_of[other] != text_of[poem_id]
    assert report.metrics(work, made)["understandings"]["constructed"] == 3
    kinds = Counter(reply.kind for reply in made.replies)
    assert kinds == {"poem": 6, "understanding": 3}


def test_readings_of_one_dimension_stand_beside_the_whole_ones(tmp_path):
    """Poller, section 8: a question of its own, a name and a draw of its own."""

    def answer(body: dict) -> Answer:
        said = body["messages"][0]["content"]
        return says("用了拟人。" if "只从“修辞手法”" in said else "内容：写灯。")

    human = [modern(n) for n in range(2)]
    changes = reading_params(poems=2, dimensions=("all", "修辞手法"))
    made, work, _ = carried_out(tmp_path, answer, human, prompts=["P1"], **changes)
    own = [u for u in made.understandings if u.source == "generated"]
    assert [(u.dimension, u.text) for u in own] == [
        ("all", "内容：写灯。"), ("修辞手法", "用了拟人。")
    ] * 2  # fmt: skip
    assert own[1].item_id == f"{own[0].item_id}|修辞手法"
    wrong = [u for u in made.understandings if u.source == "constructed"]
    assert {u.dimension for u in wrong} == {"all"}, "of one dimension nothing is surely wrong"
    seeds = {task.request(work.params.understanding, 0, 0).seed for task in work.reading_tasks}
    assert len(seeds) == 4


def test_a_dimension_that_nothing_asks_about_is_named():
    params_of = params(**reading_params(dimensions=("韵律",))).understanding
    with pytest.raises(UserError, match=r"'韵律', about which .*allowed are all, 内容, 语言"):
        readings.plan_readings([modern(0)], params_of, PROMPTS)


def test_one_reading_alone_constructs_nothing():
    only = Understanding(item_id="a|reading|llm", poem_id="a", reader="llm", text="x")
    assert readings.construct([only]) == []


def test_readings_that_are_none_have_reasons(tmp_path):
    def answer(body: dict) -> Answer:
        if "理解下面" not in body["messages"][0]["content"]:
            return says(GOOD)
        return Answer(body=completion("<think>只在想", "length"))

    human = [modern(n) for n in range(3)]
    made, _, _ = carried_out(tmp_path, answer, human, prompts=["P1"], **reading_params(poems=2))
    missing = [r.missing_reason for r in made.replies if r.kind == "understanding"]
    assert missing == ["reasoning_only", "reasoning_only"]
    assert made.understandings == []


def test_a_cut_reading_is_kept_and_flagged(tmp_path):
    def answer(body: dict) -> Answer:
        cut = "理解下面" in body["messages"][0]["content"]
        return says(READING, "length") if cut else says(GOOD)

    made, work, _ = carried_out(
        tmp_path, answer, [modern(0)], prompts=["P1"], **reading_params(poems=1)
    )
    (reply,) = (r for r in made.replies if r.kind == "understanding")
    assert reply.flags == ("truncated",)
    assert report.metrics(work, made)["understandings"]["by_reader"]["llm"]["truncated"] == 1


def test_a_ci_is_never_called_a_modern_poem():
    tasks = readings.plan_readings([ci(0, "如梦令"), modern(0)], params().understanding, PROMPTS)
    assert "现代诗" not in tasks[0].prompt
    assert "这首词" in tasks[0].prompt
    assert "这是一首完整的现代诗" in tasks[1].prompt
    for task in tasks:
        headings = ("内容：", "表现手法：", "思想情感：", "现代性：", "最有诗意的句子：")
        assert all(heading in task.prompt for heading in headings)
        assert task.prompt.endswith("的解读：")
