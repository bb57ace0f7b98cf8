"""A worker on a node: its inputs and its target by content, its process in the node's sandbox, and its pipes.

`remote_worker.py` makes an actor of it: its methods are called from the machine of the supervisor, which is at the far
end of the pipes.
"""

import contextlib
import os
import selectors
import shutil
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.cluster.executor import Contents, fetch_from
from harness.cluster.node import require_version, use_node_home
from harness.cluster.shipment import ContentStore, FileSet, model_on_node
from harness.core.files import remove_tree
from harness.core.protocol import write_request
from harness.core.requests import AttackRequest, ModelRequest
from harness.core.times import seconds_since_boot
from harness.sandbox import SandboxPolicy, detect_backend
from harness.supervisor.worker_process import PIPE_BYTES, WorkerProcess

HostMessage = tuple[str, Any]
"""`frames` and `log` with the bytes of a pipe; at the end `exit` with a signal number (0 for none) and an exit code."""


class WorkerHost:
    """One worker of a run on this node."""

    def __init__(self, name: str) -> None:
        """`name` is a directory name that no other worker of the node has."""
        home = use_node_home()
        self._scratch = home / "workers" / name
        self._shared = home / "workers" / f"{name}.shared"
        self._content = ContentStore(home / "content")
        self._process: WorkerProcess | None = None
        self._sending = threading.Lock()

    def start(
        self, request_text: str, files: FileSet, contents: Contents, *, device: str, seconds_left: float, version: str
    ) -> str:
        """Start the worker, and return a line about it for the log.

        `request_text` is the request of the supervisor as JSON, `seconds_left` the time until the soft deadline, and
        `version` that of the caller. Raises HarnessError if this node has another version of the harness.
        """
        require_version(version)
        request = AttackRequest.model_validate_json(request_text)
        self._remove_folders()
        located = self._content.located(files, fetch_from(contents))
        inputs = self._scratch / "inputs"
        shutil.copytree(located.pop("inputs"), inputs)
        self._shared.mkdir(parents=True)
        paths = {name.removeprefix("path:"): str(path) for name, path in located.items() if name.startswith("path:")}

        def model(role: str, requested: ModelRequest | None) -> ModelRequest | None:
            return None if requested is None else model_on_node(requested, role, located, device=device, shards=())

        bound = request.model_copy(
            update={
                "attack_file": located["code"] / request.attack_file.name,
                "params": request.params | paths,
                "target": model("target", request.target),
                "reference": model("reference", request.reference),
                "finish_at": seconds_since_boot() + seconds_left,
                "state_folder": self._shared,
            }
        )
        write_request(inputs, bound)
        policy = SandboxPolicy(readable=(self._shared, *located.values()), writable=(self._scratch,))
        self._process = WorkerProcess(self._scratch, policy, environment=_gpu_environment())
        return f"worker {request.worker} is on {socket.gethostname()}, {device}, sandbox {detect_backend().name}\n"

    def messages(self) -> Iterator[HostMessage]:
        """Yield the output of the worker until its end, then how it ended. Everything that it left behind is killed."""
        worker = self._process
        assert worker is not None
        try:
            with selectors.DefaultSelector() as selector:
                for descriptor in worker.descriptors:
                    selector.register(descriptor, selectors.EVENT_READ)
                has_ended = False
                while not has_ended:
                    ready = {key.fd for key, _ in selector.select(1.0)}
                    has_ended = worker.ended in ready
                    for kind, descriptor in (("log", worker.log), ("frames", worker.frames)):
                        if descriptor in selector.get_map():
                            yield from ((kind, chunk) for chunk in _chunks(descriptor, selector))
                    with self._sending:
                        worker.send_pending()
            number, code = worker.process.exit_signal_or_code()
            yield "exit", (0 if number is None else int(number), code)
        finally:
            worker.kill()
            worker.close()
            self._remove_folders()

    def command(self, word: str, number: int) -> None:
        """Pass a command of the supervisor on to the worker."""
        worker = self._process
        assert worker is not None
        with self._sending:
            worker.send(word, None if word == "finish" else number)

    def add_state(self, number: int, files: Mapping[str, bytes]) -> None:
        """Write a directory of the run's stored state, which the next answer names."""
        directory = self._shared / str(number)
        directory.mkdir(exist_ok=True)
        for name, content in files.items():
            (directory / Path(name).name).write_bytes(content)

    def _remove_folders(self) -> None:
        for directory in (self._scratch, self._shared):
            # What the attack left behind there must not cost its results.
            with contextlib.suppress(OSError):
                remove_tree(directory)


def _chunks(descriptor: int, selector: selectors.BaseSelector) -> Iterator[bytes]:
    """Yield the present content of a pipe. One that was closed leaves the selector, which would never wait again."""
    with contextlib.suppress(BlockingIOError):
        while chunk := os.read(descriptor, PIPE_BYTES):
            yield chunk
        selector.unregister(descriptor)


def _gpu_environment() -> dict[str, str]:
    """Return the variable with which Ray gives this process its GPUs."""
    name = "CUDA_VISIBLE_DEVICES"
    return {name: os.environ[name]} if os.environ.get(name) else {}
