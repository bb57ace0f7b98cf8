"""Measure the time of M-MEM once all confidences are known: `python -m tests.bench.entities`."""

from typing import Any

import numpy as np

from harness.audits.entities.measures import count_votes, majority_vote, score_pairs
from tests.bench.measuring import in_turns, median_seconds, print_measured

PROMPTS, NAMES, REPEATS = 400, 826, 5


def measure() -> dict[str, Any]:
    """Return median seconds for scoring all prompts by ranks, and for the majority vote on all pairs."""
    confidences = np.random.default_rng(1).random((PROMPTS, 2, NAMES))

    def vote(_: int) -> int:
        counters = count_votes(confidences[:, 0], confidences[:, 1])
        majority_vote(counters, PROMPTS)
        return int(counters.sum(dtype=np.int64))

    def score(_: int) -> int:
        return sum(score_pairs(inside, outside).wins for inside, outside in confidences)

    taken = in_turns({"ranks": score, "votes": vote}, REPEATS)
    assert taken["ranks"][0].result == taken["votes"][0].result
    return {
        "prompts": PROMPTS,
        "pairs": NAMES**2,
        "m_mem_s": median_seconds(taken["ranks"]),
        "majority_vote_s": median_seconds(taken["votes"]),
    }


if __name__ == "__main__":
    print_measured(measure)
