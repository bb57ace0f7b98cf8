"""The other workers of the run, as one worker sees them.

A run on several devices has one worker per device, and every worker runs the whole attack. They share its batches: a
batch that another worker runs looks like one that an earlier execution has done. So an attack that can be resumed can
run on several devices.
"""

from pathlib import Path
from typing import Protocol

from harness.core.request import LEAD
from harness.worker.channel import Channel


class Sharing(Protocol):
    """The division of the work among the workers of a run."""

    @property
    def is_lead(self) -> bool:
        """True for the one worker whose rows and arrays count outside batches."""

    def enter_loop(self, loop: str) -> None:
        """Wait until all batches of earlier loops are done."""

    def try_claim(self, key: str, *, in_order: bool) -> bool:
        """Claim a batch; False if another worker runs it or has done it.

        `in_order` reserves the batch for the lead; the others wait until it is done.
        """

    def agree_on(self, name: str, number: int) -> int:
        """Return the number that the first worker proposed under `name`."""

    def wait_for_state(self) -> Path | None:
        """Wait until the batches of other workers are done; return the directory of the stored state.

        None if the state has not changed since the last call.
        """


class Alone:
    """The only worker of a run."""

    is_lead = True

    def enter_loop(self, loop: str) -> None:
        """Do nothing."""

    def try_claim(self, key: str, *, in_order: bool) -> bool:
        """Return True."""
        return True

    def agree_on(self, name: str, number: int) -> int:
        """Return `number`."""
        return number

    def wait_for_state(self) -> Path | None:
        """Return None."""
        return None


class OneOfSeveral:
    """One of several workers. The supervisor answers its questions (`harness.supervisor.shared_batches`)."""

    def __init__(self, worker: int, channel: Channel, folder: Path) -> None:
        """`folder` is where the supervisor writes the state that other workers have changed."""
        self.is_lead = worker == LEAD
        self._channel = channel
        self._folder = folder
        self._has_shared = False

    def enter_loop(self, loop: str) -> None:
        """Wait until all batches of earlier loops are done."""
        self._has_shared = True
        self._channel.ask("enter", key=loop)

    def try_claim(self, key: str, *, in_order: bool) -> bool:
        """Claim a batch, or return False."""
        return self._channel.ask("claim", key=key, in_order=in_order) == 1

    def agree_on(self, name: str, number: int) -> int:
        """Return the number that the first worker proposed."""
        return self._channel.ask("agree", key=name, number=number)

    def wait_for_state(self) -> Path | None:
        """Wait for the other workers once after each loop."""
        if not self._has_shared:
            return None
        self._has_shared = False
        return self._folder / str(self._channel.ask("state", key=""))
