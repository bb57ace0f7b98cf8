"""What a running attack sees of its run: inputs from scratch, progress and guesses out over the channel."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.core import requests as inputs
from harness.core.arrays import Ints, Tokens, token_dtype
from harness.core.attack import Batch
from harness.core.errors import HarnessError
from harness.core.frames import MAX_BODY_BYTES
from harness.core.guesses import Guesses, find_fault, concatenate_guesses
from harness.jobs.attack.request import AttackRequest
from harness.core.submission import submission_order
from harness.core.text import shorten
from harness.core.times import seconds_since_boot
from harness.core.training import Training
from harness.worker.batches import LONGEST_NAME, OUTSIDE_ANY_BATCH, BatchLog
from harness.worker.channel import Channel, travelling

if TYPE_CHECKING:
    from harness.engine.target import Target

_GUESSES_A_FRAME = 1 << 13


class RunContext:
    """The context of one execution (`harness.core.attack.Context` says what each member means to an attack)."""

    def __init__(self, job: AttackRequest, folder: Path, channel: Channel) -> None:
        self._job = job
        self._folder = folder
        self._channel = channel
        self._prefixes: Tokens = inputs.read_prefixes(folder)
        self._log = BatchLog(channel, done=job.done, engine_rows=job.engine_rows)
        self._begun_outside = False
        self._kept = inputs.read_kept(folder)
        self._committed: list[Guesses] = []
        self._earlier_is_read = False
        self._target: Target | None = None
        self._training: Training | None = None
        self._clock_was_read = False
        self.was_cut_short = False

    @property
    def ids(self) -> Ints:
        return np.arange(len(self._prefixes))

    @property
    def prefixes(self) -> Tokens:
        return self._prefixes

    @property
    def suffix_length(self) -> int:
        return self._job.suffix_length

    @property
    def vocabulary(self) -> int:
        return self._job.vocabulary

    @property
    def seed(self) -> int:
        return self._job.seed

    @property
    def target(self) -> "Target":
        if self._target is None:
            order = self._job.target
            if order is None:
                raise HarnessError("the attack touched context.target, and its class says uses_target = False.")
            from harness.engine.loading import load_target

            self._target = load_target(
                order.path,
                device=order.device,
                dtype=order.dtype,
                threads=order.threads,
                rows_at_once=self._job.rows_at_once,
                suffix_length=self.suffix_length,
            )
            self._target.require(
                prefix_length=self._prefixes.shape[1], suffix_length=self.suffix_length, vocabulary=self.vocabulary
            )
            self._target.calls = self._log
            self._channel.send("event", name="target", **self._target.record)
        return self._target

    @property
    def train(self) -> Training:
        if self._training is None:
            self._training = inputs.read_training(self._folder)
            if self._training is not None:
                self._channel.send("event", name="read_train")
        if self._training is None or len(self._training) == 0:
            raise HarnessError(
                "the round has no training examples, and the attack asks for them: "
                "take a round that names train_prefix_file and train_suffix_file."
            )
        return self._training

    def batches(
        self, trials: int = 1, *, stage: str = "guess", over: Training | None = None, size: int = 64
    ) -> Iterator[Batch]:
        prefixes = self._prefixes if over is None else over.prefixes
        passes = list(doubling_passes(trials)) if over is None else [trials]
        self._log.enter(stage, float(len(prefixes) * trials), noun="attack")
        for number, trials_in_pass in enumerate(passes):
            seed = derived_seed(self.seed, stage, number)
            for first in range(0, len(prefixes), size):
                ids = np.arange(first, min(first + size, len(prefixes)))
                key = f"{stage}/{number}/{first}"
                if self._log.is_done(key):
                    continue
                if self._channel.finish_is_asked:
                    self.was_cut_short = True
                    return
                self._log.begin(key, weight=float(len(ids) * trials_in_pass))
                yield Batch(ids, prefixes[ids], trials_in_pass, seed, stage)
                self._log.end(key)

    def remaining(self) -> float:
        if not self._clock_was_read:
            self._clock_was_read = True
            self._channel.send("event", name="read_clock")
        return max(0.0, self._job.finish_at - seconds_since_boot())

    def keep(self, name: str, array: ArrayLike) -> None:
        values = travelling(np.asarray(array))
        if len(name) > LONGEST_NAME or values.nbytes > MAX_BODY_BYTES:
            raise HarnessError(
                f"context.keep({shorten(name)!r}): at most {LONGEST_NAME} characters and "
                f"{MAX_BODY_BYTES >> 20} MiB are kept under one name; split what is larger."
            )
        self._kept[name] = values
        self._channel.send("kept", {"data": values.reshape(-1)}, name=name, shape=" ".join(map(str, values.shape)))

    def kept(self, name: str) -> NDArray[Any] | None:
        return self._kept.get(name)

    def guesses(self) -> Guesses:
        if not self._earlier_is_read:
            self._earlier_is_read = True
            if (earlier := inputs.read_guesses(self._folder)) is not None:
                self._committed.insert(0, earlier)
        all_ = concatenate_guesses(self._committed, suffix_length=self.suffix_length)
        rows = submission_order(all_.ids, all_.suffixes, all_.score, per_example=self._job.guesses_per_example)
        return all_.part(rows)

    def finish(self, order: Guesses) -> None:
        self._check(order)
        suffixes = self._narrowed(order.suffixes)
        if order.ids.nbytes + suffixes.nbytes > MAX_BODY_BYTES:
            raise HarnessError(f"context.finish: {len(order):,} rows are more than a submission holds; cut the order.")
        self._channel.send("final", {"ids": order.ids, "suffixes": suffixes})

    def emit(self, guesses: Guesses) -> None:
        """Hand the attack's guesses to the supervisor, under the batch that is open."""
        if not isinstance(guesses, Guesses):
            raise HarnessError(f"the attack yielded {type(guesses).__name__} where Guesses are expected.")
        self._check(guesses)
        if self._log.key == OUTSIDE_ANY_BATCH and not self._begun_outside:
            self._begun_outside = True
            self._channel.send("begin", key=OUTSIDE_ANY_BATCH, weight=0.0)
        self._committed.append(guesses)
        suffixes = self._narrowed(guesses.suffixes)
        for first in range(0, len(guesses), _GUESSES_A_FRAME):
            rows = slice(first, first + _GUESSES_A_FRAME)
            columns = {"ids": guesses.ids[rows], "suffixes": suffixes[rows], "score": guesses.score[rows]}
            self._channel.send("guess", columns, key=self._log.key)

    def _check(self, guesses: Guesses) -> None:
        fault = find_fault(
            guesses, examples=len(self._prefixes), suffix_length=self.suffix_length, vocabulary=self.vocabulary
        )
        if fault is not None:
            raise HarnessError(f"the attack emitted {fault}.")

    def _narrowed(self, suffixes: Tokens) -> Tokens:
        return suffixes.astype(token_dtype(self.vocabulary), copy=False)


def doubling_passes(trials: int) -> Iterator[int]:
    """1, 2, 4, … and what is left, adding up to `trials`."""
    size = 1
    while trials > 0:
        yield min(size, trials)
        trials -= size
        size *= 2


def derived_seed(seed: int, stage: str, number: int) -> int:
    """A seed of 63 bits for one pass of one stage, a pure function of its arguments."""
    digest = hashlib.sha256(f"{seed}/{stage}/{number}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
