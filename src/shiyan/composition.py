"""conf/ to params.yaml and back: the only module that imports Hydra."""

from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from shiyan.config import PARAMS_FILE, AllParams, read_params, validated
from shiyan.errors import UserError

CONF = Path("conf")


def composed(overrides: Sequence[str] = (), conf: Path = CONF) -> DictConfig:
    """What conf/ composes to with these overrides, resolved and checked.

    Raises:
        UserError: an unknown key or option, a bad value, a `???` that was left, or an
            override whose Chinese or punctuation needs quotes.
    """
    from hydra import compose, initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    if not conf.is_dir():
        raise UserError(f"there is no folder {conf}/ here; run this in the project's folder", 2)
    try:
        with initialize_config_dir(str(conf.resolve()), version_base="1.3"):
            config = compose("config", overrides=list(overrides))
        missing = sorted(OmegaConf.missing_keys(config))
        if missing:
            raise UserError(
                f"conf/: {', '.join(missing)} is still ???; give it a value, "
                f"e.g. -S {missing[0]}=…",
                2,
            )
        OmegaConf.resolve(config)
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(f"conf/: {explained(error, overrides)}", 2) from error
    validated("", AllParams, OmegaConf.to_container(config), "conf/")
    return config


def explained(error: Exception, overrides: Sequence[str]) -> str:
    """Hydra's complaint as one sentence; a lexer's trace becomes advice on quoting."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if type(error).__name__ == "OverrideParseException":
        bad = next((o for o in overrides if o in str(error)), overrides[0] if overrides else "")
        key, _, value = bad.partition("=")
        return (
            f"the override {bad!r} needs quotes: "
            f"-S '{key}=\"{value}\"' (text with Chinese punctuation, blanks, commas, # or %)"
        )
    told = [line for line in lines if not line.startswith(("Config search path", "provider="))]
    return " ".join(told[:20]).rstrip(".")


def text_of(config: DictConfig) -> str:
    """params.yaml's text: byte for byte what `dvc exp run` writes for this composition."""
    return OmegaConf.to_yaml(config)


def check(overrides: Sequence[str] = ()) -> bool:
    """Is params.yaml what conf/ composes to?"""
    return PARAMS_FILE.exists() and PARAMS_FILE.read_text(encoding="utf-8") == text_of(
        composed(overrides)
    )


def differences(overrides: Sequence[str] = ()) -> dict[str, tuple[object, object]]:
    """Keys whose value in params.yaml is not what conf/ composes to: key -> (conf, params).

    A key that one side lacks is None there.
    """
    ours = flattened(OmegaConf.to_container(composed(overrides)))
    theirs = flattened(read_params() if PARAMS_FILE.exists() else {})
    absent = object()
    found = {}
    for key in [*ours, *(k for k in theirs if k not in ours)]:
        a, b = ours.get(key, absent), theirs.get(key, absent)
        if a != b:
            found[key] = (None if a is absent else a, None if b is absent else b)
    return found


def flattened(value: object, prefix: str = "") -> dict[str, object]:
    """Nested mappings as dotted keys; lists are leaves."""
    if not isinstance(value, dict) or not value:
        return {prefix: value}
    flat: dict[str, object] = {}
    for key, below in value.items():
        flat.update(flattened(below, f"{prefix}.{key}" if prefix else str(key)))
    return flat
