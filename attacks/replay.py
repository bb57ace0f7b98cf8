"""Submits what was generated elsewhere: the official baseline's recorded trials, or a submission CSV.

No target is needed. From a folder that the official script wrote (`generations/0.npy`, … int [examples, prefix +
suffix] and `losses/0.npy`, … float [examples, 1]) it makes the official choice: of the first `trials` trials the one
with the least loss, the first of equals; the least losses are submitted first. The script takes trials by file name as
text, so 10 comes before 2; so does this. The rows of a CSV are submitted as they stand.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness import Attack, Context, Field, Guesses, Params
from harness.core.arrays import Floats, Tokens, mapped_array
from harness.core.errors import HarnessError


class ReplayParams(Params):
    source: Path = Field(description="A folder that the official baseline wrote, or a submission CSV.")
    trials: int | None = Field(None, ge=1, description="Recorded trials to use, in the official order; none: all.")


class Replay(Attack[ReplayParams]):
    name = "replay"
    reference = (
        "Carlini et al., SaTML 2023 training data extraction challenge, baseline/simple_baseline.py in "
        "github.com/google-research/lm-extraction-benchmark"
    )
    uses_target = False

    def run(self, context: Context) -> Iterator[Guesses]:
        if self.params.source.is_dir():
            yield from self._recorded_trials(context)
        else:
            yield from self._recorded_submission(context)

    def _recorded_trials(self, context: Context) -> Iterator[Guesses]:
        chosen = chosen_suffixes(self.params.source, self.params.trials, context)
        for batch in context.batches():
            yield chosen.part(np.isin(chosen.ids, batch.ids).nonzero()[0])

    def _recorded_submission(self, context: Context) -> Iterator[Guesses]:
        rows = submitted_rows(self.params.source, context)
        for batch in context.batches():
            yield rows.part(np.isin(rows.ids, batch.ids).nonzero()[0])
        # Scores would merge repeated rows and keep one guess an example; the recorded order has its own mind.
        context.finish(order=rows)


def chosen_suffixes(folder: Path, trials: int | None, context: Context) -> Guesses:
    """For each example the suffix of least loss among the first `trials` recorded ones; its score is minus that loss.

    Raises HarnessError, naming the file, when trials are missing or were recorded for other prefixes.
    """
    names = sorted(path.name for path in (folder / "generations").glob("*.npy"))
    if len(names) < (trials or 1):
        raise HarnessError(
            f"{folder}: {len(names)} recorded trials (generations/*.npy) where {trials or 1} are wanted."
        )
    names = names[:trials]
    losses = np.stack([_losses(folder / "losses" / name, context) for name in names])  # [trials, examples]
    best = losses.argmin(axis=0)  # [examples]
    suffixes = np.empty((len(context.ids), context.suffix_length), np.int64)
    for trial, name in enumerate(names):
        generations = _generations(folder / "generations" / name, context)  # [examples, prefix + suffix]
        suffixes[best == trial] = generations[best == trial, -context.suffix_length :]
    return Guesses(context.ids, suffixes, score=-losses.min(axis=0))


def submitted_rows(file: Path, context: Context) -> Guesses:
    """The rows of a submission CSV in their order, those of attacked examples; their score is minus their number."""
    raise NotImplementedError


def _losses(file: Path, context: Context) -> Floats:
    """The attacked examples' losses, [examples], from [rows] or [rows, 1]."""
    recorded = _examples_of(file, mapped_array(file), context)
    losses = recorded.reshape(len(recorded), -1)
    if losses.shape[1] != 1 or not np.issubdtype(losses.dtype, np.floating) or np.isnan(losses).any():
        raise HarnessError(f"{file}: wanted one loss a row, of shape [rows, 1], and no NaN.")
    return losses[:, 0].astype(np.float64)


def _generations(file: Path, context: Context) -> Tokens:
    """The attacked examples' prefixes and generated suffixes, [examples, prefix + suffix]."""
    recorded = _examples_of(file, mapped_array(file), context)
    prefix_length = context.prefixes.shape[1]
    width = prefix_length + context.suffix_length
    if recorded.shape[1:] != (width,) or not np.issubdtype(recorded.dtype, np.integer):
        raise HarnessError(
            f"{file}: wanted integers of shape [rows, {width}], found {recorded.dtype} {recorded.shape}."
        )
    differs = (recorded[:, :prefix_length] != context.prefixes).any(axis=1)
    if differs.any():
        first = context.ids[differs][0]
        raise HarnessError(
            f"{file}: row {first} does not begin with the round's prefix {first}: it was recorded for another round."
        )
    return recorded


def _examples_of(file: Path, recorded: "np.ndarray", context: Context) -> "np.ndarray":
    if recorded.ndim == 0 or len(recorded) <= context.ids.max():
        raise HarnessError(f"{file}: shape {recorded.shape}, with no row for example {context.ids.max()}.")
    return recorded[context.ids]
