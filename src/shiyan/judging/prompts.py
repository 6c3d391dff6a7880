"""Poller's five judge prompts, put together from three switches (section 5, Tables 2 and 6-9)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from shiyan.errors import UserError
from shiyan.judging.rubric import Rubric
from shiyan.records import Persona, Poem, Understanding
from shiyan.turns import without_control_tokens

Texts = Mapping[str, str]
"""Pieces of a prompt set, as conf/prompt/ holds them."""


class Answer(Enum):
    """The form of the answer that is asked for."""

    LINES = "lines"
    """A line a dimension."""
    JSON = "json"
    """An object, which the server can be held to; see `shape`."""


@dataclass(frozen=True)
class JudgePrompt:
    """What a judge is told besides the poem, the reading and the rubric.

    Attributes:
        persona: the judge plays the poet: basic information, views on poetry, comments.
        owns_poem: the judge wrote this poem; the reading is another reader's.
        declares_role: the judge states its role before it scores.
        names_sentence: the most poetic sentence stands among the dimensions. No idea of
            its own, a difference between the paper's tables: 7-9 name it, 2 and 6 do not.
    """

    persona: bool = False
    owns_poem: bool = False
    declares_role: bool = False
    names_sentence: bool = False


POLLER_PROMPTS: Mapping[str, JudgePrompt] = {
    "P0": JudgePrompt(),
    "P1": JudgePrompt(persona=True, names_sentence=True),
    "P2": JudgePrompt(persona=True, owns_poem=True, names_sentence=True),
    "P3": JudgePrompt(persona=True, declares_role=True),
    "P4": JudgePrompt(persona=True, owns_poem=True, declares_role=True, names_sentence=True),
}

BASELINE = "P0"
FAILED_AGAIN = "; asked again: "
"""Between what a reply lacks and the failure of the request that asked for it again."""


def judge_prompt(prompt_id: str) -> JudgePrompt:
    """The switches of a prompt.

    Raises:
        UserError: there is no such prompt.
    """
    try:
        return POLLER_PROMPTS[prompt_id]
    except KeyError:
        raise UserError(
            f"judge.prompts: there is no judge prompt {prompt_id!r}; "
            f"allowed are {', '.join(POLLER_PROMPTS)}",
            2,
        ) from None


def poller_request(
    prompt: JudgePrompt,
    texts: Texts,
    rubric: Rubric,
    poem: Poem,
    understanding: Understanding,
    persona: Persona | None,
    answer: Answer = Answer.LINES,
) -> str:
    """The whole text of a request to judge one reading.

    What many requests share stands first (persona, opening, rules), the reading and
    what the prompt adds last, so that a server can reuse the common prefix.

    Args:
        rubric: `Rubric.only(understanding.dimension)`.
        persona: needed by the prompts that play the poet, else ignored.
        answer: the form that is asked for.
    """
    opening = [filled(texts["task"], dimensions=_dimensions(prompt, texts, rubric))]
    if prompt.persona:
        opening = [texts["details"], texts["owns_poem"] * prompt.owns_poem, texts["role"], *opening]
    else:
        opening = [texts["no_role"], *opening]
    pieces = [
        _persona(texts, persona) if prompt.persona and persona else "",
        "".join(opening),
        "\n".join([texts["meanings"], *(f"{name}：{texts[name]}" for name in rubric.names)]),
        texts["rules"],
        filled(
            texts["material"], poem=poem_text(poem), reading=neutralised(understanding.text.strip())
        ),
        texts["declares_role"] if prompt.declares_role else "",
        _answer(texts, rubric, answer),
    ]
    return "\n\n".join(piece for piece in pieces if piece)


def quality_request(texts: Texts, rubric: Rubric, poem: Poem, answer: Answer = Answer.LINES) -> str:
    """The whole text of a request to rate one ci (CCiV, section 2.3)."""
    theme = (poem.generation.theme if poem.generation else None) or poem.title or "无题"
    material = filled(
        texts["material"],
        cipai=neutralised(poem.cipai or ""),
        theme=neutralised(theme),
        poem=neutralised(poem.text.strip()),
    )
    meanings = "\n".join([texts["meanings"], *(f"{name}：{texts[name]}" for name in rubric.names)])
    asked = _answer(texts, rubric, answer)
    return "\n\n".join([texts["task"], meanings, texts["rules"], material, asked])


PROBLEMS = {
    "a range": "给的是范围，不是一个分数",
    "a bound": "给的是范围，不是一个分数",
    "off the scale": "超出评分范围",
    "out of": "满分不对",
    "disagree": "前后给了不同的分数",
}
"""How problems of the parser are put to a judge; any other is a score that was not found."""


def again_request(template: str, rubric: Rubric, problems: Mapping[str, str]) -> str:
    """What a judge is told whose reply could not be read whole: which scores, and why."""
    why = (
        next((told for part, told in PROBLEMS.items() if part in problem), "没有找到分数")
        for problem in problems.values()
    )
    return filled(
        template,
        missing="、".join(problems),
        why="；".join(dict.fromkeys(why)),
        lowest=f"{rubric.lowest:g}",
        highest=f"{rubric.highest:g}",
    )


def _dimensions(prompt: JudgePrompt, texts: Texts, rubric: Rubric) -> str:
    if len(rubric.names) == 1:
        return filled(texts["one"], dimension=rubric.names[0])
    return texts["eight_and_sentence" if prompt.names_sentence else "eight"]


def _persona(texts: Texts, persona: Persona) -> str:
    return filled(
        texts["persona"],
        basic_information=neutralised(persona.basic_information),
        views_on_poetry=neutralised(persona.views_on_poetry),
        critics_comments=neutralised(persona.critics_comments),
    )


def _answer(texts: Texts, rubric: Rubric, form: Answer) -> str:
    if form is Answer.JSON:
        return filled(texts["answer_json"], dimensions="、".join(rubric.names))
    lines = (filled(texts["answer_line"], dimension=name) for name in rubric.names)
    return filled(texts["answer"], lines="\n".join(lines))


def poem_text(poem: Poem) -> str:
    """Heading and body, as material."""
    return neutralised(f"{heading(poem)}\n\n{poem.text.strip()}".strip())


def heading(poem: Poem) -> str:
    """The title; before a ci's, its cipai."""
    if poem.cipai and poem.cipai not in poem.title:
        return f"{poem.cipai}·{poem.title}" if poem.title else poem.cipai
    return poem.title


