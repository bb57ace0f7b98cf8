"""What organizers give a verification, and what that says once it is read; nothing of it is the bundle's to choose."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from harness.core.arrays import Ints, Tokens, token_rows
from harness.core.clusters import cluster_ids
from harness.core.errors import HarnessError
from harness.core.examples import load_answers, load_clusters, load_prefixes
from harness.core.rounds import Round
from harness.submit.manifest import TargetIdentity
from harness.submit.prefixes import read_prefixes


@dataclass(frozen=True)
class LocalTarget:
    """The verifier's own copy of the target: its folder and what its weights hash to."""

    path: Path
    weights_sha256: str


@dataclass(frozen=True)
class OrganizerInputs:
    """What the organizers give, and the bundle must not choose.

    Either `round`, whose prefixes, answers and rules are taken, or files: `prefixes` and, once they are out, `answers`;
    budget: seconds, None for the round's, or a day; find_target: their own copy of the target that a bundle names.
    """

    find_target: Callable[[TargetIdentity], LocalTarget]
    round: Round | None = None
    prefixes: Path | None = None
    answers: Path | None = None
    budget: float | None = None


class Known(NamedTuple):
    """prefixes: [examples, length]; answers: [examples, suffix length] or None; clusters: [examples] or None."""

    prefixes: Tokens
    answers: Tokens | None
    clusters: Ints | None


def known_from(given: OrganizerInputs, rules: Round) -> Known:
    """What is given, read; `rules` are those that the bundle names, and those of the round where one is given."""
    if given.round is not None:
        prefixes, answers = load_prefixes(given.round), load_answers(given.round)
        return Known(prefixes, answers, None if answers is None else load_clusters(given.round))
    assert given.prefixes is not None
    prefixes = read_prefixes(given.prefixes, length=rules.prefix_length, vocabulary=rules.vocabulary)
    if given.answers is None:
        return Known(prefixes, None, None)
    answers = token_rows(given.answers, length=rules.suffix_length, vocabulary=rules.vocabulary)
    if len(answers) != len(prefixes):
        raise HarnessError(f"{given.answers}: {len(answers):,} answers beside {len(prefixes):,} prefixes.")
    whole_rows = np.concatenate([prefixes, answers], axis=1)
    return Known(prefixes, answers, None if rules.clusters == "none" else cluster_ids([whole_rows]))
