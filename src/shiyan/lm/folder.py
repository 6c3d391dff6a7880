"""A model in the form that transformers loads, brought here and converted if need be."""

import json
import tempfile
from importlib.metadata import version
from pathlib import Path

from shiyan.config import HubModelParams, LocalModelParams
from shiyan.downloads import remove, room, tell, unwritable
from shiyan.lm.convert import convert_gguf
from shiyan.models import (
    ScoringModel,
    cache_folder,
    digest,
    folder_model,
    is_folder,
    locked,
    model_file,
    sha256_of,
)
from shiyan.weights import check_gguf

SUMS = "sha256.json"
"""Beside the converted files: name -> sha256."""
FLOAT32_GROWTH = 8
"""Room for a conversion: a weight of 4 to 6 bits becomes one of 32."""


def scoring_model(name: str, model: LocalModelParams | HubModelParams) -> ScoringModel:
    """A model that can score, with what its scores depend on.

    Raises:
        UserError: as `models.model_file` and `models.folder_model`; a GGUF whose
            architecture transformers does not know.
    """
    if isinstance(model, LocalModelParams) and not is_folder(model):
        path = model_file(name, model)
        sha256 = model.sha256 or sha256_of(path)
        return ScoringModel(name, _converted(name, path, sha256), f"sha256:{sha256}")
    return folder_model(name, model)


def scoring_folder(name: str, model: LocalModelParams | HubModelParams) -> Path:
    """The folder of `scoring_model`."""
    return scoring_model(name, model).folder


def converted_folder(sha256: str) -> Path:
    """Where the float32 form of a GGUF lies, for this version of transformers."""
    return cache_folder() / "scoring" / f"{sha256[:16]}-transformers-{version('transformers')}"


def why_not_whole(folder: Path, *, anew: bool = False) -> str | None:
    """What is wrong with a converted model's files, or None.

    Scores are kept under the sum of the file that was converted, so a wrong bit here would
    stay in them for good. Each file has a sum of its own, written with it; it is computed once
    for a size and time of change, or anew.
    """
    if not (folder / SUMS).exists():
        return "it has no sums, as an earlier version left it"
    try:
        sums: dict[str, str] = json.loads((folder / SUMS).read_text(encoding="utf-8"))
        wrong = [n for n, wanted in sums.items() if sha256_of(folder / n, anew=anew) != wanted]
    except (OSError, ValueError, AttributeError) as error:
        return f"its sums or files cannot be read ({error})"
    return f"{', '.join(wrong)} changed since the conversion" if wrong else None


def _converted(name: str, path: Path, sha256: str) -> Path:
    """The float32 safetensors of a GGUF, written once: dequantising takes up to a minute."""
    folder = converted_folder(sha256)
    if folder.exists() and not why_not_whole(folder):
        return folder
    check_gguf(path)
    with locked(folder):
        if folder.exists():
            if not (wrong := why_not_whole(folder)):
                return folder
            tell(f"{name}: {folder} is not whole: {wrong}; converting again")
            remove(folder)
        for left in folder.parent.glob(f".{folder.name}.*"):
            if not left.name.endswith(".lock"):
                remove(left)
        room(folder.parent, FLOAT32_GROWTH * path.stat().st_size)
        tell(f"{name}: converting to float32 for scoring, once")
        _convert(path, folder)
    return folder


def _convert(path: Path, folder: Path) -> None:
    try:
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
            whole = Path(temporary) / "whole"
            whole.mkdir()
            convert_gguf(path, whole)
            sums = {file.name: digest(file) for file in sorted(whole.iterdir())}
            (whole / SUMS).write_text(json.dumps(sums, indent=1), encoding="utf-8")
            whole.replace(folder)
    except OSError as error:
        raise unwritable(folder, error) from error
