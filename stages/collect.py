"""Gather human poems, personas and ratings."""

from functools import partial

from shiyan.ci.form import load_catalogue
from shiyan.ci.preface import preface_of
from shiyan.collection import files, modern_git, personas, ratings, songci, understandings
from shiyan.collection.corpus import Corpus, tell
from shiyan.collection.describe import described
from shiyan.config import (
    CollectParams,
    FilesParams,
    PathsParams,
    SongciParams,
    load_corpus,
    load_params,
)
from shiyan.jsonl import write_records
from shiyan.judging.rubric import POLLER, RUBRICS
from shiyan.metrics import write_metrics
from shiyan.stage import run_stage


def main() -> None:
    params = load_params("collect", CollectParams)
    paths = load_params("paths", PathsParams)
    people, of_personas = personas.collect(params.personas)
    scores, of_ratings = ratings.collect(params.ratings, RUBRICS)
    corpus = collected(params.seed)
    poem_ids = {poem.poem_id for poem in corpus.poems}
    readings, of_readings = understandings.collect(params.understandings, poem_ids, POLLER)
    of_personas += personas.misfits(params.personas, people, corpus.poems)
    corpus.notices += [*of_personas, *of_ratings, *of_readings]
    tell(corpus.notices)
    metrics = described(corpus, people, scores, params.near_duplicate, params.seed)
    tell(metrics["twins"]["named"])
    write_records(paths.poems, corpus.poems)
    write_records(paths.personas, people)
    write_records(paths.ratings, scores)
    write_records(paths.collected_understandings, readings)
    write_metrics(paths.collect_metrics, metrics)


def collected(seed: int) -> Corpus:
    """The poems of the source that params.yaml names."""
    source = load_corpus()
    if isinstance(source, SongciParams):
        plain = dict.fromkeys(map(load_catalogue().plain, source.cipai))
        return songci.collect(source.model_copy(update={"cipai": tuple(plain)}), seed)
    if isinstance(source, FilesParams):
        catalogue = load_catalogue()
        has_preface = partial(preface_of, catalogue=catalogue)
        return files.collect(source, catalogue.named_in, has_preface)
    return modern_git.collect(source, seed)


if __name__ == "__main__":
    run_stage(main)
