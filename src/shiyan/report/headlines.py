"""The numbers one looks for first in the metrics files, under short paths."""

from collections.abc import Iterator, Mapping
from typing import Any

Path = tuple[str, ...]
Found = Iterator[tuple[Path, Mapping[str, Any]]]

DETECTION = ("auroc", "macro_f1")
CI = (
    "structure_standard",
    "structure_any",
    "structure_any_optional",
    "tonal_standard",
    "tonal_any",
    "tonal_any_optional",
)


def headlines(document: Mapping[str, Any]) -> Iterator[tuple[Path, float]]:
    """(path, value) of a metrics file's headline numbers; an unscored one has none."""
    for path, estimate in estimates(document):
        if estimate["value"] is not None:
            yield path, float(estimate["value"])


def estimates(document: Mapping[str, Any]) -> Found:
    """(path, estimate) of the headlines of any metrics file; none for one without."""
    yield from of_detectors(document)
    yield from of_ci(document)
    yield from of_judges(document)


def of_detectors(document: Mapping[str, Any]) -> Found:
    """(detector, metric): on the whole test fold."""
    for detector, subsets in document.get("detectors", {}).items():
        for metric in DETECTION:
            if metric in subsets.get("all", {}):
                yield (detector, metric), subsets["all"][metric]


def of_ci(document: Mapping[str, Any]) -> Found:
    """(ci, human, score) and (ci, generator, prompt, score)."""
    if "human" in document and "generated" in document:
        yield from _ci_scores(("ci", "human"), document["human"])
        for generator, prompts in document["generated"].items():
            for prompt, scores in prompts.items():
                yield from _ci_scores(("ci", generator, prompt), scores)


def _ci_scores(path: Path, scores: Mapping[str, Any]) -> Found:
    for name in CI:
        if name in scores:
            yield (*path, name), scores[name]


def of_judges(document: Mapping[str, Any]) -> Found:
    """(judge, its name, prompt, …_error) of each reference that there is, and its parsed share.

    The constructed reference speaks of content alone; people's error is Poller's
    Avg, the mean of the errors on its dimensions.
    """
    for judge, prompts in document.get("judges", {}).items():
        for prompt, told in prompts.items():
            path = ("judge", judge, prompt)
            for error in told.get("constructed", {}).get("absolute_error", {}).values():
                yield (*path, "constructed_absolute_error"), error
            for source in ("human", "published"):
                if "Avg" in (errors := told.get(source, {}).get("error", {})):
                    yield (*path, f"{source}_error"), errors["Avg"]
            if "parsed" in told:
                yield (*path, "parsed"), told["parsed"]
