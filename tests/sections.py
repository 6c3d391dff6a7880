"""Sections of params.yaml as conf/ has them, with what a test changes."""

from pathlib import Path
from typing import Any, TypeVar

from omegaconf import OmegaConf

from shiyan.config import Params

CONF = Path(__file__).resolve().parent.parent / "conf"
P = TypeVar("P", bound=Params)


def section(model: type[P], file: str, asking: str | None = None, **changes: Any) -> P:
    """The values of a file of conf/, and of a part of `asking` where the section has one."""
    values = _values(file) | (_values("asking/default.yaml")[asking] if asking else {})
    return model.model_validate(values | changes)


def _values(file: str) -> dict[str, Any]:
    return {str(k): v for k, v in OmegaConf.to_container(OmegaConf.load(CONF / file)).items()}
