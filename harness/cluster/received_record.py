"""The record of a run as it arrives from a node: checked by hash, scored with the answers, and put into the store."""

import contextlib
from pathlib import Path
from typing import IO

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
from harness.core.spec import TargetRecord
from harness.runs.attack_record import write_results
from harness.runs.folder import RunFolder
from harness.runs.specs import AttackSpec, read_spec
from harness.runs.status import Status
from harness.runs.summary import run_status
from harness.sweeps.record import COUNTED

_FILES = ("spec.json", "run.db", "worker.log", "supervisor.log", "tokenizer.json")


class ReceivedRecord:
    """The files of one run, which are stored beside the runs until all of them are there."""

    def __init__(self, spec: AttackSpec) -> None:
        """`spec` is what the driver planned, with the round's answers."""
        self._spec = spec
        self._folder = RunFolder(state_home() / "arriving" / spec.id)
        remove_tree(self._folder.path)
        self._folder.code.mkdir(parents=True, mode=0o700)
        self._open: IO[bytes] | None = None

    def begin_file(self, name: str) -> None:
        """Take the following bytes as those of the file `name`. Raises HarnessError if a run has no such file."""
        self._close()
        if name not in (*_FILES, f"code/{self._spec.attack.file}"):
            raise HarnessError(f"{self._spec.id}: the node sent {name!r}, an unexpected file.")
        self._open = (self._folder.path / name).open("wb")

    def add_bytes(self, chunk: bytes) -> None:
        """Append to the file that was begun last."""
        assert self._open is not None
        self._open.write(chunk)

    def store(self, hashes: dict[str, str]) -> None:
        """Check the files, score the run, and put it into the store, where it appears at once and complete.

        Raises HarnessError if a file is damaged or missing, if the node ran something else than was planned, or if the
        store has a run of this id that is alive.
        """
        self._close()
        for name, sha256 in hashes.items():
            file = self._folder.path / name
            if not file.is_file() or file_sha256(file) != sha256:
                raise HarnessError(f"{self._spec.id}: {name} did not arrive as the node sent it.")
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
                if final.spec_file.is_file() and run_status(final) in COUNTED:
                    raise HarnessError(f"{final.id} is in the store already.")
                replaced = self._folder.path.with_name(f"{final.id}.replaced")
                remove_tree(replaced)
                final.path.rename(replaced)
                stack.callback(_remove, replaced)
            self._folder.path.rename(final.path)
            sync_folder(final.path.parent)

    def discard(self) -> None:
        """Delete what has arrived so far."""
        self._close()
        _remove(self._folder.path)

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _stored_spec(self) -> AttackSpec:
        """Return the planned spec with the device, versions and hardware of the node."""
        planned, used = self._spec, read_spec(self._folder.spec_file)
        if not isinstance(used, AttackSpec) or _identity(used) != _identity(planned):
            raise HarnessError(f"{planned.id}: the node ran something else than was planned.")

        def on_node(mine: TargetRecord | None, theirs: TargetRecord | None) -> TargetRecord | None:
            if mine is None or theirs is None:
                return mine
            return mine.model_copy(update={"device": theirs.device, "threads": theirs.threads})

        return planned.model_copy(
            update={
                "target": on_node(planned.target, used.target),
                "reference": on_node(planned.reference, used.reference),
                "versions": used.versions,
                "hardware": used.hardware,
                "shares_device": used.shares_device,
            }
        )


def _identity(spec: AttackSpec) -> tuple[object, ...]:
    """Return what may not differ between the spec that was planned and the one that was run."""
    params = {name: value for name, value in spec.params.items() if name not in spec.paths}
    weights = [target.weights_sha256 for target in spec.targets]
    return (spec.id, spec.attack, params, spec.seed, spec.examples, spec.budget, spec.round.name, weights)


def _remove(folder: Path) -> None:
    # What stays is overwritten by the next record of this run.
    with contextlib.suppress(OSError):
        remove_tree(folder)
