"""What an attack's worker sends: guesses, what it keeps, and a final order, all checked against the round."""

import math
from typing import Any

import numpy as np

from harness.core.arrays import token_dtype
from harness.core.frames import Frame
from harness.core.guesses import Guesses, find_fault
from harness.jobs.attack.spec import AttackSpec
from harness.runs.store import RunStore
from harness.supervisor.intake import EVENTS, MAX_KEY, Intake, IntakeFault
from harness.supervisor.running_curve import RunningCurve

_ROWS_STORED_PER_ROW_CAP = 100
_MOST_BYTES = {"kept": 1 << 30, "final": 1 << 30}


class GuessIntake(Intake):
    """Takes the frames of one execution of an attack."""

    events = EVENTS | {"read_clock", "read_train"}

    def __init__(self, store: RunStore, spec: AttackSpec, curve: RunningCurve, *, guesses: int) -> None:
        """`guesses` is how many rows earlier executions have stored."""
        super().__init__(store)
        self._spec = spec
        self._curve = curve
        self._kept_bytes: dict[str, int] = {}
        self.rows = guesses
        self.most_bytes |= _MOST_BYTES
        self.handlers |= {"guess": self._guess, "kept": self._keep, "final": self._final}

    def count(self, frame: Frame, size: int) -> None:
        if frame.table == "kept":
            # One of a name takes the place of the one before: what is held counts, and not what was sent.
            name = _kept_name(frame)
            size, self._kept_bytes[name] = size - self._kept_bytes.get(name, 0), size
        if frame.table != "guess":
            super().count(frame, size)

    def has_begun_again(self, batch: int) -> None:
        self._curve.void(batch)

    def _guess(self, frame: Frame) -> None:
        guesses = Guesses(frame.columns["ids"], frame.columns["suffixes"], frame.columns["score"])
        batch, attempt = self.attempt_of(frame)
        self._check(guesses)
        self.rows += len(guesses)
        most = _ROWS_STORED_PER_ROW_CAP * self._spec.round.row_cap
        if self.rows > most:
            raise IntakeFault(f"more than {most:,} guesses, {_ROWS_STORED_PER_ROW_CAP} times what a submission holds")
        suffixes = guesses.suffixes.astype(token_dtype(self._spec.round.vocabulary))
        self._store.add_guesses(batch, attempt, guesses.ids, suffixes, guesses.score)
        self._curve.add(batch, Guesses(guesses.ids, suffixes, guesses.score))

    def _keep(self, frame: Frame) -> None:
        array = frame.columns["data"]
        shape = [int(size) for size in str(frame.fields["shape"]).split()]
        if min(shape, default=0) < 0 or math.prod(shape) != array.size:
            raise IntakeFault("a kept array of another size than it says")
        self._store.add_kept(_kept_name(frame), array.reshape(shape))

    def _final(self, frame: Frame) -> None:
        order = Guesses(frame.columns["ids"], frame.columns["suffixes"], np.zeros(frame.rows))
        self._check(order)
        suffixes = order.suffixes.astype(token_dtype(self._spec.round.vocabulary))
        self._store.add_final(order.ids, suffixes)

    def _check(self, guesses: Guesses) -> None:
        rules = self._spec.round
        fault = find_fault(
            guesses, examples=self._spec.examples, suffix_length=rules.suffix_length, vocabulary=rules.vocabulary
        )
        if fault is not None:
            raise IntakeFault(fault)


def _kept_name(frame: Frame) -> str:
    name: Any = frame.fields.get("name")
    return str(name)[:MAX_KEY]
