"""A user's own poems: JSONL, CSV, XLSX, or a folder of .txt and .pt files.

Nothing is lost in silence: what cannot be read stands in the result with its
place and the reason, and what is peculiar but readable is kept and counted.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tqdm import tqdm

from shiyan import poem as parser
from shiyan import texts
from shiyan.collection.corpus import Corpus, flags, tell
from shiyan.collection.encoding import decoded, decoded_lines
from shiyan.collection.pt import parse_pt
from shiyan.collection.tables import OLD_OFFICE, ZIP, read_table, unescaped
from shiyan.config import FilesParams, project_root
from shiyan.errors import UserError
from shiyan.jsonl import parse_object
from shiyan.records import Poem

Genre = Literal["modern", "ci"]
TuneOf = Callable[[str], tuple[str, str] | None]
"""A title -> the cipai that it names and the topic; None where it names none."""
HasPreface = Callable[[str, str], bool]
"""A ci's text and cipai -> whether its first stanza is prose."""
Fields = Mapping[str, tuple[str, ...]]
"""Our field -> the file's columns that may hold it; the first that is not empty does."""

COLUMNS = {
    "poem_id": ("poem_id", "id", "编号", "序号"),
    "text": ("text", "正文", "content", "内容", "诗歌", "body"),
    "title": ("title", "标题", "题目", "诗题", "篇名"),
    "author": ("author", "作者", "诗人", "poet"),
    "cipai": ("cipai", "词牌", "词牌名"),
    "date": ("date", "日期"),
}
"""Our field -> the names it may have in a file, case aside; the first one found is taken."""
KINDS = ".jsonl, .csv, .tsv, .xlsx, .txt and .pt files, or a folder of .txt and .pt files"
_POET = re.compile("[\u3400-\u9fff]+_[a-z0-9]+")
NO_TEXT = "no text"
NO_CIPAI = "no cipai"
PAGE_NUMBER = "a page number alone"
NAMED = 5
"""Odd lines of one kind that are named; the others are counted."""
BY_LLM = "an LLM's poem, and this is the corpus of human ones"


@dataclass(frozen=True)
class UserPoem:
    """One poem of a user's file, or the place where one should have been.

    Attributes:
        place: file:line and row, or the file; what a message names.
        poem: None where not even an id could be read.
        problem: why the poem cannot be used, as a short name; None if it can.
        detail: the same as a sentence that begins with the place.
        encoding: what the bytes were written in.
        by_llm: the row says how an LLM wrote it, as our own records do.
        mended: rules by which its text was mended.
        odd: what is flagged in the text as it came.
    """

    place: str
    poem: Poem | None
    problem: str | None = None
    detail: str | None = None
    encoding: str = "UTF-8"
    by_llm: bool = False
    mended: tuple[str, ...] = ()
    odd: tuple[texts.Oddity, ...] = ()

    @property
    def flags(self) -> list[str]:
        """What is mended and what is odd, by name, each once."""
        return texts.flags_of(self.mended, self.odd)

    @property
    def said(self) -> str:
        """What is wrong and where, as a sentence."""
        return self.detail or f"{self.place}: {self.problem}"


@dataclass(frozen=True)
class UserPoems:
    """A user's file, row by row in its order, and what to say about it."""

    rows: tuple[UserPoem, ...]
    notices: tuple[str, ...]

    @property
    def poems(self) -> list[Poem]:
        """The poems that can be used."""
        return [row.poem for row in self.rows if row.poem and not row.problem]


def read_user_poems(
    path: Path,
    genre: Genre,
    columns: Mapping[str, str] | None = None,
    needs_cipai: bool = False,
    tune_of: TuneOf | None = None,
    has_preface: HasPreface | None = None,
) -> UserPoems:
    """The poems of a file or folder; verse in `text`, what is no verse in `beside`.

    Args:
        columns: our field -> the file's column, where the names differ from `COLUMNS`.
        needs_cipai: a ci without its cipai cannot be used.
        tune_of: reads the cipai of a ci that has none out of its title.
        has_preface: tells whether the first stanza of a ci is prose, which stands beside it.

    Raises:
        UserError: no such path, another kind of file, no column with the text, an
            id that stands twice (with both places).
    """
    if not path.exists():
        raise UserError(f"{path} does not exist; give {KINDS}")
    if path.is_dir():
        rows, notices = _read_folder(path, genre)
    else:
        rows, notices = _read_file(path, genre, columns or {})
    if tune_of and genre == "ci":
        rows, told = _with_tunes(rows, tune_of)
        notices += told
    if has_preface and genre == "ci":
        rows = [replace(row, poem=_without_preface(row.poem, has_preface)) for row in rows]
    if needs_cipai and genre == "ci":
        rows = [_wants_cipai(row) for row in rows]
    _refuse_twice(rows)
    return UserPoems(tuple(rows), (*notices, *_odd_lines(rows)))


