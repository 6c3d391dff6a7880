"""Modern poems by poets in the public domain, from a git repository of .pt files.

The repository (sheepzh/poetry) holds a folder a poet, `data/徐志摩_xuzhimo`. Only
the folders of the poets named in conf/corpus/modern_git.yaml are fetched, at one
commit. What a folder of that name holds is not always a modern poem by that
person: each trap has a rule below, and what a rule leaves out is counted.
"""

import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from shiyan import poem as parser
from shiyan import texts
from shiyan.collection.cache import fetched
from shiyan.collection.corpus import Corpus, flags
from shiyan.collection.encoding import decoded
from shiyan.collection.files import KINDS
from shiyan.collection.pt import parse_pt
from shiyan.config import ModernGitParams
from shiyan.errors import UserError
from shiyan.records import Poem

FOLDER = "data"
PROSE_LINE = 40
"""Characters in a line from which it is a paragraph rather than a line of verse."""
PROSE_MEAN = 20
"""Mean characters a line from which a text with such a paragraph is a prose poem."""
REGULAR = 0.95
"""Share of clauses of one length (4 to 7) from which verse is regular."""
LONG_STANZA = 16
"""Lines of a single stanza from which stanza breaks may have been lost."""

_TRANSLATED = re.compile(
    r"译自|译诗|译者|[（(【〔\[][^）)】〕\]]*译[）)】〕\]]|^译[：:]"
    r"|[（(【〔\[](?:英|美|法|德|俄|日|印度|希腊|波斯|爱尔兰|苏格兰|匈牙利)[）)】〕\]]"
)
_CLASSICAL_TITLE = re.compile(
    r"(?:七律|五律|七绝|五绝|排律|古风|调寄|水调歌头|满江红|沁园春|念奴娇|浣溪沙|菩萨蛮|蝶恋花|临江仙"
    r"|鹧鸪天|西江月|清平乐|浪淘沙|如梦令|忆江南|望江南|采桑子|卜算子|减字木兰花|虞美人|南乡子|点绛唇"
    r"|贺新郎|水龙吟|满庭芳|渔家傲|踏莎行|鹊桥仙|江城子|摸鱼儿|金缕曲|生查子|长相思|忆秦娥|破阵子"
    r"|诉衷情|阮郎归|一剪梅|醉花阴|声声慢|雨霖铃|扬州慢|六州歌头)"
    r"(?:$|[·・:：—（(《 ]|[之其][一二三四五六七八九十])"
)
_VERNACULAR = re.compile("[的了着這这那們们吗呢吧个把被]|什么|一个|没有|自己|起来")
_CLAUSE_END = re.compile(r"[，。；！？、：,.;!?:\s]+")


def collect(params: ModernGitParams, seed: int) -> Corpus:
    """The poems that no rule leaves out, by poet in the order of conf/, then by file.

    Raises:
        UserError: git is missing, the commit cannot be had, or nothing is left.
    """
    poets = {name: year for name, year in params.poets.items() if year <= params.died_by}
    corpus = Corpus(
        made={"source": params.repository, "commit": params.commit, "died_by": params.died_by}
    )
    if later := [name for name in params.poets if name not in poets]:
        corpus.notices.append(f"left out poets who died after {params.died_by}: {', '.join(later)}")
    odd: dict[str, list[str]] = {}
    folder = poets_folder(params.repository, params.commit, tuple(poets))
    folders = _by_poet(folder)
    for name, died in poets.items():
        kept = _poems_of(name, died, folders.get(name, []), corpus.left_out, odd)
        if not kept:
            corpus.notices.append(f"{name}: no poem could be used")
        if params.per_poet is not None and len(kept) > params.per_poet:
            drawn = set(random.Random(f"{seed}:{name}").sample(range(len(kept)), params.per_poet))
            kept = [poem for i, poem in enumerate(kept) if i in drawn]
        corpus.poems += kept
    if not corpus.poems:
        raise UserError(
            f"{params.repository} at {params.commit[:12]} holds no usable poem of the "
            f"{len(poets)} poets in corpus.poets, died by {params.died_by}; their folders are "
            f"named like {FOLDER}/徐志摩_xuzhimo"
        )
    for poem in corpus.poems:
        corpus.flagged.update([*flags(poem), *_shape_flags(poem.text), *odd[poem.poem_id]])
    return corpus


