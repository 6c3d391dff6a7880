"""Score a file of poems with every zero-shot detector; higher: more likely an LLM's.

MODEL is a name of conf/model/, a GGUF file, or a folder with safetensors. One model
gives the scores of one model (log_likelihood, log_rank, lrr, rank, entropy, gltr_…,
lastde); with --reference also fast_detectgpt (reference B, scoring A) and binoculars,
binoculars_aligned, dna_detectllm (observer B, performer A). How texts are read
(tokens at least and at most, dtype, device) is as params.yaml says. The exit code is 1
where any score is null; each null says why.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from shiyan.config import (
    PARAMS_FILE,
    AnyModelParams,
    LocalModelParams,
    ZeroShotScoreParams,
    load_params,
)
from shiyan.errors import UserError
from shiyan.models import cache_folder
from shiyan.records import DetectorScore, Poem
from shiyan.selection import any_model, known_models
from shiyan.work import WorkCache

if TYPE_CHECKING:
    from shiyan.lm.causal import Reading

PRINTED = ("detector", "score", "unscored_reason", "n_tokens")
SHORTEST = 8
"""Tokens that a text needs, where no params.yaml says so."""
TITLE_ALONE = "empty text: the first line is taken as the title"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="poems: .jsonl, .csv, .xlsx, .txt, or a folder")
    parser.add_argument("--model", required=True, metavar="A", help="the scoring model")
    parser.add_argument("--reference", metavar="B", help="the reference model, or observer")
    parser.add_argument("--json", action="store_true", help="print one object a line")
    parser.add_argument("--title", action="store_true", help="read the title before the body")
    parser.add_argument(
        "--raw",
        action="store_true",
        help="read `text` of a JSONL as it stands, blanks and line ends too",
    )
    parser.add_argument("--min-tokens", type=positive, metavar="N", help="shorter: unscored")
    parser.add_argument("--max-tokens", type=positive, metavar="N", help="longer: unscored")
    parser.add_argument("--batch-tokens", type=positive, metavar="N", help="tokens of a batch")


def positive(text: str) -> int:
    """A number above 0, for argparse."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def run(arguments: argparse.Namespace) -> int:
    lines = list(raw_lines(arguments) if arguments.raw else user_lines(arguments))
    if not lines:
        raise UserError(f"{arguments.file} holds no poem; give one object a line, with id and text")
    scores, detectors = scored(arguments, [line.poem for line in lines if line.poem])
    rows = [(line, scores[line.id] if line.poem else line.unscored(detectors)) for line in lines]
    if arguments.json:
        for row in rows:
            print_objects(*row)
    else:
        print_table(rows, detectors)
    missing = sum(score.score is None for _, found in rows for score in found)
    if missing:
        sys.stderr.write(f"{missing} of {len(rows) * len(detectors)} scores are null\n")
    return int(missing > 0)


@dataclass(frozen=True)
class Line:
    """One line of the user's file; `poem` is None where it holds none."""

    id: str
    poem: Poem | None
    problem: str | None = None

    def unscored(self, detectors: tuple[str, ...]) -> list[DetectorScore]:
        return [
            DetectorScore(poem_id=self.id, detector=name, score=None, unscored_reason=self.problem)
            for name in detectors
        ]


def user_lines(arguments: argparse.Namespace) -> Iterator[Line]:
    """The poems of a user's file by the rules of `poem`."""
    from shiyan.collection.files import read_user_poems

    # The genre decides nothing here: a detector reads the body alone.
    try:
        read = read_user_poems(Path(arguments.file), "modern")
    except UserError as error:
        # A config may name the column; a call cannot.
        what, named, _ = str(error).partition(": name it, e.g. -S")
        if not named:
            raise
        raise UserError(f"{what}; call one of them text") from error
    for notice in read.notices:
        sys.stderr.write(f"notice: {notice}\n")
    for row in read.rows:
        if row.poem is None:
            sys.stderr.write(f"notice: {row.said}\n")
            yield Line(row.place, None, row.problem)
        elif is_title_alone(row.place, row.poem) and not arguments.title:
            yield Line(row.poem.poem_id, None, TITLE_ALONE)
        else:
            yield Line(row.poem.poem_id, row.poem)


def is_title_alone(place: str, poem: Poem) -> bool:
    """Is the poem a .txt of one line, which is its title then?"""
    return place.endswith(".txt") and bool(poem.title) and not poem.text


