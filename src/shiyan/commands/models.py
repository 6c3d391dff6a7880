"""Fetch, verify and list the model files that the roles of params.yaml name.

`fetch` without a name brings every local model that a role names, and the float32
form of those that score; `verify` computes every sum anew.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from shiyan import models
from shiyan.config import (
    PARAMS_FILE,
    AllParams,
    ApiModelParams,
    HubModelParams,
    LocalModelParams,
    read_params,
    validated,
)
from shiyan.errors import UserError
from shiyan.lm.folder import converted_folder, scoring_folder, why_not_whole
from shiyan.selection import any_model, known_models

SCORING = "zero_shot_score."


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=("fetch", "list", "verify"), default="list")
    parser.add_argument("names", nargs="*", metavar="NAME", help="models of conf/model/")
    parser.add_argument("--json", action="store_true", help="one object a line")


def run(arguments: argparse.Namespace) -> int:
    params = validated("", AllParams, read_params(), str(PARAMS_FILE))
    if arguments.action == "fetch":
        return fetch(params, arguments.names)
    rows = [
        state(name, params, anew=arguments.action == "verify")
        for name in arguments.names or known_models()
        if not isinstance(any_model(name), ApiModelParams)
    ]
    for row in rows:
        print(json.dumps(row, ensure_ascii=False) if arguments.json else line_of(row))
    return int(arguments.action == "verify" and any(row["wrong"] for row in rows))


def fetch(params: AllParams, names: list[str]) -> int:
    """Bring the named models, or every local one that a role names."""
    roles = params.roles()
    scoring = {name for role, name in roles if role.startswith(SCORING)}
    named = names or [
        name
        for name in dict.fromkeys(name for _, name in roles)
        if isinstance(params.used_models[name], LocalModelParams)
    ]
    for name in named:
        model = any_model(name)
        if isinstance(model, ApiModelParams):
            print(f"{name} is asked over HTTP and has no files", file=sys.stderr)
            continue
        if isinstance(model, HubModelParams) or name in scoring:
            where = scoring_folder(name, model)
        else:
            where = models.model_file(name, model)
        print(f"{name}  {where}")
    return 0


def state(name: str, params: AllParams, *, anew: bool) -> dict[str, Any]:
    """What is on this machine of one model; nothing is fetched."""
    model = any_model(name)
    assert not isinstance(model, ApiModelParams)
    row: dict[str, Any] = {"model": name, "kind": model.kind, "path": None, "bytes": None}
    row |= {"roles": [role for role, other in params.roles() if other == name]}
    row |= {"scoring_folder": None, "wrong": None}
    try:
        path = models.found(name, model)
        if path is None:
            return row
        row["path"] = str(path)
        row["bytes"] = path.stat().st_size if path.is_file() else None
        if isinstance(model, LocalModelParams) and path.is_file():
            if anew:
                models.sha256_of(path, anew=True)
            models.verified(name, model, path)
            folder = converted_folder(model.sha256 or models.sha256_of(path))
            row["scoring_folder"] = str(folder) if folder.exists() else None
            if folder.exists() and (wrong := why_not_whole(folder, anew=anew)):
                raise UserError(
                    f"{folder}: {wrong}; `shiyan models fetch {name}` converts it again"
                )
        elif path.is_dir():
            models.checked_folder(path)
    except UserError as error:
        row["wrong"] = str(error)
    return row


def line_of(row: dict[str, Any]) -> str:
    """One model for people."""
    if row["wrong"]:
        what = f"wrong: {row['wrong']}"
    elif row["path"] is None:
        what = "not on this machine"
    else:
        size = f"{row['bytes'] / 1e6:,.0f} MB  " if row["bytes"] else ""
        what = f"{size}{shortened(row['path'])}"
        what += "  ready for scoring" if row["scoring_folder"] else ""
    return f"{row['model']:22} {row['kind']:6} {what}"


def shortened(path: str) -> str:
    """A path under the home folder as ~/…"""
    home = str(Path.home())
    return f"~{path.removeprefix(home)}" if path.startswith(f"{home}/") else path
