"""Resolve requirements.lock from pyproject.toml, and refuse what only one machine has.

    python tools/lock.py write    resolve with uv; versions that still fit stay as they are
    python tools/lock.py upgrade  resolve anew, to the newest versions that fit
    python tools/lock.py check    read the lock, pyproject.toml, Makefile and .ci/run

`check` takes only the standard library, so that it runs before anything is installed. A lock
that names a file or a URL passes where that file lies and fails everywhere else: every line
is `name==version`, and every direct dependency of pyproject.toml has one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK, PYPROJECT = "requirements.lock", "pyproject.toml"
HEADER = (
    "# Resolved by `make lock` from pyproject.toml for CPython 3.11.2 and later; do not edit.\n"
)
# Debian 12's, the oldest 3.11 that newcomers have: a package that refuses it is not taken.
OLDEST_PYTHON = "3.11.2"
PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[0-9][A-Za-z0-9.!]*")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# A file or folder of one machine, or a place of download that is not the configured index.
LOCAL = re.compile(
    r"file:|@ *[a-z+]+:|\b(?:git|hg|svn|bzr)\+|--(?:find-links|index-url|extra-index-url)"
    r"|\[+tool\.uv\.(?:sources|index)|find-links\s*=|\b(?:PIP|UV)_\w*(?:INDEX|LINKS)\w*"
    r"|pip install.* -[if] |==[^\"',\s]*\+|(?:^|[\s\"'=:])~/"
    r"|(?:^|[\s\"'=(:])/(?:tmp|var|opt|home|root|Users|mnt|srv|work)/"
)


def problems(root: Path = ROOT, lock: Path | None = None) -> list[str]:
    """Every line that set-up on another machine would fail on, as `file:line: what is wrong`.

    Args:
        lock: read in place of the project's own.
    """
    lock = lock or root / LOCK
    try:
        pins = lock.read_text(encoding="utf-8").split("\n")
        found = list(_wrong_pins(pins))
        for name in (PYPROJECT, "Makefile", ".ci/run"):
            if (root / name).exists():
                found += _local_names(name, (root / name).read_text(encoding="utf-8").split("\n"))
        pinned = {normalised(line) for line in pins if is_pin(line)}
        missing = sorted(direct_dependencies(root) - pinned)
    except (OSError, ValueError, KeyError, TypeError) as error:
        # Wrong TOML and what is not UTF-8 are ValueErrors; a KeyError lacks a table.
        return [f"{LOCK}, {PYPROJECT}, Makefile or .ci/run cannot be read: {error!r}"]
    if len(missing) > 5:
        found.append(f"{LOCK}: {len(missing)} packages of {PYPROJECT} have no pin; run `make lock`")
        return found
    return found + [
        f"{LOCK}: {name} of {PYPROJECT} has no pin; run `make lock`" for name in missing
    ]


def is_pin(line: str) -> bool:
    """Is it a line of the lock that names a package, and no comment?"""
    return bool(line.strip()) and not line.startswith("#")


def direct_dependencies(root: Path = ROOT) -> set[str]:
    """Normalised names of the project's own dependencies and of its `dev` extra."""
    import tomllib  # Not in Python 3.10, which is to be told so.

    project = tomllib.loads((root / PYPROJECT).read_text(encoding="utf-8"))["project"]
    return {normalised(line) for line in project["dependencies"]} | {
        normalised(line) for line in project["optional-dependencies"]["dev"]
    }


def _wrong_pins(lines: list[str]) -> Iterator[str]:
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if not is_pin(line):
            continue
        where = f"{LOCK}:{number}"
        if not PIN.fullmatch(line):
            yield f"{where}: {line!r} is not `name==version` without a path, URL or local tag"
            continue
        first = seen.setdefault(normalised(line), number)
        if first != number:
            yield f"{where}: {line!r} is pinned on line {first} already"


def _local_names(name: str, lines: list[str]) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if found := LOCAL.search(line):
            yield (
                f"{name}:{number}: {found.group().strip()!r} names what only one machine has; "
                "name a package and its version"
            )


def normalised(requirement: str) -> str:
    """The package's name as the index spells it (PEP 503), without extras and versions."""
    found = NAME.match(requirement)
    return re.sub(r"[-_.]+", "-", found.group()).lower() if found else requirement


def resolve(upgrade: bool, output: Path) -> None:
    """Write the resolved lock to `output`, which holds the versions to keep.

    Raises:
        FileNotFoundError: there is no uv.
        subprocess.CalledProcessError: nothing satisfies pyproject.toml; uv said why.
    """
    places = os.pathsep.join((str(ROOT / ".venv/bin"), os.environ.get("PATH", "")))
    uv = shutil.which("uv", path=places)
    if uv is None:
        raise FileNotFoundError("uv is not installed; `make setup` or `pip install uv` brings it")
    command = [uv, "pip", "compile", PYPROJECT, "--extra", "dev", "--python-platform", "linux"]
    command += ["--python-version", OLDEST_PYTHON, "--no-annotate", "--no-header", "--quiet"]
    command += ["--output-file", str(output)] + ["--upgrade"] * upgrade
    subprocess.run(command, cwd=ROOT, check=True)
    lines = output.read_text(encoding="utf-8").splitlines()
    output.write_text(HEADER + "".join(f"{x}\n" for x in lines if is_pin(x)), encoding="utf-8")


def write(upgrade: bool) -> list[str]:
    """Replace the lock by a newly resolved one; what is wrong with that, and then it stays."""
    path = ROOT / LOCK
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".lock.") as folder:
        new = Path(folder) / LOCK
        if path.is_file():
            # A line that is no pin would be resolved again as it stands.
            old = path.read_text(encoding="utf-8", errors="replace").splitlines()
            new.write_text("".join(f"{x}\n" for x in old if PIN.fullmatch(x)), encoding="utf-8")
        resolve(upgrade, new)
        found = problems(lock=new)
        if not found:
            new.replace(path)
    return found


def main() -> int:
    """Do what the first argument says; 0 where the lock is right."""
    what = sys.argv[1] if len(sys.argv) == 2 else ""
    if what not in ("check", "write", "upgrade"):
        sys.stderr.write("usage: python tools/lock.py check|write|upgrade\n")
        return 2
    if sys.version_info < (3, 11):  # noqa: UP036 - whoever calls this may have another
        sys.stderr.write(f"error: this is Python {sys.version.split()[0]}; shiyan needs 3.11\n")
        return 2
    try:
        found = problems() if what == "check" else write(what == "upgrade")
    except FileNotFoundError as error:
        found = [str(error)]
    except subprocess.CalledProcessError:
        found = ["the lock was not resolved and stays as it was; uv said why above"]
    except KeyboardInterrupt:
        found = ["stopped; the lock stays as it was"]
    sys.stderr.writelines(f"error: {problem}\n" for problem in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
