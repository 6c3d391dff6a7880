"""Requests to an LLM that failed and may be answered another time: counted, told, limited.

A stage that ends well is settled for DVC, which then asks for nothing; so what failed is
told with the command that asks again, and a stage in which too much failed does not end well.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from shiyan.errors import UserError

SECTIONS = {"zero_shot_score": "asked", "attack": "attacks"}
"""Of `asking`, where it is not called as the stage is."""
LOST = ("unavailable", "broken", "rejected")
"""Kinds of failure without an answer; the others (a filter, say) were answered."""
_KIND = re.compile(rf"(?:^|; asked again: )({'|'.join(LOST)}): ")


def counted(asked: int, kinds: Iterable[str | None]) -> dict[str, Any]:
    """How many requests a stage's results rest on, and how many of them failed, by kind."""
    found = Counter(kind for kind in kinds if kind in LOST)
    return {"asked": asked, "failed": dict(sorted(found.items(), key=lambda e: (-e[1], e[0])))}


def kind_in(reason: str | None) -> str | None:
    """The kind of failure that a record's reason begins with, or ends with where it was the
    second request that failed."""
    found = _KIND.search(reason or "")
    return found[1] if found else None


def sentence(stage: str, requests: Mapping[str, Any]) -> str | None:
    """What failed and how it is asked again; None where nothing did."""
    failed: Mapping[str, int] = requests["failed"]
    if not failed:
        return None
    return (
        f"{stage}: {_amount(requests)} failed, and their results are missing; what was answered "
        f"is kept, and `dvc repro -f {stage}` asks for the rest again"
    )


def _amount(requests: Mapping[str, Any]) -> str:
    failed: Mapping[str, int] = requests["failed"]
    kinds = ", ".join(f"{count} {kind}" for kind, count in failed.items())
    return f"{sum(failed.values())} of {requests['asked']} requests ({kinds})"


def tell(stage: str, requests: Mapping[str, Any]) -> None:
    """Say on stderr what failed, if anything did."""
    if told := sentence(stage, requests):
        sys.stderr.write(f"notice: {told}\n")


def check(stage: str, requests: Mapping[str, Any], most: float) -> None:
    """Tell what failed; more than the share `most` of all requests ends the stage.

    Raises:
        UserError: too much failed. It is raised before results are written, so that DVC takes
            none for settled.
    """
    if sum(requests["failed"].values()) > most * requests["asked"]:
        limit = f"asking.{SECTIONS.get(stage, stage)}.most_failed"
        raise UserError(
            f"{stage}: {_amount(requests)} failed, more than {limit} ({most:g}) allows; what was "
            f"answered is kept, so put it right and run `dvc repro {stage}` again"
        )
    tell(stage, requests)


def told_in(documents: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """(stage, what failed) of every stage's metrics."""
    for stage, document in documents.items():
        if told := sentence(stage, document.get("requests") or {"failed": {}}):
            yield stage, told
