"""dvc.lock: what each stage read, and what it made of it."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shiyan.composition import flattened
from shiyan.errors import UserError

LOCK_FILE = Path("dvc.lock")
PIPELINE_FILE = Path("dvc.yaml")
NOT_LOGGED = ("track",)
"""Stages without results of their own."""


@dataclass(frozen=True)
class LockedStage:
    """A stage's entry in dvc.lock."""

    name: str
    digest: str
    params: Mapping[str, object]
    outs: Mapping[str, str]
    """Path -> md5."""

    @property
    def metrics_files(self) -> list[Path]:
        return [Path(path) for path in self.outs if path.endswith(".json")]

    @property
    def plots(self) -> list[Path]:
        return [Path(p) for p in self.outs if p.endswith(".csv") and Path(p).exists()]

    def still_holds(self, metrics: Mapping[str, str]) -> bool:
        """Are these the metrics (path -> text) of the entry, and of the working tree?"""
        return bool(metrics) and all(
            self.outs.get(path) == hashlib.md5(text.encode()).hexdigest()
            and Path(path).exists()
            and Path(path).read_text(encoding="utf-8") == text
            for path, text in metrics.items()
        )


def locked_stages() -> dict[str, LockedStage]:
    """The stages of dvc.lock that dvc.yaml still has, but for `track`.

    Raises:
        UserError: a file is malformed.
    """
    known = read_yaml(PIPELINE_FILE).get("stages", {}) if PIPELINE_FILE.exists() else None
    stages = {}
    entries = read_yaml(LOCK_FILE).get("stages", {}) if LOCK_FILE.exists() else {}
    for name, entry in entries.items():
        if name in NOT_LOGGED or (known is not None and name not in known):
            continue
        canonical = json.dumps(entry, sort_keys=True, ensure_ascii=False, default=str)
        sections = entry.get("params", {}).get("params.yaml", {})
        stages[name] = LockedStage(
            name=name,
            digest=hashlib.sha256(canonical.encode()).hexdigest(),
            params=flattened(sections),
            outs={out["path"]: out.get("md5", "") for out in entry.get("outs", [])},
        )
    return stages


def outs_of_other_runs() -> list[str]:
    """The files that are there, but not as dvc.lock has them."""
    return [
        path
        for stage in locked_stages().values()
        for path, md5 in stage.outs.items()
        if md5 and Path(path).is_file() and hashlib.md5(Path(path).read_bytes()).hexdigest() != md5
    ]


def read_yaml(path: Path) -> dict[str, Any]:
    """By YAML 1.2: DVC writes `3e-05`, which older rules take for text."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        content = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except (YAMLError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{path} could not be read ({reason}); restore it from git") from error
    return content if isinstance(content, dict) else {}


def without_track(lock_text: str) -> str:
    """dvc.lock without the entry of `track`, which DVC writes after `track` has run.

    Cut as text, since parsing the file would cost a run with nothing to do its speed.
    """
    return re.sub(r"(?m)^  track:\n(?:    .*\n|\n|  - .*\n)*", "", lock_text)
