"""The parameters of near-verbatim probabilities."""

from harness.audits.probabilities import SchemeParams
from harness.core.attack import Field

CHARACTER_EDITS = (5, 10, 20)
"""The numbers of character edits at which probabilities are reported."""


class NearParams(SchemeParams):
    """The parameters of an audit that measures near-verbatim probabilities."""

    near: int = Field(100, ge=0, description="Sequences whose near-verbatim probability is bounded; 0 for none.")
    edits: int = Field(5, ge=1, le=50, description="Maximum token edits of a near-verbatim suffix.")
    beams: int = Field(16, ge=1, le=256, description="Partial suffixes followed in the near-verbatim search.")

    @property
    def near_weight(self) -> float:
        """The work of a near-verbatim probability relative to an exact one."""
        return 1 + 0.5 * self.beams
