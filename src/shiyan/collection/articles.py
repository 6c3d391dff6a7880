"""Personas that an LLM makes from a folder of articles (Poller, section 6)."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from shiyan.chat import AnyModelParams, Chat, ChatFailure, ChatRequest, Message
from shiyan.collection.encoding import decoded
from shiyan.collection.personas import LONGEST, SHORTEST, TEXTS, length, quotations
from shiyan.config import LocalModelParams
from shiyan.errors import UserError
from shiyan.records import Persona, Poem

SUFFIXES = (".txt", ".md")
TEMPERATURE, TOP_P = 0.5, 1.0
"""As for readings: a summary is no creative task, and can be put in several ways."""
MOST_TOKENS = 3000
"""Of a reply: the longest persona with its headings."""
OF_AN_API = 20_000
"""Characters of articles that are put into one request to an API model."""
FRAME = 500
"""Tokens of a request that are not article."""
ROUNDS = 4
"""Condensing so often brings 57,000 words of articles into any context."""
_VIEWS = r"(?:诗歌|诗学|创作)(?:经验和|经验与|经验及)?(?:诗歌)?(?:观点|观|看法|主张)"
_BASIC = r"(?:诗人)?基本(?:信息|资料)"
_CRITICS = r"(?:他人|评论家|批评家)的?评[论价]"
HEADINGS: Mapping[str, tuple[str, str]] = {
    "basic_information": (_BASIC, _BASIC),
    "views_on_poetry": (_VIEWS, _VIEWS),
    "critics_comments": (_CRITICS, rf"{_CRITICS}|评[论价]"),
}
"""Section -> its names, and with those that a sentence may begin with as well."""


def _head(name: str, short: str) -> str:
    """A pattern of a heading: in brackets, before a colon, or alone on its line."""
    in_brackets = rf"[【\[（(](?:{short})[】\]）)]"
    before_colon = rf"(?:{name})[ \t*]*[：:]"
    alone = rf"(?:{short})(?=[ \t*]*[：:]?[ \t*]*$)"
    return f"{in_brackets}|{before_colon}|{alone}"


_HEADING = re.compile(
    r"^[ \t#*]*(?:[（(]?[\d一二三]+[）)、.．][ \t]*)?\**(?:"
    + "|".join(f"(?P<{section}>{_head(*names)})" for section, names in HEADINGS.items())
    + r")[ \t*]*[：:]?[ \t*]*",
    re.M,
)


@dataclass(frozen=True)
class Article:
    """A text about a poet, by its file's name."""

    name: str
    text: str


