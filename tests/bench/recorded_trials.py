"""Recorded outputs of the official baseline on GPT-Neo 1.3B, and the training rows that they belong to."""

import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harness.candidate_ranker import Candidates, log_loss
from harness.core.arrays import Floats32, Ints, Tokens, mapped_array
from harness.core.errors import HarnessError
from harness.core.submission_reader import SubmissionRules, read_submission
from harness.core.windows import cluster_ids
from tests.tools import data
from tests.tools.data import RECORDED, TRIALS

MAX_TRIALS, EARLIER_ROWS, EARLIER_TRIALS = 1_000, 14_000, 5
VOCABULARY, LENGTH = 50_257, 50
SAME_LOSS = 1e-3  # Trials that drew the same suffix have the same loss, up to the rounding of half precision.


class TrainingRows(NamedTuple):
    """The training rows of the challenge. prefixes, suffixes: [rows, 50]; clusters: [rows]."""

    prefixes: Tokens
    suffixes: Tokens
    clusters: Ints

    def part(self, rows: slice) -> "TrainingRows":
        """Return the training rows at `rows`."""
        return TrainingRows(self.prefixes[rows], self.suffixes[rows], self.clusters[rows])


class Trials(NamedTuple):
    """Recorded trials. suffixes: [examples, trials, 50]; losses: [examples, trials], the official mean losses."""

    suffixes: Tokens
    losses: Floats32

    def first(self, count: int) -> "Trials":
        """Return the first `count` trials."""
        return Trials(self.suffixes[:, :count], self.losses[:, :count])


def training_rows() -> TrainingRows:
    """Return the 15,000 training rows of the challenge."""
    whole = data.training_rows()
    return TrainingRows(whole[:, 100:150], whole[:, 150:], cluster_ids([whole]))


def recorded_trials() -> Trials:
    """Return the trials in TRIALS. Raises HarnessError if a file is missing or damaged."""
    arrays = []
    for path in (TRIALS / "suffixes.npy.xz", TRIALS / "losses.npy.xz"):
        try:
            with lzma.open(path) as file:
                arrays.append(np.load(file))
        except (OSError, ValueError, EOFError, lzma.LZMAError) as error:
            raise HarnessError(f"{path}: cannot be read ({error}).") from None
    return Trials(*arrays)


def published_trials(source: Path, prefixes: Tokens) -> Trials:
    """Return the trials in `source`/generations/N.npy, [rows, 100], and `source`/losses/N.npy, N from 0.

    Raises HarnessError if there are none, or they do not belong to `prefixes`.
    """

    def read(kind: str) -> Iterator[Any]:
        for number in range(MAX_TRIALS):
            if not (file := source / kind / f"{number}.npy").is_file():
                break
            yield np.asarray(mapped_array(file)).reshape(len(prefixes), -1)

    try:
        generations, losses = list(read("generations")), list(read("losses"))
    except ValueError:
        raise HarnessError(f"{source}: expected {len(prefixes):,} rows in each file.") from None
    if not generations or len(generations) != len(losses):
        counts = f"{len(generations)} files generations/N.npy and {len(losses)} files losses/N.npy"
        raise HarnessError(f"{source}: expected as many files of both kinds, N from 0, found {counts}.")
    length = prefixes.shape[1]
    if any(not np.array_equal(whole[:, :length], prefixes) for whole in generations):
        raise HarnessError(f"{source}: the prefixes are not those of the last {len(prefixes):,} training rows.")
    suffixes = np.stack([whole[:, length:].astype(np.uint16) for whole in generations], axis=1)
    return Trials(suffixes, np.concatenate(losses, axis=1))


def earlier_candidates() -> Candidates:
    """Return the known guesses for the 14,000 rows: the best of five trials, and that of trial 0 if it differs.

    Of the other trials only the losses are known. Trials with the same loss are taken to have drawn the same suffix.
    The log-probabilities lack that of the last token, which the loss leaves out.
    """
    folder = RECORDED / "first14000"
    rules = SubmissionRules(EARLIER_ROWS, suffix_length=LENGTH, vocabulary=VOCABULARY)
    best, single = np.empty((2, EARLIER_ROWS, LENGTH), np.int64)
    for guesses, count in ((best, EARLIER_TRIALS), (single, 1)):
        submission = read_submission(folder / f"guess{count}.csv", rules)
        guesses[submission.ids] = submission.suffixes
    files = [folder / "losses" / f"{trial}.npy" for trial in range(EARLIER_TRIALS)]
    losses = np.stack([mapped_array(file).reshape(-1) for file in files], axis=1).astype(np.float64)
    is_other = (best != single).any(axis=1)
    row = np.concatenate([np.arange(EARLIER_ROWS), np.flatnonzero(is_other)])
    suffixes = np.concatenate([best, single[is_other]])
    loss = np.concatenate([losses.min(axis=1), losses[is_other, 0]])
    tolerance = SAME_LOSS * np.maximum(SAME_LOSS, losses)
    shares = (np.abs(losses[:, :, None] - losses[:, None, :]) < tolerance[:, :, None]).mean(axis=2)
    drawn = (np.abs(losses[row] - loss[:, None]) < tolerance[row]).mean(axis=1)
    common = np.where(is_other, (best == single).mean(axis=1), 0.0)[row]
    rival = np.bincount(row, drawn)[row] - drawn
    order = np.argsort(row, kind="stable")
    return Candidates(
        row,
        suffixes,
        -LENGTH * loss,
        np.ones(suffixes.shape),
        drawn,
        -np.log(shares).mean(axis=1)[row],
        (shares < 1.5 / EARLIER_TRIALS).mean(axis=1)[row],
        drawn + rival * common,
        log_loss(-LENGTH * losses, LENGTH).mean(axis=1)[row],
    ).at(order)
