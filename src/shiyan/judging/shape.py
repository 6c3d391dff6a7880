"""The shape that a judge's reply is held to, where its server can do that."""

import json
from typing import Any

from shiyan.judging.rubric import Rubric

ROLE, SCORE, REASON = "角色", "分数", "理由"
LONGEST_REASON = 60
"""Characters: so that a judge that runs on still comes to the last dimension."""


def shape(rubric: Rubric, declares_role: bool) -> str:
    """A JSON Schema, as JSON text: the role first where it is to be stated, then an object
    {分数, 理由} for each dimension, in the rubric's order."""
    score = {"type": "integer", "minimum": int(rubric.lowest), "maximum": int(rubric.highest)}
    one = _object({SCORE: score, REASON: {"type": "string", "maxLength": LONGEST_REASON}})
    role = {ROLE: {"type": "string", "maxLength": LONGEST_REASON}} if declares_role else {}
    return json.dumps(_object(role | dict.fromkeys(rubric.names, one)), ensure_ascii=False)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
