"""An attack in the worker process: the plugin is imported and run in a context.

Inputs come from the scratch directory, guesses go to the supervisor.
"""

import math
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.core.arrays import Floats, Ints, Tokens, is_storable_dtype, token_dtype
from harness.core.attack import GUESS_STAGE, Batch
from harness.core.errors import HarnessError
from harness.core.examples import Training
from harness.core.frames import MAX_BODY_BYTES
from harness.core.guesses import GUESSES, Guesses, concatenate_guesses, find_fault
from harness.core.protocol import read_request
from harness.core.requests import (
    AttackRequest,
    ModelRequest,
    read_guesses,
    read_kept,
    read_prefixes,
    read_training,
)
from harness.core.rows import split_into_frames
from harness.core.submission import submission_order
from harness.core.text import sanitize, shorten
from harness.core.times import seconds_since_boot
from harness.worker.batches import (
    MAX_NAME_LENGTH,
    OUTSIDE_ANY_BATCH,
    BatchLog,
    OneOfSeveral,
    Sharing,
    derive_seed,
    is_slow,
    is_valid_name,
)
from harness.worker.channel import Channel
from harness.worker.plugin import error_message, load_attack

if TYPE_CHECKING:
    from harness.engine.target import Target
    from harness.rankers import RankerName

_MIN_BATCHES_ON_GPU = 16
"""Batches of a pass over many examples."""
_SIZE_WITHOUT_TARGET = 64
"""Examples of a batch of an attack without a target."""


