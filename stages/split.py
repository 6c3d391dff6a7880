"""Assign whole groups of poems to train and test."""

from shiyan.config import PathsParams, SplitParams, load_params
from shiyan.jsonl import read_records, write_records
from shiyan.metrics import write_metrics
from shiyan.records import Poem
from shiyan.report.statistics import MADE, by_source, length_statistics
from shiyan.splits import assign_folds, fold_counts, group_poems
from shiyan.stage import run_stage
from shiyan.twins import twins


def main() -> None:
    params = load_params("split", SplitParams)
    paths = load_params("paths", PathsParams)
    poems = [poem for path in (paths.poems, paths.generated) for poem in read_records(path, Poem)]
    families = twins({poem.poem_id: poem.text for poem in poems}, params.near_duplicate)
    groups = group_poems(poems, families)
    assignments = assign_folds(poems, groups, params.test_share, params.seed)
    metrics = fold_counts(poems, assignments) | {
        "groups_without_twins": len(set(group_poems(poems).values())),
        "twin_families": len(families),
        "lengths": {name: length_statistics(own) for name, own in by_source(poems).items()},
        "made": {
            "seed": params.seed,
            "test_share": params.test_share,
            "near_duplicate": params.near_duplicate,
            "rule": "whole groups, by poet, both classes alike; drawn once for all subsets",
            **MADE,
        },
    }
    write_records(paths.splits, assignments)
    write_metrics(paths.split_metrics, metrics)


if __name__ == "__main__":
    run_stage(main)
