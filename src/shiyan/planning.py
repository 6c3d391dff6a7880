"""What the generate stage will ask, read from params.yaml.

The one place where generation meets the ci domain. The stage and `shiyan plan` both
start from here, so that a plan counts what a run will ask.
"""

from shiyan.ci.form import describe_form, load_catalogue
from shiyan.config import GenerateParams, PathsParams, PromptTexts, load_models, load_params
from shiyan.generation import run
from shiyan.generation.generate import CiForms
from shiyan.jsonl import read_records
from shiyan.records import Persona, Poem
from shiyan.work import WorkCache


def planned_generation(paths: PathsParams, cache: WorkCache) -> run.Work:
    """Every poem and reading that params.yaml asks for; nothing is asked.

    Raises:
        UserError: the collect stage has not run, or the parameters do not fit.
    """
    params = load_params("generate", GenerateParams)
    return run.plan(
        list(read_records(paths.poems, Poem)),
        [persona.poet_id for persona in read_records(paths.personas, Persona)],
        params,
        load_models((*params.models, *params.understanding.readers)),
        load_params("prompts", PromptTexts),
        ci_forms(),
        cache,
    )


def ci_forms() -> CiForms:
    """What the ci domain knows of forms and titles, for generation to use."""
    catalogue = load_catalogue()
    return CiForms(
        describe=lambda cipai: describe_form(catalogue.named(cipai)[0]),
        topic=lambda title: catalogue.read_title(title).topic if title else "",
        longest=lambda cipai: max(
            len(form) for tune in catalogue.named(cipai) for form in tune.variants
        ),
    )