class AttackContext:
    """The context of one execution; `harness.core.attack.Context` documents its members."""

    def __init__(self, request: AttackRequest, folder: Path, channel: Channel) -> None:
        self._request = request
        self._folder = folder
        self._channel = channel
        self.prefixes: Tokens = read_prefixes(folder)
        self.suffix_length = request.suffix_length
        self.vocabulary = request.vocabulary
        self.seed = request.seed
        self._log = BatchLog(channel, request)
        self._sharing = Sharing()
        if request.workers > 1:
            assert request.state_folder is not None
            self._sharing = OneOfSeveral(request.worker, channel, request.state_folder)
        self._kept = read_kept(folder)
        self._committed: list[Guesses] = []
        self._outside: list[Guesses] = []
        self._earlier_is_read = False
        self._target: Target | None = None
        self._reference: Target | None = None
        self._rows_at_load = 0
        self._training: Training | None = None
        self._clock_was_read = False
        self.was_cut_short = False

    @property
    def ids(self) -> Ints:
        return np.arange(len(self.prefixes))

    @property
    def target(self) -> "Target":
        if self._target is None:
            config = self._request.target
            if config is None:
                raise HarnessError("context.target: the class of the attack has uses_target = False. Set it to True.")
            self._target = self._load(config, "target")
            self._rows_at_load = self._target.rows_at_once
            from harness.engine.first_token import first_token_sentence

            if number := int(self._target.runner.has_bos(self.prefixes).sum()):
                self._warn(first_token_sentence(number, len(self.prefixes), self._target.bos_token))
        return self._target

    @property
    def reference(self) -> "Target":
        if self._reference is None:
            config = self._request.reference
            if config is None:
                raise HarnessError(
                    "the attack needs a reference model and the run has none. Name one with --reference MODEL."
                )
            try:
                self._reference = self._load(config, "reference")
            except HarnessError as error:
                raise HarnessError(f"reference model: {error}") from error
        return self._reference

    def _load(self, config: ModelRequest, role: str) -> "Target":
        with self._log.loading():
            from harness.engine.loading import load_target

            model = load_target(
                config.path,
                **config.loading,
                shards=config.shards,
                rows_at_once=config.rows_at_once,
                prefix_length=self.prefixes.shape[1],
                suffix_length=self.suffix_length,
                vocabulary=self.vocabulary,
                warn=self._warn,
            )
        model.require(
            prefix_length=self.prefixes.shape[1], suffix_length=self.suffix_length, vocabulary=self.vocabulary
        )
        # Batches and calls of the engine are equally large in all workers.
        model.rows_at_once = self._sharing.agree_on(f"rows of the {role}", model.rows_at_once)
        self._log.add_model(role, model)
        return model

    def _warn(self, sentence: str) -> None:
        self._channel.send("event", name="warning", sentence=sanitize(sentence))

    @property
    def train(self) -> Training:
        if self._training is None:
            self._training = read_training(self._folder)
            if self._training is not None:
                self._channel.send("event", name="read_train")
        if self._training is None or len(self._training) == 0:
            raise HarnessError(
                "the attack needs training examples, and the round has none. "
                "Use a round with train_prefix_file and train_suffix_file."
            )
        return self._training

    def rank(
        self,
        prefixes: Tokens,
        suffixes: Tokens,
        ranker: "RankerName",
        *,
        token_logprobs: Floats | None = None,
        last_prefix_logprob: Floats | None = None,
    ) -> Floats:
        from harness.rankers import ranked

        return ranked(
            ranker,
            self.target,
            prefixes,
            suffixes,
            token_logprobs=token_logprobs,
            last_prefix_logprob=last_prefix_logprob,
            reference=self.reference if ranker == "reference_ratio" else None,
        )

    def announce(self, stage: str, trials: int = 1, *, over: Training | None = None, weight: float = 1.0) -> None:
        if trials < 0 or not 0 < weight < math.inf:
            raise HarnessError(
                f"context.announce({shorten(stage)!r}): trials must be at least 0, and weight positive and finite."
            )
        examples = len(self.prefixes if over is None else over.prefixes)
        self._log.announce(stage, float(examples * trials), draw_weight=float(weight))

    def batches(
        self,
        trials: int = 1,
        *,
        stage: str = GUESS_STAGE,
        over: Training | None = None,
        size: int | None = None,
        in_order: bool = True,
    ) -> Iterator[Batch]:
        prefixes = self.prefixes if over is None else over.prefixes
        passes = first_and_rest(trials) if over is None else [trials]
        self._log.enter(stage, float(len(prefixes) * trials), noun="attack")
        if len(passes) > 1:
            self._channel.send("event", name="passes", stage=stage, examples=len(prefixes))
        if self._request.workers > 1 and self._log.key:
            raise HarnessError(
                f"the attack begins the stage {stage!r} inside a batch of another loop, so it cannot run on several "
                "devices. Use one."
            )
        for number, trials_in_pass in enumerate(passes):
            seed = derive_seed(self.seed, stage, number)
            at_once = size or self._batch_size(trials_in_pass, examples=len(prefixes))
            self._sharing.enter_loop(f"{stage}/{number}")
            # Several workers need equal batches from the start.
            target, is_alone = self._request.target, self._request.workers == 1
            is_measured = size is None and is_alone and target is not None and is_slow(target)
            for part in self._log.parts(f"{stage}/{number}", len(prefixes), max_size=at_once, is_measured=is_measured):
                ids = np.arange(part.start, part.stop)
                # The key contains the size, because batches of different sizes draw different guesses.
                key = f"{stage}/{number}/{part.start}+{len(ids)}"
                if self._log.is_done(key) or not self._sharing.try_claim(key, in_order=in_order and over is not None):
                    continue
                if self._channel.finish_is_asked:
                    self.was_cut_short = True
                    return
                with self._log.batch(key, float(len(ids) * trials_in_pass)):
                    yield Batch(ids, prefixes[ids], trials_in_pass, seed, sum(passes[:number]))

    def _batch_size(self, trials: int, *, examples: int) -> int:
        """Return how many examples a batch has: what fills the target's device, the same in every execution."""
        if self._request.target is None:
            return _SIZE_WITHOUT_TARGET
        is_gpu = self.target.device.type != "cpu"
        return batch_size(self._rows_at_load, trials, examples=examples, is_gpu=is_gpu)

    def remaining(self) -> float:
        if not self._clock_was_read:
            self._clock_was_read = True
            self._channel.send("event", name="read_clock")
        return max(0.0, self._request.finish_at - seconds_since_boot())

    def keep(self, name: str, array: ArrayLike) -> None:
        values = np.array(array, order="C")
        if not is_storable_dtype(values.dtype):
            raise HarnessError(
                f"context.keep({shorten(name)!r}): an array of {values.dtype} cannot be stored. "
                "Convert it to numbers or text of a fixed length."
            )
        if not is_valid_name(name) or values.nbytes > MAX_BODY_BYTES:
            raise HarnessError(
                f"context.keep({shorten(name)!r}): a name has at most {MAX_NAME_LENGTH} valid characters, an "
                f"array at most {MAX_BODY_BYTES >> 20} MiB. Split larger arrays."
            )
        self._kept[name] = values
        if not self._is_stored:
            return
        shape = " ".join(map(str, values.shape))
        content = np.frombuffer(values.tobytes(), np.uint8)
        self._channel.send("kept", {"data": content}, name=name, dtype=values.dtype.str, shape=shape)

    @property
    def _is_stored(self) -> bool:
        """False outside batches for all workers but one, because all of them get there."""
        return self._sharing.is_lead or self._log.key != OUTSIDE_ANY_BATCH

    def _update_state(self) -> None:
        """Take over what other workers have stored, unless a batch is open."""
        if self._log.key == OUTSIDE_ANY_BATCH and (folder := self._sharing.wait_for_state()) is not None:
            self._kept |= read_kept(folder)
            self._earlier_is_read = True
            earlier = read_guesses(folder)
            self._committed = [*([] if earlier is None else [earlier]), *self._outside]

    def kept(self, name: str) -> NDArray[Any] | None:
        self._update_state()
        return self._kept.get(name)

    def guesses(self) -> Guesses:
        self._update_state()
        if not self._earlier_is_read:
            self._earlier_is_read = True
            if (earlier := read_guesses(self._folder)) is not None:
                self._committed.insert(0, earlier)
        all_ = concatenate_guesses(self._committed, suffix_length=self.suffix_length)
        rows = submission_order(all_.ids, all_.suffixes, all_.score, per_example=self._request.guesses_per_example)
        return all_.part(rows)

    def finish(self, order: Guesses) -> None:
        self._check(order)
        if not self._is_stored:
            return
        suffixes = self._narrow(order.suffixes)
        if order.ids.nbytes + suffixes.nbytes > MAX_BODY_BYTES:
            raise HarnessError(f"context.finish: {len(order):,} rows are more than a submission may have. Pass fewer.")
        self._channel.send("final", {"example": order.ids, "suffix": suffixes})

    def emit(self, guesses: Guesses) -> None:
        """Send the attack's guesses to the supervisor in the open batch."""
        if not isinstance(guesses, Guesses):
            raise HarnessError(f"the attack yielded {type(guesses).__name__}. It must yield Guesses.")
        self._check(guesses)
        self._committed.append(guesses)
        if self._log.key == OUTSIDE_ANY_BATCH:
            self._outside.append(guesses)
        if not self._is_stored:
            return
        self._log.begin_outside()
        narrowed = replace(guesses, suffixes=self._narrow(guesses.suffixes))
        for columns in split_into_frames(GUESSES, narrowed.columns()):
            self._channel.send("guess", columns, key=self._log.key)

    def _check(self, guesses: Guesses) -> None:
        fault = find_fault(
            guesses, examples=len(self.prefixes), suffix_length=self.suffix_length, vocabulary=self.vocabulary
        )
        if fault is not None:
            raise HarnessError(f"the attack emitted {fault}.")

    def _narrow(self, suffixes: Tokens) -> Tokens:
        return suffixes.astype(token_dtype(self.vocabulary), copy=False)


