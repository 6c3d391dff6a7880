"""Check ci against their cipai's forms, line by line.

FILE is a poem (.txt), or a JSONL of {id, cipai, text}, which gives a JSONL of checks.
`strict` counts a caesura (读) as a line break, `optional` lets it be unbroken.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiyan.collection.encoding import decoded, decoded_lines
from shiyan.errors import UserError
from shiyan.jsonl import parse_object

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from shiyan.ci.check import Checker, Verdict
    from shiyan.ci.show import ShownLine

LEGEND = "! breaks the form   ~ has both tones (多音)   入 entering, oblique   ？ in no rhyme book"
NO_TEXTS = {".csv", ".tsv", ".xlsx", ".xls", ".json"}
KNOWN = {"id", "poem_id", "cipai", "text"}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="a poem, a .jsonl of poems, or - for standard input")
    parser.add_argument("--cipai", help="the tune; by default the title's, else the best match")
    parser.add_argument(
        "--forms", metavar="FILE", help="your own cipai, in the notation of data/cipai"
    )
    parser.add_argument("--json", action="store_true", help="print one object a line")


def run(arguments: argparse.Namespace) -> int:
    from shiyan.ci.check import Checker
    from shiyan.ci.form import load_catalogue

    checker = Checker(load_catalogue(arguments.forms))
    if arguments.cipai is not None:
        checker.catalogue.named(arguments.cipai)
    path = Path(arguments.file)
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return check_rows(checker, path, arguments.cipai)
    verdict = checker.check(poem_text(arguments.file), arguments.cipai)
    if arguments.json:
        print(json.dumps(as_object(path.stem, verdict, checker), ensure_ascii=False))
    else:
        show(verdict, checker)
    return int(verdict.unscored_reason is not None)


def poem_text(file: str) -> str:
    """The text of a poem's file; an encoding other than UTF-8 is told.

    Raises:
        UserError: the file is missing, a folder, no text, or in no known encoding.
    """
    if Path(file).suffix.lower() in NO_TEXTS:
        raise UserError(
            f"{file} is not the text of one poem; give a .txt or a .jsonl, or collect it with "
            "corpus=files",
            2,
        )
    text, encoding = decoded(bytes_of(file), file)
    tell_encoding(file, encoding)
    return text


def bytes_of(file: str) -> bytes:
    """What a file or, for -, standard input holds.

    Raises:
        UserError: the file is missing or a folder.
    """
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except FileNotFoundError:
        raise UserError(f"{file} does not exist; check the path") from None
    except OSError as error:
        raise UserError(f"{file} could not be read: {error.strerror}") from error


def tell_encoding(file: str, encoding: str) -> None:
    if encoding != "UTF-8":
        print(f"{file} was read as {encoding}", file=sys.stderr)


def check_rows(checker: "Checker", path: Path, cipai: str | None) -> int:
    """Print a check for every row; 1 where a row is unscored."""
    n_unscored = 0
    for poem_id, name, text in rows(path, cipai):
        verdict = checker.check(text, name)
        record = verdict.record(poem_id, name or (verdict.cipai.name if verdict.cipai else ""))
        print(json.dumps(flat(record.model_dump()), ensure_ascii=False))
        n_unscored += record.unscored_reason is not None
    if n_unscored:
        print(f"{n_unscored} unscored, see unscored_reason", file=sys.stderr)
    return int(n_unscored > 0)


def rows(path: Path, cipai: str | None) -> Iterator[tuple[str, str | None, str]]:
    """(id, cipai, text) of every row; further fields are passed over with one notice.

    Raises:
        UserError: no row at all, one without id or text, or an id that comes twice.
    """
    seen: dict[str, int] = {}
    ignored: set[str] = set()
    lines, encoding = decoded_lines(bytes_of(str(path)), str(path))
    tell_encoding(str(path), encoding)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        row = parse_object(line, f"{path}:{number}")
        ignored |= row.keys() - KNOWN
        poem_id = row.get("poem_id", row.get("id"))
        if poem_id is None or not isinstance(row.get("text"), str):
            lacks = "id" if poem_id is None else "text"
            raise UserError(
                f'{path}:{number} has no {lacks}; a row is {{"id": …, "cipai": …, "text": …}}'
            )
        if (before := seen.setdefault(str(poem_id), number)) != number:
            raise UserError(
                f"{path}:{number} has the id {poem_id!r} of line {before}; make ids unique"
            )
        named = cipai or str(row.get("cipai") or "").strip()
        yield str(poem_id), named or None, row["text"]
    if not seen:
        raise UserError(f'{path} holds no row; a row is {{"id": …, "cipai": …, "text": …}}')
    if ignored:
        print(f"{path}: not used: {', '.join(sorted(ignored))}", file=sys.stderr)


def flat(record: dict[str, Any]) -> dict[str, Any]:
    """A check as users get it: the id is called `id`, as in their file."""
    return {"id": record.pop("poem_id"), **record}


def as_object(poem_id: str, verdict: "Verdict", checker: "Checker") -> dict[str, Any]:
    """A check with its lines and rhymes."""
    from shiyan.ci.show import shown_lines

    name = verdict.cipai.name if verdict.cipai else ""
    groups = verdict.rhymes.groups if verdict.rhymes else ()
    return flat(verdict.record(poem_id, name).model_dump()) | {
        "lines": [
            {
                "text": line.text,
                "wanted": "、".join("".join(cell.wants for cell in part) for part in line.parts),
                "actual": "、".join("".join(cell.has for cell in part) for part in line.parts),
                "breaks": [
                    cell.character for part in line.parts for cell in part if cell.mark == "!"
                ],
                "polyphones": [
                    cell.character
                    for part in line.parts
                    for cell in part
                    if cell.mark == "~" and cell.wants in ("平", "仄")
                ],
                "end": line.end,
                "note": line.note,
            }
            for line in shown_lines(verdict, checker.tones)
        ],
        "rhymes": [
            {
                "group": group.group,
                "characters": "".join(verdict.text.characters[place] for place in group.places),
                "part": group.part,
                "kept": list(group.kept),
            }
            for group in groups
        ],
    }


def show(verdict: "Verdict", checker: "Checker") -> None:
    """Print a verdict for a person; colours in a terminal unless NO_COLOR is set."""
    from rich.console import Console

    from shiyan.ci.show import shown_lines

    console = Console(highlight=False, soft_wrap=True)
    for line in summary(verdict):
        console.print(line)
    lines = shown_lines(verdict, checker.tones)
    if lines:
        console.print()
    for shown in lines:
        print_line(console, shown)
    if lines:
        console.print(f"[dim]{LEGEND}[/dim]")


def summary(verdict: "Verdict") -> Iterator["Text"]:
    """What a person wants to know first: structure, tone, rhyme, remarks."""
    from rich.text import Text

    if verdict.unscored_reason is not None:
        yield Text.assemble(("not scored: ", "bold red"), verdict.unscored_reason)
    pattern, nearest = verdict.pattern, verdict.nearest
    if pattern and verdict.tone:
        standard = ", the standard form" if pattern.variant.is_standard else ""
        yield Text.assemble((pattern.name, "bold"), f"{standard}, {pattern.n} characters")
        yield labelled("structure", structure(verdict), good=True)
        tone = verdict.tone
        yield labelled(
            "tone",
            f"{tone.fixed_fit}/{tone.fixed_n} where 平 or 仄 is wanted; "
            f"{tone.definite_fit}/{tone.definite_n} of characters with one reading; "
            f"{tone.fit}/{tone.n} of all ({tone.share:.1%})",
            good=tone.fit == tone.n,
        )
    elif verdict.cipai:
        yield Text.assemble((verdict.cipai.name, "bold"), f", {len(verdict.text)} characters")
        yield labelled(
            "structure", "broken: 0 by the paper's rule, strict and optional", good=False
        )
    if nearest:
        yield labelled(
            "nearest", f"{nearest.pattern.name}, distance {nearest.distance}", good=False
        )
        for edit in nearest.edits:
            yield labelled("", edit, good=False)
        if nearest.steps and nearest.tonal is not None:
            yield labelled("tone", f"{nearest.tonal:.1%} over the nearest form", good=False)
    for group in verdict.rhymes.groups if verdict.rhymes else ():
        characters = "".join(verdict.text.characters[place] for place in group.places)
        kept = all(kept is not False for kept in group.kept)
        part = f"part {group.part}" if group.part else "no common part"
        words = f"{group.group} {characters}: {part}{'' if kept else ', broken'}"
        yield labelled("rhyme", words, good=kept)
    for remark in verdict.remarks:
        yield Text(f"  {'note':10}{remark}", style="dim")


def structure(verdict: "Verdict") -> str:
    """Which forms are kept in which reading of 读."""
    readings = {
        "读 a line break": (verdict.structure_standard, verdict.structure_any),
        "读 optional": (verdict.structure_standard_optional, verdict.structure_any_optional),
    }
    words = [
        f"{reading}: {'standard form' if standard else 'a variant' if any_form else 'none'}"
        for reading, (standard, any_form) in readings.items()
    ]
    return f"kept ({'; '.join(words)})"


def labelled(label: str, words: str, good: bool) -> "Text":
    from rich.text import Text

    return Text.assemble((f"  {label:10}", "bold"), (words, "green" if good else "red"))


def print_line(console: "Console", line: "ShownLine") -> None:
    """Three rows: the characters, the tones wanted, the tones there."""
    from rich.text import Text

    rows = [Text(f"{line.number:3}  "), Text("     ", style="dim"), Text("     ")]
    for index, part in enumerate(line.parts):
        if index:
            for row, filler in zip(rows, ("、", "  ", "  "), strict=True):
                row.append(filler)
        for cell in part:
            wrong = "bold red" if cell.mark == "!" else "cyan" if cell.mark == "~" else ""
            entering = "underline" if cell.has == "入" else ""
            rows[0].append(cell.character, style=f"{wrong} {entering}".strip())
            rows[0].append(" ")
            rows[1].append(f"{cell.wants or '  '} ", style="dim")
            rows[2].append(cell.has, style=f"{wrong} {entering}".strip())
            rows[2].append(cell.mark or " ", style=wrong)
    note = f" {line.note}" if line.note else ""
    rows[0].append(f" {line.end}{note}", style="red" if "!" in line.end or note else "dim")
    for row in rows:
        if row.plain.strip():
            console.print(row)
    if line.closes_stanza:
        console.print()