def _by_poet(folder: Path) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(folder.iterdir()):
        found[_poet(path.name)].append(path)
    return found


def _poet(folder_name: str) -> str:
    return folder_name.partition("_")[0]


def _poems_of(
    name: str,
    died: int,
    folders: Sequence[Path],
    left_out: Counter[str],
    odd: dict[str, list[str]],
) -> list[Poem]:
    """The usable poems of one poet; what is not is counted in `left_out`.

    What was mended in a poem or is odd about it goes to `odd` under its id.
    """
    paths = [path for folder in folders for path in sorted(folder.rglob("*.pt"))]
    if len(folders) > 1:
        # Two people of one name: nothing says which of them is the one who died.
        left_out["namesake: several folders of this name"] += len(paths)
        return []
    kept = []
    for path in paths:
        read = read_poem(path, folders[0].parent, name, odd)
        reason = read if isinstance(read, str) else why_not(read, died)
        if isinstance(read, Poem) and reason is None:
            kept.append(read)
        else:
            left_out[str(reason)] += 1
    return kept


def read_poem(
    path: Path, root: Path, author: str, odd: dict[str, list[str]] | None = None
) -> Poem | str:
    """A .pt file as a poem, or why it is none; the id is the path below `root`."""
    try:
        text, _ = decoded(path.read_bytes(), str(path))
    except UserError:
        return "not UTF-8"
    pt = parse_pt(text)
    body, rules = texts.mended(pt.body)
    verse, apart = parser.parts(body)
    poem_id = parser.visible(path.relative_to(root).as_posix())
    if odd is not None:
        odd[poem_id] = texts.flags_of(rules, texts.oddities(body))
    beside: dict[str, tuple[str, ...]] = {}
    for item in apart:
        beside[item.kind] = (*beside.get(item.kind, ()), item.line)
    return Poem(
        poem_id=poem_id,
        title=parser.one_line(pt.title),
        text=verse,
        genre="modern",
        author=author,
        date=pt.date,
        beside=beside,
    )


# --- the traps --------------------------------------------------------------------------


def why_not(poem: Poem, died: int) -> str | None:
    """Why a poem is not a modern poem by a poet who died in that year; the first rule counts."""
    return next((name for name, holds in RULES.items() if holds(poem, died)), None)


def has_no_text(poem: Poem, died: int) -> bool:
    return not parser.characters(poem.text)


def is_dated_after_death(poem: Poem, died: int) -> bool:
    """Then it is by a living namesake, or the date is of an edition: neither can be used."""
    year = parser.year_of(poem.date)
    return year is not None and year > died


def is_translation(poem: Poem, died: int) -> bool:
    """The title, the lines beside the verse, or its first or last line say so."""
    lines = parser.lines(poem.text)
    places = [poem.title, *(line for kept in poem.beside.values() for line in kept)]
    titled = "译" in poem.title.replace("翻译", "")
    return titled or any(map(_TRANSLATED.search, [*places, *lines[:1], *lines[-1:]]))


def is_classical(poem: Poem, died: int) -> bool:
    """Regular verse, or verse to a classical form's name, in classical Chinese.

    Regular lines alone do not make a poem classical: modern poets wrote them too, in the
    vernacular, whose commonest words (的 了 着 这 个 …) classical verse lacks.
    """
    if len(_VERNACULAR.findall(poem.text)) > 1:
        return False
    return is_regular(poem.text) or bool(_CLASSICAL_TITLE.match(poem.title))


def is_prose_poem(poem: Poem, died: int) -> bool:
    """Paragraphs, not lines: one is over 40 characters long and the mean is over 20."""
    lengths = [len(parser.characters(line)) for line in parser.lines(poem.text)]
    return max(lengths) > PROSE_LINE and sum(lengths) / len(lengths) > PROSE_MEAN


