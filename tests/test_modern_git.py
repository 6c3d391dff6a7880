"""Poems from a git repository of the same layout as the public one, over file://."""

import os
import subprocess
from pathlib import Path

import pytest
from sections import option
from shared import SHARED, needs_shared

from shiyan.collection import modern_git
from shiyan.collection.modern_git import is_classical, is_prose_poem, is_regular, is_translation
from shiyan.collection.selection import read_selection
from shiyan.composition import composed
from shiyan.config import ModernGitParams
from shiyan.errors import UserError
from shiyan.jsonl import read_objects
from shiyan.records import Poem

ROOT = Path(__file__).parents[1]
VERSE = "我把灯关了\n它又亮着\n\n窗外的雨"
FILES = {
    "徐甲_xujia/灯.pt": f"title:灯\ndate:192510\n\n{VERSE}",
    "徐甲_xujia/又一首.pt": "title:又一首\n\n这是一扇门\n我没有钥匙",
    "徐甲_xujia/空.pt": "title:空\ndate:\n\n",
    "徐甲_xujia/身后.pt": f"title:身后\ndate:1999\n\n{VERSE}",
    "徐甲_xujia/译作.pt": f"title:海（译诗）\n\n{VERSE}",
    "徐甲_xujia/译自.pt": f"title:海\n\n{VERSE}\n\n译自某集",
    "徐甲_xujia/绝句.pt": "title:晚望\n\n远水连天去，孤舟向晚来。\n山空人不见，风起落花开。",
    "徐甲_xujia/调.pt": "title:浣溪沙·秋\n\n远水连天，孤舟向晚来归。\n山空。",
    "徐甲_xujia/散文.pt": "title:影\n\n" + "我走在一条没有人的路上，" * 5 + "\n它说。",
    "徐甲_xujia/行行.pt": "title:行\n\n"
    + "\n\n".join(f"第{n}行它来了" for n in "一二三四五六七八"),
    "徐甲_xujia/坏.pt": b"title:\xff\xff\n\n\xff",
    "徐甲_xujia/长.pt": "title:长\n\n" + "\n".join(f"这是第{n}行了" for n in range(16)),
    "李乙_liyi/门.pt": f"title:门\n\n{VERSE}",
    "李乙_liyi1/墙.pt": f"title:墙\n\n{VERSE}",
    "王丙_wangbing/桥.pt": f"title:桥\n\n{VERSE}",
    "赵丁_zhaoding/河.pt": f"title:河\n\n{VERSE}",
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> tuple[str, str]:
    """(file:// address, commit); a later commit changes a poem that must not be seen."""
    folder = tmp_path_factory.mktemp("poetry 诗")
    for name, content in FILES.items():
        path = folder / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (folder / "README.md").write_text("x", encoding="utf-8")

    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=folder, capture_output=True, encoding="utf-8"
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    git("init", "-q")
    git("config", "uploadpack.allowFilter", "true")
    git("add", ".")
    git("commit", "-qm", "one")
    commit = git("rev-parse", "HEAD")
    (folder / "data" / "徐甲_xujia" / "灯.pt").write_text("title:灯\n\n别的", encoding="utf-8")
    git("commit", "-qam", "two")
    return folder.as_uri(), commit


@pytest.fixture(autouse=True)
def corpora(tmp_path, monkeypatch):
    monkeypatch.setenv("SHIYAN_CORPORA", str(tmp_path / "corpora"))
    # As when git itself started us; another repository must not be touched.
    monkeypatch.setenv("GIT_DIR", os.fspath(tmp_path / "elsewhere"))


def params(source, **changes) -> ModernGitParams:
    address, commit = source
    poets = {"徐甲": 1931, "李乙": 1950, "王丙": 1980, "孙戊": 1940}
    fields = {"repository": address, "commit": commit, "poets": poets, "died_by": 1975}
    fields |= {"other_names": {}, "path": None, "per_poet": None}
    return option(ModernGitParams, "corpus/modern_git", **fields | changes)


def test_each_trap_has_its_rule_and_is_counted(repository):
    corpus = modern_git.collect(params(repository), 0)
    kept = {p.poem_id: p for p in corpus.poems}
    assert set(kept) == {f"徐甲_xujia/{name}.pt" for name in ("灯", "又一首", "长")}
    assert kept["徐甲_xujia/灯.pt"].text == VERSE  # as it stood at the commit
    assert kept["徐甲_xujia/灯.pt"].date == "192510"
    assert {p.author for p in corpus.poems} == {"徐甲"}
    assert corpus.left_out == {
        "no text": 1,
        "namesake: dated after the poet's death": 1,
        "namesake: several folders of this name": 2,
        "translation": 2,
        "classical form": 2,
        "prose poem": 1,
        "stanza breaks lost: every line apart": 1,
        "not UTF-8": 1,
    }
    assert corpus.flagged["one stanza of 16 lines or more: breaks perhaps lost"] == 1
    said = "\n".join(corpus.notices)
    assert "who died after 1975: 王丙" in said
    assert "李乙: no poem could be used" in said
    assert "孙戊: no poem could be used" in said


def test_only_the_poets_asked_for_are_fetched_and_only_once(repository, monkeypatch):
    address, commit = repository
    folder = modern_git.poets_folder(address, commit, ("徐甲", "李乙"))
    assert {p.name for p in folder.iterdir()} == {"李乙_liyi", "李乙_liyi1", "徐甲_xujia"}
    monkeypatch.setenv("PATH", "")  # no git any more, and none needed
    assert modern_git.poets_folder(address, commit, ("李乙", "徐甲")) == folder


def test_so_many_poems_a_poet_drawn_by_seed(repository):
    drawn = {
        tuple(p.poem_id for p in modern_git.collect(params(repository, per_poet=1), seed).poems)
        for seed in range(8)
    }
    assert len(drawn) > 1
    assert all(len(ids) == 1 for ids in drawn)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"commit": "0" * 40}, r"could not be fetched by git fetch .*check corpus.repository"),
        ({"repository": "file:///nowhere"}, r"could not be fetched by git fetch"),
        ({"poets": {"孙戊": 1940}}, r"no usable poem of the 1 poets"),
        ({"poets": {"王丙": 1980}}, r"no usable poem of the 0 poets"),
    ],
)
def test_what_cannot_be_had_is_one_sentence(repository, changes, said):
    with pytest.raises(UserError, match=said) as caught:
        modern_git.collect(params(repository, **changes), 0)
    assert "\n" not in str(caught.value)


