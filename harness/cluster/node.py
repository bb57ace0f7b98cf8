"""Runs on a node: the node executes a shipment, and the driver checks, scores and stores the record."""

import contextlib
import itertools
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from harness.cluster.shipment import ContentStore, Shipment, bound_to_node, chunks_of
from harness.core import paths
from harness.core.errors import HarnessError
from harness.core.files import (
    create_folder,
    file_sha256,
    remove_tree,
    sync_folder,
    sync_tree,
    try_lock,
    write_atomically,
)
from harness.core.paths import state_home
from harness.core.version import __version__
from harness.runs.attack_record import write_results
from harness.runs.folder import RunFolder, remove_run
from harness.runs.launch import resume_run, start_job
from harness.runs.machine import hardware, versions
from harness.runs.specs import AttackSpec, read_spec
from harness.runs.status import Status
from harness.runs.summary import run_status, run_summary

_FILES = ("spec.json", "run.db", "worker.log", "supervisor.log", "tokenizer.json")
Message = tuple[str, Any]
"""A message of a node: its kind and its content.

`status`: (words, share of the work or None). `file`: (relative name, some of the bytes of the file), in order.
`end`: the SHA-256 of each file, by name.
"""
_STATUS_SECONDS = 5.0
_POLL_SECONDS = 0.1
_MAX_RESUMES = 2
"""The number of times that a run is continued after its supervisor died on the node."""


class ReceivedRecord:
    """The files of one run, which are stored next to the runs until they are complete."""

    def __init__(self, spec: AttackSpec) -> None:
        """`spec` is what the driver planned, with the round's answers."""
        self._spec = spec
        self._folder = RunFolder(state_home() / "arriving" / spec.id)
        remove_tree(self._folder.path)
        self._folder.code.mkdir(parents=True, mode=0o700)

    def add(self, name: str, chunk: bytes) -> None:
        """Append to the file `name`. Raises HarnessError if a run has no such file."""
        if name not in (*_FILES, f"code/{self._spec.attack.file}"):
            raise HarnessError(f"{self._spec.id}: the node sent {name!r}, an unexpected file.")
        with (self._folder.path / name).open("ab") as file:
            file.write(chunk)

    def store(self, hashes: dict[str, str]) -> None:
        """Check the files, score the run, and put it into the store, where it appears at once and complete.

        Raises HarnessError if a file is damaged or missing, if the node ran something else than was planned, or if the
        store has a run of this id that is alive.
        """
        for name, sha256 in hashes.items():
            file = self._folder.path / name
            if not file.is_file() or file_sha256(file) != sha256:
                raise HarnessError(f"{self._spec.id}: {name} did not arrive as the node sent it. Resume the sweep.")
        spec = self._stored_spec()
        status = run_status(self._folder)
        if not status.is_over or status is Status.LOST:
            raise HarnessError(f"{spec.id}: the node sent an unfinished record. Resume the sweep.")
        write_atomically(self._folder.spec_file, spec.model_dump_json(indent=2) + "\n")
        write_results(self._folder, spec)
        sync_tree(self._folder.path)
        final = RunFolder.of(spec.id)
        create_folder(final.path.parent)
        with contextlib.ExitStack() as stack:
            if final.path.is_dir():
                lock = try_lock(final.lock)
                if lock is None:
                    raise HarnessError(f"{final.id} runs on this machine too. Stop it, then resume the sweep.")
                stack.enter_context(lock)
                if final.spec_file.is_file() and run_status(final).is_complete:
                    raise HarnessError(f"{final.id} is in the store already.")
                replaced = self._folder.path.with_name(f"{final.id}.replaced")
                remove_tree(replaced)
                final.path.rename(replaced)
                stack.callback(_remove, replaced)
            self._folder.path.rename(final.path)
            sync_folder(final.path.parent)

    def discard(self) -> None:
        """Delete what has arrived so far."""
        _remove(self._folder.path)

    def _stored_spec(self) -> AttackSpec:
        """Return the planned spec with the device, versions and hardware of the node."""
        planned, used = self._spec, read_spec(self._folder.spec_file)
        if not isinstance(used, AttackSpec) or _identity(used) != _identity(planned):
            raise HarnessError(f"{planned.id}: the node ran something else than was planned.")

        loaded = used.models_by_role
        models = {
            role: model.model_copy(update={"device": loaded[role].device, "threads": loaded[role].threads})
            for role, model in planned.models_by_role.items()
        }
        of_node = {name: getattr(used, name) for name in ("versions", "hardware", "shares_device")}
        return planned.model_copy(update=models | of_node)


def _identity(spec: AttackSpec) -> tuple[object, ...]:
    """Return the parts of a spec that a node must not change."""
    params = {name: value for name, value in spec.params.items() if name not in spec.paths}
    weights = {role: model.weights_sha256 for role, model in spec.models_by_role.items()}
    return (spec.id, spec.attack, params, spec.seed, spec.examples, spec.budget, spec.round.name, weights)


def _remove(folder: Path) -> None:
    # What stays is overwritten by the next record of this run.
    with contextlib.suppress(OSError):
        remove_tree(folder)


def use_node_home() -> Path:
    """Make this process use the store of the node, a directory next to the runs of its user, and return it."""
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
    elif not run_status(folder).is_complete:
        _resume(folder)
    for _ in range(_MAX_RESUMES + 1):
        yield from _follow(folder)
        if run_status(folder) is not Status.LOST:
            yield from _record(folder)
            return
        _resume(folder)
    raise HarnessError(f"its supervisor died {_MAX_RESUMES + 1} times on {socket.gethostname()}. Check that machine.")


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
    located = content.located(shipment.files, fetch)
    for part, directory in (("code", folder.code), ("inputs", folder.inputs), ("record", folder.path)):
        shutil.copytree(located[part], directory, dirs_exist_ok=True)
    if "target" in located and (tokenizer := located["target"] / "tokenizer.json").is_file():
        shutil.copyfile(tokenizer, folder.tokenizer)
    of_node = {"versions": versions(), "hardware": {**hardware(), "node": socket.gethostname()}}
    return bound_to_node(shipment.spec, located, device=device).model_copy(update=of_node)


def _record(folder: RunFolder) -> Iterator[Message]:
    """Yield the files of a run that is over."""
    hashes = {}
    code = sorted(folder.code.iterdir())
    for file in (folder.spec_file, folder.store, folder.log, folder.supervisor_log, folder.tokenizer, *code):
        if file.is_file():
            name = file.relative_to(folder.path).as_posix()
            hashes[name] = file_sha256(file)
            # An empty file has no chunk.
            for chunk in itertools.chain([b""], chunks_of(file)):
                yield "file", (name, chunk)
    yield "end", hashes
