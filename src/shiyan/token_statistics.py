"""What language models say about each token of a text, and the files that hold it.

One pass of the models leaves a few numbers a token; every zero-shot detector is
arithmetic on them. Nothing here needs a model.

Axes: n tokens of a text (a BOS token among them, where one was put first), and
T = n - 1 predicted tokens, all but the first.
"""

import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiyan.jsonl import replacing
from shiyan.poem import Spans

Row = NDArray[np.float32]

PREDICTED = ("log_prob", "rank", "ties")
"""Rows with a value for each predicted token, T of them; the others have one more."""


@dataclass(frozen=True)
class ModelStatistics:
    """What one model p says about a text."""

    log_prob: Row
    """ln p of each token, at most 0; (T,)."""
    rank: Row
    """How many tokens of the vocabulary are likelier, plus 1; ties share the best; (T,)."""
    ties: Row
    """How many other tokens are exactly as likely; (T,)."""
    entropy: Row
    """-sum_v p ln p at each position, the one after the last token too, in nats; (n,)."""
    top_log_prob: Row
    """max_v ln p at each position; (n,)."""


@dataclass(frozen=True)
class PairStatistics:
    """What a model p expects of texts that a reference q would write."""

    expected_log_prob: Row
    """sum_v q ln p at each position, the negated cross-entropy; (n,)."""
    variance: Row
    """Variance of ln p under q at each position; (n,)."""


Statistics = ModelStatistics | PairStatistics
Pair = tuple[str, str]
"""(reference q, scoring p), as Fast-DetectGPT has it; for Binoculars (observer, performer)."""


@dataclass(frozen=True)
class TextStatistics:
    """All that was computed of one text.

    Attributes:
        n_tokens: of the text itself, without BOS.
        models: by the model's name; empty where the text was too short or too long.
        pairs: by (reference, scoring).
        longest: tokens of the longest text that the models read; None where not known.
        spans: of each token but BOS, (n_tokens,); None where not known, as in a file.
    """

    n_tokens: int
    models: Mapping[str, ModelStatistics] = field(default_factory=dict)
    pairs: Mapping[Pair, PairStatistics] = field(default_factory=dict)
    longest: int | None = None
    spans: Spans | None = None


def names_of(kind: type[Statistics]) -> list[str]:
    """The rows of a kind of statistics, in the order in which they are stored."""
    return list(kind.__annotations__)


def unpacked(kind: type[Statistics], rows: Row) -> Statistics:
    """Statistics of a kind from its rows, (k, n); what has no token to predict is cut off."""
    cut = {name: row[:-1] if name in PREDICTED else row for name, row in _named(kind, rows)}
    return kind(**cut)


def _named(kind: type[Statistics], rows: Row) -> Iterator[tuple[str, Row]]:
    return zip(names_of(kind), rows, strict=True)


def to_bytes(rows: Row) -> bytes:
    """The rows of one text, (k, n), as an .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(rows, np.float32), allow_pickle=False)
    return buffer.getvalue()


def from_bytes(kind: type[Statistics], raw: bytes | None, n: int) -> Statistics | None:
    """Statistics of n tokens, or None where nothing was kept or the disk spoilt it."""
    if raw is None:
        return None
    try:
        rows = np.load(io.BytesIO(raw), allow_pickle=False)
    except (ValueError, EOFError, OSError):
        return None
    return unpacked(kind, rows) if rows.shape == (len(names_of(kind)), n) else None


# --- parquet ---------------------------------------------------------------------------

_LISTS = [*ModelStatistics.__annotations__, *PairStatistics.__annotations__]


def write_statistics(path: Path, statistics: Mapping[str, TextStatistics]) -> None:
    """Write every poem's statistics as parquet, in one rename.

    A row is one model's or one pair's (`reference` is then not null) view of one
    poem; a poem without any has one row with neither.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [row for poem_id, text in statistics.items() for row in _rows(poem_id, text)]
    columns = {
        "poem_id": pa.array([row["poem_id"] for row in rows], pa.string()),
        "n_tokens": pa.array([row["n_tokens"] for row in rows], pa.int32()),
        "model": pa.array([row.get("model") for row in rows], pa.string()),
        "reference": pa.array([row.get("reference") for row in rows], pa.string()),
    }
    columns |= {name: _list_column([row.get(name) for row in rows]) for name in _LISTS}
    with replacing(path, "wb") as file:
        pq.write_table(pa.table(columns), file, compression="zstd")


def _rows(poem_id: str, text: TextStatistics) -> Iterator[dict[str, Any]]:
    common = {"poem_id": poem_id, "n_tokens": text.n_tokens}
    for model, single in text.models.items():
        yield common | {"model": model} | vars(single)
    for (reference, model), pair in text.pairs.items():
        yield common | {"model": model, "reference": reference} | vars(pair)
    if not text.models and not text.pairs:
        yield common


def _list_column(values: list[Row | None]) -> Any:
    """A list column from rows of numbers, without turning each number into an object."""
    import pyarrow as pa

    lengths = [0 if value is None else len(value) for value in values]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    flat = np.concatenate([v for v in values if v is not None] or [np.empty(0, np.float32)])
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat, pa.float32()), mask=mask)


def read_statistics(path: Path) -> dict[str, TextStatistics]:
    """Every poem's statistics as `write_statistics` left them, in the order of the file."""
    import pyarrow.parquet as pq

    table = pq.read_table(path).combine_chunks()
    lists = {name: _slices(table[name]) for name in _LISTS}
    found: dict[str, TextStatistics] = {}
    heads = zip(
        *(table[name].to_pylist() for name in ("poem_id", "n_tokens", "model", "reference")),
        strict=True,
    )
    for number, (poem_id, n_tokens, model, reference) in enumerate(heads):
        text = found.setdefault(poem_id, TextStatistics(n_tokens, {}, {}))
        if reference is not None:
            pair = {name: lists[name][number] for name in PairStatistics.__annotations__}
            text.pairs[(reference, model)] = PairStatistics(**pair)  # type: ignore[index]
        elif model is not None:
            single = {name: lists[name][number] for name in ModelStatistics.__annotations__}
            text.models[model] = ModelStatistics(**single)  # type: ignore[index]
    return found


def _slices(column: Any) -> list[Row]:
    array = column.chunk(0) if column.num_chunks else column.combine_chunks()
    flat = array.values.to_numpy(zero_copy_only=False)
    offsets = array.offsets.to_numpy()
    return [flat[a:b] for a, b in pairwise(offsets)]


def by_poem(
    texts: Iterable[tuple[str, str]], measured: Mapping[str, TextStatistics]
) -> dict[str, TextStatistics]:
    """(poem id, text) pairs and each text's statistics as statistics by poem."""
    return {poem_id: measured[text] for poem_id, text in texts}
