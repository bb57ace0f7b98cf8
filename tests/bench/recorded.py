"""Compare two orders of recorded guesses of GPT-Neo 1.3B: by a trained ranker, and by the lowest loss.

For 14,000 training rows the best of five recorded guesses, the guess of one trial and five losses are known. A logistic
regression on cheap features predicts which guesses are correct, with five-fold cross-validation; rows that share a
32-token window are in the same fold. The only feature that depends on other rows is how often a token occurs in the
prefixes.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from harness.core.examples import folds_by_cluster
from harness.core.intervals import JudgedRows
from harness.core.multiple_comparisons import paired_difference
from harness.core.scoring import recall_at_errors
from harness.core.submission_reader import SubmissionRules, read_submission
from harness.core.windows import cluster_ids
from harness.rankers import compressed_bytes
from tests.data import RECORDED, SATML

ROWS, BLOCK, CAP, FOLDS, TRIALS = 14_000, 1_000, 100, 5, 5
SAME_LOSS = 1e-3
REQUIRED_GAIN = 0.006

Numbers = NDArray[np.float64]


def measure() -> dict[str, Any]:
    """Return Recall@100 by the lowest loss and by the ranker, as means over 14 blocks of 1,000 rows, and the gain.

    The interval is for the pooled rows at 1,400 errors, paired and by cluster.
    """
    recorded, satml = RECORDED / "first14000", SATML
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
        "lowest_loss": round(_mean_recall(by_loss, is_correct), 4),
        "ranker": round(_mean_recall(found, is_correct), 4),
        "gain": round(_mean_recall(found, is_correct) - _mean_recall(by_loss, is_correct), 4),
        "required": REQUIRED_GAIN,
        "pooled_gain": round(difference.difference, 4),
        "pooled_interval": [round(difference.interval.low, 4), round(difference.interval.high, 4)],
        "features": known.shape[1],
    }


def features(
    prefixes: NDArray[np.int64], best: NDArray[np.int64], single: NDArray[np.int64], losses: Numbers
) -> Numbers:
    """Return the features of each guess, [rows, features]: losses, agreement of the trials, sizes, token counts."""
    lowest = losses.min(axis=1, keepdims=True)
    # How often a token occurs in any prefix: a likely suffix of rare tokens is probably memorized.
    log_counts = np.log(np.bincount(prefixes.reshape(-1), minlength=50_257) + 1.0)
    columns = [
        *np.log(np.sort(losses, axis=1) + 1e-4).T,
        np.log(losses.mean(axis=1)),
        # Trials that drew the same suffix have the same loss, up to the rounding of half precision.
        (np.abs(losses - lowest) < SAME_LOSS * np.maximum(SAME_LOSS, lowest)).sum(axis=1),
        (best == single).all(axis=1),
        (best == single).mean(axis=1),
        compressed_bytes(best),
        compressed_bytes(prefixes),
        compressed_bytes(np.concatenate([prefixes, best], axis=1)),
        [len(set(row)) for row in best.tolist()],
        [len(set(row)) for row in prefixes.tolist()],
        [len(set(row) - set(prefix)) for row, prefix in zip(best.tolist(), prefixes.tolist(), strict=True)],
        log_counts[best].mean(axis=1),
        log_counts[best].min(axis=1),
        log_counts[prefixes].mean(axis=1),
    ]
    return np.stack([np.asarray(column, np.float64) for column in columns], axis=1)


def cross_validated(features_: Numbers, is_correct: NDArray[np.bool_], fold: NDArray[np.int64]) -> Numbers:
    """Return the log-odds that each row is correct, [rows], from a model trained on the other folds."""
    odds = np.empty(len(fold))
    for number in np.unique(fold):
        held_out = fold == number
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
        model.fit(features_[~held_out], is_correct[~held_out])
        odds[held_out] = model.decision_function(features_[held_out])
    return odds


def _mean_recall(score: Numbers, is_correct: NDArray[np.bool_]) -> float:
    recalls = []
    for first in range(0, ROWS, BLOCK):
        order = np.argsort(-score[first : first + BLOCK], kind="stable")
        recalls.append(recall_at_errors(is_correct[first + order], order, cap=CAP, examples=BLOCK))
    return float(np.mean(recalls))


def _guesses(file: Path) -> NDArray[np.int64]:
    """Return the recorded guess of each row, [rows, 50]."""
    submission = read_submission(file, SubmissionRules(ROWS, suffix_length=50, vocabulary=50_257))
    guesses = np.empty((ROWS, 50), np.int64)
    guesses[submission.ids] = submission.suffixes
    return guesses


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:16} {value}")
