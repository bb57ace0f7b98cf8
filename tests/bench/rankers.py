"""Compare the rankers on the likeliest suffixes of the surrogate: `python -m tests.bench.rankers` prints the table.

The surrogate has half memorized the training rows 12,000 to 14,999. For each of them the likeliest suffix that a search
finds is the guess. Only the order of the guesses differs between rankers.
"""

from typing import get_args

import numpy as np

from harness.core.scoring import recall_at_errors
from harness.engine.loading import load_target
from harness.rankers import RankerName, ranked
from harness.runs.machine import usable_cores
from tests.bench.inputs import SURROGATE, require_surrogate
from tests.bench.measuring import exit_on_error, markdown_table
from tests.tools.data import training_rows
from tests.tools.surrogate import FIRST_MEMORIZED

BLOCK, BLOCKS, WIDTH, CAP = 1_000, 3, 4, 100


def measure(*, rows: int = BLOCK) -> dict[str, float]:
    """Return Recall@100 of each ranker that needs no second model, a mean over blocks of training rows.

    rows: how many of each block are used. Raises HarnessError if there is no surrogate.
    """
    require_surrogate()
    target = load_target(SURROGATE, device="cpu", threads=usable_cores())
    prefixes, answers = np.split(training_rows()[:, 100:], 2, axis=1)
    names = [name for name in get_args(RankerName) if name != "reference_ratio"]
    recalls: dict[str, list[float]] = {name: [] for name in names}
    for first in range(FIRST_MEMORIZED, FIRST_MEMORIZED + BLOCK * BLOCKS, BLOCK):
        here = slice(first, first + rows)
        found = target.search(prefixes[here], width=WIDTH)
        # Rows are ordered by prefix and then by probability.
        best = np.unique(found.row, return_index=True)[1]
        suffixes, ids = found.suffixes[best], np.arange(len(best))
        is_correct = (suffixes == answers[here]).all(axis=1)
        for name in names:
            order = np.argsort(-ranked(name, target, prefixes[here], suffixes), kind="stable")
            cap = max(1, CAP * rows // BLOCK)
            recalls[name].append(recall_at_errors(is_correct[order], ids[order], cap=cap, examples=rows))
    return {name: float(np.mean(found)) for name, found in recalls.items()}


def table(recalls: dict[str, float]) -> str:
    """Return the recalls as a Markdown table, the best first."""
    rows = sorted(recalls.items(), key=lambda row: -row[1])
    return markdown_table(("ranker", "Recall@100"), [(f"`{name}`", f"{recall:.3f}") for name, recall in rows])


if __name__ == "__main__":
    with exit_on_error():
        print(table(measure()))
