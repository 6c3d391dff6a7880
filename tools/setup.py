"""Set up .venv from requirements.lock: torch first, then the rest in batches, then this project.

    python3.11 tools/setup.py

Only the standard library, since nothing is installed yet. What is being installed is shown as it
goes. A set-up that was stopped goes on with the packages that are missing, and a second one
compares one sum and ends. Every trouble is one sentence on stderr and exit code 2.
"""

from __future__ import annotations

import csv
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import Distribution, distributions
from pathlib import Path

import lock

ROOT = lock.ROOT
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "installed.sha256"
# Measured on Linux with torch's CPU build; its CUDA build takes about 5 GB more.
DOWNLOADED, ON_DISK = "0.6 GB", "2.4 GB"
FREE_BYTES_NEEDED = 4 * 10**9
# Packages a call of pip: what one batch installed, a stopped set-up need not do again.
BATCH = 30
SIZE = re.compile(r"\(([\d.]+) (bytes|kB|MB|GB)\)")
BYTES = {"bytes": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}
# What pip says, and what it means for the person at the keyboard. The first that fits is told.
CAUSES = (
    (
        r"No space left on device|Disk quota exceeded",
        f"the disk is full: set-up takes {ON_DISK} in {{venv}}, and as much again for a while; "
        "make room",
    ),
    (
        r"Retrying \(|NewConnectionError|Temporary failure in name resolution|ProxyError"
        r"|ConnectTimeout|Network is unreachable",
        "the package index cannot be reached: set-up needs a network, or an index that pip is "
        "configured for (`pip config list`)",
    ),
    (
        r"No matching distribution found for (?P<what>\S+)",
        "the package index has no {what}: use an index that carries it (`pip config list` tells "
        "which one is asked), or `make lock UPGRADE=1` for versions that it has",
    ),
    (
        r"Permission denied|Read-only file system",
        "a folder cannot be written ({line}): set-up writes to {venv}, to pip's cache and to the "
        "folder for temporary files",
    ),
)


class SetupError(Exception):
    """One sentence: what is wrong and what to do."""


@dataclass
class Progress:
    """What has been installed, of how many packages, shown on one line of a terminal or on many."""

    n: int
    done: int = 0
    size: int = 0
    began: float = field(default_factory=time.monotonic)

    def downloads(self, line: str) -> None:
        """Take in a line of pip's that may tell the size of a file."""
        found = SIZE.search(line)
        if found and line.lstrip().startswith(("Downloading", "Using cached", "Processing")):
            self.size += int(float(found[1]) * BYTES[found[2]])

    def show(self, what: str) -> None:
        seconds = time.monotonic() - self.began
        text = f"[{self.done}/{self.n}] {self.size / 10**6:.0f} MB, {seconds:.0f} s: {what}"
        if sys.stderr.isatty():
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r{text[:width]:{width}}")
        else:
            sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    def end(self) -> None:
        if sys.stderr.isatty():
            sys.stderr.write("\n")


def main() -> int:
    """Set up, or say in one sentence why not."""
    try:
        check_this_machine()
        wrong = lock.problems()
        if wrong:
            raise SetupError(wrong[0])
        with alone():
            if not is_set_up():
                set_up()
    except KeyboardInterrupt:
        sys.stderr.write("\nerror: stopped; `make setup` goes on where it was\n")
        return 2
    except SetupError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except OSError as error:
        meaning = CAUSES[0][1].format(venv=VENV) if error.errno == 28 else error
        sys.stderr.write(f"error: {meaning}\n")
        return 2
    return 0


def check_this_machine() -> None:
    """Refuse what set-up or DVC would fail on later."""
    if sys.version_info[:2] != (3, 11):
        raise SetupError(
            f"{sys.executable} is Python {sys.version.split()[0]}, and shiyan needs 3.11: "
            "make PYTHON=/path/to/python3.11"
        )
    if odd := set(str(ROOT)) & set(':$"`\\\n'):
        raise SetupError(
            f"the project's folder, {ROOT}, has {' '.join(sorted(odd))} in its name, which the "
            "scripts of a virtual environment cannot bear: move it"
        )
    if not shutil.which("git"):
        raise SetupError("git is not installed, and DVC needs it: install your system's git")
    if not PYTHON.exists() and shutil.disk_usage(ROOT).free < FREE_BYTES_NEEDED:
        raise SetupError(CAUSES[0][1].format(venv=VENV))


