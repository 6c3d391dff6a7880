"""Statistics come back from their files as they went in."""

import numpy as np
import pytest

from shiyan.token_statistics import (
    ModelStatistics,
    PairStatistics,
    TextStatistics,
    from_bytes,
    names_of,
    read_statistics,
    to_bytes,
    unpacked,
    write_statistics,
)


def rows(k: int, n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(k, n)).astype(np.float32)


def text(n: int, seed: int) -> TextStatistics:
    own = unpacked(ModelStatistics, rows(5, n, seed))
    pair = unpacked(PairStatistics, rows(2, n, seed + 1))
    return TextStatistics(n, {"大": own}, {("小", "大"): pair})


def test_the_last_position_predicts_no_token():
    own = unpacked(ModelStatistics, rows(5, 4))
    lengths = {name: len(getattr(own, name)) for name in names_of(ModelStatistics)}
    assert lengths == {"log_prob": 3, "rank": 3, "ties": 3, "entropy": 4, "top_log_prob": 4}


@pytest.mark.parametrize("kind", [ModelStatistics, PairStatistics])
def test_bytes_come_back_and_a_wrong_length_or_a_spoilt_file_is_none(kind):
    values = rows(len(names_of(kind)), 6)
    raw = to_bytes(values)
    found = from_bytes(kind, raw, 6)
    for name, row in zip(names_of(kind), values, strict=True):
        assert np.array_equal(getattr(found, name), row[: len(getattr(found, name))])
    assert from_bytes(kind, raw, 7) is None
    assert from_bytes(kind, raw[:-3], 6) is None
    assert from_bytes(kind, b"", 6) is None
    assert from_bytes(kind, None, 6) is None


def test_parquet_keeps_every_poem_and_every_number(tmp_path):
    statistics = {"a": text(5, 1), "空": TextStatistics(1), "b": text(9, 2)}
    path = tmp_path / "folder" / "statistics.parquet"
    write_statistics(path, statistics)
    found = read_statistics(path)
    assert list(found) == ["a", "空", "b"]
    for poem_id, wanted in statistics.items():
        assert found[poem_id].n_tokens == wanted.n_tokens
        assert found[poem_id].models.keys() == wanted.models.keys()
        assert found[poem_id].pairs.keys() == wanted.pairs.keys()
        for kind in ("models", "pairs"):
            for key, one in getattr(wanted, kind).items():
                for name, row in vars(one).items():
                    assert np.array_equal(getattr(getattr(found[poem_id], kind)[key], name), row)


def test_no_poem_at_all_is_a_file_without_rows(tmp_path):
    write_statistics(tmp_path / "none.parquet", {})
    assert read_statistics(tmp_path / "none.parquet") == {}