def read_articles(folder: Path, poet: str | None) -> dict[str, list[Article]]:
    """Poet -> articles: a subfolder a poet, or one folder of `poet`'s.

    Raises:
        UserError: no such folder, no articles, an encoding that cannot be read.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder; name one that holds .txt or .md articles", 2)
    found = {
        name: [_read(path) for path in sorted(place.iterdir()) if _is_article(path)]
        for name, place in _folders(folder, poet).items()
    }
    empty = [name for name, articles in found.items() if not articles]
    if empty or not found:
        raise UserError(
            f"{folder} holds no .txt or .md article about {empty[0] if empty else 'anybody'}; it "
            "needs a folder a poet, or --poet NAME for articles about one"
        )
    return found


def unread(folder: Path, poet: str | None) -> list[Path]:
    """What lies among the articles and is not read (a .docx, a .pdf), hidden files apart."""
    beside = [] if poet else [path for path in sorted(folder.iterdir()) if not path.is_dir()]
    inside = [
        path
        for place in _folders(folder, poet).values()
        for path in sorted(place.iterdir())
        if not _is_article(path)
    ]
    return [path for path in (*beside, *inside) if not path.name.startswith(".")]


def _folders(folder: Path, poet: str | None) -> dict[str, Path]:
    if poet:
        return {poet: folder}
    return {path.name: path for path in sorted(folder.iterdir()) if path.is_dir()}


def _is_article(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES


def _read(path: Path) -> Article:
    text, _ = decoded(path.read_bytes(), str(path))
    if not text.strip():
        raise UserError(f"{path} is empty; take it out of the folder")
    return Article(path.name, text.strip())


@dataclass(frozen=True)
class Made:
    """What came of a poet's articles.

    Attributes:
        persona: None where the reply was refused.
        problems: why, a clause each.
        n_requests: how often the model was asked.
    """

    persona: Persona | None
    problems: tuple[str, ...]
    n_requests: int


def make_persona(
    poet: str,
    articles: Sequence[Article],
    chat: Chat,
    texts: Mapping[str, str],
    poems: Iterable[Poem],
    seed: int = 0,
) -> Made:
    """Ask for a persona; a reply that cannot be used is answered once, saying why.

    Articles that do not fit into one request are condensed part by part first.

    Args:
        texts: of conf/prompt/persona.yaml.
        poems: those that may be judged; a persona that quotes one is refused.

    Raises:
        UserError: the articles cannot be condensed, or as `Chat.ask_all`.
    """
    judged = list(poems)
    room = room_for_articles(chat.params)
    try:
        material, n_requests = condensed(poet, articles, chat, texts, room, seed)
    except NotesFailedError as failed:
        return Made(None, (str(failed),), failed.n_requests)
    names = {"poet": poet, "shortest": f"{SHORTEST}", "longest": f"{LONGEST}"}
    messages = [Message("user", _filled(texts["persona"], text=material, **names))]
    problems: tuple[str, ...] = ()
    for _ in range(2):
        outcome = chat.ask(_request(messages, seed))
        n_requests += 1
        if isinstance(outcome, ChatFailure):
            return Made(None, (f"{outcome.kind}: {outcome.reason}",), n_requests)
        persona, problems = read_persona(poet, outcome.answer, articles, judged)
        if outcome.finish_reason == "length":
            problems = ("到字数上限时中断，没有写完", *problems)
        if not problems:
            return Made(persona, (), n_requests)
        again = _filled(texts["again"], problems="；".join(problems), **names)
        messages += [Message("assistant", outcome.answer), Message("user", again)]
    return Made(None, problems, n_requests)


def read_persona(
    poet: str, reply: str, articles: Sequence[Article], poems: Sequence[Poem]
) -> tuple[Persona, tuple[str, ...]]:
    """(the persona that a reply holds, why it cannot be used)."""
    found = dict.fromkeys(TEXTS, "")
    heads = list(_HEADING.finditer(reply))
    for head, following in zip_longest(heads, heads[1:]):
        name = str(head.lastgroup)
        body = reply[head.end() : following.start() if following else len(reply)].strip(" \n*#")
        found[name] = f"{found[name]}\n{body}".strip()
    persona = Persona(poet_id=poet, sources=tuple(a.name for a in articles), **found)
    problems = [
        f"缺少{shown}这一部分"
        for name, shown in zip(TEXTS, ("【基本信息】", "【诗歌观点】", "【他人评论】"), strict=True)
        if not found[name]
    ]
    if not SHORTEST <= (n := length(persona)) <= LONGEST:
        problems.append(f"合计{n}字，应为{SHORTEST}到{LONGEST}字")
    if quoted := quotations(persona, poems):
        problems.append(f"引用了诗句“{quoted[0]}”")
    return persona, tuple(problems)


def room_for_articles(params: AnyModelParams) -> int:
    """Characters of articles that fit into a request; a character is a token at most, mostly."""
    if not isinstance(params, LocalModelParams):
        return OF_AN_API
    return max(params.context - min(MOST_TOKENS, params.context // 2) - FRAME, FRAME)


class NotesFailedError(Exception):
    """A part of an article of which no notes came: the reason, as a clause."""

    def __init__(self, article: str, failure: ChatFailure, n_requests: int) -> None:
        super().__init__(f"no notes on {article}: {failure.kind}: {failure.reason}")
        self.n_requests = n_requests


def condensed(
    poet: str,
    articles: Sequence[Article],
    chat: Chat,
    texts: Mapping[str, str],
    room: int,
    seed: int,
) -> tuple[str, int]:
    """(articles, or notes on them, that fit into one request; how many requests that took).

    Raises:
        NotesFailedError: a persona that names an article as its source must rest on all of it.
        UserError: the notes do not get short enough.
    """
    parts = [(article.name, f"{article.name}\n{article.text}") for article in articles]
    n_requests = 0
    for _ in range(ROUNDS):
        material = "\n\n".join(text for _, text in parts)
        if len(material) <= room:
            return material, n_requests
        pieces = [(name, piece) for name, text in parts for piece in _pieces(text, room)]
        parts = []
        for name, piece in pieces:
            prompt = _filled(texts["notes"], poet=poet, text=piece)
            outcome = chat.ask(_request([Message("user", prompt)], seed))
            n_requests += 1
            if isinstance(outcome, ChatFailure):
                raise NotesFailedError(name, outcome, n_requests)
            parts.append((name, outcome.answer.strip()))
    raise UserError(
        f"the articles about {poet} do not get short enough in {ROUNDS} rounds of notes; "
        "name a model with a longer context, or leave some out"
    )


def _pieces(text: str, room: int) -> Iterator[str]:
    """The text in pieces of at most `room` characters, cut between paragraphs where possible."""
    while len(text) > room:
        cut = max(text.rfind("\n", room // 2, room), text.rfind("。", room // 2, room)) + 1
        cut = cut or room
        yield text[:cut].strip()
        text = text[cut:]
    if text.strip():
        yield text.strip()


def _request(messages: Sequence[Message], seed: int) -> ChatRequest:
    return ChatRequest(tuple(messages), TEMPERATURE, TOP_P, MOST_TOKENS, seed)


def _filled(template: str, **values: str) -> str:
    """The template with {name} replaced in one pass; articles can close no mark of ours."""
    safe = {name: value.replace("<", "‹").replace("|>", "¦›") for name, value in values.items()}
    return re.sub(r"\{(\w+)\}", lambda match: safe.get(match[1], match[0]), template)
