"""An attack in the supervisor: its inputs, the checks of its guesses, and its live score."""

import math
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from harness.core.arrays import is_storable_dtype, token_dtype
from harness.core.examples import load_prefixes, load_training
from harness.core.frames import Frame
from harness.core.guesses import GUESSES, Guesses, find_fault
from harness.core.live_score import LiveScore
from harness.core.requests import AttackRequest, ModelRequest, write_inputs, write_state
from harness.core.rows import columns_from_frame
from harness.core.spec import TargetRecord
from harness.runs.attack_record import attacked_answers, empty_score, write_results
from harness.runs.folder import RunFolder
from harness.runs.guess_reader import GuessReader
from harness.runs.reader import RunReader
from harness.runs.specs import AttackSpec
from harness.runs.store import RunStore
from harness.supervisor.devices import Device
from harness.supervisor.intake import EVENTS, Intake, IntakeError, name_in
from harness.supervisor.job import Job, target_config

_ROWS_STORED_PER_SUBMITTED = 100
_MAX_DTYPE_LENGTH = 40
_BYTE_LIMITS = {"kept": 1 << 30, "final": 1 << 30}
_MAX_KEPT = 10_000
_SCORE_SHARE_OF_A_CORE = 0.01
_SCORE_INTERVAL_SECONDS = 0.5


class AttackJob(Job[AttackSpec]):
    """One attack on one round."""

    noun = "attack"
    row_noun = "guess"

    def __init__(self, folder: RunFolder, spec: AttackSpec) -> None:
        super().__init__(folder, spec)
        self.hidden_paths = tuple(spec.round.files)
        self._live = empty_score(spec, attacked_answers(spec))
        with GuessReader.of_run(folder, spec) as reader:
            committed = reader.guesses()
            final = reader.final_order()
            self._guesses_before = reader.row_count("guess")
        self._live.add(committed)
        if final is not None:
            self._live.set_final(final)
        self._intake: GuessIntake | None = None
        self._score_due = 0.0

    @property
    def readable_paths(self) -> tuple[Path, ...]:
        return (self.folder.code,)

    @property
    def result_bytes(self) -> int:
        rules, per_example = self.spec.round, self.spec.attack.guesses_per_example
        rows = min(rules.row_cap, self.spec.examples * per_example) if per_example else rules.row_cap
        return rows * (16 + rules.suffix_length * (1 + len(str(rules.vocabulary))))

    def intake(self, store: RunStore) -> "GuessIntake":
        self._intake = GuessIntake(store, self.spec, self._live, guesses=self._guesses_before)
        return self._intake

    def write_inputs(self, folder: Path) -> None:
        if self.folder.inputs.is_dir():
            # A node of a cluster has the inputs instead of the round's files.
            shutil.copytree(self.folder.inputs, folder, dirs_exist_ok=True)
        else:
            prefixes = load_prefixes(self.spec.round)[: self.spec.examples]
            write_inputs(folder, prefixes=prefixes, training=load_training(self.spec.round))
        self.write_state(folder)

    def write_state(self, folder: Path) -> None:
        with GuessReader.of_run(self.folder, self.spec) as reader:
            kept, committed = reader.kept_arrays(), reader.committed_guesses()
        # Guesses of a batch that is not done become void when the batch is run again, so the worker does not get them.
        write_state(folder, kept=kept, guesses=committed.guesses.part(committed.is_done.nonzero()[0]))

    def request(self, reader: RunReader, *, finish_at: float, devices: Sequence[Device]) -> AttackRequest:
        spec = self.spec
        return AttackRequest(
            attack_file=self.folder.code / spec.attack.file,
            suffix_length=spec.round.suffix_length,
            vocabulary=spec.round.vocabulary,
            guesses_per_example=spec.attack.guesses_per_example,
            target=_model_request("target", spec.target, reader, devices),
            reference=_model_request("reference", spec.reference, reader, devices),
            finish_at=finish_at,
            **self.shared_fields(reader),
        )

    def record_score(self, store: RunStore, *, at: float, spent: float, is_last: bool = False) -> None:
        if self._intake is None or not (is_last or (self._intake.has_changed and at >= self._score_due)):
            return
        # Ranking millions of guesses takes seconds, so it happens outside the transaction.
        before = time.thread_time()
        self._intake.has_changed = False
        if self._live.is_stale:
            with GuessReader.of_run(self.folder, self.spec) as reader:
                self._live.replace(reader.guesses())
        point = self._live.point()
        cost = time.thread_time() - before
        self._score_due = at + max(_SCORE_INTERVAL_SECONDS, cost / _SCORE_SHARE_OF_A_CORE)
        with store.transaction():
            store.add_point(spent=spent, guesses=self._intake.rows, **point._asdict())

    @classmethod
    def write_results(cls, folder: RunFolder, spec: AttackSpec) -> None:
        write_results(folder, spec)


