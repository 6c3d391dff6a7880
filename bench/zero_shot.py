"""How much one pass a model saves: python -m bench.zero_shot [grid] [stored] [growth] …

The baseline scores as public implementations do: one text and one detector at a
time, a full sort of the vocabulary for a rank, a pass of its own for each detector
(two for LRR). It loads each model once and runs in inference mode, so it is no
slower than its description says. Both score with the five detectors of the default
run, in float32. All ratios are of wall-clock times within this one run.

Parts (all by default):
  set     one set of poems: baseline, bare forward passes, ours; memory; scores compared
  grid    human poems with 13 imitations each, scored as the grid of D1 … D13 needs it
  growth  how the cost grows with poems and with detectors
  stored  every detector of 42,400 poems from stored statistics (synthetic rows)

--oracle FILE compares the baseline with reference values (rows of text, fast_detectgpt …).
"""

import argparse
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from shiyan.config import load_models
from shiyan.detectors.zero_shot import DETECTORS, Roles, ZeroShot, plan_for
from shiyan.lm.causal import Reading
from shiyan.lm.folder import scoring_model
from shiyan.lm.statistics import batches
from shiyan.lm.tokenizer import Tokenizer, load_tokenizer
from shiyan.models import ScoringModel
from shiyan.records import Poem
from shiyan.token_statistics import (
    ModelStatistics,
    PairStatistics,
    TextStatistics,
    read_statistics,
    unpacked,
    write_statistics,
)
from shiyan.work import WorkCache

FIVE = ("log_likelihood", "log_rank", "lrr", "fast_detectgpt", "binoculars")
PROMPTS = 13
PLACES = "渡口 晒谷场 邮筒 旧车站 水塔 灶台 井沿 裁缝铺 码头 阁楼 菜畦 信号灯"
DEEDS = "数着 忘了带走 替谁守着 借来一点 认不出 留下半截 不再追问 递给陌生人"
THINGS = "黄昏 铁锈 雨声 盐 第三个名字 没写完的地址 一阵咳嗽 父亲的背影 去年的雪"


