"""A fetched corpus is whole or not there."""

import os
import subprocess
import sys

import pytest

from shiyan.collection.cache import corpus_cache, fetched
from shiyan.errors import UserError


@pytest.fixture(autouse=True)
def corpora(tmp_path, monkeypatch):
    monkeypatch.setenv("SHIYAN_CORPORA", str(tmp_path / "corpora"))


def test_a_corpus_is_fetched_once(tmp_path):
    calls = []

    def fetch(work):
        calls.append(work)
        (work / "kept").mkdir()
        (work / "kept" / "a").write_text("x", encoding="utf-8")
        (work / "litter").write_text("x", encoding="utf-8")
        return work / "kept"

    assert fetched("c", fetch) == fetched("c", fetch) == tmp_path / "corpora" / "c"
    assert len(calls) == 1
    assert [p.name for p in (corpus_cache() / "c").iterdir()] == ["a"]
    assert not calls[0].exists()


def test_a_failed_fetch_leaves_nothing_and_may_be_tried_again():
    def fail(work):
        (work / "half").mkdir()
        raise UserError("no network")

    with pytest.raises(UserError, match="no network"):
        fetched("c", fail)
    assert not [p for p in corpus_cache().iterdir() if p.is_dir()]


def test_what_a_killed_process_left_is_removed():
    litter = corpus_cache() / ".c.killed"
    litter.mkdir(parents=True)
    (litter / "half").write_text("x", encoding="utf-8")

    def fetch(work):
        assert not litter.exists()
        (work / "kept").mkdir()
        return work / "kept"

    assert fetched("c", fetch).is_dir()


def test_two_processes_fetch_once(tmp_path):
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from shiyan.collection.cache import fetched\n"
        "def fetch(work):\n"
        "    open(sys.argv[1], 'a').write('x')\n"
        "    (work / 'kept').mkdir()\n"
        "    return work / 'kept'\n"
        "fetched('c', fetch)\n"
    )
    log = tmp_path / "log"
    both = [subprocess.Popen([sys.executable, "-c", script, str(log)]) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    assert log.read_text(encoding="utf-8") == "x"


def test_a_cache_that_cannot_be_written_says_so(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    monkeypatch.setenv("SHIYAN_CORPORA", os.fspath(tmp_path / "file" / "below"))
    with pytest.raises(UserError, match=r"could not be written.*SHIYAN_CORPORA"):
        fetched("c", lambda work: work)
