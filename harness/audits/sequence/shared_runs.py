"""Find texts that share a long run of words with the other side: a control that contains them is not unseen."""

from collections.abc import Sequence

import numpy as np

from harness.audits.sequence.words import words_of
from harness.core.arrays import Bools, Ints

RUN = 13
"""Words: the usual length in studies of benchmark contamination."""


def shared_runs(one: Sequence[str], other: Sequence[str]) -> tuple[Bools, Bools]:
    """Return, [n] and [m], which texts share a run of 13 words with the other side, or all words if they have fewer.

    Runs are compared by 64-bit hashes.
    """
    sides = [[_run_hashes(text) for text in texts] for texts in (one, other)]
    pool, other_pool = (np.concatenate([np.empty(0, np.int64), *side]) for side in sides)
    common = set(np.intersect1d(pool, other_pool).tolist())
    first, second = (np.array([not common.isdisjoint(runs.tolist()) for runs in side], np.bool_) for side in sides)
    return first, second


def _run_hashes(text: str) -> Ints:
    words = words_of(text)
    length = min(RUN, len(words))
    return np.array([hash(tuple(words[at : at + length])) for at in range(len(words) - length + 1)], np.int64)