def poem(seed: int, lines: int) -> str:
    """A poem of a given length, its words drawn by seed."""
    rng = random.Random(seed)
    words = [PLACES.split(), DEEDS.split(), THINGS.split()]
    made = ["".join(rng.choice(part) for part in words) for _ in range(lines)]
    return "\n".join(made[: lines // 2]) + "\n\n" + "\n".join(made[lines // 2 :])


def poems(n: int, shortest: int, longest: int, seed: int = 0) -> list[str]:
    """Distinct poems of `shortest` to `longest` lines, by turns."""
    return [poem(seed + i, shortest + i % (longest - shortest + 1)) for i in range(n)]


# --- time --------------------------------------------------------------------------------


@dataclass
class Clock:
    """Wall-clock seconds by what they were spent on."""

    spent: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.spent[what] = self.spent.get(what, 0.0) + time.perf_counter() - start


def say(text: str) -> None:
    print(f"{text}    [load {os.getloadavg()[0]:.1f}]", flush=True)


# --- the baseline ------------------------------------------------------------------------


@dataclass
class Baseline:
    """One text, one detector at a time; every pass is timed."""

    tokenizer: Tokenizer
    scoring: torch.nn.Module
    reference: torch.nn.Module
    clock: Clock = field(default_factory=Clock)

    def logits(self, model: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
        with self.clock.on("forward"):
            return model(input_ids=ids).logits[0].float()

    def ids(self, text: str) -> torch.Tensor:
        return torch.tensor([self.tokenizer.encode([text])[0]])

    def log_likelihood(self, text: str) -> float:
        ids = self.ids(text)
        log_probs = torch.log_softmax(self.logits(self.scoring, ids)[:-1], -1)
        return log_probs.gather(1, ids[0, 1:, None]).mean().item()

    def log_rank(self, text: str) -> float:
        ids = self.ids(text)
        order = self.logits(self.scoring, ids)[:-1].argsort(-1, descending=True)
        ranks = (order == ids[0, 1:, None]).nonzero()[:, 1] + 1
        return -ranks.float().log().mean().item()

    def lrr(self, text: str) -> float:
        return self.log_likelihood(text) / self.log_rank(text)

    def fast_detectgpt(self, text: str) -> float:
        ids = self.ids(text)
        q = torch.softmax(self.logits(self.reference, ids)[:-1], -1)
        log_p = torch.log_softmax(self.logits(self.scoring, ids)[:-1], -1)
        own = log_p.gather(1, ids[0, 1:, None])[:, 0]
        mean = (q * log_p).sum(-1)
        variance = (q * log_p.square()).sum(-1) - mean.square()
        return ((own.sum() - mean.sum()) / variance.sum().sqrt()).item()

    def binoculars(self, text: str) -> float:
        ids = self.ids(text)
        q = torch.softmax(self.logits(self.reference, ids), -1)
        logits = self.logits(self.scoring, ids)
        perplexity = torch.nn.functional.cross_entropy(logits[:-1], ids[0, 1:])
        crossed = -(q * torch.log_softmax(logits, -1)).sum(-1).mean()
        return -(perplexity / crossed).item()

    def scores(self, text: str) -> dict[str, float]:
        with torch.inference_mode(), self.clock.on("all"):
            return {name: getattr(self, name)(text) for name in FIVE}


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


# --- the bench ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Bench:
    models: Mapping[str, ScoringModel]
    scoring: str
    reference: str
    baseline: Baseline

    @property
    def roles(self) -> Roles:
        pair = (self.reference, self.scoring)
        return Roles(self.scoring, pair, pair)

    def zero_shot(self, detectors: Sequence[str]) -> ZeroShot:
        return ZeroShot(tuple(detectors), self.roles, Reading(), self.models, "raw")

    def ours(self, texts: Sequence[str], detectors: Sequence[str] = FIVE) -> list[dict[str, float]]:
        """Scores of every text from an empty work cache, models loaded anew."""
        zero_shot = self.zero_shot(detectors)
        as_poems = [
            Poem(poem_id=str(i), title="", text=text, genre="modern", author="")
            for i, text in enumerate(texts)
        ]
        with tempfile.TemporaryDirectory() as folder:
            statistics = zero_shot.measure(as_poems, WorkCache(Path(folder)))
        found: list[dict[str, float]] = [{} for _ in texts]
        for score in zero_shot.score(as_poems, statistics):
            found[int(score.poem_id)][score.detector] = score.score or float("nan")
        return found

    def n_tokens(self, texts: Sequence[str]) -> int:
        return sum(map(len, self.baseline.tokenizer.encode(list(texts))))

    def overhead(self) -> float:
        """Seconds to load both models and read one short text: taken off nothing, told apart."""
        return seconds(lambda: self.ours([poem(99, 2)]))

    def one_set(self, n: int, oracle: Path | None) -> None:
        texts = poems(n, 4, 10)
        tokens = self.n_tokens(texts)
        say(f"set: {n} poems, {tokens} tokens, 5 detectors")
        loading = self.overhead()
        say(f"  ours, loading both models and one line:       {loading:7.1f} s")
        ours: list[dict[str, float]] = []
        our_time = seconds(lambda: ours.extend(self.ours(texts)))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        say(f"  ours, loading included:                       {our_time:7.1f} s")
        say(f"  peak memory, mapped weights included:         {peak:7.1f} GB")
        theirs = []
        for number, text in enumerate(texts, start=1):
            theirs.append(self.baseline.scores(text))
            sys.stderr.write(f"\r  baseline: {number} of {n} texts")
        sys.stderr.write("\n")
        spent = self.baseline.clock.spent
        say(f"  baseline, models loaded before:               {spent['all']:7.1f} s")
        bare = seconds(lambda: self.bare_one_by_one(texts))
        say(f"  one bare forward pass a model, one by one:    {bare:7.1f} s")
        passes = 6 * self.pass_share(self.scoring) + 2 * self.pass_share(self.reference)
        ratio = bare * passes / spent["forward"]
        say(f"  baseline's passes at {ratio:.2f} of the speed of bare ones (0.9 wanted)")
        best = self.bare_batched(texts)
        say(f"  bare passes with output layer, best batch:    {tokens / best:7.1f} tokens/s")
        net = our_time - loading
        say(f"  ours without loading:                         {tokens / net:7.1f} tokens/s")
        say(f"  ours / bare at its best batch: {best / net:.2f} (0.75 wanted)")
        say(
            f"  baseline / ours, loading included: {spent['all'] / our_time:.2f}; without: "
            f"{spent['all'] / net:.2f} (3 wanted)"
        )
        worst = max(
            abs(a[name] / b[name] - 1) for a, b in zip(ours, theirs, strict=True) for name in FIVE
        )
        say(f"  largest relative difference of a score: {worst:.1e}")
        if oracle:
            self.against_oracle(oracle)

    def pass_share(self, name: str) -> float:
        """A model's share of one bare pass of both, by its parameters without the embedding."""
        sizes = {n: self.weight(n) for n in (self.scoring, self.reference)}
        return sizes[name] / sum(sizes.values())

    def weight(self, name: str) -> int:
        model = self.baseline.scoring if name == self.scoring else self.baseline.reference
        embedding = model.get_input_embeddings().weight.numel()  # type: ignore[operator]
        return sum(p.numel() for p in model.parameters()) - embedding

    def bare_one_by_one(self, texts: Sequence[str]) -> None:
        with torch.inference_mode():
            for text in texts:
                for model in (self.baseline.scoring, self.baseline.reference):
                    model(input_ids=self.baseline.ids(text))

    def bare_batched(self, texts: Sequence[str]) -> float:
        """Seconds of one bare pass of both models over all texts, at the best batch."""
        encoded = self.baseline.tokenizer.encode(list(texts))
        times = {}
        for budget in (128, 256, 512, 1024):
            start = time.perf_counter()
            for batch in batches([len(ids) for ids in encoded], budget):
                longest = max(len(encoded[i]) for i in batch)
                ids = torch.tensor(
                    [[*encoded[i], *[0] * (longest - len(encoded[i]))] for i in batch]
                )
                with torch.inference_mode():
                    for model in (self.baseline.scoring, self.baseline.reference):
                        model(input_ids=ids, use_cache=False)
            times[budget] = time.perf_counter() - start
        listed = ", ".join(f"{budget}: {took:.1f} s" for budget, took in times.items())
        say(f"  bare passes in batches of tokens: {listed}")
        return min(times.values())

    def against_oracle(self, path: Path) -> None:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        worst = 0.0
        for row in [row for row in rows if "1.5b" in row][:4]:
            found = self.baseline.scores(row["text"])
            wanted = {
                **{name: row["1.5b"][name] for name in FIVE[:3]},
                "fast_detectgpt": row["fast_detectgpt"]["ref0.5b_score1.5b"],
                "binoculars": -row["binoculars_observer0.5b_performer1.5b"]["score"],
            }
            worst = max(worst, *(abs(found[name] / wanted[name] - 1) for name in FIVE))
        say(f"  baseline against the reference values: {worst:.1e} at most (1e-3 wanted)")

    def grid(self, n_human: int) -> None:
        human = poems(n_human, 2, 5, seed=1000)
        imitations = {
            prompt: poems(n_human, 2, 5, seed=2000 + 100 * prompt) for prompt in range(PROMPTS)
        }
        every = [*human, *(text for part in imitations.values() for text in part)]
        say(f"grid: {n_human} poems with {PROMPTS} imitations each, {self.n_tokens(every)} tokens")
        our_time = seconds(lambda: self.ours(every))
        say(f"  ours, each text once, loading included:       {our_time:7.1f} s")
        took = {}
        for number, text in enumerate(every, start=1):
            took[text] = seconds(lambda text=text: self.baseline.scores(text))  # type: ignore[misc]
            sys.stderr.write(f"\r  baseline: {number} of {len(every)} texts")
        sys.stderr.write("\n")
        # Every subset D1 … D13 scores its own poems: the human ones stand in all of them.
        # A text's baseline time is measured once and counted for each subset it stands in.
        needed = [text for part in imitations.values() for text in (*human, *part)]
        theirs = sum(took[text] for text in needed)
        say(f"  baseline, {len(needed)} scorings:                       {theirs:7.1f} s")
        say(f"  baseline / ours: {theirs / our_time:.2f} (5.5 wanted)")

    def growth(self) -> None:
        say("growth: ours, loading included")
        for n in (4, 8, 16):
            texts = poems(n, 6, 12, seed=5000)
            took = seconds(lambda texts=texts: self.ours(texts))  # type: ignore[misc]
            say(f"  {n:3} poems, {self.n_tokens(texts):5} tokens, 5 detectors: {took:7.1f} s")
        texts = poems(8, 6, 12, seed=5000)
        for detectors in (FIVE[:1], FIVE, DETECTORS):
            took = seconds(lambda d=detectors: self.ours(texts, d))  # type: ignore[misc]
            say(f"    8 poems, {len(detectors):2} detectors: {took:7.1f} s")
        twice = seconds(lambda: self.ours(texts * 2))
        say(f"    8 poems that stand twice, 5 detectors: {twice:7.1f} s")


def stored(n: int) -> None:
    """All detectors of n poems from a parquet of synthetic statistics."""
    rng = np.random.default_rng(0)
    roles = Roles("3b", ("3b", "7b"), ("7b", "7b-instruct"))
    plan = plan_for(DETECTORS, roles)

    def text(length: int) -> TextStatistics:
        def model() -> ModelStatistics:
            rows = -rng.exponential(2.0, (5, length))
            rows[1:3] = rng.integers(1, 1000, (2, length))
            return unpacked(ModelStatistics, rows.astype(np.float32))

        def pair() -> PairStatistics:
            rows = np.stack([-rng.exponential(3.0, length), rng.exponential(1.0, length)])
            return unpacked(PairStatistics, rows.astype(np.float32))

        models = {name: model() for name in plan.models}
        return TextStatistics(length, models, {pair_: pair() for pair_ in plan.pairs})

    lengths = rng.integers(40, 220, n)
    as_poems = [
        Poem(poem_id=f"p{i}", title="", text="雨落在渡口", genre="modern", author="")
        for i in range(n)
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "statistics.parquet"
        write_statistics(path, {f"p{i}": text(int(lengths[i])) for i in range(n)})
        size = path.stat().st_size / 1e6
        start = time.perf_counter()
        statistics = read_statistics(path)
        read = time.perf_counter() - start
        scores = ZeroShot(DETECTORS, roles, Reading(), {}).score(as_poems, statistics)
        took = time.perf_counter() - start
    say(
        f"stored: {len(scores)} scores of {n} poems ({size:.0f} MB of parquet) in {took:.1f} s, "
        f"{read:.1f} s of it reading (60 s wanted)"
    )


def main() -> None:
    parser = argparse.ArgumentParser("bench.zero_shot", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("parts", nargs="*", default=["set", "grid", "growth", "stored"])
    parser.add_argument("--scoring", default="qwen2.5-coder-1.5b")
    parser.add_argument("--reference", default="qwen2.5-coder-0.5b")
    parser.add_argument("--poems", type=int, default=16, help="in the set")
    parser.add_argument("--human", type=int, default=4, help="human poems in the grid")
    parser.add_argument("--oracle", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    if "stored" in arguments.parts:
        stored(42_400)
    if set(arguments.parts) == {"stored"}:
        return
    names = (arguments.scoring, arguments.reference)
    models = {name: scoring_model(name, model) for name, model in load_models(list(names)).items()}
    tokenizer = load_tokenizer(models[names[0]])
    bench = Bench(models, *names, Baseline(tokenizer, *(bare(models[name]) for name in names)))
    if "set" in arguments.parts:
        bench.one_set(arguments.poems, arguments.oracle)
    if "grid" in arguments.parts:
        bench.grid(arguments.human)
    if "growth" in arguments.parts:
        bench.growth()


def bare(model: ScoringModel) -> torch.nn.Module:
    from transformers import AutoModelForCausalLM

    loaded: torch.nn.Module = AutoModelForCausalLM.from_pretrained(
        model.folder, dtype=torch.float32, local_files_only=True
    )
    return loaded.eval()


if __name__ == "__main__":
    main()