def test_no_git_names_it(repository, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="git is not installed"):
        modern_git.collect(params(repository), 0)


def poem(text: str, title: str = "题") -> Poem:
    return Poem(poem_id="a", title=title, text=text, genre="modern", author="甲")


def test_regular_lines_in_the_vernacular_are_modern():
    vernacular = "这是一条小河，\n它在我的门前，\n流着我的眼泪，\n流到你的窗边。"
    assert is_regular(vernacular)
    assert not is_classical(poem(vernacular), 1931)
    assert is_classical(poem("远水连天去，\n孤舟向晚来。\n山空人不见，\n风起落花开。"), 1931)
    assert not is_regular("远水连天去，\n孤舟来。")


def test_a_translator_is_one_and_a_poem_about_translating_is_not():
    assert is_translation(poem("雨停了", "哀歌〔英〕某某"), 1931)
    assert is_translation(poem("雨停了\n（某某译）"), 1931)
    assert not is_translation(poem("我在翻译一场雨\n它的词很少", "翻译"), 1931)


def test_one_long_line_makes_no_prose_poem():
    assert not is_prose_poem(poem("风" * 41 + "\n雨\n雪"), 1931)


@needs_shared
def test_conf_has_the_poets_and_years_of_the_public_domain_poems():
    expected = {
        row["author"]: row["death_year"]
        for _, row in read_objects(SHARED / "data" / "modern_pd.jsonl")
    }
    config = composed(["corpus=modern_git"], ROOT / "conf").corpus
    assert dict(config.poets) == expected


@needs_shared
def test_the_rules_leave_nearly_all_of_the_reviewed_poems():
    rows = [row for _, row in read_objects(SHARED / "data" / "modern_pd.jsonl")]
    reasons = [
        modern_git.why_not(
            poem(row["text"], row["title"]).model_copy(update={"date": row["date"]}),
            row["death_year"],
        )
        for row in rows
    ]
    assert sum(reason is not None for reason in reasons) <= 5


# --- a list ------------------------------------------------------------------------------


