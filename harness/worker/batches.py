"""The batches of a running job: what is announced, begun and done, and which of them other workers run.

A run on several devices has one worker per device, and every worker runs the whole attack. They share its batches: a
batch that another worker runs looks like one that an earlier execution has done. So an attack that can be resumed can
run on several devices.
"""

import contextlib
import hashlib
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from harness.core.audit import Work
from harness.core.errors import HarnessError
from harness.core.protocol import LEAD, JobRequest
from harness.core.spec import TargetConfig
from harness.core.text import is_storable, shorten
from harness.worker.channel import Channel

if TYPE_CHECKING:
    from harness.engine.target import Target

MAX_NAME_LENGTH = 100
OUTSIDE_ANY_BATCH = ""
_STEP_SECONDS = 1.0
"""The minimum time between two reports of steps."""
_BATCH_SECONDS = 30.0
"""The time that a batch should take, whose size is measured: a stopped job loses no more."""
_MEASURED_ITEMS, _MEASURED_PROMPTS = 8, 32
"""The items of the batch that is measured. A step of decoding 32 prompts takes little longer than one of 8."""
_SLOW_BYTES = 100_000_000
"""The minimum weights of a model on a CPU whose batches are measured. Smaller ones take seconds for any batch."""
_LEAST_STEP = 0.01
"""The part of a call between two moments that are kept."""


class _Moment(NamedTuple):
    """The calls of the engine that a batch has made, with the share of the open one, after some seconds."""

    calls: float
    seconds: float


