"""The work cache keeps whole results under keys, and the executors map items to results."""

import pytest

from shiyan.config import ExecutorParams
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
