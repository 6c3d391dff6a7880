"""conf/ to params.yaml and back: the only module that imports Hydra."""

from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from shiyan.config import (
    PARAMS_FILE,
    AllParams,
    read_params,
    validated,
)
from shiyan.errors import UserError
from shiyan.roles import is_derived
from shiyan.selection import CONF, conf_model, register

OF_A_RESOLVER = "UserError raised while resolving interpolation: "
"""How OmegaConf tells of a resolver of ours that refuses something."""


def composed(overrides: Sequence[str] = (), conf: Path = CONF, complete: bool = True) -> DictConfig:
    """What conf/ composes to with these overrides, resolved and checked.

    Args:
        complete: refuse a `???` that was left and whatever a stage would refuse.

    Raises:
        UserError: an unknown key or option, a bad value, a `???` that was left, or an
            override whose Chinese or punctuation needs quotes.
    """
    from hydra import compose, initialize_config_dir
    from hydra.errors import HydraException

    for override in overrides:
        if override.endswith("="):
            raise UserError(
                f"the override {override!r} has no value; write one, or null for none: "
                f"{override}null",
                2,
            )
    if not conf.is_dir():
        raise UserError(f"there is no folder {conf}/ here; run this in the project's folder", 2)
    try:
        with initialize_config_dir(str(conf.resolve()), version_base="1.3"):
            # Not before: the project's Hydra plugin registers its own conf/ first.
            register(conf)
            config = compose("config", overrides=list(overrides))
        missing = sorted(OmegaConf.missing_keys(config))
        if missing and complete:
            raise UserError(
                f"conf/: {', '.join(missing)} is still ???; give it a value, "
                f"e.g. -S {missing[0]}=…",
                2,
            )
        OmegaConf.resolve(config)
    except (HydraException, OmegaConfBaseException) as error:
        _, ours, sentence = str(error).partition(OF_A_RESOLVER)
        if ours:
            raise UserError(sentence.splitlines()[0], 2) from None
        raise UserError(f"conf/: {explained(error, overrides)}", 2) from error
    except (YAMLError, UnicodeDecodeError, OSError) as error:
        raise UserError(f"conf/: {unreadable(conf, error)}", 2) from error
    except ValueError as error:
        # Hydra lets this one through: a group is given a value that names no option.
        told = " ".join(str(error).split())
        raise UserError(
            f"conf/: {told} ({', '.join(overrides)}); a folder of conf/ takes the name of one of "
            "its files, e.g. -S generate=modern",
            2,
        ) from error
    if complete:
        validated("", AllParams, OmegaConf.to_container(config), "conf/")
    return config


def unreadable(conf: Path, error: Exception) -> str:
    """Which file of conf/ cannot be read, and why; Hydra's own error may not name it."""
    for path in sorted(conf.rglob("*.yaml")):
        try:
            OmegaConf.load(path)
        except (OmegaConfBaseException, YAMLError, UnicodeDecodeError, OSError) as own:
            return f"{path.relative_to(conf)} cannot be read: {' '.join(str(own).split())}"
    return " ".join(str(error).split())


def explained(error: Exception, overrides: Sequence[str]) -> str:
    """Hydra's complaint as one sentence; a lexer's trace becomes advice on quoting."""
    text = str(error)
    bad = next((o for o in overrides if o in text), overrides[0] if overrides else "")
    key, _, value = bad.partition("=")
    if advice := of_a_models_key(key, value):
        return f"the override {bad!r} cannot be read: {advice}"
    if type(error).__name__ == "OverrideParseException":
        return (
            f"the override {bad!r} needs quotes: -S '{key}={quoted(value)}' "
            "(text with Chinese, blanks, commas, # or %)"
        )
    if "Ambiguous value" in text:
        return (
            f"the override {bad!r} holds several values; `dvc exp run --queue -S {bad}` makes an "
            f"experiment of each, -S '{key}=[{value}]' is a list, and -S '{key}=\"{value}\"' a text"
        )
    if "Could not override" in text and (near := nearest_keys(key.lstrip("+~"))):
        return f"there is no key {key!r}; did you mean {' or '.join(near)}?"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("Config search path", "provider="))]
    return " ".join(told[:20]).rstrip(".")


def of_a_models_key(key: str, value: str) -> str | None:
    """What to write for a parameter of a model; its name may hold dots, as a key's parts do."""
    name, _, field = key.lstrip("+~").removeprefix("models.").rpartition(".")
    if not key.lstrip("+~").startswith("models.") or not (CONF / "model" / f"{name}.yaml").exists():
        return None
    known = type(conf_model(name)).model_fields
    if field not in known:
        return f"a model has no parameter {field!r}; it may have {', '.join(sorted(known))}"
    if "." in name:
        return (
            f"the model's name holds dots; write -S '+models={{{name}: {{{field}: {value}}}}}', or "
            f"change conf/model/{name}.yaml"
        )
    return f"a change to a model is added; write -S '+models.{name}.{field}={value}'"


def quoted(value: str) -> str:
    """An override's value with its texts in quotes, in a list too."""
    if value.startswith("[") and value.endswith("]"):
        return f"[{','.join(quoted(part.strip()) for part in value[1:-1].split(','))}]"
    return value if value[:1] in "'\"" and value else f'"{value}"'


def nearest_keys(key: str) -> list[str]:
    """Keys of conf/ that a mistyped one may have meant, by its last part; a sibling is meant."""
    from difflib import get_close_matches

    parent, _, last = key.rpartition(".")
    known: dict[str, list[str]] = {}
    for name in flattened(OmegaConf.to_container(composed(complete=False))):
        known.setdefault(name.rpartition(".")[2], []).append(name)
    meant = next(iter(get_close_matches(last, known, n=1, cutoff=0.7)), None)
    if meant is None:
        return []
    found = known[meant]
    if f"{parent}.{meant}" in found:
        return [f"{parent}.{meant}"]
    section = parent.partition(".")[0]
    near = [name for name in found if section in name.split(".")]
    return (near or sorted(found))[:3]


def text_of(config: DictConfig) -> str:
    """params.yaml's text: byte for byte what `dvc exp run` writes for this composition."""
    return OmegaConf.to_yaml(config)


def check(overrides: Sequence[str] = ()) -> bool:
    """Is params.yaml what conf/ composes to?"""
    wanted = text_of(composed(overrides))
    if not PARAMS_FILE.exists():
        return False
    try:
        return PARAMS_FILE.read_text(encoding="utf-8") == wanted
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{PARAMS_FILE} cannot be read: {error}", 2) from error


def differences(overrides: Sequence[str] = ()) -> dict[str, tuple[object, object]]:
    """Keys whose value in params.yaml is not what conf/ composes to: key -> (conf, params).

    A key that one side lacks is None there. What only follows from other differences is left
    out.
    """
    ours = flattened(OmegaConf.to_container(composed(overrides)))
    theirs = flattened(read_params() if PARAMS_FILE.exists() else {})
    absent = object()
    found = {}
    for key in [*ours, *(k for k in theirs if k not in ours)]:
        a, b = ours.get(key, absent), theirs.get(key, absent)
        if a != b:
            found[key] = (None if a is absent else a, None if b is absent else b)
    return {key: both for key, both in found.items() if not is_derived(key)} or found


def flattened(value: object, prefix: str = "") -> dict[str, object]:
    """Nested mappings as dotted keys; lists are leaves."""
    if not isinstance(value, dict) or not value:
        return {prefix: value}
    flat: dict[str, object] = {}
    for key, below in value.items():
        flat.update(flattened(below, f"{prefix}.{key}" if prefix else str(key)))
    return flat
