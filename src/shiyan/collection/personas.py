"""Personas of poets: what a judge that plays the poet is told (Poller, sections 5 and 6)."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from shiyan import poem as parser
from shiyan.collection.tables import read_rows
from shiyan.config import project_root
from shiyan.errors import UserError
from shiyan.jsonl import describe
from shiyan.records import Persona, Poem

BUNDLED = Path(__file__).parent.parent / "data" / "personas"
COLUMNS = {
    "poet_id": ("poet_id", "poet", "诗人", "作者"),
    "basic_information": ("basic_information", "基本信息"),
    "views_on_poetry": ("views_on_poetry", "诗歌观点", "诗歌经验和观点"),
    "critics_comments": ("critics_comments", "评论", "他人评论"),
    "sources": ("sources", "来源", "出处"),
}
TEXTS = ("basic_information", "views_on_poetry", "critics_comments")
SHORTEST, LONGEST = 1000, 2500
"""Characters of a persona in all (section 6)."""
QUOTED = 7
"""So many characters of a poem in a row, punctuation aside, are a quotation."""
LEAST_LINE = 4
"""So many are one as well where they are a whole line, in quotation marks."""


def collect(path: str | None) -> tuple[list[Persona], list[str]]:
    """(personas, notices) of a user's JSONL, CSV or XLSX file, or of the ones that come with
    the project.

    Fields beside those of `Persona` are ignored with one notice; a persona of another length
    than the paper's is named.

    Raises:
        UserError: a line that is no persona, or a poet who stands twice (both places).
    """
    files = [project_root() / path] if path is not None else sorted(BUNDLED.glob("*.jsonl"))
    fields = {name.casefold(): field for field, names in COLUMNS.items() for name in names}
    personas: dict[str, Persona] = {}
    places: dict[str, str] = {}
    ignored: set[str] = set()
    for file in files:
        for place, row in read_rows(file, list(fields)):
            ignored |= {column for column in row if column.casefold() not in fields}
            persona = _persona(place, row, fields)
            if persona.poet_id in personas:
                raise UserError(
                    f"the poet {persona.poet_id!r} has two personas, at {places[persona.poet_id]} "
                    f"and at {place}; keep one"
                )
            personas[persona.poet_id] = persona
            places[persona.poet_id] = place
    notices = [f"{path}: ignored the fields {', '.join(sorted(ignored))}"] if ignored else []
    if path is not None and not personas:
        notices.append(f"{path} holds no persona")
    odd = {poet: n for poet, p in personas.items() if not SHORTEST <= (n := length(p)) <= LONGEST}
    if path is not None and odd:
        told = ", ".join(f"{poet} ({n:,})" for poet, n in odd.items())
        notices.append(
            f"{path}: not of {SHORTEST:,} to {LONGEST:,} characters, as the paper's personas are: "
            f"{told}"
        )
    return list(personas.values()), notices


def _persona(place: str, row: Mapping[str, Any], fields: Mapping[str, str]) -> Persona:
    known = {
        fields[column.casefold()]: value
        for column, value in row.items()
        if column.casefold() in fields and value is not None
    }
    if isinstance(sources := known.get("sources"), str):
        # A cell of a table holds them a line each.
        known["sources"] = tuple(line.strip() for line in sources.splitlines() if line.strip())
    try:
        return Persona.model_validate(known)
    except ValidationError as error:
        raise UserError(f"{place} is not a Persona: {describe(error)}") from error


def length(persona: Persona) -> int:
    """Characters of the three texts."""
    return sum(len(getattr(persona, name)) for name in TEXTS)


def misfits(path: str | None, personas: Iterable[Persona], poems: Iterable[Poem]) -> list[str]:
    """Notices of a user's personas that fit the corpus badly: of poets it does not hold, and
    such as quote a poem of their poet."""
    own: dict[str, list[Poem]] = {}
    for poem in poems:
        own.setdefault(poem.author, []).append(poem)
    strangers, notices = [], []
    for persona in personas if path is not None else ():
        if persona.poet_id not in own:
            strangers.append(persona.poet_id)
        elif quoted := quotations(persona, own[persona.poet_id]):
            notices.append(
                f"{path}: the persona of {persona.poet_id} quotes a poem that may be judged "
                f"({quoted[0]}), which gives it away"
            )
    if strangers:
        notices.append(f"{path}: no poem of the corpus is by {'、'.join(strangers)}")
    return notices


def quotations(persona: Persona, poems: Iterable[Poem]) -> list[str]:
    """What the persona quotes from the poems, which gives away what is judged (section 6: the
    comments do not overlap with the poems): passages, and whole lines in quotation marks."""
    texts = "\n".join(getattr(persona, name) for name in TEXTS)
    told = parser.characters(texts)
    seen = {told[at : at + QUOTED] for at in range(len(told) - QUOTED + 1)}
    quoted = _quoted(texts)
    found: dict[str, None] = {}
    for poem in poems:
        passages = list(_passages(parser.characters(poem.text), seen))
        lines = [line for raw in poem.text.splitlines() if (line := parser.characters(raw))]
        found |= dict.fromkeys(passages)
        found |= {
            line: None
            for line in lines
            if line in quoted and not any(line in passage for passage in passages)
        }
    return list(found)


def _passages(text: str, seen: Collection[str]) -> Iterator[str]:
    """The longest passages of a poem whose windows have all been seen, across its lines."""
    starts = [at for at in range(len(text) - QUOTED + 1) if text[at : at + QUOTED] in seen]
    for _, run in groupby(enumerate(starts), lambda pair: pair[1] - pair[0]):
        first, *others = [at for _, at in run]
        yield text[first : (others or [first])[-1] + QUOTED]


_QUOTATION = re.compile(r"“([^“”]*)”|‘([^‘’]*)’|「([^「」]*)」|『([^『』]*)』|\"([^\"]*)\"")


def _quoted(text: str) -> set[str]:
    """What stands in quotation marks, whole and clause by clause, from 4 characters on."""
    inside = ["".join(filter(None, groups)) for groups in _QUOTATION.findall(text)]
    clauses = [*inside, *(part for words in inside for part in re.split(r"[^\w]+", words))]
    return {words for clause in clauses if len(words := parser.characters(clause)) >= LEAST_LINE}
