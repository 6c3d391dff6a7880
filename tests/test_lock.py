"""The lock's packages, and the Pythons that they admit."""

from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

LOCK = Path(__file__).parents[1] / "requirements.lock"
# Debian 12's; no later 3.11 may be asked of a newcomer.
OLDEST_PYTHON = "3.11.2"


def locked() -> list[Requirement]:
    lines = LOCK.read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def test_every_locked_package_installs_on_the_oldest_python_of_a_newcomer() -> None:
    refuse = []
    for package in locked():
        wanted = distribution(package.name).metadata.get("Requires-Python", "")
        if OLDEST_PYTHON not in SpecifierSet(wanted):
            refuse.append(f"{package.name}: {wanted}")
    assert refuse == []


def test_what_is_installed_is_what_is_locked() -> None:
    others = [
        f"{package.name} {version}"
        for package in locked()
        if not package.specifier.contains(
            version := distribution(package.name).version.partition("+")[0], prereleases=True
        )
    ]
    assert others == []
