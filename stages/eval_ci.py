"""Check the structure, tones and rhymes of every ci."""

import sys

from tqdm import tqdm

from shiyan.ci.check import Checker
from shiyan.ci.evaluate import Evaluation, Row, plainly_named, unknown_names, write_table
from shiyan.ci.form import load_catalogue
from shiyan.config import EvalCiParams, PathsParams, load_params
from shiyan.jsonl import read_records, write_records
from shiyan.metrics import write_metrics
from shiyan.records import Poem, Reply
from shiyan.stage import run_stage


def main() -> None:
    params = load_params("eval_ci", EvalCiParams)
    paths = load_params("paths", PathsParams)
    checker = Checker(load_catalogue(params.extra_forms))
    poems = [poem for path in (paths.poems, paths.generated) for poem in read_records(path, Poem)]
    ci = [plainly_named(poem, checker.catalogue) for poem in poems if poem.genre == "ci"]
    rows = tuple(
        Row(poem, checker.check(poem.text, poem.cipai).record(poem.poem_id, poem.cipai or ""))
        for poem in tqdm(ci, "eval_ci", unit="poem")
    )
    if notice := unknown_names(rows, checker.catalogue):
        sys.stderr.write(f"notice: {notice}\n")
    missing = tuple(
        plainly_named(reply, checker.catalogue)
        for reply in read_records(paths.replies, Reply)
        if reply.kind == "poem" and reply.outcome == "missing" and reply.cipai is not None
    )
    evaluation = Evaluation(rows, checker, params.resamples, params.seed, missing)
    write_records(paths.ci_checks, (row.check for row in rows))
    write_metrics(paths.ci_metrics, evaluation.metrics(n_not_ci=len(poems) - len(rows)))
    write_table(paths.ci_by_cipai, evaluation.table())


if __name__ == "__main__":
    run_stage(main)
