"""`python -m harness.cluster.remote_worker ADDRESS FRAMES_FD COMMANDS_FD INPUTS`: a worker that computes on a node.

For the supervisor this process is the worker: it has its pipes and its exit code. It starts an actor on the cluster,
which runs the real worker, and passes bytes on in both directions. It looks into none of them.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.cluster.executor import MESSAGES_AHEAD, connect
from harness.cluster.shipment import Packer, chunks_of
from harness.cluster.worker_host import WorkerHost
from harness.core.errors import HarnessError
from harness.core.files import write_all
from harness.core.protocol import REQUEST_FILE, read_request
from harness.core.requests import AttackRequest
from harness.core.times import seconds_since_boot
from harness.core.version import __version__
from harness.runs.folder import RunFolder

_START_SECONDS = 120.0
"""Seconds in which a worker is given to other nodes if its node dies before it has started."""
_LOST_NODE = 71
"""The exit code when the node of the worker dies."""


def main() -> int:
    """Run one worker on the cluster, and return the exit code of its process."""
    address, frames, commands, inputs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    request = read_request(inputs, AttackRequest)
    ray = connect(address)
    packer = Packer()
    files = {"inputs": packer.files_below(inputs), "code": packer.files_below(request.attack_file.parent)}
    # The request differs between workers and comes as an argument.
    del files["inputs"][REQUEST_FILE]
    files = packer.with_named_files(_run_folder(inputs).attack_spec(), files)
    contents = {sha256: [ray.put(chunk) for chunk in chunks_of(file)] for sha256, file in packer.contents.items()}
    models = [model for model in (request.target, request.reference) if model is not None]
    gpus = int(bool(models) and ray.cluster_resources().get("GPU", 0) > 0)
    # One thread for messages, one for commands; the worker computes in a process of its own.
    actor_type = ray.remote(num_cpus=models[0].threads if models else 1, num_gpus=gpus, max_concurrency=2)(WorkerHost)
    device = "cuda" if gpus else "cpu"
    print(f"worker {request.worker} waits for a slot of the cluster", flush=True)

    def start(name: str) -> Any:
        """Start the worker on a node, and return its actor."""
        actor = actor_type.remote(name)
        # The time is measured once there is a slot, because the clocks of two machines have nothing in common.
        ray.get(actor.__ray_ready__.remote())
        left = max(0.0, request.finish_at - seconds_since_boot())
        started = actor.start.remote(
            request.model_dump_json(), files, contents, device=device, seconds_left=left, version=__version__
        )
        print(ray.get(started), end="", flush=True)
        return actor

    actor = _retry(start, f"{_run_folder(inputs).id}-{request.worker}-{os.getpid()}", ray)
    stream = actor.messages.options(
        num_returns="streaming", _generator_backpressure_num_objects=MESSAGES_AHEAD
    ).remote()
    threading.Thread(target=_pass_commands, args=(ray, actor, commands, request.state_folder), daemon=True).start()
    for reference in stream:
        kind, content = ray.get(reference)
        if kind == "frames":
            write_all(frames, content)
        elif kind == "log":
            write_all(sys.stdout.fileno(), content)
        else:
            number, code = content
            return 128 + int(number) if number else int(code)
    return _LOST_NODE


def _retry(start: Callable[[str], Any], name: str, ray: Any) -> Any:
    """Return the result of `start`. A node that has just died gets new actors until Ray notices its death.

    Nothing has been sent to the supervisor before, so another node may begin.
    """
    until, attempt = time.monotonic() + _START_SECONDS, 0
    while True:
        attempt += 1
        try:
            return start(f"{name}-{attempt}")
        except ray.exceptions.RayTaskError as error:
            raise HarnessError(str(error.cause)) from None
        except ray.exceptions.RayError:
            if time.monotonic() >= until:
                raise
            time.sleep(1.0)


def _run_folder(inputs: Path) -> RunFolder:
    """Return the run whose worker has these inputs, RUN/scratch/NUMBER/inputs."""
    return RunFolder(inputs.parents[2])


def _pass_commands(ray: Any, actor: Any, commands: int, state: Path | None) -> None:
    """Pass the supervisor's commands on until it closes the pipe or the node is gone, which ends this process."""
    sent: set[int] = set()
    pending = b""
    try:
        while chunk := os.read(commands, 1 << 16):
            *lines, pending = (pending + chunk).split(b"\n")
            for line, following in zip(lines, [*lines[1:], b""], strict=True):
                word, _, text = line.decode().partition(" ")
                number = int(text or 0)
                if word == "ack" and following.startswith(b"ack"):
                    # An acknowledgement covers all before it, and each call takes milliseconds.
                    continue
                if word == "answer" and state is not None and number not in sent and (state / text).is_dir():
                    # The answer may name this directory. It stays as long as a worker was told to read it.
                    sent.add(number)
                    with contextlib.suppress(FileNotFoundError):
                        files = {file.name: file.read_bytes() for file in (state / text).iterdir()}
                        ray.get(actor.add_state.remote(number, files))
                ray.get(actor.command.remote(word, number))
    finally:
        os._exit(_LOST_NODE)


if __name__ == "__main__":
    try:
        code = main()
        sys.stdout.flush()
    except HarnessError as error:
        print(error)
        sys.stdout.flush()
        code = 1
    except Exception as error:
        # Ray says in many ways that a node is gone.
        print(f"the node of this worker is gone ({type(error).__name__})")
        sys.stdout.flush()
        code = _LOST_NODE
    # Ray's threads must not keep the process.
    os._exit(code)