class BatchLog:
    """Reports the progress of batches, also within one (`harness.engine.target.CallProgress`).

    models: the loaded models with their numbers, by role. How one decodes may change in a batch.
    """

    def __init__(self, channel: Channel, request: JobRequest) -> None:
        self._channel = channel
        self._sizes = dict(request.batch_sizes)
        self._measured_sizes: dict[str, int] = {}
        self._done = frozenset(request.done)
        self._stages: set[str] = set()
        self._announced: dict[str, float] = {}
        self._open: list[str] = []
        self._began_at = self._checked = 0.0
        self._moments = [_Moment(0.0, 0.0)]
        self._usual: dict[str, list[_Moment]] = {}
        self._calls: Work = 1.0
        self._share = 0.0
        self._reported_at = 0.0
        self._has_begun_outside = False
        self.models: dict[str, tuple[Target, int]] = {}
        self._decoding: dict[str, str] = {}

    @property
    def key(self) -> str:
        """The key of the open batch, or "" if none is open."""
        return self._open[-1] if self._open else OUTSIDE_ANY_BATCH

    def announce(self, stage: str, weight: float, *, draw_weight: float = 1.0) -> None:
        """Announce the work of a stage before it begins. Raises HarnessError if its name is too long."""
        _check_name(stage)
        self._announced[stage] = draw_weight
        self._send_plan(stage, weight, draw_weight)

    def enter(self, stage: str, weight: float, *, noun: str, draw_weight: float | None = None) -> None:
        """Begin a stage and record its work. Raises HarnessError if its name is used already or too long."""
        if stage in self._stages:
            raise HarnessError(f"the {noun} has two loops over batches of the stage {stage!r}. Rename one of them.")
        _check_name(stage)
        self._stages.add(stage)
        self._send_plan(stage, weight, draw_weight or self._announced.get(stage, 1.0))

    def _send_plan(self, stage: str, weight: float, draw_weight: float) -> None:
        is_announced = stage in self._announced
        self._channel.send("plan", stage=stage, weight=weight, draw_weight=draw_weight, is_announced=is_announced)

    def is_done(self, key: str) -> bool:
        """Return True if an earlier execution has done the batch."""
        return key in self._done

    def parts(
        self, loop: str, items: int, *, max_size: int, ends: Sequence[int] = (), is_measured: bool = False
    ) -> Iterator[slice]:
        """Yield the items of each batch of a loop: at most `max_size`, and none of them on both sides of one of `ends`.

        With `is_measured`, the first batch is small, and the others have as many items as should take half a minute.
        They have nearly equal sizes, because the ETA takes the pace of one for the next, and a small batch takes longer
        per item. The size is recorded, so that a resumed job has the same batches. The items of a loop with `ends` are
        prompts.
        """
        measured = _MEASURED_PROMPTS if ends else _MEASURED_ITEMS
        first = 0
        while first < items:
            size, left = max_size, min([items, *(end for end in ends if first < end)]) - first
            if is_measured or loop in self._sizes:
                size = min(max_size, self._sizes.get(loop, measured) if first else measured)
                if first:
                    size = math.ceil(left / math.ceil(left / size))
            stop = first + min(size, left)
            if is_measured and loop not in self._sizes:
                self._measured_sizes[loop] = stop - first
            yield slice(first, stop)
            first = stop

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """Report that the block loads a model. The pace of the open batch does not include this time."""
        began_at = time.monotonic()
        self._channel.send("event", name="loading")
        try:
            yield
        finally:
            self._leave_out(time.monotonic() - began_at)

    def _leave_out(self, seconds: float) -> None:
        """Leave the time of a preparation out of the pace of the open batch."""
        self._began_at += seconds
        self._channel.send("event", name="loaded", key=self.key, seconds=seconds)

    def _leave_out_checks(self) -> None:
        """Leave the time out in which the engine has checked how the models decode."""
        checked = sum(model.runner.checking_seconds for model, _ in self.models.values())
        if checked > self._checked:
            self._leave_out(checked - self._checked)
        self._checked = checked

    def add_model(self, role: str, model: "Target", number: int = 0) -> None:
        """Record a model that was loaded as `role`, target or reference, and report its calls."""
        model.progress = self
        self.models[role] = model, number
        self._decoding[role] = model.runner.decoding
        self._channel.send("event", name=role, **model.record, number=number)

    @contextlib.contextmanager
    def batch(self, key: str, weight: float, *, calls: Work = 1.0) -> Iterator[None]:
        """Begin a batch, and mark it as done when the block ends. What is sent inside the block belongs to it.

        A batch whose loop the job leaves is not done. calls: the expected work of each call of the engine.
        """
        self._open.append(key)
        self._share = 0.0
        self._began_at, self._moments, self._calls = time.monotonic(), [_Moment(0.0, 0.0)], calls
        self._channel.send("begin", key=key, weight=weight)
        try:
            yield
        except GeneratorExit:
            self._open.remove(key)
            raise
        self._leave_out_checks()
        loop, seconds = key.rpartition("/")[0], time.monotonic() - self._began_at
        self._usual[loop] = [*self._moments, _Moment(self._moments[-1].calls + 1, seconds)]
        for role, (model, number) in self.models.items():
            if model.runner.decoding != self._decoding[role]:
                self.add_model(role, model, number)
        self._open.remove(key)
        if items := self._measured_sizes.pop(loop, 0):
            size = self._sizes[loop] = batch_size_for(seconds / items)
            self._channel.send("event", name="batch_size", loop=loop, size=size)
        self._channel.send("done", key=key)

    def begin_outside(self) -> None:
        """Begin a batch without work for rows that are sent while no batch is open."""
        if self.key == OUTSIDE_ANY_BATCH and not self._has_begun_outside:
            self._has_begun_outside = True
            self._channel.send("begin", key=OUTSIDE_ANY_BATCH, weight=0.0)

    def record_call(self) -> None:
        """Record that an engine call of the open batch has ended."""
        self._moments.append(_Moment(float(int(self._moments[-1].calls) + 1), time.monotonic() - self._began_at))

    def record_step(self, share: float, step: str) -> None:
        """Report how much of the open batch is done, if its last report is a second old."""
        now = time.monotonic()
        if not self._open:
            return
        self._leave_out_checks()
        last, calls = self._moments[-1], int(self._moments[-1].calls) + min(share, 1 - _LEAST_STEP)
        if calls >= last.calls + _LEAST_STEP or last.calls.is_integer():
            self._moments.append(_Moment(calls, now - self._began_at))
        if now >= self._reported_at + _STEP_SECONDS:
            self._reported_at = now
            self._share = min(1.0, max(self._share, self._share_after(_Moment(calls, now - self._began_at))))
            self._channel.send("step", key=self.key, share=self._share, step=step)

    def _share_after(self, now: _Moment) -> float:
        """Return the share of the time of the open batch that has passed.

        A batch is expected to pass like the one before it in its loop. In the first one, the last step 0 of a call ends
        its preparation, such as the pass over the prefixes, and the others are expected to take equally long.
        """
        if usual := self._usual.get(self.key.rpartition("/")[0]):
            calls, seconds = zip(*usual, strict=True)
            # Step 0 stands for the begin of a call, even if it is reported again after its preparation.
            return float(np.interp(now.calls - 1e-9, calls, seconds) / max(seconds[-1], 1e-9))
        works = np.cumsum([0.0, *np.atleast_1d(self._calls)])
        first = [moment for moment in self._moments if moment.calls <= int(now.calls)][-1]
        done_first, done = np.interp([first.calls, now.calls], np.arange(len(works)), works / works[-1]).tolist()
        if done <= done_first:
            return 0.0
        left = (1 - done) * (now.seconds - first.seconds) / (done - done_first)
        return float(now.seconds / max(1e-9, now.seconds + left))