def first_and_rest(trials: int) -> list[int]:
    """Return the trials of each pass: the first one, and all others, which share one tree."""
    return [part for part in (min(1, trials), trials - 1) if part > 0]


def batch_size(rows: int, trials: int, *, examples: int, is_gpu: bool) -> int:
    """Return how many examples a batch has if `rows` sequences have room on the device.

    Half of the draws are expected to be alive at a time. The maximum is what a CPU does in some seconds, and on a GPU a
    part of the `examples`, so that several GPUs can share them and a kill loses little.
    """
    min_size = 64
    max_size = min(1024, -(-examples // _MIN_BATCHES_ON_GPU)) if is_gpu else 128
    return max(min_size, min(max_size, 2 * rows // (trials + 1)))


def run(folder: Path, channel: Channel) -> bool:
    """Run the attack whose request is in `folder`; return True if it was asked to finish before its end."""
    request = read_request(folder, AttackRequest)
    attack_type = load_attack(request.attack_file)
    context = AttackContext(request, folder, channel)
    attack = attack_type(attack_type.params_type().model_validate(request.params))
    channel.send("event", name="started")
    for guesses in attack.run(context):
        context.emit(guesses)
    return context.was_cut_short


def failure_sentence(error: BaseException, folder: Path) -> str:
    """Return a sentence about an error, with the line of the attack's own file if the traceback has one."""
    if isinstance(error, SystemExit):
        return f"the attack asked to exit with {error.code!r:.100} before its end."
    file = read_request(folder, AttackRequest).attack_file
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    where = f" at {file.name}:{lines[-1]}" if lines else ""
    message = error_message(error)
    return f"the attack raised {type(error).__name__}{where}{': ' + message if message else ''}."
