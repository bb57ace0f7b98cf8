"""Ordering recorded guesses of GPT-Neo 1.3B by a trained ranker instead of by the least loss.

For 14,000 training rows the best of five recorded guesses, the guess of one trial and five losses are known. A logistic
regression learns from cheap features of four fifths of the rows which guesses are right and orders the last fifth, in
turn; rows that share a 32-token window are never on both sides. Of other rows it sees how often a token stands in their
prefixes, and no more.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from harness.core.clusters import cluster_ids
from harness.core.examples import folds_by_cluster
from harness.core.intervals import paired_difference
from harness.core.scoring import recall_at_errors
from harness.core.submission_reader import SubmissionRules, read_submission
from harness.core.walk import JudgedRows
from harness.rankers import compressed_bytes

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
ROWS, BLOCK, CAP, FOLDS, TRIALS = 14_000, 1_000, 100, 5, 5
SAME_LOSS = 1e-3
BAR = 0.006

Numbers = NDArray[np.float64]


def measure() -> dict[str, Any]:
    """Recall at 100 errors by the least loss and by the ranker: the means over 14 blocks of 1,000 rows, and their gain.

    The interval is of the pooled rows at 1,400 errors, paired, by cluster.
    """
    recorded, satml = DATA / "recorded" / "gpt-neo-1.3b" / "first14000", DATA / "satml"
    if not recorded.is_dir():
        return {"not measured": f"no recorded outputs in {recorded}"}
    preprefixes, prefixes, suffixes = (
        np.load(satml / f"train_{part}.npy")[:ROWS].astype(np.int64) for part in ("preprefix", "prefix", "suffix")
    )
    clusters = cluster_ids([np.concatenate([preprefixes, prefixes, suffixes], axis=1)])
    best, single = (_guesses(recorded / f"guess{trials}.csv") for trials in (5, 1))
    losses = np.stack([np.load(recorded / "losses" / f"{trial}.npy").reshape(-1) for trial in range(TRIALS)], axis=1)
    is_correct = (best == suffixes).all(axis=1)
    known = features(prefixes, best, single, losses)
    found = cross_validated(known, is_correct, folds_by_cluster(clusters, FOLDS))
    by_loss = -losses.min(axis=1)
    order, loss_order = np.argsort(-found, kind="stable"), np.argsort(-by_loss, kind="stable")
    difference = paired_difference(
        JudgedRows(is_correct[order], order),
        JudgedRows(is_correct[loss_order], loss_order),
        cap=CAP * ROWS // BLOCK,
        examples=ROWS,
        clusters=clusters,
    )
    return {
        "least_loss": round(_mean_recall(by_loss, is_correct), 4),
        "ranker": round(_mean_recall(found, is_correct), 4),
        "gain": round(_mean_recall(found, is_correct) - _mean_recall(by_loss, is_correct), 4),
        "bar": BAR,
        "pooled_gain": round(difference.difference, 4),
        "pooled_interval": [round(difference.interval.low, 4), round(difference.interval.high, 4)],
        "features": known.shape[1],
    }


def features(
    prefixes: NDArray[np.int64], best: NDArray[np.int64], single: NDArray[np.int64], losses: Numbers
) -> Numbers:
    """What is known of each guess, [rows, features]: its losses, how far the trials agree, how plain its tokens are."""
    least = losses.min(axis=1, keepdims=True)
    # How often a token stands in any prefix: a likely suffix of rare tokens was read, one of common ones perhaps not.
    commonness = np.log(np.bincount(prefixes.reshape(-1), minlength=50_257) + 1.0)
    columns = [
        *np.log(np.sort(losses, axis=1) + 1e-4).T,
        np.log(losses.mean(axis=1)),
        # Trials that drew the same suffix have the same loss, up to the rounding of half precision.
        (np.abs(losses - least) < SAME_LOSS * np.maximum(SAME_LOSS, least)).sum(axis=1),
        (best == single).all(axis=1),
        (best == single).mean(axis=1),
        compressed_bytes(best),
        compressed_bytes(prefixes),
        compressed_bytes(np.concatenate([prefixes, best], axis=1)),
        [len(set(row)) for row in best.tolist()],
        [len(set(row)) for row in prefixes.tolist()],
        [len(set(row) - set(prefix)) for row, prefix in zip(best.tolist(), prefixes.tolist(), strict=True)],
        commonness[best].mean(axis=1),
        commonness[best].min(axis=1),
        commonness[prefixes].mean(axis=1),
    ]
    return np.stack([np.asarray(column, np.float64) for column in columns], axis=1)


def cross_validated(features_: Numbers, is_correct: NDArray[np.bool_], fold: NDArray[np.int64]) -> Numbers:
    """The log-odds that each row is correct, [rows], by a model that has seen no row of its fold."""
    odds = np.empty(len(fold))
    for number in np.unique(fold):
        mine = fold == number
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
        odds[mine] = model.fit(features_[~mine], is_correct[~mine]).decision_function(features_[mine])
    return odds


def _mean_recall(score: Numbers, is_correct: NDArray[np.bool_]) -> float:
    recalls = []
    for first in range(0, ROWS, BLOCK):
        order = np.argsort(-score[first : first + BLOCK], kind="stable")
        recalls.append(recall_at_errors(is_correct[first + order], order, cap=CAP, examples=BLOCK))
    return float(np.mean(recalls))


def _guesses(file: Path) -> NDArray[np.int64]:
    """The recorded guess of each row, [rows, 50]."""
    submission = read_submission(file, SubmissionRules(ROWS, suffix_length=50, vocabulary=50_257))
    guesses = np.empty((ROWS, 50), np.int64)
    guesses[submission.ids] = submission.suffixes
    return guesses


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:16} {value}")
