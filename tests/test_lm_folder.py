"""The float32 form of a GGUF: made once, checked before use, made again where it is not whole."""

import os
from pathlib import Path

import pytest
from test_weights import gguf

from shiyan import models
from shiyan.config import LocalModelParams
from shiyan.lm import folder as lm_folder


@pytest.fixture
def conversions(tmp_path, monkeypatch) -> list[Path]:
    """A GGUF in a cache of its own; converting copies it, and each conversion is noted."""
    monkeypatch.setenv("SHIYAN_MODELS", str(tmp_path / "models"))
    (tmp_path / "models").mkdir()
    (tmp_path / "models/w.gguf").write_bytes(gguf(data=4000))
    done: list[Path] = []

    def convert(path: Path, folder: Path) -> None:
        done.append(path)
        (folder / "config.json").write_text("{}", encoding="utf-8")
        (folder / "model.safetensors").write_bytes(path.read_bytes())

    monkeypatch.setattr(lm_folder, "convert_gguf", convert)
    return done


def model() -> LocalModelParams:
    return LocalModelParams.model_validate({"kind": "local", "file": "w.gguf", "family": "f"})


def test_a_whole_copy_is_made_once(conversions):
    first = lm_folder.scoring_folder("m", model())
    assert lm_folder.scoring_folder("m", model()) == first
    assert len(conversions) == 1
    assert lm_folder.why_not_whole(first) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\x55"),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(b""),
        lambda path: path.unlink(),
    ],
    ids=["one byte is wrong", "cut", "empty", "gone"],
)
@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_damaged_copy_is_told_and_made_again(conversions, capsys, damage, name):
    made = lm_folder.scoring_folder("m", model())
    good = (made / name).read_bytes()
    damage(made / name)
    assert lm_folder.why_not_whole(made)
    assert (lm_folder.scoring_folder("m", model()) / name).read_bytes() == good
    assert len(conversions) == 2
    assert "is not whole" in capsys.readouterr().err


def test_a_copy_without_sums_is_not_trusted(conversions):
    made = lm_folder.scoring_folder("m", model())
    (made / lm_folder.SUMS).unlink()
    lm_folder.scoring_folder("m", model())
    assert len(conversions) == 2


def test_a_bit_that_changed_without_a_new_time_is_found_by_verify(conversions):
    made = lm_folder.scoring_folder("m", model())
    path = made / "model.safetensors"
    assert lm_folder.why_not_whole(made) is None
    status = path.stat()
    path.write_bytes(b"\x55" + path.read_bytes()[1:])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert lm_folder.why_not_whole(made) is None, "the remembered sum is taken"
    told = lm_folder.why_not_whole(made, anew=True)
    assert told == "model.safetensors changed since the conversion"
    # What `verify` found is remembered, so the next use makes the copy again.
    lm_folder.scoring_folder("m", model())
    assert len(conversions) == 2
    assert models.digest(path) == models.digest(conversions[0])
