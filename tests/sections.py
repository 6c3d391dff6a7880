"""Sections of params.yaml for tests: whole, as conf/ has them, with a few values changed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from omegaconf import DictConfig, OmegaConf
from pydantic import BaseModel

from shiyan.config import AnyModelParams, HubEncoderParams, read_params, section_values
from shiyan.roles import split

ROOT = Path(__file__).resolve().parent.parent
P = TypeVar("P", bound=BaseModel)


def section(model: type[P], name: str, **changes: Any) -> P:
    """A section of the default params.yaml, as its stage reads it."""
    values = section_values(read_params(ROOT / "params.yaml"), name)
    return model.model_validate(values | changes)


def option(model: type[P], file: str, asking: str | None = None, **changes: Any) -> P:
    """An option of conf/ that stands alone, e.g. `corpus/files`."""
    values: Any = OmegaConf.to_container(OmegaConf.load(ROOT / f"conf/{file}.yaml"))
    more = read_params(ROOT / "params.yaml")["asking"][asking] if asking else {}
    return model.model_validate(values | more | changes)


def pretrained(**changes: Any) -> HubEncoderParams:
    """The encoder of conf/train_roberta/chinese_roberta.yaml."""
    values: Any = OmegaConf.load(ROOT / "conf/train_roberta/chinese_roberta.yaml").encoder
    return HubEncoderParams.model_validate(dict(values) | changes)


def name_models(params: DictConfig, models: Mapping[str, AnyModelParams], *sections: str) -> None:
    """Let these be the models that these sections of a params.yaml name."""
    for name, model in models.items():
        decides, serves = split(model.model_dump(mode="json"))
        for one in sections:
            params.models_of[one][name] = decides
        params.servers[name] = serves
        params.families[name] = model.family
