"""The parameters of the membership audit, and the scores that it computes."""

from enum import StrEnum

from harness.audits.endpoint.params import ScoringParams
from harness.audits.options import option
from harness.core.attack import Field


class Score(StrEnum):
    """The scores, in the order in which they are reported. A larger one speaks for membership."""

    LOSS = "loss"
    ZLIB = "zlib"
    MIN_K = "min_k"
    MIN_K_PLUS = "min_k_plus"
    REFERENCE = "reference"
    RECALL = "recall"
    WORDS = "bag_of_words"


LABELS = {
    Score.LOSS: "loss",
    Score.ZLIB: "zlib ratio",
    Score.MIN_K: "Min-K %",
    Score.MIN_K_PLUS: "Min-K %++",
    Score.REFERENCE: "reference ratio",
    Score.RECALL: "ReCaLL",
    Score.WORDS: "bag of words (no model)",
}
MODEL_SCORES = tuple(score for score in Score if score is not Score.WORDS)
FALSE_POSITIVE_RATES = (0.01, 0.001)


class MembershipParams(ScoringParams):
    """The options of the audit. Defaults follow the sources of the scores."""

    tokens: int = Field(128, ge=2, le=4096, description="Tokens at the beginning of a document that are scored.")
    least_tokens: int = Field(32, ge=2, le=4096, description="Tokens of the shortest document that is scored.")
    k: float = Field(0.2, gt=0, le=1, description="Share of the least likely tokens in Min-K % and Min-K %++.")
    shots: int = Field(7, ge=0, le=100, description="Non-members before the text in ReCaLL; 0 leaves it out.")
    reference: bool = option(False, is_hidden=True, description="The last model is the reference model.")
