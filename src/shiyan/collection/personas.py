"""Personas of poets: what a judge that plays the poet is told."""

from pathlib import Path

from pydantic import ValidationError

from shiyan.config import project_root
from shiyan.errors import UserError
from shiyan.jsonl import describe, read_objects
from shiyan.records import Persona

BUNDLED = Path(__file__).parent.parent / "data" / "personas"


def collect(path: str | None) -> tuple[list[Persona], list[str]]:
    """(personas, notices) of a user's JSONL file, or of the ones that come with the project.

    Fields beside those of `Persona` are ignored with one notice.

    Raises:
        UserError: a line that is no persona, or a poet who stands twice (both places).
    """
    if path is not None:
        files = [project_root() / Path(path).expanduser()]
    else:
        files = sorted(BUNDLED.glob("*.jsonl"))
    personas: dict[str, Persona] = {}
    places: dict[str, str] = {}
    ignored: set[str] = set()
    for file in files:
        for number, value in read_objects(file):
            place = f"{file}:{number}"
            ignored |= value.keys() - Persona.model_fields.keys()
            known = {key: value[key] for key in value.keys() & Persona.model_fields.keys()}
            try:
                persona = Persona.model_validate(known)
            except ValidationError as error:
                raise UserError(f"{place} is not a Persona: {describe(error)}") from error
            if persona.poet_id in personas:
                raise UserError(
                    f"the poet {persona.poet_id!r} has two personas, at {places[persona.poet_id]} "
                    f"and at {place}; keep one"
                )
            personas[persona.poet_id] = persona
            places[persona.poet_id] = place
    notices = [f"{path}: ignored the fields {', '.join(sorted(ignored))}"] if ignored else []
    return list(personas.values()), notices
