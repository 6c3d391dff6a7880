"""MLflow's sqlite database: made whole or not at all, looked at before use, never thrown away.

MLflow makes a database by some seventy migrations in place, which no later start can
take up again once they were interrupted. So ours is made under another name and
renamed when it stands at the newest revision. Callers hold the store's lock.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from shiyan.errors import UserError

if TYPE_CHECKING:
    from sqlalchemy import Engine

BUSY_S = 60
"""For a transaction of another process."""
SIDES = ("-journal", "-wal", "-shm")
"""What sqlite keeps beside a database; beside another database it would damage that one."""
CONSTRAINTS = ("NULL value in", "CHECK constraint", "non-unique entry", "UNIQUE constraint")
"""Complaints about values, which a migration may have left; the file itself is whole."""


@dataclass(frozen=True)
class Look:
    """What a database is found to be.

    Attributes:
        state: `old` has runs and another schema than this MLflow's; `unusable` is
            damaged, or half made and without a run.
        says: a clause that begins with a verb, for a sentence about the database.
    """

    state: Literal["missing", "well", "old", "unusable"]
    says: str


def look_at(database: Path) -> Look:
    """Can this MLflow use the database? Nothing is made or changed.

    Raises:
        UserError: it cannot be read at all, e.g. for want of permission.
    """
    if not database.exists():
        return Look("missing", "does not exist")
    try:
        with closing(opened(database)) as connection:
            if flaw := flaw_of(connection):
                return Look("unusable", f"is damaged ({flaw})")
            return schema_of(connection)
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            return Look("unusable", f"is damaged ({error})")
        raise UserError(f"{database} cannot be read ({error})") from error


def opened(database: Path) -> sqlite3.Connection:
    # `rw`: it must not be made here, and what a killed writer left must be rolled back.
    uri = f"{database.absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_S)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return connection


def is_damage(error: sqlite3.Error) -> bool:
    """Is the file to blame, rather than a lock, the disk or permissions?"""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def flaw_of(connection: sqlite3.Connection) -> str | None:
    """What sqlite finds wrong with the file's pages."""
    for (line,) in connection.execute("PRAGMA quick_check"):
        if line != "ok" and not line.startswith(CONSTRAINTS):
            return " ".join(line.split())[:200]
    return None


def mlflow_schema() -> Any:
    """MLflow's own functions for its schema, which carry no types."""
    from mlflow.store.db import utils

    return utils


def schema_of(connection: sqlite3.Connection) -> Look:
    utils = mlflow_schema()
    head = utils._get_latest_schema_revision()
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    tables = {name for (name,) in names}
    revisions: set[str] = set()
    if "alembic_version" in tables:
        found = connection.execute("SELECT version_num FROM alembic_version")
        revisions = {revision for (revision,) in found}
    missing = sorted(set(utils.Base.metadata.tables) - tables)
    if revisions == {head} and not missing:
        return Look("well", f"is at MLflow's revision {head}")
    if "runs" not in tables or not connection.execute("SELECT 1 FROM runs LIMIT 1").fetchone():
        return Look("unusable", "was left half made, without a run in it")
    if revisions == {head}:
        return Look("unusable", f"has lost its table {missing[0]}")
    revision = ", ".join(sorted(revisions)) or "none"
    return Look("old", f"has runs and MLflow's revision {revision} where {head} is needed")


def make(database: Path, in_place_of: Look) -> Path | None:
    """Make a new database; an unusable one is kept aside.

    Returns:
        Where the old one is now, if there was one.

    Raises:
        UserError: it could not be made, e.g. on a full disk; there is no half of it then.
    """
    with growing(database) as new, migrating(new) as engine:
        mlflow_schema()._initialize_tables(engine)
    kept = set_aside(database) if in_place_of.state == "unusable" else None
    put(new, database)
    return kept


def migrate(database: Path) -> None:
    """Bring a database with runs to this MLflow's schema, by way of a copy.

    Raises:
        UserError: it could not be migrated; it is then as it was.
    """
    with growing(database) as new:
        with closing(opened(database)) as old, closing(sqlite3.connect(new)) as copy:
            old.backup(copy)
        with migrating(new) as engine:
            mlflow_schema()._upgrade_db(engine)
    put(new, database)


@contextmanager
def growing(database: Path) -> Iterator[Path]:
    """The name under which a database grows; what grew only half is removed, also later.

    Raises:
        UserError: MLflow, alembic or sqlite failed, in one sentence.
    """
    from alembic.util.exc import CommandError
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    new = database.with_name(f".{database.name}.new")
    # A killed process may have left one; nobody else makes one while we hold the lock.
    discard(new)
    try:
        yield new
    except BaseException as error:
        discard(new)
        if not isinstance(error, (MlflowException, SQLAlchemyError, CommandError, sqlite3.Error)):
            raise
        reason = str(error).strip().partition("\n")[0][:300]
        raise UserError(f"{database} could not be made or migrated ({reason})") from error


@contextmanager
def migrating(new: Path) -> "Iterator[Engine]":
    """An engine for alembic's migrations, closed and at the newest revision in the end."""
    import logging

    from sqlalchemy import URL, create_engine

    for name in ("alembic", "mlflow.store.db.utils"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # From a text, `?` and `%41` in the path would be read as parts of an address.
    engine = create_engine(URL.create("sqlite", database=str(new)))
    try:
        yield engine
        mlflow_schema()._verify_schema(engine)
    finally:
        engine.dispose()


def discard(database: Path) -> None:
    for suffix in ("", *SIDES):
        Path(f"{database}{suffix}").unlink(missing_ok=True)


def set_aside(database: Path) -> Path:
    """Rename a database to mlflow.db.damaged, or .damaged.2 and so on; returns the new name."""
    names = (f"{database}.damaged{f'.{n}' if n > 1 else ''}" for n in count(1))
    kept = next(Path(name) for name in names if not os.path.lexists(name))
    database.rename(kept)
    for suffix in SIDES:
        if os.path.lexists(side := f"{database}{suffix}"):
            Path(side).rename(f"{kept}{suffix}")
    return kept


def put(new: Path, database: Path) -> None:
    for suffix in SIDES:
        # Of a database that is gone; sqlite would play it back into the new one.
        Path(f"{database}{suffix}").unlink(missing_ok=True)
    new.replace(database)