def collect(
    params: FilesParams, tune_of: TuneOf | None = None, has_preface: HasPreface | None = None
) -> Corpus:
    """The usable poems of a user's file as a corpus; the rest counted by reason and named.

    Raises:
        UserError: as `read_user_poems`, or not one poem can be used.
    """
    path = project_root() / Path(params.path)
    read = read_user_poems(path, params.genre, params.columns, True, tune_of, has_preface)
    rows = [replace(row, problem=BY_LLM) if row.by_llm else row for row in read.rows]
    read = replace(read, rows=tuple(rows))
    corpus = Corpus(poems=read.poems, notices=list(read.notices), made={"source": params.path})
    corpus.left_out.update(row.problem for row in rows if row.problem)
    for poem in corpus.poems:
        corpus.flagged.update(flags(poem))
    corpus.flagged.update(
        f"read as {row.encoding}" for row in rows if row.poem and row.encoding != "UTF-8"
    )
    corpus.flagged.update(name for row in rows if not row.problem for name in row.flags)
    wrong = [row.said for row in rows if row.problem]
    if not corpus.poems:
        why = f"; of {len(wrong)} the first is: {wrong[0]}" if wrong else ""
        raise UserError(f"{path} holds no poem that can be used{why}")
    tell(wrong)
    return corpus


# --- the kinds of files -----------------------------------------------------------------


def _read_file(
    path: Path, genre: Genre, columns: Mapping[str, str]
) -> tuple[list[UserPoem], list[str]]:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} could not be read: {error.strerror}") from error
    suffix = path.suffix.lower()
    if raw.startswith((ZIP, OLD_OFFICE)) or suffix in (".csv", ".tsv", ".xlsx"):
        return _read_sheet(path, raw, genre, columns)
    if suffix in (".jsonl", ".ndjson", ".json"):
        return _read_jsonl(path, raw, genre, columns)
    if suffix in (".txt", ".pt"):
        row = _read_one(path, raw, _legible(Path(path.name)), genre, _author_of(path, path.parent))
        return [row], _encodings([row])
    raise UserError(f"{path} is of a kind that is not read; give {KINDS}")


def _read_sheet(
    path: Path, raw: bytes, genre: Genre, columns: Mapping[str, str]
) -> tuple[list[UserPoem], list[str]]:
    known = [*columns.values(), *(name for names in COLUMNS.values() for name in names)]
    table = read_table(path, raw, known)
    fields, notices = _fields(path, table.columns, columns)
    rows = []
    for number, row in enumerate(table.rows, start=1):
        values = _values(row.cells, fields)
        place = f"{row.place} (id {values['poem_id']})" if values.get("poem_id") else row.place
        made = _row(place, values, f"{path.stem}-{number:05d}", genre)
        rows.append(
            replace(made, problem="cells shifted", detail=f"{place}: {row.problem}")
            if row.problem
            else made
        )
    n_unnamed = sum(not _values(row.cells, fields).get("poem_id") for row in table.rows)
    return rows, [*table.notices, *notices, *_ids_made(n_unnamed)]


