"""The models that the roles name, written into params.yaml where conf/ is composed.

conf/config.yaml holds `${shiyan.models_of:judge}` and the like. Both `shiyan compose`
and DVC resolve them here: DVC imports hydra_plugins/ of the project, which registers
these resolvers. A model is a file of conf/model/, changed or added to by `models`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import Container, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from shiyan.config import PARAMS_FILE, AnyModelParams, model_of, read_params
from shiyan.errors import UserError
from shiyan.roles import ROLES, named, split

CONF = Path("conf")
POETS = "generate.models"


def register(conf: Path) -> None:
    """Make the resolvers known to OmegaConf, for models under `conf`."""

    def models_of(section: str, *, _root_: Container) -> DictConfig:
        found = selected(conf, _root_, section)
        return OmegaConf.create({name: split(model)[0] for name, model in found.items()})

    def servers(*, _root_: Container) -> DictConfig:
        changes = _plain(OmegaConf.select(_root_, "models"))
        for name in changes:
            # Also of those that no role names: a misspelt key would have no effect, silently.
            conf_model(name, conf, changes)
        found = selected(conf, _root_, *ROLES)
        return OmegaConf.create({name: split(model)[1] for name, model in found.items()})

    def families(*, _root_: Container) -> DictConfig:
        judging = {n for role, n in roles(_root_, "generate", "judge") if role != POETS}
        found = selected(conf, _root_, "generate", "judge")
        return OmegaConf.create({n: m["family"] for n, m in found.items() if n in judging})

    for resolver in (models_of, servers, families):
        name = f"shiyan.{resolver.__name__}"
        OmegaConf.register_new_resolver(name, resolver, replace=True)


def roles(root: Container, *sections: str) -> list[tuple[str, str]]:
    """Every (role, model) of these sections of a composition."""
    return [
        role
        for section in sections
        for role in named(section, _plain(OmegaConf.select(root, section)))
        if role[1] != "???"
    ]


def selected(conf: Path, root: Container, *sections: str) -> dict[str, dict[str, Any]]:
    """The models that the roles of these sections name, each written out whole.

    Raises:
        UserError: there is no such model, or a key of it is wrong.
    """
    changes = _plain(OmegaConf.select(root, "models"))
    found = {}
    for role, name in roles(root, *sections):
        if name not in found:
            model = conf_model(name, conf, changes, role)
            found[name] = model.model_dump(mode="json")
    return found


def conf_model(
    name: str, conf: Path = CONF, changes: Mapping[str, Any] | None = None, role: str = ""
) -> AnyModelParams:
    """A model of conf/model/ with the changes of `models`, or one that these add.

    Raises:
        UserError: there is no such model, or a key of it is wrong.
    """
    changed = (changes or {}).get(name) or {}
    path = conf / "model" / f"{name}.yaml"
    if not path.is_file() and not changed:
        says = f"{role} names the model {name!r}, but there" if role else "there"
        known = ", ".join(known_models(conf))
        raise UserError(f"{says} is no conf/model/{name}.yaml; conf/model/ holds {known}", 2)
    try:
        own = _plain(OmegaConf.load(path)) if path.is_file() else {}
    except (OmegaConfBaseException, OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {' '.join(str(error).split())}", 2) from error
    return model_of(name, own | changed, str(path))


def known_models(conf: Path = CONF) -> list[str]:
    """The names of all models of conf/model/."""
    return sorted(path.stem for path in (conf / "model").glob("*.yaml"))


def _plain(value: Any) -> dict[str, Any]:
    plain = OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else None
    return {str(k): v for k, v in plain.items()} if isinstance(plain, dict) else {}


def any_model(name: str) -> AnyModelParams:
    """A model by name, whether a role names it or not, with the changes of params.yaml.

    Raises:
        UserError: there is no such model, or a key of it is wrong.
    """
    changes = read_params().get("models") if PARAMS_FILE.exists() else None
    return conf_model(name, CONF, changes)
