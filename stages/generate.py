"""Ask LLMs for poems and for readings of poems."""

import sys

from shiyan import lost
from shiyan.config import PathsParams, load_models, load_params
from shiyan.generation import report, run
from shiyan.generation.identities import identities
from shiyan.jsonl import write_records
from shiyan.metrics import write_metrics
from shiyan.planning import planned_generation
from shiyan.stage import run_stage
from shiyan.work import WorkCache


def main() -> None:
    paths = load_params("paths", PathsParams)
    work = planned_generation(paths, WorkCache())
    made = run.carry_out(work)
    metrics = report.metrics(work, made)
    lost.check("generate", metrics["requests"], work.params.most_failed)
    write_records(paths.generated, made.poems)
    write_records(paths.replies, made.replies)
    write_records(paths.understandings, made.understandings)
    known = load_models(work.params.models)
    behind = identities(made.poems, made.replies, known, work.chats)
    write_records(paths.generators, behind)
    for sentence in report.told(metrics["without_poems"]):
        sys.stderr.write(f"notice: {sentence}\n")
    write_metrics(paths.generate_metrics, metrics)


if __name__ == "__main__":
    run_stage(main)
