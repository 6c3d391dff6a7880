"""Records in and out of .jsonl files; a bad line is named by file and number."""

import csv
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import jsonlines
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from shiyan.errors import UserError
from shiyan.records import Assignment, Poem, Record

R = TypeVar("R", bound=Record)
OfPoem = TypeVar("OfPoem", Poem, Assignment)


UMASK = os.umask(0o077)
"""The user's, which can only be read by setting it."""
os.umask(UMASK)


@contextmanager
def replacing(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """A file that takes `path`'s place when the block ends well, and else leaves no trace.

    Raises:
        UserError: the disk is full or the folder cannot be written.
    """
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o666 & ~UMASK)
        Path(temporary).replace(path)
        temporary = None
    except OSError as error:
        raise UserError(
            f"{path} could not be written ({error.strerror or error}); nothing half-written "
            "is left, so free some space or choose another folder and run again"
        ) from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def gravest(error: ValidationError) -> ErrorDetails:
    """The complaint to tell first: an unknown key explains the missing one beside it."""
    return min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")


def describe(error: ValidationError, tags: frozenset[str] = frozenset()) -> str:
    """What pydantic minds most, in one clause: key, complaint, what came.

    Args:
        tags: parts of a location that name a union's case and are no key of the user's.
    """
    first = gravest(error)
    key = ".".join(str(part) for part in first["loc"] if part not in tags) or "the record"
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    if first["type"] == "extra_forbidden":
        return f"unknown key {key!r}{more}"
    if first["type"] == "missing":
        return f"{key!r} is missing{more}"
    if first["type"] == "value_error":
        # A validator of ours says it in its own words.
        where = f"{key}: " if first["loc"] else ""
        return f"{where}{first['ctx']['error']}{more}"
    return f"{key!r} is {first['input']!r}: {first['msg'][0].lower()}{first['msg'][1:]}{more}"


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) of a JSONL file; a BOM and blank lines are passed over.

    Raises:
        UserError: the file is missing, is not UTF-8, or a line is not a JSON object.
    """
    for number, line in read_lines(path):
        yield number, parse_object(line, f"{path}:{number}")


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (line number, line) of a file; a BOM and blank lines are passed over.

    Raises:
        UserError: the file is missing or cannot be read.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; check the path") from None
    except OSError as error:
        raise UserError(f"{path} could not be read: {error.strerror}") from error
    for number, line in enumerate(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if line.strip():
            yield number, line


def parse_object(line: bytes, place: str) -> dict[str, Any]:
    """The JSON object of one line.

    Raises:
        UserError: it is not UTF-8, not JSON or not an object; `place` says where.
    """
    try:
        with jsonlines.Reader([line.decode("utf-8")]) as reader:
            value = reader.read()
    except UnicodeDecodeError as error:
        raise UserError(
            f"{place} is not UTF-8 (byte {error.start + 1} of the line); "
            "save the file as UTF-8 and run again"
        ) from None
    except jsonlines.InvalidLineError as error:
        reason = str(error).split(" (line")[0]
        raise UserError(f"{place} is not valid JSON: {reason}") from None
    if not isinstance(value, dict):
        raise UserError(
            f'{place} holds {type(value).__name__}, not an object like {{"id": …, "text": …}}'
        )
    return value


def read_records(path: Path, model: type[R]) -> Iterator[R]:
    """Yield one record a line.

    Raises:
        UserError: as `read_objects`, or a line that is not such a record.
    """
    for number, value in read_objects(path):
        try:
            yield model.model_validate(value, strict=False)
        except ValidationError as error:
            raise UserError(
                f"{path}:{number} is not a {model.__name__}: {describe(error)}"
            ) from error


def write_records(path: Path, records: Iterable[Record]) -> int:
    """Write one record a line in one rename, and return how many there were."""
    count = 0
    with replacing(path) as file, jsonlines.Writer(file, dumps=str) as writer:
        for record in records:
            # pydantic writes the JSON (floats, null) itself; jsonlines keeps the lines.
            writer.write(record.model_dump_json())
            count += 1
    return count


def read_by_id(model: type[OfPoem], *paths: Path) -> dict[str, OfPoem]:
    """The records of several files by their poem_id, in order; of two the later one.

    Raises:
        UserError: as `read_records`.
    """
    records = (record for path in paths for record in read_records(path, model))
    return {record.poem_id: record for record in records}


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """A CSV file in UTF-8 with a header, written in one rename."""
    with replacing(path) as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
