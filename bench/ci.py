"""How long checking ci takes, and on what: `python bench/ci.py [FILE.jsonl[.gz]]`.

FILE holds rows of {cipai, text}; without one, the realised forms of all
cipai stand in, so that the benchmark runs anywhere. Seconds of one core, so that other
work on the machine does not count; the profile last.
"""

import cProfile
import gzip
import json
import pstats
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from shiyan.ci.check import Checker
from shiyan.ci.form import Variant, load_catalogue

PAPER_POEMS = 17_871
"""Ci of the 30 cipai in the corpus that the figures in the changelog are of."""
SOUNDS = {"平": "天", "仄": "月", "中": "春"}
MARKS = {"句": "，", "读": "、", "韵": "。"}


def rows(path: Path | None) -> Iterator[tuple[str, str]]:
    """(cipai, text) of a file, or of every form as often as it takes."""
    if path is None:
        variants = [form for tune in load_catalogue().values() for form in tune.variants]
        for number in range(PAPER_POEMS):
            form = variants[number % len(variants)]
            yield form.variant_id.rpartition("/")[0], realised(form, drop=number % 10 == 0)
        return
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            yield row["cipai"], row["text"]


def realised(form: Variant, drop: bool) -> str:
    """A text of a form's tones; with its first character dropped it fits none."""
    lines = ("".join(SOUNDS[tone] for tone in line.tones) + MARKS[line.end] for line in form.lines)
    return "".join(lines)[drop:]


def main() -> None:
    poems = list(rows(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
    began = time.process_time()
    checker = Checker()
    loaded = time.process_time()
    broken = sum(checker.check(text, cipai).nearest is not None for cipai, text in poems)
    ended = time.process_time()
    print(f"forms and tones loaded in {loaded - began:.2f} s")
    print(
        f"{len(poems)} ci checked in {ended - loaded:.2f} s on one core, "
        f"{len(poems) / (ended - loaded):,.0f} a second; {broken} were compared with the nearest "
        f"form in {checker.nearest.n_compared:,} comparisons of lines"
    )
    profile = cProfile.Profile()
    fresh = Checker()
    profile.enable()
    for cipai, text in poems:
        fresh.check(text, cipai)
    profile.disable()
    pstats.Stats(profile).sort_stats("tottime").print_stats(12)


if __name__ == "__main__":
    main()
