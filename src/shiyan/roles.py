"""Which parameter names a model, and which of a model's own keys decide a number.

params.yaml holds the models that a role names and no others. Under `models_of`, by
section, stands what decides a reply or a score, and a stage depends on its own
section's alone; under `servers` stands how a model is reached and what it costs, on
which no stage depends; under `families` whose the readers and judges are, which is
all that judging asks of a reader. `shiyan.selection` writes the three,
`shiyan.config` joins them.
"""

import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

ROLES: Mapping[str, tuple[str, ...]] = {
    "generate": ("models", "understanding.readers"),
    "train_roberta": ("lora.model",),
    "zero_shot_score": (
        "scoring",
        "reference",
        "fast_scoring",
        "observer",
        "performer",
        "asked.models",
    ),
    "attacks": ("paraphraser",),
    "judge": ("models", "by_dimension.*.model"),
}
"""Section -> the keys that name a model or several; `*` stands for every key."""

DERIVED = ("models_of", "servers", "families")
"""Sections that composition writes from the roles; nobody sets them."""

SERVING: Mapping[str, frozenset[str]] = {
    # The sha256 says which file it is, whatever the road.
    "local": frozenset({"path", "bytes", "repository", "revision", "wheels"}),
    "hub": frozenset(),
    "api": frozenset(
        {
            "key_variable",
            "price_per_million_prompt",
            "price_per_million_completion",
            "currency",
            "requests_at_once",
        }
    ),
}
"""Kind of model -> its keys that decide no reply and no score."""


def named(section: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every (role, model) of a section, e.g. ('judge.models', 'gpt-4o').

    Args:
        values: the section's own values; a role that is null or missing names nothing.
    """
    for path in ROLES.get(section, ()):
        yield from _named(f"{section}.", path.split("."), values)


def _named(prefix: str, path: list[str], values: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(values, Mapping):
        return
    key, below = path[0], path[1:]
    for name in values if key == "*" else [key]:
        value = values.get(name)
        if below:
            yield from _named(f"{prefix}{name}.", below, value)
        else:
            models = [value] if isinstance(value, str) else value or []
            yield from ((f"{prefix}{name}", model) for model in models)


def is_derived(key: str) -> bool:
    """Does a dotted key of params.yaml follow from others?"""
    return key.partition(".")[0] in DERIVED


def split(model: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A model's keys as (those that decide a reply or a score, those that do not).

    A local model without a sha256 is known by its path alone. An address decides whose
    replies they are but for its port, so it stands in both, without and with it.
    """
    serving = set(SERVING[model["kind"]])
    if model["kind"] == "local" and model.get("sha256") is None:
        serving.discard("path")
    decides = {key: value for key, value in model.items() if key not in serving}
    serves = {key: value for key, value in model.items() if key in serving}
    if "base_url" in model:
        serves["base_url"] = model["base_url"]
        decides["base_url"] = without_port(model["base_url"])
    return decides, serves


def without_port(url: str) -> str:
    """An address without its port; what is no address comes back as it is."""
    parts = urllib.parse.urlsplit(url)
    host, separator, port = parts.netloc.rpartition(":")
    if not separator or not port.isdigit():
        return url
    return parts._replace(netloc=host).geturl()