def listed(folder: Path, *lines: str) -> str:
    path = folder / "list.tsv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_a_list_gives_its_poems_under_its_ids_in_its_order(repository, tmp_path):
    lines = ["b-2\t徐甲_xujia/长.pt", "徐甲_xujia/又一首.pt", "a\t徐甲_xujia/灯.pt"]
    path = listed(tmp_path, "# three of them", "", *lines)
    corpus = modern_git.collect(params(repository, path=path, per_poet=1), 0)
    assert [p.poem_id for p in corpus.poems] == ["b-2", "徐甲_xujia/又一首.pt", "a"]
    assert corpus.poems[2].text == VERSE  # as it stood at the commit
    assert (corpus.left_out.total(), corpus.notices) == (0, [])
    assert corpus.made["list"] == path


def test_a_folder_may_bear_another_name_of_the_poet(repository, tmp_path):
    path = listed(tmp_path, "x\t赵丁_zhaoding/河.pt", "y\t徐甲_xujia/灯.pt")
    source = params(repository, path=path, other_names={"赵丁": "徐甲"})
    corpus = modern_git.collect(source, 0)
    assert [(p.poem_id, p.author) for p in corpus.poems] == [("x", "徐甲"), ("y", "徐甲")]
    everything = modern_git.collect(params(repository, other_names={"赵丁": "徐甲"}), 0)
    assert "赵丁_zhaoding/河.pt" in {p.poem_id for p in everything.poems}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["x\t徐甲_xujia/没有.pt"], r"list.tsv:1: data/徐甲_xujia/没有.pt is not in file:.* at"),
        (["徐甲_xujia/散文.pt"], r"list.tsv:1: .* is left out \(prose poem\); take it off"),
        (["李乙_liyi/门.pt"], r"left out \(namesake: several folders"),
        (["周庚_zhougeng/门.pt"], r"list.tsv:1 names a poem of 周庚, who is none of corpus.poets"),
        (["王丙_wangbing/桥.pt"], r"a poem of 王丙, who died in 1980; .* by 1975"),
        (["a\t徐甲_xujia/灯.pt", "a\t徐甲_xujia/长.pt"], r"list.tsv:2 names a, which .*:1 names"),
        (["徐甲_xujia/灯.pt", "b\t徐甲_xujia/灯.pt"], r"list.tsv:2 names b, which .*:1 names"),
        (["a\tb\tc"], r"list.tsv:1 is 'a\\tb\\tc', which names no poem"),
        (["灯.pt"], r"names no poem; a line each"),
        (["../徐甲_xujia/灯.pt"], r"names no poem"),
        (["# nothing"], r"lists no poem"),
    ],
)
def test_a_list_that_cannot_be_had_is_one_sentence(repository, tmp_path, lines, said):
    source = params(repository, path=listed(tmp_path, *lines))
    with pytest.raises(UserError, match=said) as caught:
        modern_git.collect(source, 0)
    assert "\n" not in str(caught.value)


def test_a_commit_that_is_not_there_stops_a_list_too(repository, tmp_path):
    source = params(repository, path=listed(tmp_path, "徐甲_xujia/灯.pt"), commit="0" * 40)
    with pytest.raises(UserError, match=r"could not be fetched by git fetch .*corpus.commit"):
        modern_git.collect(source, 0)


def test_a_list_that_is_no_file_is_named(repository, tmp_path):
    with pytest.raises(UserError, match=r"none\.tsv does not exist"):
        modern_git.collect(params(repository, path=str(tmp_path / "none.tsv")), 0)


def test_the_committed_list_is_one_of_poets_that_conf_knows():
    config = composed(["corpus=modern_git"], ROOT / "conf").corpus
    selection = read_selection(ROOT / "src/shiyan/data/poems/modern_30.tsv")
    poets = {path.partition("_")[0] for path in selection}
    assert len(selection) == 30
    assert {config.other_names.get(name, name) for name in poets} <= set(config.poets)


@needs_shared
def test_the_committed_list_has_the_ids_and_paths_of_the_reviewed_poems():
    rows = [row for _, row in read_objects(SHARED / "data" / "modern_pd.jsonl")]
    known = {row["path"].removeprefix("data/"): row for row in rows}
    config = composed(["corpus=modern_git"], ROOT / "conf").corpus
    for path, entry in read_selection(ROOT / "src/shiyan/data/poems/modern_30.tsv").items():
        assert known[path]["id"] == entry.poem_id
        assert known[path]["commit"] == config.commit
