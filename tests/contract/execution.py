"""Execute an attack inside this process, with the real context, frames, intake and store but no other process.

An execution can be killed after any frame, and the run executed again.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from harness.core.files import remove_tree
from harness.core.frames import Frame, FrameReader, encode_frame
from harness.core.protocol import write_request
from harness.core.times import seconds_since_boot
from harness.runs.attack_record import write_results
from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader
from harness.runs.specs import AttackSpec
from harness.runs.store import RunStore
from harness.supervisor.attack_job import AttackJob
from harness.supervisor.intake import Intake
from harness.worker import attack_job
from tests.records import create_record


class Killed(BaseException):
    """The worker was killed. Not an `Exception`, which attacks may catch."""


class DirectChannel:
    """A worker's channel that passes each frame to the intake at once, and raises Killed after `max_frames` frames."""

    finish_is_asked = False

    def __init__(self, store: RunStore, intake: Intake, max_frames: int | None) -> None:
        self.sent = 0
        self._store = store
        self._intake = intake
        self._max_frames = max_frames
        self._frames = FrameReader()

    def send(self, table: str, columns: Mapping[str, NDArray[Any]] | None = None, /, **fields: Any) -> None:
        if table == "step":
            # Their number depends on the speed of the machine.
            return
        if self.sent == self._max_frames:
            raise Killed
        columns = columns or {}
        rows = len(next(iter(columns.values()))) if columns else 0
        content = encode_frame(Frame(table, rows, columns, fields), self.sent)
        with self._store.transaction():
            for _, size, frame in self._frames.feed(content):
                self._intake.take(frame, size)
        self.sent += 1


def new_run(path: Path, spec: AttackSpec, source: Path) -> RunFolder:
    """Create the directory of a run that has not started, with the attack's `source`."""
    folder = RunFolder(path)
    create_record(folder, spec).close()
    folder.code.mkdir()
    shutil.copyfile(source, folder.code / spec.attack.file)
    return folder


def execute(folder: RunFolder, *, max_frames: int | None = None) -> int:
    """Execute or resume the run, and write its results.

    Returns the number of sent frames. Raises Killed after `max_frames` of them.
    """
    spec = AttackSpec.model_validate_json(folder.spec_file.read_bytes())
    inputs = folder.scratch_of(0) / "inputs"
    remove_tree(folder.scratch)
    inputs.mkdir(parents=True)
    store = RunStore(folder.store, spec.stored_tables)
    try:
        job = AttackJob(folder, spec)
        channel = DirectChannel(store, job.intake(store), max_frames)
        job.write_inputs(inputs)
        with RunReader(folder.store) as reader:
            write_request(inputs, job.request(reader, finish_at=seconds_since_boot() + 3600, devices=()))
        attack_job.run(inputs, channel)  # type: ignore[arg-type]
    finally:
        store.close()
    write_results(folder, spec)
    return channel.sent