@contextmanager
def alone() -> Iterator[None]:
    """One set-up at a time; another waits and then finds its work done."""
    with (ROOT / ".venv.lock").open("w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            sys.stderr.write("another set-up is at work here; waiting for it\n")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_set_up() -> bool:
    """Whether .venv is what the lock and pyproject.toml ask for, and still whole."""
    try:
        is_known = STAMP.read_bytes() == state().encode()
    except OSError:
        return False
    return is_known and was_made_here() and PYTHON.exists() and not missing_of(locked())


def state() -> str:
    """A sum of all that decides what .venv holds; its path, since scripts there name it."""
    files = (ROOT / lock.LOCK, ROOT / lock.PYPROJECT)
    parts = [str(VENV).encode(), *(path.read_bytes() for path in files)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def set_up() -> None:
    """Install everything that is missing, and write the stamp last."""
    make_venv()
    wanted = locked()
    missing = missing_of(wanted)
    sys.stderr.write(
        f"setting up {VENV.name}: {len(missing)} of {len(wanted)} packages "
        f"({DOWNLOADED} to download and {ON_DISK} on disk for all of them)\n"
    )
    progress = Progress(len(wanted), len(wanted) - len(missing))
    # torch first and with what its build needs: others would draw a build of their own choosing.
    if "torch" in missing:
        progress.show(f"torch=={wanted['torch']}, the largest")
        pip(progress, f"torch=={wanted['torch']}")
    for batch in batches(missing_of(wanted)):
        pip(progress, "--no-deps", *(f"{name}=={wanted[name]}" for name in batch))
        progress.done = len(wanted) - len(missing_of(wanted))
    if broken := missing_of(wanted):
        pip(progress, "--no-deps", "--force-reinstall", *(f"{n}=={wanted[n]}" for n in broken))
    if still := missing_of(wanted):
        raise SetupError(
            f"pip ran, and yet .venv lacks {', '.join(still[:3])}: a setting of pip's may lead it "
            "elsewhere (`pip config list`)"
        )
    progress.done = len(wanted)
    progress.show("this project")
    pip(progress, "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    progress.end()
    STAMP.write_text(state(), encoding="utf-8")


def make_venv() -> None:
    """A virtual environment that works here; one that was moved or half made is made again."""
    if was_made_here() and has_pip():
        return
    # This may be .venv's own Python, which goes with it.
    base = Path(sys.base_prefix) / "bin" / "python3.11"
    python = str(base) if base.exists() else sys.executable
    if VENV.is_symlink() or VENV.is_file():
        VENV.unlink()
    elif VENV.exists():
        shutil.rmtree(VENV)
    made = subprocess.run(
        [python, "-m", "venv", str(VENV)],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if made.returncode:
        said = (made.stdout + made.stderr).strip()
        raise SetupError(
            cause(said)
            or f"`{python} -m venv .venv` failed; on Debian and Ubuntu "
            f"`apt install python3.11-venv` brings what is missing (it said: {last_line(said)})"
        )


def was_made_here() -> bool:
    """Whether .venv's scripts name this place; they go on naming one that it was moved from."""
    try:
        told = (VENV / "pyvenv.cfg").read_text(encoding="utf-8")
    except OSError:
        return False
    is_of_this_python = (VENV / "lib" / "python3.11").is_dir() and not VENV.is_symlink()
    return is_of_this_python and any(line.endswith(f" {VENV}") for line in told.splitlines())


def has_pip() -> bool:
    """Whether pip starts; a venv that was stopped while it was made has none."""
    try:
        return not subprocess.run(
            [PYTHON, "-m", "pip", "--version"], capture_output=True, check=False
        ).returncode
    except OSError:
        return False


def locked() -> dict[str, str]:
    """Normalised name -> version, in the lock's order."""
    lines = (ROOT / lock.LOCK).read_text(encoding="utf-8").splitlines()
    pins = (line.split("==") for line in lines if lock.is_pin(line))
    return {lock.normalised(name): version for name, version in pins}


def missing_of(wanted: dict[str, str]) -> list[str]:
    """The packages that .venv does not hold whole at these versions, in their order."""
    folder = VENV / "lib" / "python3.11" / "site-packages"
    # A build's own tag, such as torch's +cpu, is left to the platform.
    held = {
        (lock.normalised(found.metadata["Name"] or ""), found.version.partition("+")[0]): found
        for found in distributions(path=[str(folder)])
    }
    return [
        name
        for name, version in wanted.items()
        if (name, version) not in held or not is_whole(held[name, version])
    ]


def is_whole(package: Distribution) -> bool:
    """Whether every file that the package lists is there; a stopped pip leaves half of one."""
    record = package.read_text("RECORD")
    if record is None:
        # An old pip without `wheel` installs a source package so, and writes this list last.
        return package.read_text("installed-files.txt") is not None
    # Not package.files: from some 3.11 on it leaves out those that are missing.
    names = (row[0] for row in csv.reader(record.splitlines()) if row)
    return all(
        Path(str(package.locate_file(name))).exists() for name in names if not name.endswith(".pyc")
    )


def batches(names: list[str]) -> Iterator[list[str]]:
    return (names[start : start + BATCH] for start in range(0, len(names), BATCH))


def pip(progress: Progress, *arguments: str) -> None:
    """Install, and show each package as pip comes to it.

    Raises:
        SetupError: pip failed; the sentence tells its cause.
    """
    command = [str(PYTHON), "-m", "pip", "install", "--progress-bar", "off", "--retries", "2"]
    command += ["--disable-pip-version-check", *arguments]
    # Settings that would lead the packages elsewhere than into .venv.
    elsewhere = {"PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_DRY_RUN"}
    environment = {name: value for name, value in os.environ.items() if name not in elsewhere}
    said: list[str] = []
    with subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            progress.downloads(line)
            if line.startswith("Collecting "):
                progress.done = min(progress.done + 1, progress.n)
                progress.show(line.split()[1])
            elif line.startswith("Installing collected packages"):
                progress.show("unpacking")
    if process.returncode:
        progress.end()
        text = "".join(said)
        raise SetupError(cause(text) or f"pip could not install the packages: {last_line(text)}")


def cause(said: str) -> str | None:
    """The sentence for the first known trouble in what a program said."""
    for pattern, sentence in CAUSES:
        if found := re.search(pattern, said):
            line = next(line for line in said.splitlines() if re.search(pattern, line))
            what = found.groupdict().get("what", "")
            return sentence.format(venv=VENV, what=what, line=line.strip()[:200])
    return None


def last_line(said: str) -> str:
    errors = [line for line in said.splitlines() if "error" in line.lower()]
    return (errors or said.splitlines() or ["it said nothing"])[-1].strip()[:300]


if __name__ == "__main__":
    sys.exit(main())
