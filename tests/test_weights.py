"""What is no weights file is told from its first bytes, in one sentence."""

import json
import struct
from pathlib import Path

import pytest
from shared import BUGS, needs_shared

from shiyan.errors import UserError
from shiyan.weights import check_weights, read_gguf_header


def string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def gguf(
    architecture: str = "qwen2",
    version: int = 3,
    n_tensors: int | None = None,
    data: int = 64,
    more: bytes = b"",
    n_more: int = 0,
) -> bytes:
    """A GGUF of one float32 tensor of 16 numbers, or one that only says it has more."""
    tensor = string("w") + struct.pack("<IQIQ", 1, 16, 0, 0)
    head = struct.pack(
        "<4sIQQ", b"GGUF", version, 1 if n_tensors is None else n_tensors, 2 + n_more
    )
    words = (
        string("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + string("风") + string("")
    )
    kind = string("general.architecture") + struct.pack("<I", 8) + string(architecture)
    whole = head + words + kind + more + tensor
    return whole + b"\0" * (-len(whole) % 32) + b"\1" * data


@pytest.fixture
def saved(tmp_path):
    def save(name: str, content: bytes) -> Path:
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return save


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 988097824\n"
NUMBER = string("split.count") + struct.pack("<IH", 2, 4)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.safetensors", LFS, r"is a Git LFS pointer \(71 bytes, 988,097,824 wanted\).*pull"),
        ("tokenizer.json", LFS, "is a Git LFS pointer"),
        ("w.gguf", LFS, "is a Git LFS pointer"),
        ("w.gguf", b"\n <!DOCTYPE html><html><title>Sign in</title>", "is an HTML page"),
        ("w.gguf", b"", "is empty"),
        ("w.gguf", b"PK\x03\x04rest", r"is not a GGUF file: it begins with b'PK\\x03\\x04'"),
        ("w.gguf", gguf(version=1), "has version 1 of the GGUF format; versions 2 and 3 are read"),
        ("w.gguf", gguf(n_tensors=300), "is cut short: it ends inside its header"),
        ("w.gguf", gguf(data=63), "is cut short: 255 bytes, 256 wanted"),
        ("w.gguf", gguf()[:70], "is cut short: it ends inside its header, after 70 bytes"),
        ("w.gguf", gguf(more=NUMBER, n_more=1), "is one of 4 shards; join them with"),
        ("w-00002-of-00003.gguf", gguf(), "is one of 3 shards"),
        ("m.safetensors", b"\xff" * 40, "is not a safetensors file"),
        ("m.safetensors", struct.pack("<Q", 9) + b"{nonsense", "is not a safetensors file"),
    ],
)
def test_what_is_no_weights_file_is_one_sentence(saved, name, content, message):
    with pytest.raises(UserError, match=message) as caught:
        check_weights(saved(name, content))
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"there is no w\.gguf in"):
        check_weights(tmp_path / "w.gguf")


def test_a_whole_gguf_passes_and_says_what_it_is(saved):
    path = saved("w.gguf", gguf())
    check_weights(path)
    header = read_gguf_header(path)
    assert (header.architecture, header.n_tensors, header.n_shards) == ("qwen2", 1, 1)
    assert header.end == path.stat().st_size


def test_cut_safetensors_are_told_from_whole_ones(saved):
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    whole = struct.pack("<Q", len(header)) + header + b"\0" * 8
    check_weights(saved("m.safetensors", whole))
    with pytest.raises(UserError, match=f"is cut short: {len(whole) - 1} bytes"):
        check_weights(saved("m.safetensors", whole[:-1]))


@needs_shared
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("57-lfs-pointer-weights/model/model.safetensors", "134 bytes, 988,097,824 wanted"),
        ("57-lfs-pointer-weights/model/tokenizer.json", "Git LFS pointer"),
        ("57-lfs-pointer-weights/w.gguf", "Git LFS pointer"),
        ("57-lfs-pointer-weights/html/model.safetensors", "HTML page"),
        ("59-gguf-unknown-or-cut/cut.gguf", "cut short"),
        ("59-gguf-unknown-or-cut/old.gguf", "version 1"),
        ("59-gguf-unknown-or-cut/notgguf.gguf", "not a GGUF"),
        ("59-gguf-unknown-or-cut/model-00001-of-00003.gguf", "one of 3 shards"),
    ],
)
def test_public_reports(name, message):
    with pytest.raises(UserError, match=message):
        check_weights(BUGS / name)
