"""Everything that a judge run is to bring about, read from the stages before; nothing is asked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shiyan.chat import AnyModelParams
from shiyan.config import JudgeParams, PathsParams, PromptTexts
from shiyan.jsonl import read_records
from shiyan.judging.probes import Probe, make_probes, unbuilt
from shiyan.judging.rubric import RUBRICS
from shiyan.judging.tasks import Task, plan_quality, plan_readings, structured_judges, texts_of
from shiyan.records import Persona, Poem, Understanding


@dataclass(frozen=True)
class Material:
    """What is judged, and who the poets are."""

    poems: Sequence[Poem]
    personas: Sequence[Persona]
    readings: Sequence[Understanding]
    """A user's own first, then the generated and constructed ones."""


def read_material(paths: PathsParams) -> Material:
    """Raises UserError where a stage before has not run."""
    return Material(
        [poem for path in (paths.poems, paths.generated) for poem in read_records(path, Poem)],
        list(read_records(paths.personas, Persona)),
        read_readings(paths),
    )


def read_readings(paths: PathsParams) -> list[Understanding]:
    """Every reading there is, wherever it comes from."""
    both = (paths.collected_understandings, paths.understandings)
    return [reading for path in both for reading in read_records(path, Understanding)]


@dataclass(frozen=True)
class Plan:
    """Every judgment that is to exist: of readings, of probes, of ci's quality."""

    tasks: Sequence[Task]
    probes: Sequence[Probe]
    notices: Sequence[str] = ()
    """Of probes that could not be made."""


def plan(
    params: JudgeParams,
    prompts: PromptTexts,
    models: Mapping[str, AnyModelParams],
    material: Material,
) -> Plan:
    """All tasks in the order in which they are best asked.

    Raises:
        UserError: parameters or readings that do not fit.
    """
    rubric = RUBRICS[params.prompt_set]
    structured = structured_judges(params, models)
    probes = make_probes(params.probes, material.readings, material.poems, rubric)
    tasks = plan_readings(
        params,
        texts_of(prompts, params.prompt_set),
        [*material.poems, *(probe.poem for probe in probes if probe.poem is not None)],
        material.personas,
        material.readings,
        probes=[probe.reading for probe in probes],
        structured=structured,
    )
    if params.quality_poems:
        texts = texts_of(prompts, "ci_quality")
        tasks += plan_quality(params, texts, material.poems, structured=structured)
    return Plan(tasks, probes, unbuilt(params.probes, material.readings, probes))
