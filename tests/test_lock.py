"""The lock: resolved, complete, and without anything that only one machine has."""

import shutil
import sys
from importlib.metadata import distribution
from pathlib import Path

import lock
import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]


@pytest.fixture
def project(tmp_path) -> Path:
    """A copy of what the check reads."""
    for name in ("requirements.lock", "pyproject.toml", "Makefile", ".ci/run"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def locked() -> list[Requirement]:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def change(path: Path, before: str, after: str) -> int:
    """Replace a line that begins so, and give its number."""
    lines = path.read_text(encoding="utf-8").splitlines()
    [index] = [i for i, line in enumerate(lines) if line.startswith(before)]
    lines[index] = after
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return index + 1


def test_nothing_is_wrong_with_the_projects_own():
    assert lock.problems() == []


@pytest.mark.parametrize(
    "line",
    [
        "numpy @ file:///somewhere/numpy-2.4.6-py3-none-any.whl",
        "numpy @ git+https://example.org/numpy.git@0123abc",
        "git+https://example.org/numpy.git",
        "https://example.org/numpy-2.4.6.tar.gz",
        "./wheels/numpy-2.4.6.whl",
        "-e .",
        "--find-links wheels",
        "numpy",
        "numpy>=2",
        "numpy==2.*",
        "numpy==2.4.6+cpu",
        "numpy==2.4.6 ; sys_platform == 'linux'",
    ],
)
def test_a_line_that_is_no_pin_is_refused_with_its_number(project, line):
    number = change(project / "requirements.lock", "numpy==", line)
    found = lock.problems(project)
    assert found[0].startswith(f"requirements.lock:{number}: {line!r} is not `name==version`")


def test_a_missing_and_a_double_pin_are_refused(project):
    number = change(project / "requirements.lock", "numpy==", "Tqdm==4.70.1")
    [double, missing] = lock.problems(project)
    assert double.startswith("requirements.lock:") and "'tqdm==" in double
    assert f"pinned on line {number} already" in double
    assert missing == ("requirements.lock: numpy of pyproject.toml has no pin; run `make lock`")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", '    "numpy @ file:///somewhere/numpy.whl",'),
        ("pyproject.toml", '    "numpy @ git+https://example.org/numpy",'),
        ("pyproject.toml", '    "numpy==2.4.6+cpu",'),
        ("pyproject.toml", "[tool.uv.sources]"),
        ("pyproject.toml", "[[tool.uv.index]]"),
        ("Makefile", "\t@pip install /home/me/wheels/numpy.whl"),
        ("Makefile", "export PIP_INDEX_URL := https://example.org/simple"),
        ("Makefile", "export PATH := $(PATH):~/bin"),
        ("Makefile", "PIP = pip install --find-links wheels"),
        (".ci/run", "export PATH=/opt/python/bin:$PATH"),
    ],
)
def test_what_only_one_machine_has_is_refused_with_its_line(project, name, text):
    path = project / name
    before = path.read_text(encoding="utf-8")
    place = '    "numpy' if text.startswith('    "numpy') else None
    if place:
        number = change(path, place, text)
    else:
        path.write_text(before + text + "\n", encoding="utf-8")
        number = len(before.splitlines()) + 1
    assert lock.problems(project)[0].startswith(f"{name}:{number}: ")


def test_a_line_of_blanks_is_no_line(project):
    path = project / "requirements.lock"
    path.write_text(path.read_text(encoding="utf-8") + "   \n\n", encoding="utf-8")
    assert lock.problems(project) == []


@pytest.mark.parametrize("name", ["requirements.lock", "pyproject.toml"])
@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"[project", b"[project]\ndependencies = [5]", None]
)
def test_what_cannot_be_read_is_a_sentence(project, name, content):
    (project / name).unlink()
    if content is not None:
        (project / name).write_bytes(content)
    found = lock.problems(project)
    assert found
    assert all("\n" not in sentence for sentence in found)


def test_a_lock_that_does_not_resolve_stays_as_it_was(project, monkeypatch, capfd):
    monkeypatch.setattr(lock, "ROOT", project)
    (project / "pyproject.toml").write_text("[project", encoding="utf-8")
    before = (project / "requirements.lock").read_bytes()
    for what in ("write", "upgrade"):
        monkeypatch.setattr(sys, "argv", ["lock.py", what])
        assert lock.main() == 1
        assert "stays as it was" in capfd.readouterr().err
    assert (project / "requirements.lock").read_bytes() == before
    assert not list(project.glob(".lock.*"))


def test_every_pin_fits_what_the_project_asks_for():
    pins = {lock.normalised(p.name): str(p.specifier).removeprefix("==") for p in locked()}
    asked = [Requirement(line) for line in distribution("shiyan").requires or []]
    extras = ("", "dev")
    for requirement in asked:
        if requirement.marker and not any(
            requirement.marker.evaluate({"extra": extra}) for extra in extras
        ):
            continue
        version = pins[lock.normalised(requirement.name)]
        assert requirement.specifier.contains(version, prereleases=True), requirement


def test_every_locked_package_installs_on_the_oldest_python_of_a_newcomer():
    refuse = []
    for package in locked():
        wanted = distribution(package.name).metadata.get("Requires-Python", "")
        if lock.OLDEST_PYTHON not in SpecifierSet(wanted):
            refuse.append(f"{package.name}: {wanted}")
    assert refuse == []


def test_what_is_installed_is_what_is_locked():
    others = [
        f"{package.name} {version}"
        for package in locked()
        if not package.specifier.contains(
            version := distribution(package.name).version.partition("+")[0], prereleases=True
        )
    ]
    assert others == []
