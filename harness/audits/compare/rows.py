"""The tables of a comparison, and their rows as arrays by target and sequence."""

from dataclasses import dataclass

import numpy as np

from harness.audits.compare.params import SCHEMES
from harness.core.arrays import Floats, Ints
from harness.core.audit import RowsOf
from harness.core.rows import Kind, table

_KEY = dict.fromkeys(("target", "sequence"), Kind.INTEGER)
TOKENS = table("token", **_KEY, **{scheme.value: Kind.REALS for scheme in SCHEMES})
"""The log-probability of each suffix token under each scheme."""
COMPLETIONS = table("completion", **_KEY, tokens=Kind.REALS)
"""The greedy completion of a prefix."""
TABLES = (TOKENS, COMPLETIONS)


@dataclass(frozen=True)
class TargetRows:
    """The rows of one target. sequences: [n], ascending. logprobs: [schemes, n, length].

    completions: the greedy completion by sequence.
    """

    target: int
    sequences: Ints
    logprobs: Floats
    completions: dict[int, Ints]


def read_targets(rows: RowsOf, targets: int) -> list[TargetRows]:
    """Return the rows of each target that has some."""
    tokens, completed = rows(TOKENS.name), rows(COMPLETIONS.name)
    target, sequence = (np.asarray(tokens[name], np.int64) for name in ("target", "sequence"))
    of_target, of_sequence = (np.asarray(completed[name], np.int64) for name in ("target", "sequence"))
    found = []
    for number in range(targets):
        places = np.flatnonzero(target == number)
        if not len(places):
            continue
        sequences, first = np.unique(sequence[places], return_index=True)
        logprobs = np.array([np.asarray(tokens[scheme.value], np.float64)[places[first]] for scheme in SCHEMES])
        mine = np.flatnonzero(of_target == number).tolist()
        completions = {int(of_sequence[place]): completed["tokens"][place].astype(np.int64) for place in mine}
        found.append(TargetRows(number, sequences, logprobs, completions))
    return found
