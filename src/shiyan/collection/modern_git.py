"""Modern poems by poets in the public domain, from a git repository of .pt files.

The repository (sheepzh/poetry) holds a folder a poet, `data/徐志摩_xuzhimo`. Only
the folders of the poets named in conf/corpus/modern_git.yaml are fetched, at one
commit; a list (`corpus.path`) may say which of their poems are wanted, and under which
ids. What a folder of that name holds is not always a modern poem by that
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
from shiyan.collection.selection import Listed, read_selection
from shiyan.config import ModernGitParams, project_root
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

    With a list of poems (`params.path`): these, under the ids that it gives them, in its order.

    Raises:
        UserError: git is missing, the commit cannot be had, or nothing is left; a listed
            poem that is not there, or that a rule leaves out.
    """
    poets = {name: died for name, died in params.poets.items() if died <= params.died_by}
    corpus = Corpus(
        made={"source": params.repository, "commit": params.commit, "died_by": params.died_by}
    )
    listed = read_selection(project_root() / params.path) if params.path else None
    if listed is not None:
        chosen = {_poet_of(path, entry, params) for path, entry in listed.items()}
        poets = {name: died for name, died in poets.items() if name in chosen}
        corpus.made["list"] = str(params.path)
    elif later := [name for name in params.poets if name not in poets]:
        corpus.notices.append(f"left out poets who died after {params.died_by}: {', '.join(later)}")
    odd: dict[str, list[str]] = {}
    reasons: dict[str, str] = {}
    for name, read in _read_poets(poets, params, odd).items():
        wanted = {path: poem for path, poem in read.items() if listed is None or path in listed}
        reasons |= {path: why for path, why in wanted.items() if isinstance(why, str)}
        kept = [poem for poem in wanted.values() if isinstance(poem, Poem)]
        if not kept:
            corpus.notices.append(f"{name}: no poem could be used")
        if listed is None and params.per_poet is not None and len(kept) > params.per_poet:
            drawn = set(random.Random(f"{seed}:{name}").sample(range(len(kept)), params.per_poet))
            kept = [poem for i, poem in enumerate(kept) if i in drawn]
        corpus.poems += kept
    corpus.left_out.update(reasons.values())
    if listed is not None:
        corpus.poems = _as_listed(corpus.poems, listed, reasons, params)
    if not corpus.poems:
        raise UserError(
            f"{params.repository} at {params.commit[:12]} holds no usable poem of the "
            f"{len(poets)} poets in corpus.poets, died by {params.died_by}; their folders are "
            f"named like {FOLDER}/徐志摩_xuzhimo"
        )
    path_of = {entry.poem_id: path for path, entry in (listed or {}).items()}
    for poem in corpus.poems:
        path = path_of.get(poem.poem_id, poem.poem_id)
        corpus.flagged.update([*flags(poem), *_shape_flags(poem.text), *odd[path]])
    return corpus


def _poet_of(path: str, entry: Listed, params: ModernGitParams) -> str:
    """Whose poem a list names."""
    name = _poet(path)
    name = params.other_names.get(name, name)
    died = params.poets.get(name)
    if died is None or died > params.died_by:
        why = "who is none of corpus.poets" if died is None else f"who died in {died}"
        raise UserError(
            f"{entry.place} names a poem of {name}, {why}; the list may hold poems of poets in "
            f"corpus.poets who died by {params.died_by}"
        )
    return name


def _as_listed(
    poems: Sequence[Poem],
    listed: Mapping[str, Listed],
    reasons: Mapping[str, str],
    params: ModernGitParams,
) -> list[Poem]:
    """The poems under their listed ids, in the list's order; every one must be there."""
    by_path = {poem.poem_id: poem for poem in poems}
    for path, entry in listed.items():
        if path not in by_path:
            why = (
                f"is left out ({reasons[path]})"
                if path in reasons
                else f"is not in {params.repository} at {params.commit[:12]}"
            )
            raise UserError(
                f"{entry.place}: {FOLDER}/{path} {why}; take it off the list, or name another "
                "corpus.commit"
            )
    return [
        by_path[path].model_copy(update={"poem_id": entry.poem_id})
        for path, entry in listed.items()
    ]


def _read_poets(
    poets: Mapping[str, int], params: ModernGitParams, odd: dict[str, list[str]]
) -> dict[str, dict[str, Poem | str]]:
    """Poet -> path of each poem -> the poem, or why it is left out; `odd` as in `_poems_of`."""
    poet_of = {name: name for name in poets}
    poet_of |= {other: name for other, name in params.other_names.items() if name in poets}
    folders = _by_poet(poets_folder(params.repository, params.commit, tuple(poet_of)))
    found: dict[str, dict[str, Poem | str]] = {name: {} for name in poets}
    for folder_name, name in poet_of.items():
        found[name] |= _poems_of(name, poets[name], folders.get(folder_name, []), odd)
    return found


def _by_poet(folder: Path) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(folder.iterdir()):
        found[_poet(path.name)].append(path)
    return found


def _poet(folder_name: str) -> str:
    return folder_name.partition("_")[0]


def _poems_of(
    name: str, died: int, folders: Sequence[Path], odd: dict[str, list[str]]
) -> dict[str, Poem | str]:
    """Path of each poem in folders of one name -> the poem, or why it is left out.

    What was mended in a poem or is odd about it goes to `odd` under its path.
    """
    found: dict[str, Poem | str] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*.pt")):
            read = read_poem(path, folder.parent, name, odd)
            if len(folders) > 1:
                # Two people of one name: nothing says which of them is the one who died.
                read = "namesake: several folders of this name"
            reason = why_not(read, died) if isinstance(read, Poem) else None
            found[path.relative_to(folder.parent).as_posix()] = reason or read
    return found


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