def _read_jsonl(
    path: Path, raw: bytes, genre: Genre, columns: Mapping[str, str]
) -> tuple[list[UserPoem], list[str]]:
    lines, encoding = decoded_lines(raw, str(path))
    objects: list[tuple[int, dict[str, Any] | UserError]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            objects.append((number, parse_object(line, f"{path}:{number}")))
        except UserError as error:
            if number == 1 and line.lstrip().startswith(b"["):
                raise UserError(
                    f"{path} is a JSON array; write one object a line (JSON Lines)"
                ) from None
            objects.append((number, error))
    keys = {key: None for _, value in objects if isinstance(value, dict) for key in value}
    fields, notices = _fields(path, tuple(keys), columns) if keys else ({}, [])
    rows = []
    n_unnamed = 0
    for number, value in tqdm(objects, path.name, disable=len(objects) < 20_000):
        place = f"{path}:{number}"
        if isinstance(value, UserError):
            why = "not UTF-8" if " is not UTF-8 " in str(value) else "not a JSON object"
            rows.append(UserPoem(place, None, why, str(value)))
            continue
        values = _values(value, fields)
        n_unnamed += values.get("poem_id") in (None, "")
        made = _row(place, values, f"{path.stem}-{number:05d}", genre, encoding)
        rows.append(replace(made, by_llm=bool(value.get("generation"))))
    read_as = [f"{path} was read as {encoding}"] if encoding != "UTF-8" else []
    return rows, [*notices, *read_as, *_ids_made(n_unnamed)]


def _read_folder(folder: Path, genre: Genre) -> tuple[list[UserPoem], list[str]]:
    """Every .txt and .pt below the folder, by path; hidden files are passed over."""
    rows: list[UserPoem] = []
    others: Counter[str] = Counter()
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    within = folder.resolve()
    for path in tqdm(paths, folder.name, disable=len(paths) < 5_000):
        name = path.relative_to(folder)
        if any(part.startswith((".", "__MACOSX")) for part in name.parts):
            continue
        if path.suffix.lower() not in (".txt", ".pt"):
            others[path.suffix.lower() or "no suffix"] += 1
            continue
        if not path.resolve().is_relative_to(within):
            # What it leads to may be anything, and poems are sent to APIs.
            told = f"{path} is a link out of the folder; copy the poem itself"
            rows.append(UserPoem(str(path), None, "a link out of the folder", told))
            continue
        try:
            raw = path.read_bytes()
        except OSError as error:
            rows.append(UserPoem(str(path), None, "could not be read", f"{path}: {error.strerror}"))
            continue
        rows.append(_read_one(path, raw, _legible(name), genre, _author_of(path, folder)))
    if not rows:
        raise UserError(f"{folder} holds no .txt and no .pt file; give {KINDS}")
    notices = _encodings(rows)
    if others:
        listed = ", ".join(f"{count} of {suffix}" for suffix, count in others.most_common(5))
        notices.append(f"{folder}: files of other kinds were not read ({listed})")
    return rows, notices


def _read_one(path: Path, raw: bytes, poem_id: str, genre: Genre, author: str) -> UserPoem:
    """A .txt, whose first line is the title, or a .pt."""
    try:
        text, encoding = decoded(raw, str(path))
    except UserError as error:
        return UserPoem(str(path), None, "not UTF-8", str(error))
    if path.suffix.lower() == ".pt":
        pt = parse_pt(text)
        values = {"title": pt.title, "date": pt.date, "text": pt.body}
    else:
        title, body = parser.titled(text)
        values = {"title": title, "date": None, "text": body}
    return _row(str(path), values | {"poem_id": poem_id, "author": author}, "", genre, encoding)


def _legible(name: Path) -> str:
    """The path as an id, without what has no shape; bytes that are not UTF-8 as escapes."""
    raw = name.as_posix().encode("utf-8", "surrogateescape")
    return parser.visible(raw.decode("utf-8", "backslashreplace"))


def _author_of(path: Path, root: Path) -> str:
    """徐志摩 for a file below `root` in the folder 徐志摩_xuzhimo, or where `root` is called so."""
    folder = path.parent.name
    return folder.partition("_")[0] if path.parent != root or _POET.fullmatch(folder) else ""


# --- one poem ---------------------------------------------------------------------------


def _row(
    place: str, values: Mapping[str, Any], spare_id: str, genre: Genre, encoding: str = "UTF-8"
) -> UserPoem:
    """A poem out of a file's values, or what is wrong with them."""
    strings: dict[str, str] = {}
    for field, value in values.items():
        try:
            strings[field] = _string(value)
        except ValueError as error:
            return UserPoem(place, None, f"{field} is no text", f"{place}: {field} {error}")
    text, rules = texts.mended(strings.get("text", ""))
    title, _ = texts.mended(strings.get("title", ""))
    verse, apart = parser.parts(text)
    beside: dict[str, tuple[str, ...]] = {}
    for item in apart:
        beside[item.kind] = (*beside.get(item.kind, ()), item.line)
    poem = Poem(
        poem_id=strings.get("poem_id", "").strip() or spare_id,
        title=parser.one_line(title),
        text=verse,
        genre=genre,
        author=parser.one_line(strings.get("author", "")),
        cipai=(parser.one_line(strings.get("cipai", "")) or None) if genre == "ci" else None,
        date=strings.get("date", "").strip() or None,
        beside=beside,
    )
    problem = PAGE_NUMBER if texts.is_page_number(verse) else None if verse else NO_TEXT
    odd = tuple(texts.oddities(text))
    return UserPoem(place, poem, problem, encoding=encoding, mended=tuple(rules), odd=odd)


def _string(value: Any) -> str:
    """A value as text: 7 and 1984 as they stand, None as nothing, a list of lines joined.

    Raises:
        ValueError: an object or a nested list, or half a character.
    """
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        value = "\n".join(value)
    if isinstance(value, bool | int | float):
        value = str(value)
    if not isinstance(value, str):
        raise ValueError(f"is a {type(value).__name__}, a string is wanted")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"holds half a character at position {error.start + 1} (a lone surrogate)"
        ) from None
    return unescaped(value)


