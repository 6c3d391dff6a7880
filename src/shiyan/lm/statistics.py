"""Token statistics of many texts: each distinct one once, in batches, kept as they end."""

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from shiyan.errors import UserError
from shiyan.lm.causal import CausalLM, Reading
from shiyan.lm.reduce import Key, Plan, batch_rows, kind_of
from shiyan.lm.tokenizer import Tokenizer, load_tokenizer, refuse_other_tokens
from shiyan.models import ScoringModel
from shiyan.poem import Spans
from shiyan.token_statistics import (
    ModelStatistics,
    Pair,
    PairStatistics,
    Row,
    Statistics,
    TextStatistics,
    from_bytes,
    names_of,
    to_bytes,
    unpacked,
)
from shiyan.work import WorkCache

A_BATCHS_OWN_COST = 64
"""What a further batch costs, as tokens of a full one; measured on two CPU cores."""

WRITERS = 4
MOST_UNWRITTEN = 256
"""Texts whose statistics may wait for the disk; a kill loses no more than these."""


def token_statistics(
    models: Mapping[str, ScoringModel],
    plan: Plan,
    texts: Iterable[str],
    reading: Reading,
    cache: WorkCache,
) -> dict[str, TextStatistics]:
    """What the models say about each distinct text, in one pass a model and text.

    What the work cache holds is not computed again, and no model is loaded where it
    holds all. Each batch's results are kept as it ends.

    Raises:
        UserError: tokenizers that differ (before a model is loaded), a model that
            cannot be loaded, or no memory for even one text.
    """
    tokenizers = {name: load_tokenizer(models[name]) for name in plan.names}
    refuse_other_tokens(tokenizers.values())
    smallest = min(tokenizers.values(), key=lambda tokenizer: len(tokenizer.ids))
    encoded = _encoded(smallest, texts)
    sequences = _readable(encoded, tokenizers.values(), reading)
    store = _Store(models, reading, cache)
    kept = {text: store.read(text, plan, len(ids)) for text, ids in sequences.items()}
    todo: dict[Plan, dict[str, list[int]]] = {}
    for text, ids in sequences.items():
        if lacking := _lacking(plan, kept[text]):
            todo.setdefault(lacking, {})[text] = ids
    if todo:
        loaded = _loaded(models, tokenizers, todo, reading)
        total = sum(len(ids) for part in todo.values() for ids in part.values())
        with (
            tqdm(total=total, unit=" tokens", unit_scale=True, desc="token statistics") as bar,
            _Writers(store) as writers,
        ):
            for lacking, part in todo.items():
                for text, found in _measured(loaded, lacking, part, reading):
                    writers.write(text, found)
                    kept[text] |= {k: unpacked(kind_of(k), rows) for k, rows in found.items()}
                    bar.update(len(part[text]))
    longest = longest_read(tokenizers.values(), reading)
    spans = smallest.spans(list(encoded)) if encoded else None
    return {
        text: _gathered(len(ids), kept.get(text, {}), longest, spans[n] if spans else None)
        for n, (text, ids) in enumerate(encoded.items())
    }


# --- what is read ------------------------------------------------------------------------


def _encoded(tokenizer: Tokenizer, texts: Iterable[str]) -> dict[str, list[int]]:
    """Token ids of each distinct text."""
    distinct = list(dict.fromkeys(texts))
    return dict(zip(distinct, tokenizer.encode(distinct), strict=True))


def _readable(
    encoded: Mapping[str, list[int]], tokenizers: Iterable[Tokenizer], reading: Reading
) -> dict[str, list[int]]:
    """Texts that are read, with BOS where one is asked for: none is cut, none too short."""
    tokenizers = list(tokenizers)
    start = [tokenizers[0].start] if reading.bos else []
    limit = longest_read(tokenizers, reading)
    return {
        text: [*start, *ids]
        for text, ids in encoded.items()
        if reading.min_tokens <= len(ids) <= limit and len(start) + len(ids) > 1
    }


def longest_read(tokenizers: Iterable[Tokenizer], reading: Reading) -> int:
    """Tokens of the longest text that is read: the limit asked for, or the models' own."""
    own = [t.positions - reading.bos for t in tokenizers if t.positions]
    return min([reading.max_tokens, *own])


# --- what is kept ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Store:
    """Statistics in the work cache, by all that decides them.

    The token limits decide nothing: a text outside them is not read at all.
    """

    models: Mapping[str, ScoringModel]
    reading: Reading
    cache: WorkCache

    def entry(self, text: str, key: Key) -> tuple[str, dict[str, Any]]:
        names = [key] if isinstance(key, str) else list(key)
        return "token_statistics", {
            "rows": names_of(kind_of(key)),
            "models": [self.models[name].identity for name in names],
            "dtype": self.reading.dtype,
            "bos": self.reading.bos,
            "text": text,
        }

    def read(self, text: str, plan: Plan, n: int) -> dict[Key, Statistics]:
        found = {
            key: from_bytes(kind_of(key), self.cache.get(*self.entry(text, key)), n)
            for key in plan.wanted
        }
        return {key: statistics for key, statistics in found.items() if statistics is not None}

    def write(self, text: str, found: Mapping[Key, Row]) -> None:
        for key, rows in found.items():
            self.cache.put(*self.entry(text, key), to_bytes(rows))