def raw_lines(arguments: argparse.Namespace) -> Iterator[Line]:
    """The texts of a JSONL as they stand."""
    from shiyan.jsonl import parse_object, read_lines

    path = Path(arguments.file)
    seen: dict[str, int] = {}
    for number, line in read_lines(path):
        place = f"{path}:{number}"
        try:
            value = parse_object(line, place)
        except UserError as error:
            sys.stderr.write(f"notice: {error}\n")
            yield Line(place, None, "not a JSON object")
            continue
        name = str(value.get("id", value.get("poem_id", f"{path.stem}-{number:05d}")))
        if seen.setdefault(name, number) != number:
            raise UserError(f"{place}: the id {name!r} stands at line {seen[name]} too")
        text = value.get("text")
        if text is not None and not isinstance(text, str):
            raise UserError(f"{place}: text is {type(text).__name__}, a string is wanted")
        title = str(value.get("title") or "")
        poem = Poem(poem_id=name, title=title, text=text or "", genre="modern", author="")
        yield Line(name, poem)


def scored(
    arguments: argparse.Namespace, poems: list[Poem]
) -> tuple[dict[str, list[DetectorScore]], tuple[str, ...]]:
    """Every poem's scores, and the detectors in their order."""
    from shiyan.detectors.zero_shot import (
        DETECTORS,
        DIRECTION,
        OF_ONE_MODEL,
        Roles,
        ZeroShot,
        scoring_models,
    )

    a, b = arguments.model, arguments.reference or arguments.model
    detectors = tuple(OF_ONE_MODEL) if arguments.reference is None else DETECTORS
    zero_shot = ZeroShot(
        detectors,
        Roles(a, (b, a), (b, a)),
        reading_for(arguments),
        scoring_models({name: model_named(name) for name in (a, b)}),
        "raw" if arguments.raw else "title_and_body" if arguments.title else "body",
    )
    statistics = zero_shot.measure(poems, work_cache())
    made = zero_shot.made
    sys.stderr.write(f"{DIRECTION}; {made['scoring']}, {made['dtype']}, {made['libraries']}\n")
    if arguments.reference is None:
        left_out = ", ".join(name for name in DETECTORS if name not in detectors)
        sys.stderr.write(f"notice: {left_out} need --reference and are left out\n")
    found: dict[str, list[DetectorScore]] = {poem.poem_id: [] for poem in poems}
    for score in zero_shot.score(poems, statistics):
        found[score.poem_id].append(score)
    return found, detectors


def model_named(name: str) -> AnyModelParams:
    """A model of conf/model/, or the file or folder at a path.

    Raises:
        UserError: neither.
    """
    known = known_models()
    if name in known:
        return any_model(name)
    path = Path(name).expanduser()
    if path.exists():
        return LocalModelParams(
            kind="local", file=path.name, path=str(path.resolve()), family="unknown"
        )
    held = f"conf/model/ holds {', '.join(known)}" if known else "there is no conf/model/ here"
    raise UserError(
        f"there is no model {name!r}: {held}; a path to a .gguf or to a folder with safetensors "
        "does as well",
        2,
    )


def reading_for(arguments: argparse.Namespace) -> "Reading":
    """As params.yaml says, where there is one, and the call."""
    from shiyan.detectors.zero_shot import reading_of
    from shiyan.lm.causal import Reading

    reading = Reading(min_tokens=SHORTEST)
    if PARAMS_FILE.exists():
        reading = reading_of(load_params("zero_shot_score", ZeroShotScoreParams))
    asked = {
        name: value
        for name in ("min_tokens", "max_tokens", "batch_tokens")
        if (value := getattr(arguments, name)) is not None
    }
    return replace(reading, **asked)


def work_cache() -> WorkCache:
    """The project's, or outside a project one beside the models.

    Scores are printed also where nothing can be written.
    """
    root = None if PARAMS_FILE.exists() else cache_folder() / "work"
    return WorkCache(root, must_keep=False)


# --- output --------------------------------------------------------------------------------


def print_objects(line: Line, scores: list[DetectorScore]) -> None:
    """One JSON object for each score."""
    for score in scores:
        row = {"id": line.id} | score.model_dump(include=set(PRINTED))
        print(json.dumps(row, ensure_ascii=False, allow_nan=False))


def print_table(rows: list[tuple[Line, list[DetectorScore]]], detectors: tuple[str, ...]) -> None:
    """A line a poem, columns parted by tabs; - where there is no score, and at the end why."""
    print("\t".join(("id", "tokens", *detectors, "unscored")))
    for line, scores in rows:
        cells = ["-" if s.score is None else f"{s.score:.4f}" for s in scores]
        n_tokens = scores[0].n_tokens
        reasons = dict.fromkeys(s.unscored_reason for s in scores if s.unscored_reason)
        print("\t".join((line.id, str(n_tokens or 0), *cells, "; ".join(reasons))))
