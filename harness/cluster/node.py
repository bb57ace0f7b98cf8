"""The work of a node for one run: an ordinary supervised run in the node's own store, whose record it sends home.

It does not know Ray: it takes a function that returns contents, and yields messages.
"""

import contextlib
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from harness import __version__
from harness.cluster.content import ContentStore
from harness.cluster.shipment import CHUNK_BYTES, Shipment, bound_to_node
from harness.core import paths
from harness.core.errors import HarnessError
from harness.core.files import file_sha256
from harness.runs.folder import RunFolder, remove_run
from harness.runs.launch import resume_run, start_job
from harness.runs.machine import hardware, versions
from harness.runs.specs import AttackSpec
from harness.runs.status import Status
from harness.runs.summary import run_status, run_summary
from harness.sweeps.record import COUNTED

Message = tuple[str, Any]
"""A message of a node: its kind and its content.

`status`: (words, share of the work or None). `file`: the relative name of a file, whose bytes follow in `bytes`
messages. `end`: the SHA-256 of each file, by name.
"""

_STATUS_SECONDS = 5.0
_POLL_SECONDS = 0.1
_MOST_RESUMES = 2
"""The number of times that a run is continued after its supervisor died on the node."""


def use_node_home() -> Path:
    """Make this process use the store of the node, a directory beside the runs of its user, and return it."""
    home = Path(os.environ.setdefault("HARNESS_NODE_HOME", str(paths.state_home() / "node")))
    os.environ["HARNESS_HOME"] = str(home)
    return home


def require_version(version: str) -> None:
    """Raise HarnessError unless this node has this version of the harness."""
    if version != __version__:
        raise HarnessError(f"{socket.gethostname()} has version {__version__} of the harness. Install {version} there.")


def compute_run(shipment: Shipment, fetch: Callable[[str], Iterable[bytes]], *, device: str) -> Iterator[Message]:
    """Compute a run on this node, or continue it, and yield its progress and then the files of its record.

    `fetch` returns the content with a SHA-256. Raises HarnessError if the node has another version of the harness, if a
    content arrives damaged, or if the run does not start.
    """
    require_version(shipment.spec.versions["harness"])
    content = ContentStore(use_node_home() / "content")
    folder = RunFolder.of(shipment.spec.id)
    if not folder.spec_file.is_file():
        yield "status", ("fetching its data", None)
        try:
            start_job(shipment.spec.id, lambda created: _prepare(created, shipment, content, fetch, device=device))
        except HarnessError as error:
            raise HarnessError(f"{socket.gethostname()}: {error}") from None
    elif run_status(folder) not in COUNTED:
        _resume(folder)
    for _ in range(_MOST_RESUMES + 1):
        yield from _follow(folder)
        if run_status(folder) is not Status.LOST:
            yield from _record(folder)
            return
        _resume(folder)
    raise HarnessError(f"its supervisor died {_MOST_RESUMES + 1} times on {socket.gethostname()}.")


def _follow(folder: RunFolder) -> Iterator[Message]:
    """Yield the progress of a run until its supervisor is gone."""
    status_due = 0.0
    # A look at the lock costs much less than the status. The supervisor holds it until the store is one file.
    while folder.is_alive or not run_status(folder).is_over:
        if time.monotonic() >= status_due:
            status_due = time.monotonic() + _STATUS_SECONDS
            summary = run_summary(folder)
            yield "status", (summary.status.words, summary.progress)
        time.sleep(_POLL_SECONDS)


def forget_runs(ids: Iterable[str]) -> None:
    """Delete the node's copies of runs whose records the driver has stored."""
    use_node_home()
    for id_ in ids:
        # It may have been deleted, or is being followed by another task.
        with contextlib.suppress(HarnessError):
            remove_run(RunFolder.of(id_))


def _resume(folder: RunFolder) -> None:
    """Continue a run that is not alive; its models are named by their content, so they are as recorded."""
    if folder.is_alive:
        return
    spec = folder.attack_spec()
    resume_run(folder, weights_sha256=[target.weights_sha256 for target in spec.targets])


def _prepare(
    folder: RunFolder,
    shipment: Shipment,
    content: ContentStore,
    fetch: Callable[[str], Iterable[bytes]],
    *,
    device: str,
) -> AttackSpec:
    """Fill the directory of the run, and return its spec on this node."""
    for directory, files in ((folder.code, shipment.code), (folder.inputs, shipment.inputs)):
        shutil.copytree(content.tree(files, fetch), directory)
    for name, sha256 in shipment.record.items():
        shutil.copyfile(content.file(sha256, partial(fetch, sha256)), folder.path / name)
    targets = tuple(content.tree(files, fetch) for files in shipment.targets)
    if targets and (tokenizer := targets[0] / "tokenizer.json").is_file():
        shutil.copyfile(tokenizer, folder.tokenizer)
    located = {
        name: content.file(files[""], partial(fetch, files[""])) if "" in files else content.tree(files, fetch)
        for name, files in shipment.paths.items()
    }
    bound = bound_to_node(shipment.spec, targets=targets, paths=located, device=device)
    of_node = {"versions": versions(), "hardware": {**hardware(), "node": socket.gethostname()}}
    return bound.model_copy(update=of_node)


def _record(folder: RunFolder) -> Iterator[Message]:
    """Yield the files of a run that is over."""
    hashes = {}
    for file in (folder.spec_file, folder.store, folder.log, folder.supervisor_log, folder.tokenizer, *_code(folder)):
        if file.is_file():
            name = file.relative_to(folder.path).as_posix()
            hashes[name] = file_sha256(file)
            yield "file", name
            with file.open("rb") as stream:
                while chunk := stream.read(CHUNK_BYTES):
                    yield "bytes", chunk
    yield "end", hashes


def _code(folder: RunFolder) -> list[Path]:
    return sorted(file for file in folder.code.iterdir() if file.is_file())
