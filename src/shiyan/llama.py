"""llama.cpp's own server for one GGUF file, in a child process on loopback.

The server runs in a child so that its end is a sentence and not the end of the
stage; the child holds the reading end of a pipe from its parent and leaves when
that closes, so a parent that is killed with -9 leaves no orphan.
"""

import json
import os
import secrets
import select
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from shiyan.errors import UserError

LONGEST_START_S = 1800.0
"""A model that has not loaded by then (from a slow disk, say) is given up."""

PROMPT_CACHE_MIB = 512
"""Host memory for prompts of earlier requests; llama.cpp's own default is 8 GiB."""


class LlamaServer:
    """A running server; whoever starts it closes it (`contextlib.closing`).

    Args:
        name: the model's name in conf/model/, for messages and as the served name.
        model: the GGUF file.
        slots: requests that are worked on at once.
        context: tokens each slot holds, prompt and reply together.
        port: of 127.0.0.1; 0 takes a free one.

    Attributes:
        base_url: the OpenAI-compatible root, e.g. http://127.0.0.1:43210/v1.
        key: the API key without which it answers nobody, a page in a browser say.

    Raises:
        UserError: the model cannot be loaded, or the port cannot be had.
    """

    def __init__(self, name: str, model: Path, slots: int, context: int, port: int = 0) -> None:
        self.name = name
        self.key = secrets.token_hex(16)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        settings = {
            "model": str(model),
            "alias": name,
            "slots": slots,
            # llama.cpp divides the whole context among its slots.
            "context": slots * context,
            "threads": usable_cores(),
            "port": port,
        }
        self._child = subprocess.Popen(
            [sys.executable, "-m", "shiyan.llama", json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            # Ctrl-C is the parent's to handle: it goes to a terminal's whole group.
            start_new_session=True,
            # OpenMP's threads spin for long while they wait, which makes a server on a busy
            # machine (a queue of two experiments, say) several times slower; a short spin
            # costs an idle one nothing.
            env={"GOMP_SPINCOUNT": "10000"} | os.environ,
        )
        try:
            assert self._child.stdin is not None
            # Arguments and environment of a process are for others to see.
            with suppress(BrokenPipeError):
                self._child.stdin.write(f"{self.key}\n".encode())
                self._child.stdin.flush()
            self.base_url = f"{self._address(LONGEST_START_S)}/v1"
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._child.pid

    def _address(self, patience_s: float) -> str:
        """The child's first line, which it writes once the model is loaded."""
        assert self._child.stdout is not None
        until = time.monotonic() + patience_s
        while not select.select([self._child.stdout], [], [], 1.0)[0]:
            if time.monotonic() > until:
                raise UserError(
                    f"llama.cpp has not loaded {self.name} within {patience_s:.0f} s; "
                    "a smaller file or a faster disk would do"
                )
        line = self._child.stdout.readline().decode("utf-8", "replace").strip()
        if not line.startswith("http"):
            self._child.wait()
            raise UserError(
                f"llama.cpp could not serve {self.name}: {self._last_error()}; "
                f"check the file with `shiyan models verify {self.name}` and the free memory"
            )
        return line

    def _last_error(self) -> str:
        """The most telling line of the child's log."""
        self._log.seek(0)
        lines = self._log.read().decode("utf-8", "replace").splitlines()
        errors = [line.split(" E ", 1)[1] for line in lines if " E " in line]
        return (errors or lines[-1:] or ["no word of why"])[0].strip()

    def ended(self) -> str | None:
        """How the server ended, or None while it runs."""
        code = self._child.poll()
        if code is None:
            return None
        return f"killed by signal {-code}" if code < 0 else f"exit code {code}"

    def close(self) -> None:
        """End the server; also on error, and twice does no harm."""
        for stream in (self._child.stdin, self._child.stdout):
            if stream is not None and not stream.closed:
                stream.close()
        try:
            self._child.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._log.close()


def usable_cores() -> int:
    """Cores that this process may use: by its affinity, and by a container's quota.

    More threads than that wait for each other in a spin and are many times slower.
    """
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        cores = os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return cores
    return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))


def serve(settings: dict[str, str | int]) -> None:
    """The child's work: load, tell the address on stdout, stay until stdin closes."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["model"]
    params.model_alias = {settings["alias"]}
    params.hostnames = ["127.0.0.1"]
    params.port = settings["port"]
    params.api_keys = [sys.stdin.buffer.readline().decode().strip()]
    # By default every origin that asks is allowed.
    params.cors_origins = "http://127.0.0.1"
    params.n_parallel = settings["slots"]
    params.n_ctx = settings["context"]
    # Otherwise the context shrinks in silence where memory is short.
    params.fit_params = False
    params.cache_ram_mib = PROMPT_CACHE_MIB
    params.cpuparams.n_threads = settings["threads"]
    params.cpuparams_batch.n_threads = settings["threads"]
    params.ui = False
    params.endpoint_slots = False
    params.warmup = False
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    # The server's own threads may be in the middle of a reply that nobody waits for.
    os._exit(0)


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
