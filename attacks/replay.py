"""Submits what was generated elsewhere: the official baseline's recorded trials, or a submission CSV.

No target is needed. From a folder that the official script wrote (`generations/0.npy`, … int [examples, prefix +
suffix] and `losses/0.npy`, … float [examples, 1]) it makes the official choice: of the first `trials` trials the one
with the least loss, the first of equals; the least losses are submitted first. The script takes trials by file name as
text, so 10 comes before 2; so does this. The rows of a CSV are submitted as they stand.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness import Attack, Context, Field, Guesses, HarnessError, Params
from harness.core.arrays import Floats, Tokens, mapped_array
from harness.core.submission_reader import SubmissionRules, read_submission

_ANY_EXAMPLE = 1 << 32  # A CSV of a whole round may be replayed on a part of it.


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
            yield chosen.part(np.flatnonzero(np.isin(chosen.ids, batch.ids)))

    def _recorded_submission(self, context: Context) -> Iterator[Guesses]:
        rows = submitted_rows(self.params.source, context)
        for batch in context.batches():
            yield rows.part(np.flatnonzero(np.isin(rows.ids, batch.ids)))
        # By their scores alone, repeated rows would merge and each example would keep one guess.
        context.finish(order=rows)


def chosen_suffixes(folder: Path, trials: int | None, context: Context) -> Guesses:
    """For each example the suffix of least loss among the first `trials` recorded ones; its score is minus that loss.

    Raises HarnessError, naming the file, when trials are missing or were recorded for other prefixes.
    """
    names = sorted(path.name for path in (folder / "generations").glob("*.npy"))
    if not names:
        raise HarnessError(f"{folder}: no recorded trials, which are generations/*.npy with losses/*.npy.")
    if trials is not None and trials > len(names):
        raise HarnessError(f"{folder}: {len(names)} recorded trials where trials={trials} are wanted.")
    names = names[:trials]
    losses = np.stack([_losses(folder / "losses" / name, context) for name in names])  # [trials, examples]
    best = losses.argmin(axis=0)  # [examples]
    suffixes = np.empty((len(context.ids), context.suffix_length), np.int64)
    for trial, name in enumerate(names):
        generations = _generations(folder / "generations" / name, context)  # [examples, prefix + suffix]
        suffixes[best == trial] = generations[best == trial, -context.suffix_length :]
    return Guesses(context.ids, suffixes, score=-losses.min(axis=0))


def submitted_rows(file: Path, context: Context) -> Guesses:
    """The rows of a submission CSV that are for attacked examples, in their order; the score is minus the row's number.

    Raises HarnessError, naming the line, when the file is no submission, and when no row is for an attacked example.
    """
    rules = SubmissionRules(_ANY_EXAMPLE, suffix_length=context.suffix_length, vocabulary=context.vocabulary)
    submission = read_submission(file, rules)
    rows = np.flatnonzero(np.isin(submission.ids, context.ids))
    if len(rows) == 0:
        raise HarnessError(f"{file}: no row is for an example of this run.")
    if left_out := len(submission.ids) - len(rows):
        print(f"{file}: {left_out} rows are for examples that this run does not attack; they are left out.")
    return Guesses(submission.ids[rows], submission.suffixes[rows], score=-rows)


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
            f"{file}: wanted integers of shape [rows, {width}], found {recorded.dtype} {list(recorded.shape)}."
        )
    differs = (recorded[:, :prefix_length] != context.prefixes).any(axis=1)
    if differs.any():
        first = context.ids[differs][0]
        raise HarnessError(
            f"{file}: row {first} does not begin with the round's prefix {first}: it was recorded for another round."
        )
    return recorded


def _examples_of(file: Path, recorded: NDArray[Any], context: Context) -> NDArray[Any]:
    """The rows of the attacked examples, whose ids are row numbers."""
    if recorded.ndim == 0 or len(recorded) <= context.ids.max():
        raise HarnessError(f"{file}: shape {list(recorded.shape)}, with no row for example {context.ids.max()}.")
    examples: NDArray[Any] = recorded[context.ids]
    return examples
