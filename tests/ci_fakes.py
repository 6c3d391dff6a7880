"""Ci that nobody wrote: characters of known tones in the shape of a form."""

import random

from shiyan.ci.form import Variant
from shiyan.records import Generation, Poem

LEVEL = "天山风云花春江楼秋人"
OBLIQUE = "月水雨柳雪夜酒客日影"
"""Every book gives these one reading each."""
MARKS = {"句": "，", "读": "、", "韵": "。"}


def realised(variant: Variant, rng: random.Random | None = None) -> str:
    """A text whose tones are a form's, one line of the form after another."""
    rng = rng or random.Random(0)
    drawn = {"平": LEVEL, "仄": OBLIQUE, "中": LEVEL + OBLIQUE}
    pieces: list[str] = []
    for line in variant.lines:
        pieces += [rng.choice(drawn[tone]) for tone in line.tones]
        pieces.append(MARKS[line.end])
        if line.closes_stanza:
            pieces.append("\n\n")
    return "".join(pieces).strip()


# Two ci written for these tests; the rhymes are 词林正韵 part 4, and part 7.
RUMENGLING = "昨夜小园新雨。吹落一庭花絮。燕子不归来，谁与旧巢同住。归去。归去。山外暮云无数。"
HUANXISHA = (
    "野渡无人落日残。西风吹雨上危栏。一江秋水向东寒。\n\n"
    "旧梦已随云影散，新愁还共雁声还。梅花消息隔千山。"
)


def ci(poem_id: str, text: str, cipai: str, source: tuple[str, str] | None = None, sample=0):
    """A ci by a person, or by a source (generator, prompt)."""
    generation = source and Generation(
        generator=source[0],
        prompt_id=source[1],
        seed_poem_id=None,
        sample_index=sample,
        theme="听雨",
        reply_sha256="0",
    )
    return Poem(
        poem_id=poem_id,
        title=cipai,
        text=text,
        genre="ci",
        author="a",
        cipai=cipai,
        generation=generation or None,
    )
