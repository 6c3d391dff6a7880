"""Where public corpora lie once they were fetched: one folder for all clones."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from shiyan.errors import UserError


def corpus_cache() -> Path:
    """`$SHIYAN_CORPORA`, else `corpora` in the user's cache folder of shiyan."""
    import platformdirs

    chosen = os.environ.get("SHIYAN_CORPORA")
    return (
        Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("shiyan") / "corpora"
    )


def fetched(name: str, fetch: Callable[[Path], Path]) -> Path:
    """The folder `name` of the cache, fetched first if it is not there.

    One process fetches while others wait; what it makes takes its place in one
    rename, so there is never half a corpus.

    Args:
        fetch: given an empty folder to work in, returns the folder in it that is to be kept.

    Raises:
        UserError: whatever `fetch` says, or the cache cannot be written.
    """
    from filelock import FileLock

    place = corpus_cache() / name
    if place.is_dir():
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(place.with_name(f".{place.name}.lock")):
            if place.is_dir():
                return place
            for litter in place.parent.glob(f".{place.name}.*/"):
                # Left by a process that was killed; whoever holds the lock is alone here.
                shutil.rmtree(litter, ignore_errors=True)
            work = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name}."))
            try:
                fetch(work).rename(place)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise UserError(
            f"{place} could not be written ({error.strerror or error}); free some space, or name "
            "another folder with SHIYAN_CORPORA, and run again"
        ) from error
    return place
