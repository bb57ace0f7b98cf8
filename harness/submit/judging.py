"""The round and the data that submissions are scored by, for verification and for the leaderboard."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.core.arrays import Ints, Tokens, token_rows
from harness.core.errors import HarnessError
from harness.core.examples import load_answers, load_clusters, load_prefixes
from harness.core.intervals import JudgedRows
from harness.core.rounds import Round
from harness.core.scoring import Score, correct_rows, score_rows
from harness.core.submission_reader import SubmissionRows, SubmissionRules
from harness.core.windows import cluster_ids
from harness.submit.prefixes import read_prefixes


@dataclass(frozen=True)
class JudgingData:
    """The round and the data that submissions are scored by.

    `prefixes` [examples, prefix length], `answers` [examples, suffix length] or None if they are unknown, `clusters`
    [examples] or None. A submission must be for these prefixes.
    """

    round: Round
    prefixes: Tokens
    answers: Tokens | None
    clusters: Ints | None

    @property
    def submission_rules(self) -> SubmissionRules:
        """The rules that a submission must follow."""
        rules = self.round
        return SubmissionRules(len(self.prefixes), rules.suffix_length, rules.vocabulary, rules.row_cap)

    def judge(self, submission: SubmissionRows) -> tuple[JudgedRows, Score] | None:
        """Return the judged rows of a submission and their score, or None if the answers are unknown."""
        if self.answers is None:
            return None
        walk = JudgedRows(correct_rows(submission.ids, submission.suffixes, self.answers), submission.ids)
        return walk, score_rows(*walk, cap=self.round.error_cap, examples=len(self.answers), clusters=self.clusters)


def load_judging_data(round_: Round, *, prefixes: Path | None = None, answers: Path | None = None) -> JudgingData:
    """Return the data of a round. The files `prefixes` and `answers` replace those of the round.

    Answers of the round are not used for other prefixes. Raises HarnessError if a file cannot be read or does not fit.
    """
    attacked = (
        load_prefixes(round_)
        if prefixes is None
        else read_prefixes(prefixes, length=round_.prefix_length, vocabulary=round_.vocabulary)
    )
    known = load_answers(round_) if prefixes is None else None
    if answers is not None:
        known = token_rows(answers, length=round_.suffix_length, vocabulary=round_.vocabulary)
        if len(known) != len(attacked):
            raise HarnessError(f"{answers}: {len(known):,} answers for {len(attacked):,} prefixes.")
    clusters = None
    if known is not None and prefixes is None:
        clusters = load_clusters(round_, known)
    elif known is not None and round_.clusters == "computed":
        clusters = cluster_ids([np.concatenate([attacked, known], axis=1)])
    return JudgingData(round_, attacked, known, clusters)
