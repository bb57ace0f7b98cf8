"""The place of one worker in an execution: its process, which may be started twice, and what it has sent."""

from dataclasses import dataclass, field
from pathlib import Path

from harness.core.frames import FrameReader
from harness.supervisor.devices import Device
from harness.supervisor.intake import WorkerEnd
from harness.supervisor.worker_process import WorkerProcess


@dataclass
class WorkerSlot:
    """One of the workers of an execution, `number` from 0.

    devices: those that it computes on, several if its target is split over them, none if it loads no model. end: its
    last message. silent_since: when it closed the pipe of its frames, in seconds since boot. is_over: True if its
    process has ended and everything that it sent is stored. deaths: how often it exited without a last message.
    """

    number: int
    scratch: Path
    devices: tuple[Device, ...]
    process: WorkerProcess
    frames: FrameReader = field(default_factory=FrameReader)
    end: WorkerEnd | None = None
    silent_since: float | None = None
    is_over: bool = False
    deaths: int = 0

    def replace(self, process: WorkerProcess) -> None:
        """Go on with a new process after the death of the old one, which the caller has killed."""
        self.process.close()
        self.process, self.frames, self.silent_since = process, FrameReader(), None
