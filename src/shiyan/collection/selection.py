"""A list of poems to take out of a repository, so that a corpus can be had again as it was."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from shiyan.errors import UserError
from shiyan.jsonl import read_lines

FORM = "a line each: an id, a tab and a path like 徐志摩_xuzhimo/偶然.pt, or the path alone"


@dataclass(frozen=True)
class Listed:
    """One line of a list.

    Attributes:
        poem_id: that the poem bears; the path where the line names no other.
        place: file:line, which a message names.
    """

    poem_id: str
    place: str


def read_selection(path: Path) -> dict[str, Listed]:
    """Path of each listed poem below the repository's poems -> its id, in the list's order.

    Blank lines and lines that begin with # are passed over.

    Raises:
        UserError: no such file, nothing in it, or a line that is no such entry or whose id or
            path stood before.
    """
    found: dict[str, Listed] = {}
    ids: dict[str, str] = {}
    for number, raw in read_lines(path):
        place = f"{path}:{number}"
        line = _decoded(raw, place).strip()
        if line.startswith("#"):
            continue
        *before, poem_path = (part.strip() for part in line.split("\t"))
        poem_id = before[0] if before else poem_path
        parts = PurePosixPath(poem_path).parts
        if len(before) > 1 or not poem_id or len(parts) < 2 or {"/", ".."} & set(parts):
            raise UserError(f"{place} is {line!r}, which names no poem; {FORM}")
        if before_it := ids.get(poem_id) or (found[poem_path].place if poem_path in found else ""):
            raise UserError(f"{place} names {poem_id}, which {before_it} names too; drop one")
        found[poem_path] = Listed(poem_id, place)
        ids[poem_id] = place
    if not found:
        raise UserError(f"{path} lists no poem; {FORM}")
    return found


def _decoded(raw: bytes, place: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{place} is not UTF-8; save the list as UTF-8") from None
