"""What generation tells of prompts that brought no poem."""

from shiyan.generation.generate import Written
from shiyan.generation.report import told, without_poems
from shiyan.records import Poem, Reply


def written(prompt: str, number: int, missing: str | None = None, by: str = "m") -> Written:
    reply_id = f"{by}|{prompt}|{number}"
    reply = Reply(
        reply_id=reply_id,
        kind="poem",
        generator=by,
        prompt_id=prompt,
        seed_poem_id=None,
        text="",
        outcome="missing" if missing else "kept",
        missing_reason=missing,
    )
    poem = Poem(poem_id=reply_id, title="", text="雨", genre="modern", author=by)
    return Written(None if missing else poem, reply)


def test_a_prompt_without_replies_and_one_without_poems_have_their_sentences():
    items = [
        written("P1", 0),
        written("P2", 0, "title_only"),
        written("P2", 1, "title_only"),
        written("P2", 2, "loop"),
    ]
    silent = without_poems(items, ["P1", "P2", "P3"])
    assert silent == {"m": {"P2": {"title_only": 2, "loop": 1}, "P3": {}}}
    assert told(silent) == [
        "m: no poem came of P2 (2 title_only, 1 loop), so no table can tell of it",
        "m: no poem came of P3 (no reply), so no table can tell of it",
    ]


def test_where_every_prompt_has_a_poem_nothing_is_told():
    assert told(without_poems([written("P1", 0), written("P1", 1, "empty")], ["P1"])) == []


def test_finished_replies_to_other_prompts_were_not_asked_these():
    assert without_poems([written("unknown", 0)], ["P1", "P2"]) == {}
