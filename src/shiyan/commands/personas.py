"""Personas of poets: made by an LLM from articles, or checked before a run.

  shiyan personas make FOLDER --model NAME --out personas.jsonl   FOLDER/<poet>/*.txt or .md
  shiyan personas check FILE   length, and quotations from the collected poems

Then `dvc exp run -S collect.personas=personas.jsonl` lets judges play these poets.
"""

import argparse
import sys
from pathlib import Path

from shiyan.config import PathsParams, PromptTexts, load_params
from shiyan.errors import UserError
from shiyan.jsonl import read_records, write_records
from shiyan.records import Persona, Poem
from shiyan.selection import any_model


def configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    make = actions.add_parser("make", help="ask an LLM for a persona of each poet")
    make.add_argument("folder", type=Path, metavar="FOLDER", help="a folder of articles a poet")
    make.add_argument("--model", required=True, help="a model of conf/model/ that can be asked")
    make.add_argument("--poet", help="FOLDER itself holds the articles about this poet")
    make.add_argument("--out", type=Path, default=Path("personas.jsonl"), help="personas.jsonl")
    make.add_argument("--budget", type=float, help="money that may be spent")
    make.add_argument("--seed", type=int, default=0)
    check = actions.add_parser("check", help="lengths, and quotations from poems")
    check.add_argument("file", metavar="FILE", help="a .jsonl, .csv or .xlsx of personas")


def run(arguments: argparse.Namespace) -> int:
    return {"make": run_make, "check": run_check}[arguments.action](arguments)


def run_make(arguments: argparse.Namespace) -> int:
    from shiyan.chat import Budget, Chat
    from shiyan.collection.articles import SUFFIXES, make_persona, read_articles, unread
    from shiyan.collection.personas import length
    from shiyan.work import WorkCache

    if arguments.out.exists():
        raise UserError(
            f"{arguments.out} exists and may hold personas that somebody has read over; name "
            "another file with --out, or move it away",
            2,
        )
    found = read_articles(arguments.folder, arguments.poet)
    for path in unread(arguments.folder, arguments.poet):
        sys.stderr.write(f"notice: {path} is not read; articles are {' and '.join(SUFFIXES)}\n")
    texts = load_params("prompts", PromptTexts).persona
    model = any_model(arguments.model)
    poems, budget = _poems(), Budget(arguments.budget, "--budget")
    made: list[Persona] = []
    n_refused = 0
    chat = Chat(arguments.model, model, cache=WorkCache(), at_once=1, budget=budget)
    with chat:
        for poet, articles in found.items():
            result = make_persona(poet, articles, chat, texts, poems, arguments.seed)
            of = f"{poet}: {len(articles)} articles, {result.n_requests} requests"
            if result.persona is None:
                n_refused += 1
                sys.stderr.write(f"{of}; refused: {'; '.join(result.problems)}\n")
                continue
            made.append(result.persona)
            print(f"{of}, {length(result.persona):,} characters")
    if made:
        write_records(arguments.out, made)
        sys.stderr.write(
            f"{arguments.out}: {len(made)} personas; read them before you use them with "
            f"-S collect.personas={arguments.out}\n"
        )
    return 1 if n_refused else 0


def run_check(arguments: argparse.Namespace) -> int:
    from shiyan.collection.personas import LONGEST, SHORTEST, collect, length, quotations

    personas, notices = collect(str(Path(arguments.file).expanduser().resolve()))
    poems = _poems()
    for notice in notices:
        sys.stderr.write(f"notice: {notice}\n")
    n_wrong = 0
    for persona in personas:
        problems = []
        if not SHORTEST <= (n := length(persona)) <= LONGEST:
            problems.append(f"not of {SHORTEST:,} to {LONGEST:,} characters")
        problems += [f"quotes {line}" for line in quotations(persona, poems)]
        n_wrong += bool(problems)
        print(f"{persona.poet_id}: {n:,} characters; {'; '.join(problems) or 'in order'}")
    return 1 if n_wrong else 0


def _poems() -> list[Poem]:
    """The collected poems, which no persona may quote."""
    paths = load_params("paths", PathsParams)
    if paths.poems.exists():
        return list(read_records(paths.poems, Poem))
    sys.stderr.write(
        f"notice: {paths.poems} is not there yet, so that quotations from judged poems are not "
        "found; run `dvc repro collect` first\n"
    )
    return []
