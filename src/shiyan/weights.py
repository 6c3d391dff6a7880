"""What a weights file is, told from its bytes before anything is loaded.

A clone without git-lfs, a login page saved under the name of a model, a download
that was cut, a GGUF of another version: each is one sentence here, where a loader
would fail much later and in its own words.
"""

import json
import mmap
import re
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from shiyan.errors import UserError

LFS = b"version https://git-lfs.github.com/spec/"
HTML = (b"<!doctype", b"<html", b"<head", b"<?xml")
SHARD = re.compile(r"-\d{5}-of-(\d{5})\.gguf$")
GGUF_VERSIONS = (2, 3)
"""Of the GGUF format, which llama.cpp and transformers both read."""

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q"}
_SCALARS[12] = "d"
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True)
class GgufHeader:
    """What a GGUF file says about itself.

    Attributes:
        architecture: as llama.cpp names it, e.g. qwen2.
        n_tensors: how many tensors the file says it holds.
        n_shards: of how many files it is one; 1 where it is whole.
        end: bytes up to the end of the last tensor; None where a tensor's type is
            unknown here.
    """

    architecture: str
    n_tensors: int
    n_shards: int
    end: int | None


def check_weights(path: Path) -> None:
    """Is this file what its name says: a GGUF, safetensors, or a tokenizer's JSON?

    Raises:
        UserError: a Git LFS pointer, an HTML page, an empty, cut or foreign file, a
            GGUF of another version or one shard of several.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(1024)
    except FileNotFoundError:
        raise UserError(f"there is no {path.name} in {path.parent}; check the path") from None
    except OSError as error:
        raise UserError(f"{path} could not be read: {error.strerror}") from error
    where = f"{path.name} in {path.parent}"
    if head.startswith(LFS):
        wanted = re.search(rb"^size (\d+)$", head, re.MULTILINE)
        of = f", {int(wanted[1]):,} wanted" if wanted else ""
        raise UserError(
            f"{where} is a Git LFS pointer ({size:,} bytes{of}), not the file itself; run "
            "`git lfs pull` in that clone, or download the file from the model's page"
        )
    if head.lstrip().lower().startswith(HTML):
        raise UserError(
            f"{where} is an HTML page ({size:,} bytes), not the file itself, as a login or error "
            "page saved under its name would be; download it again"
        )
    if not size:
        raise UserError(f"{where} is empty; download it again")
    if path.suffix == ".gguf" or head.startswith(b"GGUF"):
        check_gguf(path)
    elif path.suffix == ".safetensors":
        _check_safetensors(path, head, size)


def check_gguf(path: Path) -> GgufHeader:
    """The header of a GGUF file that is whole and in one piece.

    Raises:
        UserError: as `check_weights`.
    """
    named = SHARD.search(path.name)
    header = None if named else read_gguf_header(path)
    n_shards = int(named[1]) if named else header.n_shards if header else 1
    if header is None or n_shards > 1:
        raise UserError(
            f"{path.name} in {path.parent} is one of {n_shards} shards; join them with "
            "`llama-gguf-split --merge` and name the whole file"
        )
    size = path.stat().st_size
    if header.end is not None and size < header.end:
        raise UserError(
            f"{path.name} in {path.parent} is cut short: {size:,} bytes, {header.end:,} wanted; "
            "download it again"
        )
    return header


def read_gguf_header(path: Path) -> GgufHeader:
    """What a GGUF file says about itself, whole or not.

    Raises:
        UserError: no GGUF, another version, or cut within the header.
    """
    where = f"{path.name} in {path.parent}"
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:4] != b"GGUF":
            raise UserError(f"{where} is not a GGUF file: it begins with {data[:4]!r}")
        cursor = _Cursor(data, 4)
        try:
            version = cursor.number("I")
            if version not in GGUF_VERSIONS:
                raise UserError(
                    f"{where} has version {version} of the GGUF format; versions "
                    f"{' and '.join(map(str, GGUF_VERSIONS))} are read, so convert the model again "
                    "with a llama.cpp of today"
                )
            return _header(cursor)
        except (struct.error, KeyError, UnicodeDecodeError, OverflowError):
            raise UserError(
                f"{where} is cut short: it ends inside its header, after {len(data):,} bytes; "
                "download it again"
            ) from None


class _Cursor:
    """Reads little-endian values one after the other; past the end is a struct.error."""

    def __init__(self, data: mmap.mmap, position: int) -> None:
        self.data = data
        self.position = position

    def number(self, kind: str) -> Any:
        value = struct.unpack_from(f"<{kind}", self.data, self.position)[0]
        self.position += struct.calcsize(f"<{kind}")
        return value

    def skip(self, count: int) -> int:
        """Pass over bytes and return where they began."""
        start = self.position
        if start + count > len(self.data):
            raise struct.error("past the end")
        self.position += count
        return start

    def string(self) -> str:
        length = self.number("Q")
        start = self.skip(length)
        return self.data[start : start + length].decode("utf-8")

    def value(self, kind: int) -> Any:
        """A metadata value; of an array only its length, which is all that is asked here."""
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            return self.number(_SCALARS[kind])
        element, length = self.number("I"), self.number("Q")
        if element in _SCALARS:
            self.skip(length * struct.calcsize(f"<{_SCALARS[element]}"))
        else:
            for _ in range(length):
                self.skip(self.number("Q")) if element == _STRING else self.value(element)
        return length


def _header(cursor: _Cursor) -> GgufHeader:
    n_tensors, n_values = cursor.number("Q"), cursor.number("Q")
    found: dict[str, Any] = {}
    for _ in range(n_values):
        key = cursor.string()
        found[key] = cursor.value(cursor.number("I"))
    sizes = _block_sizes()
    ends = [_tensor_end(cursor, sizes) for _ in range(n_tensors)]
    alignment = int(found.get("general.alignment", 32))
    start = -(-cursor.position // alignment) * alignment if ends else cursor.position
    known = [end for end in ends if end is not None]
    end = start + max(known, default=0) if len(known) == len(ends) else None
    architecture = str(found.get("general.architecture"))
    return GgufHeader(architecture, n_tensors, int(found.get("split.count") or 1), end)


def _block_sizes() -> dict[int, tuple[int, int]]:
    """Tensor type -> (elements, bytes) of one block."""
    from gguf import GGML_QUANT_SIZES

    return {int(kind): size for kind, size in GGML_QUANT_SIZES.items()}


def _tensor_end(cursor: _Cursor, sizes: dict[int, tuple[int, int]]) -> int | None:
    """Bytes from the start of the data to this tensor's end; None for an unknown type."""
    cursor.string()
    shape = [cursor.number("Q") for _ in range(cursor.number("I"))]
    kind, offset = cursor.number("I"), cursor.number("Q")
    if kind not in sizes:
        return None
    elements_a_block, bytes_a_block = sizes[kind]
    return int(offset + prod(shape) // elements_a_block * bytes_a_block)


def _check_safetensors(path: Path, head: bytes, size: int) -> None:
    where = f"{path.name} in {path.parent}"
    length = int.from_bytes(head[:8], "little")
    if length + 8 > size or head[8:9] != b"{":
        raise UserError(f"{where} is not a safetensors file ({size:,} bytes); download it again")
    with path.open("rb") as file:
        file.seek(8)
        try:
            tensors = json.loads(file.read(length))
        except ValueError:
            raise UserError(f"{where} is not a safetensors file; download it again") from None
    ends = [entry["data_offsets"][1] for name, entry in tensors.items() if name != "__metadata__"]
    wanted = 8 + length + max(ends, default=0)
    if size < wanted:
        raise UserError(
            f"{where} is cut short: {size:,} bytes, {wanted:,} wanted; download it again"
        )
