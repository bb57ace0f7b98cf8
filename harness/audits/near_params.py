"""The parameters of near-verbatim probabilities."""

from harness.audits.probabilities import SchemeParams
from harness.core.attack import Field

NEAR_BATCH = 16
CHARACTER_EDITS = (5, 10, 20)
"""The numbers of character edits at which probabilities are reported."""


class NearParams(SchemeParams):
    """The parameters of an audit that measures near-verbatim probabilities."""

    near: int = Field(100, ge=0, description="Number of sequences with a near-verbatim lower bound; 0: none.")
    edits: int = Field(5, ge=1, le=50, description="Maximum edits for --near.")
    beams: int = Field(16, ge=1, le=256, description="Beam width for --near.")

    def near_weight(self, sequences: int) -> float:
        """Return the work of a near-verbatim probability relative to an exact one, as measured on SmolLM2 135M.

        Few sequences share the fixed time of a step.
        """
        return 44 / max(1, min(sequences, NEAR_BATCH)) + 0.3 * (self.beams + 1)
