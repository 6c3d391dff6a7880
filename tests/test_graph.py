"""dvc.yaml's deps are the modules a stage may reach, and imports point one way."""

import ast
from functools import cache
from pathlib import Path
from types import FunctionType

import pytest
from ruamel.yaml import YAML

from shiyan import records

ROOT = Path(__file__).resolve().parent.parent
PIPELINE = YAML(typ="safe").load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
DOMAINS = {"collection", "generation", "detectors", "ci", "judging"}

FRAME = {
    # What carries records and params to a stage and decides none of its results: were
    # these deps, a new command or log line would rerun everything. A record computes nothing
    # (see below), and a parameter has no value but what params.yaml says (test_config.py).
    *("config", "errors", "jsonl", "records", "stage", "notes", "work", "lockfile", "naming"),
    # A model's files are the same bytes by every road: their sha256 is a parameter.
    *("models", "downloads"),
}


@cache
def module_file(name: str) -> Path | None:
    """The file of a dotted module of ours, or None."""
    path = ROOT / "src" / Path(*name.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


@cache
def parsed(file: Path) -> list[ast.Import | ast.ImportFrom]:
    """The import statements of a file, also inside its functions."""
    tree = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    return [node for node in tree if isinstance(node, ast.Import | ast.ImportFrom)]


@cache
def imports(file: Path) -> set[Path]:
    """The files of ours that a file imports, also inside its functions."""
    found = set()
    for node in parsed(file):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        found |= {f for name in names if name.startswith("shiyan") and (f := module_file(name))}
    return {f for f in found if f.name != "__init__.py"}


def reached(stage: str) -> set[str]:
    """The modules a stage may reach, as paths from the root, the frame left out."""
    waiting, seen = [ROOT / f"stages/{stage}.py"], set()
    while waiting:
        file = waiting.pop()
        for other in imports(file) - seen:
            if other.stem not in FRAME or other.parent.name != "shiyan":
                seen.add(other)
                waiting.append(other)
    return {str(file.relative_to(ROOT)) for file in seen}


@pytest.mark.parametrize("stage", [s for s in PIPELINE if s != "track"])
def test_a_stages_deps_are_what_it_reaches(stage):
    deps = [d for d in PIPELINE[stage]["deps"] if d.startswith(("src/", "stages/"))]
    missing = {f for f in reached(stage) if not any(f == d or f.startswith(d + "/") for d in deps)}
    assert not missing, f"dvc.yaml: {stage} lacks the deps {sorted(missing)}"
    idle = {
        d
        for d in deps
        if d.startswith("src/shiyan/")
        and "/data/" not in d
        and not any(f == d or f.startswith(d + "/") for f in reached(stage))
    }
    assert not idle, f"dvc.yaml: {stage} has deps it cannot reach: {sorted(idle)}"


def test_a_record_computes_nothing():
    """So that no stage needs records.py for a dep; a poem's label says whether it was generated."""
    classes = [kind for kind in vars(records).values() if isinstance(kind, type)]
    own = [kind for kind in classes if kind.__module__ == records.__name__]
    computing = {
        f"{kind.__name__}.{name}"
        for kind in own
        for name, value in vars(kind).items()
        if isinstance(value, property | staticmethod | classmethod | FunctionType)
        and not name.startswith("__")
    }
    assert own
    assert computing == {"Poem.label", "EvaluatedPoem.label"}


@pytest.mark.parametrize("domain", sorted(DOMAINS))
def test_domain_packages_do_not_import_each_other(domain):
    for file in (ROOT / "src/shiyan" / domain).rglob("*.py"):
        for other in imports(file):
            package = other.relative_to(ROOT / "src/shiyan").parts[0]
            assert package == domain or package not in DOMAINS, f"{file} imports {other}"


OWNERS = {
    "torch": {"lm", "detectors", "weights"},
    "mlflow": {"tracking", "database"},
    "jsonlines": {"jsonl"},
    "openai": {"chat"},
    "opencc": {"chinese"},
    "hydra": {"composition"},
    "xllamacpp": {"llama"},
}


@pytest.mark.parametrize("library", sorted(OWNERS))
def test_every_library_has_one_owner(library):
    for file in (ROOT / "src/shiyan").rglob("*.py"):
        for node in parsed(file):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                names = [node.module or ""]
            if any(name.split(".")[0] == library for name in names):
                owner = file.relative_to(ROOT / "src/shiyan").parts[0].removesuffix(".py")
                assert owner in OWNERS[library], f"{file} imports {library}"
