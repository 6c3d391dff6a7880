"""Whether the readers of replies take twice as long for a reply of twice the length.

    python bench/parsers.py [--characters N]

Each line is an endless repetition that a model may fall into: its reader, the seconds at N
and 2N characters, and their ratio: 2 where the time is linear, 4 where it is quadratic.
"""

import argparse
import time
from collections.abc import Callable

from shiyan import poem
from shiyan.generation.clean import Asked, clean
from shiyan.judging.parse import parse_reply
from shiyan.judging.rubric import POLLER

PIECES = {
    "一": "一",
    "八十五": "八十五",
    "一、": "一、",
    "table rows": "| 内容 | 90 |\n",
    "lines": "内容：90分\n",
    "names": "内容",
    "ranges": "90-",
    "digits": "1.",
    "arrays": "[",
    "arrays of numbers": "[1,",
    "objects": '{"a":',
    "odd quotation marks": '{"a":"',
    "thoughts that begin": "<think>",
    "thoughts that end": "</think>",
    "thoughts that are quoted": "“<think>”",
    "title lines": "标题：a\n",
    "labels": "题目：\n",
    "emphasis": "_a ",
    "stars": "**",
    "tones": "平仄",
    "pinyin": "ā ",
    "fences": "```\n",
    "backslashes": "\\n",
    "tags": "<p ",
    "notes": "注：",
    "verse": "灯把雨数了一遍\n数到最后一滴睡着了\n",
}
LEAST = 0.2
"""Seconds below which a ratio says nothing."""


def seconds(read: Callable[[str], object], text: str) -> float:
    started = time.perf_counter()
    read(text)
    return time.perf_counter() - started


def main(characters: int) -> None:
    asked = Asked("ci", "雨后", cipai="浣溪沙")
    readers: dict[str, Callable[[str], object]] = {
        "parse_reply": lambda text: parse_reply(text, POLLER),
        "clean": lambda text: clean(text, asked),
        "poem.parts": poem.parts,
    }
    for name, piece in PIECES.items():
        short, long = (piece * (n // len(piece)) for n in (characters, 2 * characters))
        for reader, read in readers.items():
            once, twice = seconds(read, short), seconds(read, long)
            ratio = f"{twice / once:.1f}" if twice > LEAST else "-"
            print(f"{name:26} {reader:12} {once:7.2f} s {twice:7.2f} s {ratio:>5}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--characters", type=int, default=40_000)
    main(parser.parse_args().characters)
