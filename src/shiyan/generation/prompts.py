"""Prompt templates and what is filled into them."""

import re
from collections.abc import Mapping

from shiyan import poem as parser
from shiyan.config import PromptTexts
from shiyan.errors import UserError
from shiyan.records import Poem

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")

OUTPUT = "output"
"""The key of the request for bare output, which every prompt of a set ends with."""

OWN_TITLE = frozenset({"P2", "P4", "P5"})
"""Prompts that ask for a title of the LLM's own (AIGenPoetry, Table 7)."""


def fill(template: str, fields: Mapping[str, str], where: str) -> str:
    """The template with each {name} replaced; braces in what is filled in stay as they are.

    Raises:
        UserError: the template names a field that there is not.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in fields:
            raise UserError(
                f"{where} names {{{match[1]}}}, which nothing fills in; "
                f"known are {', '.join(f'{{{name}}}' for name in sorted(fields))}",
                2,
            )
        return fields[match[1]]

    return _PLACEHOLDER.sub(value, template)


def template_of(prompt_id: str, genre: str, prompts: PromptTexts) -> str:
    """The template of a prompt, with the set's request for bare output in its place.

    Raises:
        UserError: no such prompt in the genre's set.
    """
    texts = prompts.ci if genre == "ci" else prompts.modern
    known = [name for name in texts if name != OUTPUT]
    if prompt_id not in known:
        raise UserError(
            f"generate.prompts names {prompt_id!r}, which is no prompt for poems of genre {genre} "
            f"(known: {', '.join(known) or 'none'}); choose with -S generate.prompts=[…], or "
            f"-S generate={'ci' if genre == 'ci' else 'modern'} for the genre's own",
            2,
        )
    return texts[prompt_id].replace(f"{{{OUTPUT}}}", texts.get(OUTPUT, "")).strip()


def modern_fields(human: Poem) -> dict[str, str]:
    """What a prompt of AIGenPoetry, Table 7, may name of a human poem."""
    counts = parser.counts(human.title, human.text)
    title = human.title or "无题"
    return {
        "title": title,
        "poem": f"{title}\n\n{parser.normalised(human.text)}",
        "stanzas": str(counts.stanzas),
        "lines": str(counts.lines),
    }