def _with_tunes(rows: Sequence[UserPoem], tune_of: TuneOf) -> tuple[list[UserPoem], list[str]]:
    """Every ci with its cipai's plain name, out of its title where it gives none; a notice."""
    named = [replace(row, poem=_with_tune(row.poem, tune_of)) for row in rows]
    n_taken = sum(
        bool(after.poem and after.poem.cipai and before.poem and not before.poem.cipai)
        for before, after in zip(rows, named, strict=True)
    )
    return named, [f"{n_taken} ci have their cipai from their title"] if n_taken else []


def _with_tune(poem: Poem | None, tune_of: TuneOf) -> Poem | None:
    found = tune_of(poem.cipai or poem.title) if poem else None
    if poem is None or found is None:
        return poem
    cipai, topic = found
    if poem.cipai:
        return poem if topic else poem.model_copy(update={"cipai": cipai})
    return poem.model_copy(update={"cipai": cipai, "title": topic or poem.title})


def _without_preface(poem: Poem | None, has_preface: HasPreface) -> Poem | None:
    """A ci with a paragraph of prose above it beside its verse, where it has one."""
    if poem is None or not poem.cipai or not has_preface(poem.text, poem.cipai):
        return poem
    preface, *verse = parser.stanzas(poem.text)
    beside = {**poem.beside, "preface": (*poem.beside.get("preface", ()), *preface)}
    return poem.model_copy(update={"text": parser.joined(tuple(verse)), "beside": beside})


def _wants_cipai(row: UserPoem) -> UserPoem:
    if row.problem or (row.poem and row.poem.cipai):
        return row
    return replace(row, problem=NO_CIPAI, detail=f"{row.place}: no cipai, which a ci needs")


def _fields(
    path: Path, found: Sequence[str], columns: Mapping[str, str]
) -> tuple[Fields, list[str]]:
    """(where our fields stand, notices).

    Raises:
        UserError: `columns` names a field or a column that there is not, or no
            column holds the text.
    """
    for field, column in columns.items():
        if field not in COLUMNS:
            raise UserError(
                f"corpus.columns: there is no field {field!r}; allowed are {', '.join(COLUMNS)}", 2
            )
        if column not in found:
            raise UserError(
                f"{path} has no column {column!r}, which corpus.columns names for {field}; "
                f"it has {', '.join(found)}",
                2,
            )
    by_name = {name.casefold(): name for name in reversed(found)}
    fields: dict[str, tuple[str, ...]] = {field: (name,) for field, name in columns.items()}
    for field, names in COLUMNS.items():
        present = tuple(by_name[name] for name in names if name in by_name)
        if present and field not in fields:
            # A file may mix our records (poem_id) with others (id); a text has one place.
            fields[field] = present if field == "poem_id" else present[:1]
    if "text" not in fields:
        raise UserError(
            f"{path} has no column with the poems (text, 正文 or content); it has "
            f"{', '.join(found)}: name it, e.g. -S '+corpus.columns.text=\"{found[0]}\"'"
        )
    used = {column for present in fields.values() for column in present}
    ignored = [name for name in found if name not in used]
    return fields, [f"{path}: ignored {_listed(ignored)}"] if ignored else []


def _values(row: Mapping[str, Any], fields: Fields) -> dict[str, Any]:
    """Our fields as the row has them; None where it has nothing."""
    return {
        field: next((row[c] for c in columns if row.get(c) not in (None, "")), None)
        for field, columns in fields.items()
    }


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:8])
    return f"the field{'s' if len(names) > 1 else ''} {shown}{' …' if len(names) > 8 else ''}"


def _ids_made(n_unnamed: int) -> list[str]:
    """A notice where poems had no id of their own."""
    if not n_unnamed:
        return []
    return [f"{n_unnamed} poems have no id; each is named for its file and its line or row"]


def _odd_lines(rows: Iterable[UserPoem]) -> list[str]:
    """A notice for each of the first odd lines of a kind, and one for the others."""
    odd: dict[str, list[str]] = {}
    for row in rows:
        for oddity in row.odd if row.poem else ():
            odd.setdefault(texts.named(oddity.rule), []).append(f"{row.place}: {oddity.line[:40]}")
    return [
        f"{name} in {'; '.join(places[:NAMED])}"
        + (f"; and {len(places) - NAMED} more" if len(places) > NAMED else "")
        for name, places in odd.items()
    ]


def _encodings(rows: Iterable[UserPoem]) -> list[str]:
    """One notice for each file that was not UTF-8."""
    return [f"{row.place} was read as {row.encoding}" for row in rows if row.encoding != "UTF-8"]


def _refuse_twice(rows: Sequence[UserPoem]) -> None:
    first: dict[str, str] = {}
    for row in rows:
        if row.poem is None:
            continue
        if (there := first.setdefault(row.poem.poem_id, row.place)) != row.place:
            raise UserError(
                f"the id {row.poem.poem_id!r} stands twice, at {there} and at {row.place}; "
                "give each poem an id of its own"
            )