_UNSEEN = r"\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff"
"""Characters without a width, between which a judge reads the same mark."""
_GAP = rf"[\s{_UNSEEN}]*"


def _letters(name: str) -> str:
    """A pattern of a name in half- or full-width letters, however it is spaced unseen."""
    return rf"[{_UNSEEN}]*".join(f"[{letter}{chr(ord(letter) + 0xFEE0)}]" for letter in name)


_OURS = "|".join(map(_letters, ("poem", "reading")))
_THOUGHTS = "|".join(
    map(_letters, ("thinking", "think", "thought", "reasoning", "analysis", "answer"))
)
_MARK = re.compile(
    rf"(?:[<＜‹◁]|&lt;){_GAP}([/／]?){_GAP}({_OURS}|{_THOUGHTS})"
    rf"([\s/／{_UNSEEN}][^<>＜＞‹›\n]{{0,200}}?|){_GAP}(?:[>＞›▷]|&gt;)"
    rf"|\[{_GAP}([/／]?){_GAP}({_THOUGHTS}){_GAP}\]",
    re.IGNORECASE,
)


def neutralised(text: str) -> str:
    """Foreign text that can neither close our marks nor open a turn of the chat.

    <poem>, </reading> and the like lose their angle brackets, and so do control tokens
    such as <|im_end|>, which a server would read as the end of the message, and the tags
    of thinking: a judge that quotes them would end its own thought there.
    """

    def mark(match: re.Match[str]) -> str:
        slash, name, rest = match.group(1, 2, 3) if match[2] else (*match.group(4, 5), "")
        return "‹" + re.sub(f"[{_UNSEEN}]", "", f"{slash}{name}{rest.rstrip()}") + "›"

    return without_control_tokens(_MARK.sub(mark, text))


def filled(template: str, **values: str) -> str:
    """The template with {name} replaced in one pass: braces in the values stay text."""
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), template)