def is_slow(model: TargetConfig) -> bool:
    """Return True if a batch of the usual size may take minutes. The answer is the same in every execution."""
    weights = sum(file.stat().st_size for file in model.path.glob("*.safetensors"))
    return model.device == "cpu" and weights >= _SLOW_BYTES


def batch_size_for(seconds: float) -> int:
    """Return how many items that take `seconds` each are a batch: a power of two, so that equal machines agree."""
    return 1 << max(0, int(_BATCH_SECONDS / max(seconds, 1e-6)).bit_length() - 1)


def is_valid_name(name: str) -> bool:
    """Return True if a stage or a kept array may have this name."""
    return len(name) <= MAX_NAME_LENGTH and is_storable(name)


def _check_name(stage: str) -> None:
    if not is_valid_name(stage):
        raise HarnessError(
            f"the stage name {shorten(stage)!r} has more than {MAX_NAME_LENGTH} characters, or invalid ones. Rename it."
        )


def derive_seed(seed: int, stage: str, number: int) -> int:
    """Return a 63-bit seed for pass `number` of a stage, a pure function of its arguments."""
    digest = hashlib.sha256(f"{seed}/{stage}/{number}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


class Sharing:
    """The division of the work among the workers of a run. This class is that of the only worker."""

    is_lead = True
    """True for the one worker whose rows and arrays count outside batches."""

    def enter_loop(self, loop: str) -> None:
        """Wait until all batches of earlier loops are done."""

    def try_claim(self, key: str, *, in_order: bool) -> bool:
        """Claim a batch; False if another worker runs it or has done it.

        `in_order` reserves the batch for the lead; the others wait until it is done.
        """
        return True

    def agree_on(self, name: str, number: int) -> int:
        """Return the number that the first worker proposed under `name`."""
        return number

    def wait_for_state(self) -> Path | None:
        """Wait until the batches of other workers are done; return the directory of the stored state.

        None if the state has not changed since the last call.
        """
        return None


class OneOfSeveral(Sharing):
    """One of several workers. The supervisor answers its questions (`harness.supervisor.shared_batches`)."""

    def __init__(self, worker: int, channel: Channel, folder: Path) -> None:
        """`folder` is where the supervisor writes the state that other workers have changed."""
        self.is_lead = worker == LEAD
        self._channel = channel
        self._folder = folder
        self._has_shared = False

    def enter_loop(self, loop: str) -> None:
        self._has_shared = True
        self._channel.ask("enter", key=loop)

    def try_claim(self, key: str, *, in_order: bool) -> bool:
        return self._channel.ask("claim", key=key, in_order=in_order) == 1

    def agree_on(self, name: str, number: int) -> int:
        return self._channel.ask("agree", key=name, number=number)

    def wait_for_state(self) -> Path | None:
        # Once after each loop.
        if not self._has_shared:
            return None
        self._has_shared = False
        return self._folder / str(self._channel.ask("state", key=""))
