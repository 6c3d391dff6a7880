"""The work cache keeps whole results under keys, and the executors map items to results."""

import pytest

from shiyan.config import ExecutorParams
from shiyan.errors import UserError
from shiyan.work import WorkCache, digest, map_unordered

KEY = {"model": "m", "seed": 1}


def square(number: int) -> int:
    return number * number


def test_key_order_does_not_matter_and_every_value_does():
    assert digest({"a": 1, "b": "春"}) == digest({"b": "春", "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})


def test_a_result_is_kept_and_found(tmp_path):
    cache = WorkCache(tmp_path)
    assert cache.get_json("chat", KEY) is None
    cache.put_json("chat", KEY, {"text": "月"})
    assert ("chat", KEY) in cache
    assert WorkCache(tmp_path).get_json("chat", KEY) == {"text": "月"}
    assert cache.get_json("other", KEY) is None


def test_a_spoilt_entry_counts_as_none(tmp_path):
    cache = WorkCache(tmp_path)
    cache.put("chat", KEY, b'{"text": ')
    assert cache.get_json("chat", KEY) is None


def test_an_entry_whose_value_changed_is_told_and_set_aside(tmp_path, capsys):
    cache = WorkCache(tmp_path)
    cache.put_json("chat", KEY, {"text": "月"})
    path = cache.path("chat", KEY)
    raw = path.read_bytes()
    for n in range(2):
        # One bit of a Han character: still JSON, another word.
        path.write_bytes(raw[:-3] + bytes([raw[-3] ^ 1]) + raw[-2:])
        assert list(cache.damaged()) == [path]
        assert cache.get_json("chat", KEY) is None
        assert f"{path} is damaged" in capsys.readouterr().err
        aside = tmp_path / "damaged" / "chat" / path.parent.name
        assert len(list(aside.iterdir())) == n + 1, "what was set aside before stays"
        assert list(cache.damaged()) == []
        cache.put_json("chat", KEY, {"text": "月"})
    assert cache.get_json("chat", KEY) == {"text": "月"}


@pytest.mark.parametrize("n_left", [0, 7, 72, 73, 80])
def test_an_entry_that_was_cut_is_set_aside(tmp_path, n_left):
    cache = WorkCache(tmp_path)
    cache.put_json("chat", KEY, {"text": "月" * 9})
    path = cache.path("chat", KEY)
    path.write_bytes(path.read_bytes()[:n_left])
    assert cache.get_json("chat", KEY) is None
    assert not path.exists()


def test_entries_of_older_versions_are_read_and_stay(tmp_path, capsys):
    cache = WorkCache(tmp_path)
    path = cache.path("chat", KEY)
    path.parent.mkdir(parents=True)
    path.write_bytes(b'{"text": "old"}')
    assert cache.get_json("chat", KEY) == {"text": "old"}
    assert cache.get("chat", KEY) == path.read_bytes()
    assert list(cache.damaged()) == []
    path.write_bytes(b'{"text": "o')
    assert cache.get_json("chat", KEY) is None
    assert (tmp_path / "damaged/chat" / path.parent.name / path.name).read_bytes() == b'{"text": "o'
    assert "is damaged" in capsys.readouterr().err


def test_a_folder_in_an_entrys_place_is_set_aside(tmp_path):
    cache = WorkCache(tmp_path)
    cache.path("chat", KEY).mkdir(parents=True)
    assert list(cache.damaged()) == [cache.path("chat", KEY)]
    assert cache.get_json("chat", KEY) is None
    cache.put_json("chat", KEY, 1)
    assert cache.get_json("chat", KEY) == 1


def test_what_cannot_be_kept_is_an_error_unless_it_need_not_be(tmp_path, capsys):
    (tmp_path / "root").write_text("a file where the folder should be", encoding="utf-8")
    with pytest.raises(UserError, match="could not be written"):
        WorkCache(tmp_path / "root").put("chat", KEY, b"1")
    cache = WorkCache(tmp_path / "root", must_keep=False)
    cache.put("chat", KEY, b"1")
    cache.put("chat", KEY, b"2")
    assert capsys.readouterr().err.count("what is computed is not kept") == 1
    assert cache.get("chat", KEY) is None


def test_the_cache_lies_in_the_users_repository(tmp_path, monkeypatch):
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    assert WorkCache().root == tmp_path / ".work"


@pytest.mark.parametrize(("backend", "workers"), [("local", 1), ("local", 3), ("process", 2)])
def test_every_item_gets_its_own_result(backend, workers):
    executor = ExecutorParams(backend=backend, workers=workers)
    assert dict(map_unordered(square, range(20), executor)) == {n: n * n for n in range(20)}


def test_the_first_error_is_raised_and_later_items_are_not_begun():
    begun = []

    def work(number: int) -> int:
        begun.append(number)
        if number == 3:
            raise ValueError("no")
        return number

    executor = ExecutorParams(backend="local", workers=2)
    with pytest.raises(ValueError, match="no"):
        list(map_unordered(work, range(100), executor))
    assert max(begun) < 10


def test_what_no_parser_can_read_is_not_kept(tmp_path):
    cache = WorkCache(tmp_path)
    cache.put("chat", {"n": 1}, b"[" * 100_000)
    assert cache.get_json("chat", {"n": 1}) is None