JOB = AttackJob


class GuessIntake(Intake):
    """Takes guesses, kept arrays and a final order, all checked against the round."""

    events = EVENTS | {"reference", "read_clock", "read_train"}

    def __init__(self, store: RunStore, spec: AttackSpec, live: LiveScore, *, guesses: int) -> None:
        """`guesses` is the number of rows that earlier executions stored."""
        super().__init__(store)
        self._spec = spec
        self._live = live
        self._kept_bytes: dict[str, int] = {}
        self.rows = guesses
        self.has_changed = False
        self.byte_limits |= _BYTE_LIMITS
        self.handlers |= {"guess": self._guess, "kept": self._keep, "final": self._final}

    def count(self, frame: Frame, size: int) -> None:
        if frame.table == "kept":
            # An array replaces the one of the same name: the bytes that are stored count, not those that were sent.
            name = name_in(frame, "name")
            size, self._kept_bytes[name] = size - self._kept_bytes.get(name, 0), size
            if len(self._kept_bytes) > _MAX_KEPT:
                raise IntakeError(f"more than {_MAX_KEPT:,} kept arrays")
        if frame.table != "guess":
            super().count(frame, size)

    def void_attempts(self) -> None:
        self._live.void()
        self.has_changed = True

    def _guess(self, frame: Frame) -> None:
        guesses = self._check(Guesses.from_columns(columns_from_frame(GUESSES, frame.columns, frame.rows)))
        batch, attempt = self.attempt_of(frame)
        self.rows += len(guesses)
        limit = _ROWS_STORED_PER_SUBMITTED * self._spec.round.row_cap
        if self.rows > limit:
            raise IntakeError(f"more than {limit:,} guesses, {_ROWS_STORED_PER_SUBMITTED} times the row cap")
        self._store.add_rows(batch, attempt, "guess", guesses.columns())
        self._live.add(guesses)
        self.has_changed = True

    def _keep(self, frame: Frame) -> None:
        content = frame.columns["data"]
        shape = [int(size) for size in str(frame.fields["shape"]).split()]
        try:
            dtype = np.dtype(str(frame.fields["dtype"])[:_MAX_DTYPE_LENGTH])
        except (TypeError, ValueError, SyntaxError):
            raise IntakeError("a kept array without a dtype") from None
        if not is_storable_dtype(dtype) or content.dtype != np.uint8 or content.ndim != 1:
            raise IntakeError(f"a kept array of {dtype}")
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != content.size:
            raise IntakeError("a kept array whose shape does not match its size")
        self._store.add_kept(name_in(frame, "name"), np.frombuffer(content.tobytes(), dtype).reshape(shape))

    def _final(self, frame: Frame) -> None:
        order = self._check(Guesses(frame.columns["example"], frame.columns["suffix"], np.zeros(frame.rows)))
        self._store.add_final(order.ids, order.suffixes)
        self._live.set_final(order)
        self.has_changed = True

    def _check(self, guesses: Guesses) -> Guesses:
        """Return the guesses in the round's token dtype. Raises IntakeError if one does not fit the round."""
        rules = self._spec.round
        fault = find_fault(
            guesses, examples=self._spec.examples, suffix_length=rules.suffix_length, vocabulary=rules.vocabulary
        )
        if fault is not None:
            raise IntakeError(fault)
        return replace(guesses, suffixes=guesses.suffixes.astype(token_dtype(rules.vocabulary)))


def _model_request(
    role: Literal["target", "reference"], model: TargetRecord | None, reader: RunReader, devices: Sequence[Device]
) -> ModelRequest | None:
    """Return how the worker loads a model, with the rows at once of the first execution."""
    if model is None:
        return None
    loaded = reader.last_event(f"worker_{role}")
    return ModelRequest(
        **target_config(model, devices).model_dump(),
        rows_at_once=None if loaded is None else int(loaded["rows_at_once"]),
    )