def has_every_line_apart(poem: Poem, died: int) -> bool:
    """A blank line after every line: where stanzas ended can no longer be known."""
    stanzas = parser.stanzas(poem.text)
    return len(stanzas) >= 8 and all(len(stanza) == 1 for stanza in stanzas)


RULES: Mapping[str, Callable[[Poem, int], bool]] = {
    "no text": has_no_text,
    "namesake: dated after the poet's death": is_dated_after_death,
    "translation": is_translation,
    "classical form": is_classical,
    "prose poem": is_prose_poem,
    "stanza breaks lost: every line apart": has_every_line_apart,
}


def is_regular(text: str) -> bool:
    """At least 4 clauses, nearly all of one length of 4 to 7 characters."""
    clauses = [parser.characters(c) for line in parser.lines(text) for c in _CLAUSE_END.split(line)]
    lengths = Counter(len(clause) for clause in clauses if clause)
    if lengths.total() < 4:
        return False
    length, count = lengths.most_common(1)[0]
    return 4 <= length <= 7 and count >= REGULAR * lengths.total()


def _shape_flags(text: str) -> list[str]:
    """What is kept but may not have stood so in print."""
    stanzas = parser.stanzas(text)
    found = ["regular lines"] if is_regular(text) else []
    if len(stanzas) == 1 and len(stanzas[0]) >= LONG_STANZA:
        found.append(f"one stanza of {LONG_STANZA} lines or more: breaks perhaps lost")
    return found


# --- the repository ---------------------------------------------------------------------


def poets_folder(repository: str, commit: str, poets: Sequence[str]) -> Path:
    """A folder with these poets' folders as they stand at the commit; fetched the first time.

    Raises:
        UserError: git is missing, or the repository or commit cannot be had.
    """
    asked = "\n".join([repository, commit, *sorted(poets)])
    digest = hashlib.sha256(asked.encode()).hexdigest()[:8]
    return fetched(
        f"modern_git-{commit[:12]}-{digest}", lambda work: _fetch(repository, commit, poets, work)
    )


def _fetch(repository: str, commit: str, poets: Sequence[str], work: Path) -> Path:
    if shutil.which("git") is None:
        raise UserError(f"git is not installed; install it, or use corpus=files with {KINDS}")
    sys.stderr.write(f"fetching {len(poets)} poets from {repository} at {commit[:12]}, once\n")
    clone = work / "clone"
    clone.mkdir()
    _git(clone, "init", "-q")
    _git(clone, "remote", "add", "origin", repository)
    # Trees come at once, texts only for the folders that are checked out.
    _git(clone, "fetch", "-q", "--depth=1", "--filter=blob:none", "origin", commit)
    listed = _git(clone, "ls-tree", "-z", "-d", "--name-only", "FETCH_HEAD", f"{FOLDER}/")
    wanted = [name for name in listed.split("\0") if name and _poet(Path(name).name) in set(poets)]
    if wanted:
        _git(clone, "sparse-checkout", "set", "--no-cone", *(f"/{_literal(n)}/" for n in wanted))
        _git(clone, "-c", "core.autocrlf=false", "checkout", "-q", "FETCH_HEAD")
    kept = clone / FOLDER
    kept.mkdir(exist_ok=True)
    return kept


def _literal(path: str) -> str:
    """A path as a sparse-checkout pattern that matches nothing else."""
    return re.sub(r"([\\*?\[\]])", r"\\\1", path)


def _git(clone: Path, *arguments: str) -> str:
    """A git command's output; it never asks a person anything.

    Raises:
        UserError: git's own reason.
    """
    environment = os.environ | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C.UTF-8"}
    # Variables that git sets for its hooks would point it at the user's own repository.
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        environment.pop(name, None)
    done = subprocess.run(
        ["git", *arguments],
        cwd=clone,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        told = [line for line in done.stderr.splitlines() if line.startswith(("fatal", "error"))]
        reason = told[0] if told else f"exit code {done.returncode}"
        raise UserError(
            f"the poems could not be fetched by git {arguments[0]} ({reason}); check "
            "corpus.repository and corpus.commit and the network, or use corpus=files or "
            "corpus=songci"
        )
    return done.stdout
