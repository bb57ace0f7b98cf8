"""Guesses that were generated elsewhere: recorded trials of the official baseline, or a submission CSV.

This attack needs no target. A folder that the official script wrote contains `generations/0.npy`, … (int [examples,
prefix + suffix]) and `losses/0.npy`, … (float [examples, 1]). The attack guesses every recorded suffix with its trial.
If several suffixes of an example have equal losses, it guesses only the suffix of the first such trial. So it repeats
the official choice: for each example, the suffix with the lowest loss among the first `trials` trials. The lowest
losses are submitted first. The first trials are those with the lowest numbers, as in a run of the script that generates
them. A run of the script that reads saved files sorts their names as text, so that 10 comes before 2; `order=text`
repeats such a run. The rows of a CSV are submitted unchanged.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from harness import (
    Attack,
    Context,
    Field,
    Floats,
    Guesses,
    HarnessError,
    Params,
    SubmissionRules,
    Tokens,
    mapped_array,
    read_submission,
)

_ANY_NUMBER = (
    1 << 32
)  # A CSV of a whole round may be replayed on some of its examples. The round's row cap cuts the rows.


class ReplayParams(Params):
    source: Path = Field(description="A folder that the official baseline wrote, or a submission CSV.")
    trials: int | None = Field(None, ge=1, description="Recorded trials to use, the first ones; none for all.")
    order: Literal["number", "text"] = Field(
        "number",
        description="Order of trials by file name. `text` is that of the official script where it reads saved files: "
        "0, 1, 10, 2.",
    )


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
        recorded = recorded_suffixes(self.params, context)
        for batch in context.batches():
            yield recorded.part(np.flatnonzero(np.isin(recorded.ids, batch.ids)))

    def _recorded_submission(self, context: Context) -> Iterator[Guesses]:
        rows = submitted_rows(self.params.source, context)
        for batch in context.batches():
            yield rows.part(np.flatnonzero(np.isin(rows.ids, batch.ids)))
        # Ordering by score would merge repeated rows and keep one guess per example.
        context.finish(order=rows)


def recorded_suffixes(params: ReplayParams, context: Context) -> Guesses:
    """Return the suffixes of the recorded trials that `params` selects, in order of ascending scores.

    A score is minus the loss. A suffix whose loss an earlier trial of its example has too is left out, because the
    official script chooses the first of equal ones. Raises HarnessError, which names the file, if trials are missing or
    were recorded for other prefixes.
    """
    folder, trials = params.source, params.trials
    names = sorted(path.name for path in (folder / "generations").glob("*.npy"))
    if not names:
        raise HarnessError(f"no recorded trials: {folder}. Expected generations/*.npy and losses/*.npy.")
    if params.order == "number":
        names = sorted(names, key=lambda name: _trial_number(folder / "generations" / name))
    if trials is not None and trials > len(names):
        raise HarnessError(f"only {len(names)} recorded trials: {folder}. Use trials={len(names)} or fewer.")
    names = names[:trials]
    losses = np.stack([_losses(folder / "losses" / name, context) for name in names])  # [trials, examples]
    tokens = [_generations(folder / "generations" / name, context)[:, -context.suffix_length :] for name in names]
    suffixes = np.concatenate(tokens).astype(np.uint32)  # [trials * examples, suffix length]
    ids, loss = np.tile(context.ids, len(names)), losses.ravel()
    trial = np.repeat(np.arange(1, len(names) + 1), len(context.ids))
    order = np.lexsort((trial, loss, ids))
    equals_last = (ids[order[1:]] == ids[order[:-1]]) & (loss[order[1:]] == loss[order[:-1]])
    rows = order[np.append(True, ~equals_last)][::-1]
    return Guesses(ids[rows], suffixes[rows], -loss[rows], trial[rows])


def submitted_rows(file: Path, context: Context) -> Guesses:
    """Return the rows of a submission CSV for attacked examples, in their order; the score is minus the row number.

    Raises HarnessError, which names the line, if the file is not a submission or has no row for an attacked example.
    """
    rules = SubmissionRules(
        _ANY_NUMBER, suffix_length=context.suffix_length, vocabulary=context.vocabulary, row_cap=_ANY_NUMBER
    )
    submission = read_submission(file, rules)
    rows = np.flatnonzero(np.isin(submission.ids, context.ids))
    if len(rows) == 0:
        raise HarnessError(f"no row is for an example of this run: {file}. Choose a submission of the same round.")
    if left_out := len(submission.ids) - len(rows):
        print(f"{file}: skipped {left_out} rows for examples that this run does not attack.")
    return Guesses(submission.ids[rows], submission.suffixes[rows], score=-rows)


def _trial_number(file: Path) -> int:
    if not (file.stem.isascii() and file.stem.isdecimal()):
        raise HarnessError(
            f"the name of a recorded trial is not a number: {file}. Use order=text to sort names as text."
        )
    return int(file.stem)


def _losses(file: Path, context: Context) -> Floats:
    """Return the losses of the attacked examples, [examples], from an array [rows] or [rows, 1]."""
    recorded = _examples_of(file, mapped_array(file), context)
    losses = recorded.reshape(len(recorded), -1)
    if losses.shape[1] != 1 or not np.issubdtype(losses.dtype, np.floating) or np.isnan(losses).any():
        raise HarnessError(f"invalid losses: {file}. Expected floats of shape [rows, 1] without NaN.")
    return losses[:, 0].astype(np.float64)


def _generations(file: Path, context: Context) -> Tokens:
    """Return the prefixes and generated suffixes of the attacked examples, [examples, prefix + suffix]."""
    recorded = _examples_of(file, mapped_array(file), context)
    prefix_length = context.prefixes.shape[1]
    width = prefix_length + context.suffix_length
    if recorded.shape[1:] != (width,) or not np.issubdtype(recorded.dtype, np.integer):
        raise HarnessError(
            f"invalid generations: {file} has {recorded.dtype} {list(recorded.shape)}. "
            f"Expected integers of shape [rows, {width}]."
        )
    differs = (recorded[:, :prefix_length] != context.prefixes).any(axis=1)
    if differs.any():
        first = context.ids[differs][0]
        raise HarnessError(
            f"row {first} does not begin with the round's prefix {first}: {file}. It was recorded for another round."
        )
    return recorded


def _examples_of(file: Path, recorded: NDArray[Any], context: Context) -> NDArray[Any]:
    """Return the rows of the attacked examples, whose ids are row numbers."""
    if recorded.ndim == 0 or len(recorded) <= context.ids.max():
        raise HarnessError(f"no row for example {context.ids.max()}: {file} has shape {list(recorded.shape)}.")
    examples: NDArray[Any] = recorded[context.ids]
    return examples
