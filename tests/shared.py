"""Reference values: the project's own in tests/cases/, more of them beside the project.

`../shared` is no part of the project. A test that reads it is an additional one:
without that folder it is skipped, and what tests/cases/ holds still proves the same.
"""

import json
from pathlib import Path

import pytest

OWN = Path(__file__).parent / "cases"
SHARED = Path(__file__).resolve().parents[2] / "shared"
BUGS = SHARED / "cases/bugs"
needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="needs ../shared (additional reference values)"
)


def json_lines(path: Path) -> list[dict]:
    """The rows of a file; none where it is absent."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def own_and_shared(name: str) -> list:
    """Both copies of a case file as parameters; the one of ../shared may be skipped."""
    both = [pytest.param(OWN / name, id="own")]
    return [*both, pytest.param(SHARED / "cases" / name, id="shared", marks=needs_shared)]


def bug_replies(*names: str) -> list:
    """The replies of some cases of ../shared as parameters; one that is skipped without it."""
    rows = [row for name in names for row in json_lines(BUGS / name / "replies.jsonl")]
    absent = pytest.param({}, id="absent", marks=needs_shared)
    return [pytest.param(row, id=row["id"]) for row in rows] or [absent]
