"""The round and the data that submissions are scored by, for verification and for the leaderboard."""

from dataclasses import dataclass

from harness.core.arrays import Ints, Tokens
from harness.core.rounds import Round
from harness.core.scoring import Score, correct_rows, score_rows
from harness.core.submission_reader import Submission, SubmissionRules
from harness.core.walk import JudgedRows


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

    def judge(self, submission: Submission) -> tuple[JudgedRows, Score] | None:
        """Return the judged rows of a submission and their score, or None if the answers are unknown."""
        if self.answers is None:
            return None
        walk = JudgedRows(correct_rows(submission.ids, submission.suffixes, self.answers), submission.ids)
        return walk, score_rows(*walk, cap=self.round.error_cap, examples=len(self.answers), clusters=self.clusters)
