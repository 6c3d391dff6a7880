"""Open the MLflow pages on this project's runs."""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlencode

from shiyan.config import TrackParams, load_params
from shiyan.errors import UserError
from shiyan.notes import without_secrets

START_S = 120
"""The server's first start on a slow machine, its imports uncached."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=port_number, default=5000, help="default: 5000")
    parser.add_argument("--host", default="127.0.0.1", help="default: this machine only")


def port_number(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; it is a number of 1 to 65535")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    from shiyan import tracking

    if not has_remote_store(tracking.store_uri()):
        claim(arguments.host, arguments.port)
        # The server must not make it: ended meanwhile, it would leave half a database.
        with tracking.locked_store():
            pass
    learn_of_notes()
    if has_remote_store(tracking.store_uri()):
        print(f"the runs are at {without_secrets(tracking.store_uri())} (MLFLOW_TRACKING_URI)")
        return 0
    return serve(arguments.host, arguments.port, tracking.store_uri())


def has_remote_store(uri: str) -> bool:
    return uri.startswith(("http://", "https://", "databricks"))


def learn_of_notes() -> None:
    """Log failed and partial runs first; a broken params.yaml is no reason to show nothing."""
    from shiyan import tracking

    try:
        name = load_params("track", TrackParams).experiment
    except UserError as error:
        sys.stderr.write(f"note: {error}; runs since the last `track` are not shown\n")
        return
    if count := tracking.import_notes(name):
        sys.stderr.write(f"logged {count} stages of runs that had not reached `track`\n")


def claim(host: str, port: int) -> None:
    """Is the port free?

    Raises:
        UserError: another program has it, or the host is not this machine's.
    """
    try:
        with socket.create_server((host, port)):
            pass
    except OSError as error:
        raise UserError(
            f"port {port} of {host} cannot be used ({error.strerror or error}); end the program "
            f"that has it or choose another port: shiyan ui --port {port % 65535 + 1}",
            2,
        ) from error


def serve(host: str, port: int, uri: str) -> int:
    """Run MLflow's server until it is stopped; print the address once it answers."""
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", uri]
    command += ["--host", host, "--port", str(port), "--workers", "1"]
    # Its job runners would take over a gigabyte of memory, for features not used here.
    environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    # Ended from outside, it must not leave the server behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    try:
        wait_for_answer(server, host, port)
        print(f"http://{host}:{port}{page(host, port)} shows the runs; Ctrl-C ends it", flush=True)
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        server.terminate()
        server.wait()


def wait_for_answer(server: "subprocess.Popen[bytes]", host: str, port: int) -> None:
    """Raises:
    UserError: the server ended, or did not answer in time.
    """
    for _ in range(START_S * 4):
        if server.poll() is not None:
            raise UserError(f"MLflow's server ended with exit code {server.returncode}, see above")
        if answer(host, port, "/health") is not None:
            return
        time.sleep(0.25)
    raise UserError(f"MLflow's server did not answer within {START_S} s; try again")


def page(host: str, port: int) -> str:
    """The part of the address that opens on the project's own experiment."""
    try:
        name = load_params("track", TrackParams).experiment
    except UserError:
        return ""
    asked = f"/api/2.0/mlflow/experiments/get-by-name?{urlencode({'experiment_name': name})}"
    found = answer(host, port, asked)
    if found is None:
        return ""
    return f"/#/experiments/{json.loads(found)['experiment']['experiment_id']}/runs"


def answer(host: str, port: int, path: str) -> bytes | None:
    """What the server says, asked directly whatever proxies are set; None if it does not."""
    asked = "127.0.0.1" if host == "0.0.0.0" else host
    try:
        connection = HTTPConnection(asked, port, timeout=10)
        connection.request("GET", path)
        response = connection.getresponse()
        return response.read() if response.status == 200 else None
    except (OSError, HTTPException):
        return None
