"""Measure the time of M-MEM once all confidences are known: `python -m tests.bench.entities`."""

import statistics
import time
from typing import Any

import numpy as np

from harness.audits.entities.measures import count_votes, majority_vote, score_pairs

PROMPTS, NAMES, REPEATS = 400, 826, 5


def measure() -> dict[str, Any]:
    """Return median seconds for scoring all prompts by ranks, and for the majority vote on all pairs."""
    confidences = np.random.default_rng(1).random((PROMPTS, 2, NAMES))
    by_ranks, by_votes = [], []
    for _ in range(REPEATS):
        start = time.perf_counter()
        wins = sum(score_pairs(inside, outside).wins for inside, outside in confidences)
        by_ranks.append(time.perf_counter() - start)
        start = time.perf_counter()
        counters = count_votes(confidences[:, 0], confidences[:, 1])
        majority_vote(counters, PROMPTS)
        by_votes.append(time.perf_counter() - start)
        assert int(counters.sum(dtype=np.int64)) == wins
    return {
        "prompts": PROMPTS,
        "pairs": NAMES**2,
        "m_mem_s": statistics.median(by_ranks),
        "majority_vote_s": statistics.median(by_votes),
    }


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:20} {value:.4g}")
