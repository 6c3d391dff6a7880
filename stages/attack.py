"""Do to poems of the test fold what a cheat could do, for the scorers to score them again."""

import sys

from shiyan.config import AttackParams, PathsParams, PromptTexts, load_models, load_params
from shiyan.detectors.attacks import attack_metrics, attacked_poems, paraphrased, unmet_prompts
from shiyan.jsonl import read_by_id, write_records
from shiyan.metrics import write_metrics
from shiyan.records import Assignment, Poem
from shiyan.stage import run_stage
from shiyan.work import WorkCache


def main() -> None:
    params = load_params("attacks", AttackParams)
    paths = load_params("paths", PathsParams)
    texts = load_params("prompts", PromptTexts).detection
    poems = read_by_id(Poem, paths.poems, paths.generated)
    assignments = read_by_id(Assignment, paths.splits)
    models = load_models([params.paraphraser] if params.paraphraser else [])
    reworded = paraphrased(poems, assignments, params, models, texts, WorkCache())
    attacked = attacked_poems(poems, assignments, params, reworded)
    notices = unmet_prompts(poems, assignments, params)
    write_records(paths.attacked, attacked)
    write_metrics(paths.attack_metrics, {"attacks": attack_metrics(attacked), "notices": notices})
    for notice in notices:
        sys.stderr.write(f"notice: {notice}\n")


if __name__ == "__main__":
    run_stage(main)
