"""The .pt files of sheepzh/poetry: `title:`, `date:`, a blank line, the body."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PtFile:
    title: str
    date: str | None
    """As it is written; None where the file has no date or an empty one."""
    body: str


def parse_pt(text: str) -> PtFile:
    """Read the headers by place, not by name: a line of verse may begin with `title:` too.

    Only the first line can be the title and only the second the date; a file
    without either is all body. A colon inside a title is part of it.
    """
    lines = text.lstrip("\ufeff").splitlines()
    title = _header(lines, "title")
    date = _header(lines, "date")
    return PtFile((title or "").strip(), (date or "").strip() or None, "\n".join(lines))


def _header(lines: list[str], name: str) -> str | None:
    """Take the value of the header that stands first in `lines`, if it is of that name."""
    if lines and lines[0].lower().startswith((f"{name}:", f"{name}：")):
        return lines.pop(0)[len(name) + 1 :]
    return None
