"""The parameters of the comparison of targets."""

from harness.audits.options import AuditParams
from harness.audits.schemes import Scheme
from harness.core.attack import Field
from harness.core.policy import Policy
from harness.core.text import format_number

SCHEMES = (Scheme.GREEDY, Scheme.PLAIN, Scheme.TOP_K)
"""The schemes that are compared, in the order of stored probabilities."""


class CompareParams(AuditParams):
    """The options of the audit."""

    top_k: int = Field(10, ge=1, le=1024, description="Tokens kept by top-k sampling.")
    queries: int = Field(1000, ge=1, le=1_000_000, description="Queries after which leaked sequences are counted.")

    @property
    def policies(self) -> list[Policy]:
        """The policy of each of `SCHEMES`."""
        return [Policy(top_k=1), Policy(), Policy(top_k=self.top_k)]

    @property
    def main(self) -> Scheme:
        """The random scheme under which sequences leak."""
        return Scheme.TOP_K

    @property
    def label(self) -> str:
        """The random scheme with its parameter."""
        return f"top-k {format_number(self.top_k)}"
