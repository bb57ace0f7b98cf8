"""Measure how often the words of equal kinds are called different: `python -m tests.bench.word_shift`.

The members and the non-members of a data set have words of one distribution, so a p-value of at most 0.025 is a false
alarm. In clustered data sets each cluster of near-copies is on one side.
"""

import time

import numpy as np

from harness.audits.membership.words import word_shift

LEVEL = 0.025
_VOCABULARY, _WORDS, _OWN_WORDS = 2000, 50, 10


def false_alarm_rate(*, data_sets: int, documents: int, is_clustered: bool) -> float:
    """Return the share of data sets of `documents` members and as many non-members with a p-value of at most 0.025."""
    return float(np.mean([_p_value(number, documents, is_clustered) <= LEVEL for number in range(data_sets)]))


def _p_value(number: int, documents: int, is_clustered: bool) -> float:
    generator = np.random.default_rng([number, documents])
    frequency = 1 / np.arange(1, _VOCABULARY + 1)
    frequency /= frequency.sum()
    sizes = generator.geometric(0.3, 2 * documents) if is_clustered else np.ones(2 * documents, int)
    clusters = np.repeat(np.arange(2 * documents), sizes)[: 2 * documents]
    if is_clustered:
        is_member = (generator.random(2 * documents) < 0.5)[clusters]
    else:
        is_member = np.arange(2 * documents) < documents
    shared = generator.choice(_VOCABULARY, (2 * documents, _WORDS - _OWN_WORDS), p=frequency)
    own = generator.choice(_VOCABULARY, (2 * documents, _OWN_WORDS), p=frequency)
    texts = [" ".join(f"w{word}" for word in row) for row in np.hstack([shared[clusters], own])]
    return word_shift(texts, is_member, clusters, seed=number).p_value


if __name__ == "__main__":
    for is_clustered in (False, True):
        rate = false_alarm_rate(data_sets=1000, documents=60, is_clustered=is_clustered)
        print(f"60 + 60 documents, {'clusters of 3.3' if is_clustered else 'no near-copies'}: {rate:.1%} false alarms")
    start = time.perf_counter()
    _p_value(0, 2000, False)
    print(f"2,000 + 2,000 documents: {time.perf_counter() - start:.1f} s")
