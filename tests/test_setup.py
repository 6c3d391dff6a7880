"""Set-up: what is missing, what pip's troubles mean, and what is shown of it."""

import subprocess
import sys
from pathlib import Path

import pytest
import setup

ROOT = Path(__file__).parents[1]


@pytest.fixture
def venv(tmp_path, monkeypatch) -> Path:
    """A folder with one package of two files, as pip leaves it."""
    site = tmp_path / "lib/python3.11/site-packages"
    info = site / "some_thing-1.2+cpu.dist-info"
    info.mkdir(parents=True)
    (site / "some_thing.py").write_text("", encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Some.thing\nVersion: 1.2+cpu\n")
    record = f"some_thing.py,,\n{info.name}/METADATA,,\n__pycache__/some_thing.pyc,,\n"
    (info / "RECORD").write_text(record, encoding="utf-8")
    monkeypatch.setattr(setup, "VENV", tmp_path)
    return site


def test_a_whole_package_of_the_locked_version_is_not_installed_again(venv):
    assert setup.missing_of({"some-thing": "1.2"}) == []
    assert setup.missing_of({"some-thing": "1.3", "other": "1"}) == ["some-thing", "other"]


@pytest.mark.parametrize("gone", ["some_thing.py", "some_thing-1.2+cpu.dist-info/RECORD"])
def test_half_a_package_is_installed_again(venv, gone):
    (venv / gone).unlink()
    assert setup.missing_of({"some-thing": "1.2"}) == ["some-thing"]


def test_what_an_old_pip_made_of_a_source_package_is_whole(venv):
    info = venv / "old-1.egg-info"
    info.mkdir()
    (info / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: old\nVersion: 1\n")
    (info / "SOURCES.txt").write_text("src/old.py\n", encoding="utf-8")
    assert setup.missing_of({"old": "1"}) == ["old"]
    (info / "installed-files.txt").write_text("../old.py\n", encoding="utf-8")
    assert setup.missing_of({"old": "1"}) == []


def test_a_venv_that_was_moved_is_made_again(venv, tmp_path):
    assert not setup.was_made_here()
    (tmp_path / "pyvenv.cfg").write_text(f"command = python3.11 -m venv {tmp_path}\n")
    assert setup.was_made_here()
    (tmp_path / "lib/python3.11").rename(tmp_path / "lib/python3.12")
    assert not setup.was_made_here(), "made by another Python"
    (tmp_path / "lib/python3.12").rename(tmp_path / "lib/python3.11")
    (tmp_path / "pyvenv.cfg").write_text("command = python3.11 -m venv /elsewhere/.venv\n")
    assert not setup.was_made_here()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "Collecting a\nERROR: Could not install: [Errno 28] No space left on device: 'x'\n",
            "the disk is full: set-up takes 2.4 GB",
        ),
        (
            "WARNING: Retrying (Retry(total=1)) after connection broken by 'NewConnectionError'\n"
            "ERROR: No matching distribution found for numpy==2.4.6\n",
            "the package index cannot be reached",
        ),
        (
            "Looking in indexes\nERROR: No matching distribution found for rjieba==0.2.2\n",
            "the package index has no rjieba==0.2.2: use an index that carries it",
        ),
        (
            "ERROR: Could not install packages [Errno 13] Permission denied: 'x'",
            "a folder cannot be written (ERROR: Could not install",
        ),
    ],
)
def test_what_pip_says_becomes_a_sentence_that_says_what_to_do(said, told):
    sentence = setup.cause(said)
    assert sentence is not None
    assert sentence.startswith(told)
    assert "\n" not in sentence


def test_an_unknown_trouble_is_told_by_its_last_error():
    said = "Collecting a\nERROR: the wheel is broken\nnote: see above\n"
    assert setup.cause(said) is None
    assert setup.last_line(said) == "ERROR: the wheel is broken"


def test_the_sizes_that_pip_tells_are_added_up():
    progress = setup.Progress(3)
    for line in (
        "Collecting numpy==2.4.6\n",
        "  Downloading numpy-2.4.6.whl (16.9 MB)\n",
        "  Using cached six-1.17.0.whl (11 kB)\n",
        "     (2.0 MB) of something else\n",
    ):
        progress.downloads(line)
    assert progress.size == 16_911_000


def test_a_stamp_says_nothing_of_what_was_damaged_since(venv, tmp_path, monkeypatch):
    (tmp_path / "pyvenv.cfg").write_text(f"command = python3.11 -m venv {tmp_path}\n")
    (tmp_path / "python").touch()
    monkeypatch.setattr(setup, "PYTHON", tmp_path / "python")
    monkeypatch.setattr(setup, "STAMP", tmp_path / "stamp")
    monkeypatch.setattr(setup, "locked", lambda: {"some-thing": "1.2"})
    assert not setup.is_set_up()
    (tmp_path / "stamp").write_text(setup.state(), encoding="utf-8")
    assert setup.is_set_up()
    (venv / "some_thing.py").unlink()
    assert not setup.is_set_up()


@pytest.mark.parametrize("name", ["a:b", "a$b", 'a"b', "a`b", "a\\b"])
def test_a_folder_whose_name_scripts_cannot_bear_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.setattr(setup, "ROOT", tmp_path / name)
    with pytest.raises(setup.SetupError, match="in its name"):
        setup.check_this_machine()


def test_another_python_is_refused_in_one_sentence(tmp_path):
    code = (
        "import sys; sys.path.insert(0, 'tools'); sys.version_info = (3, 12, 0)\n"
        "import setup; sys.exit(setup.main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 2
    assert "shiyan needs 3.11: make PYTHON=/path/to/python3.11" in done.stderr
    assert done.stderr.count("\n") == 1
