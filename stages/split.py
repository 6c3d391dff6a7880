"""Assign whole groups of poems to train and test."""

import sys
from collections.abc import Collection

from shiyan.ci.form import load_catalogue
from shiyan.config import PathsParams, SplitParams, load_params
from shiyan.jsonl import read_records, write_records
from shiyan.metrics import write_metrics
from shiyan.records import Poem
from shiyan.report.statistics import MADE, by_source, length_statistics
from shiyan.splits import assign_folds, fold_counts, group_poems, twins_across_folds
from shiyan.stage import run_stage
from shiyan.twins import twins


def main() -> None:
    params = load_params("split", SplitParams)
    paths = load_params("paths", PathsParams)
    poems = [poem for path in (paths.poems, paths.generated) for poem in read_records(path, Poem)]
    families = twins({poem.poem_id: poem.text for poem in poems}, params.near_duplicate)
    tunes = own_names({poem.cipai for poem in poems if poem.cipai})
    groups = group_poems(poems, families, tunes)
    assignments = assign_folds(poems, groups, params.test_share, params.seed)
    apart = twins_across_folds(families, {a.poem_id: a.fold for a in assignments})
    if apart:
        sys.stderr.write(
            f"notice: {len(apart)} families of LLM near-duplicates stand in both folds, since "
            "joining them would leave too few groups; the generator repeats itself\n"
        )
    metrics = fold_counts(poems, assignments) | {
        "groups_without_twins": len(set(group_poems(poems, tunes=tunes).values())),
        "twin_families": len(families),
        "twin_families_across_folds": len(apart),
        "lengths": {name: length_statistics(own) for name, own in by_source(poems).items()},
        "made": {
            "seed": params.seed,
            "test_share": params.test_share,
            "near_duplicate": params.near_duplicate,
            "rule": "whole groups, by poet, both classes alike; drawn once for all subsets",
            "cipai": "all names of a tune are one cipai",
            **MADE,
        },
    }
    write_records(paths.splits, assignments)
    write_metrics(paths.split_metrics, metrics)


def own_names(cipai: Collection[str]) -> dict[str, str]:
    """A cipai's name -> its tune's own; a name nobody knows is left out."""
    catalogue = load_catalogue()
    return {name: found[0].name for name in cipai if (found := catalogue.find(name))}


if __name__ == "__main__":
    run_stage(main)
