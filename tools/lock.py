"""Resolve requirements.lock from pyproject.toml, and refuse what only one machine has.

    python tools/lock.py write    resolve with uv; versions that still fit stay as they are
    python tools/lock.py upgrade  resolve anew, to the newest versions that fit
    python tools/lock.py check    read the lock, pyproject.toml, Makefile and .ci/run

`check` takes only the standard library, so that it runs before anything is installed. A lock
that names a file or a URL passes where that file lies and fails everywhere else: every line
is `name==version`, and every direct dependency of pyproject.toml has one.
"""

import re
import subprocess
import sys
import tomllib
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
    r"|(?:^|[\s\"'=(])/(?:tmp|var|opt|home|root|Users|mnt|srv|work)/"
)


def problems(root: Path = ROOT) -> list[str]:
    """Every line that set-up on another machine would fail on, as `file:line: what is wrong`."""
    lock = (root / LOCK).read_text(encoding="utf-8").splitlines()
    found = list(_wrong_pins(lock))
    for name in (PYPROJECT, "Makefile", ".ci/run"):
        if (root / name).exists():
            found += _local_names(name, (root / name).read_text(encoding="utf-8").splitlines())
    pinned = {normalised(line) for line in lock if line and not line.startswith("#")}
    missing = sorted(direct_dependencies(root) - pinned)
    return found + [
        f"{LOCK}: {name} of {PYPROJECT} has no pin; run `make lock`" for name in missing
    ]


def direct_dependencies(root: Path = ROOT) -> set[str]:
    """Normalised names of the project's own dependencies and of its `dev` extra."""
    project = tomllib.loads((root / PYPROJECT).read_text(encoding="utf-8"))["project"]
    return {normalised(line) for line in project["dependencies"]} | {
        normalised(line) for line in project["optional-dependencies"]["dev"]
    }


def _wrong_pins(lines: list[str]) -> Iterator[str]:
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
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


def resolve(upgrade: bool) -> str:
    """The lock's text.

    Raises:
        subprocess.CalledProcessError: nothing satisfies pyproject.toml; uv said why.
    """
    command = ["uv", "pip", "compile", PYPROJECT, "--extra", "dev"]
    command += [
        "--python-version",
        OLDEST_PYTHON,
        "--python-platform",
        "linux",
        "--no-annotate",
        "--no-header",
        "--quiet",
    ]
    command += ["--output-file", LOCK] + ["--upgrade"] * upgrade
    subprocess.run(command, cwd=ROOT, check=True)
    lines = (ROOT / LOCK).read_text(encoding="utf-8").splitlines()
    return HEADER + "".join(f"{line}\n" for line in lines if not line.startswith("#"))


def main() -> int:
    """Do what the first argument says; 0 where the lock is right."""
    what = sys.argv[1] if len(sys.argv) == 2 else ""
    if what not in ("check", "write", "upgrade"):
        sys.stderr.write("usage: python tools/lock.py check|write|upgrade\n")
        return 2
    path = ROOT / LOCK
    if what != "check":
        before = path.read_bytes() if path.exists() else b""
        try:
            path.write_text(resolve(what == "upgrade"), encoding="utf-8")
        except (subprocess.CalledProcessError, FileNotFoundError) as error:
            path.write_bytes(before)
            sys.stderr.write(f"error: the lock was not resolved and stays as it was: {error}\n")
            return 1
    found = problems()
    sys.stderr.writelines(f"error: {problem}\n" for problem in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