class _Writers:
    """Threads that write while the models read on: a disk takes milliseconds for each entry.

    Leaving the block waits for all of them, also after Ctrl-C.

    Raises:
        UserError: on `write` or on leaving, where the disk is full.
    """

    def __init__(self, store: _Store) -> None:
        self.store = store
        self.pool = ThreadPoolExecutor(WRITERS)
        self.waiting: deque[Future[None]] = deque()

    def __enter__(self) -> "_Writers":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.pool.shutdown(wait=True)
        while self.waiting and kind is None:
            self.waiting.popleft().result()

    def write(self, text: str, found: Mapping[Key, Row]) -> None:
        self.waiting.append(self.pool.submit(self.store.write, text, found))
        while self.waiting and (self.waiting[0].done() or len(self.waiting) > MOST_UNWRITTEN):
            self.waiting.popleft().result()


def _lacking(plan: Plan, kept: Mapping[Key, Statistics]) -> Plan | None:
    models = tuple(name for name in plan.models if name not in kept)
    pairs = tuple(pair for pair in plan.pairs if pair not in kept)
    return Plan(models, pairs) if models or pairs else None


def _gathered(
    n_tokens: int, found: Mapping[Key, Statistics], longest: int, spans: Spans | None
) -> TextStatistics:
    models: dict[str, ModelStatistics] = {}
    pairs: dict[Pair, PairStatistics] = {}
    for key, statistics in found.items():
        if isinstance(statistics, ModelStatistics):
            models[str(key)] = statistics
        elif not isinstance(key, str):
            pairs[key] = statistics
    return TextStatistics(n_tokens, models, pairs, longest, spans)


# --- what is computed --------------------------------------------------------------------


def _loaded(
    models: Mapping[str, ScoringModel],
    tokenizers: Mapping[str, Tokenizer],
    todo: Iterable[Plan],
    reading: Reading,
) -> dict[str, CausalLM]:
    """The models that are needed; one that has two names is loaded once."""
    by_identity: dict[str, CausalLM] = {}
    names = list(dict.fromkeys(name for plan in todo for name in plan.names))
    for name in names:
        model = models[name]
        if model.identity not in by_identity:
            by_identity[model.identity] = CausalLM(model, tokenizers[name], reading)
    return {name: by_identity[models[name].identity] for name in names}


def batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Indices in batches of like lengths, longest first, each within `budget` padded tokens.

    A text whose padding would waste more than a batch of its own starts one; a text
    longer than the budget is a batch of its own.
    """
    found: list[list[int]] = []
    longest = wasted = 0
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        padding = longest - lengths[index]
        fits = bool(found) and longest * (len(found[-1]) + 1) <= budget
        if fits and wasted + padding <= A_BATCHS_OWN_COST:
            found[-1].append(index)
            wasted += padding
        else:
            found.append([index])
            longest, wasted = lengths[index], 0
    return found


def _measured(
    models: Mapping[str, CausalLM],
    plan: Plan,
    sequences: Mapping[str, list[int]],
    reading: Reading,
) -> Iterator[tuple[str, dict[Key, Row]]]:
    """Yield (text, its wanted rows), batch by batch; after out of memory in smaller ones.

    Raises:
        UserError: no memory for even one text.
    """
    texts = list(sequences)
    waiting = batches([len(sequences[text]) for text in texts], reading.batch_tokens)
    while waiting:
        batch = waiting.pop(0)
        ids = [sequences[texts[i]] for i in batch]
        try:
            rows = batch_rows(models, plan, ids)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            budget = _halved(ids, error)
            left = [i for other in [batch, *waiting] for i in other]
            smaller = batches([len(sequences[texts[i]]) for i in left], budget)
            waiting = [[left[i] for i in other] for other in smaller]
        else:
            yield from zip((texts[i] for i in batch), rows, strict=True)


def is_out_of_memory(error: Exception) -> bool:
    """torch has a class of its own for a GPU's memory, and only words for the CPU's."""
    import torch

    told = str(error).lower()
    words = ("out of memory", "can't allocate memory", "not enough memory")
    own = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return own or any(word in told for word in words)


def _halved(sequences: Sequence[Sequence[int]], error: Exception) -> int:
    """The token budget after a batch that did not fit."""
    import torch

    longest = max(map(len, sequences))
    if len(sequences) == 1:
        raise UserError(
            f"there is not memory enough for one text of {longest} tokens; set a smaller "
            "max_tokens, smaller models or another device"
        ) from error
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    budget = longest * len(sequences) // 2
    sys.stderr.write(f"out of memory: going on with batches of {budget} tokens\n")
    return budget
