"""The six decoding schemes under which audits compute probabilities, and their parameters."""

from enum import StrEnum

from harness.audits.options import AuditParams, option
from harness.core.attack import Field
from harness.core.policy import Policy


class Scheme(StrEnum):
    """The decoding schemes, in the order in which results are shown."""

    GREEDY = "greedy"
    PLAIN = "plain"
    TEMPERATURE = "temperature"
    TOP_K = "top_k"
    TOP_P = "top_p"
    TYPICAL_P = "typical_p"


SCHEMES = tuple(Scheme)
RANDOM_SCHEMES = SCHEMES[1:]


class SchemeParams(AuditParams):
    """The parameters of the schemes."""

    temperature: float = Field(0.7, gt=0, le=10, description="Temperature of the `temperature` scheme.")
    top_k: int = Field(10, ge=1, le=1024, description="Tokens kept by the `top_k` scheme.")
    top_p: float = Field(0.9, gt=0, lt=1, description="Probability mass kept by the `top_p` scheme.")
    typical_p: float = Field(0.6, gt=0, lt=1, description="Probability mass kept by the `typical_p` scheme.")
    schemes: tuple[Scheme, ...] = option(
        SCHEMES, min_length=1, metavar="SCHEME,…", separator=",", description="Decoding schemes that are measured."
    )

    @property
    def policies(self) -> dict[Scheme, Policy]:
        """The policy of each scheme."""
        return {
            Scheme.GREEDY: Policy(top_k=1),
            Scheme.PLAIN: Policy(),
            Scheme.TEMPERATURE: Policy(temperature=self.temperature),
            Scheme.TOP_K: Policy(top_k=self.top_k),
            Scheme.TOP_P: Policy(top_p=self.top_p),
            Scheme.TYPICAL_P: Policy(typical_p=self.typical_p),
        }

    def label(self, scheme: Scheme) -> str:
        """Return the scheme with its parameter, such as "top-k 10"."""
        value: float | None = getattr(self, scheme.value, None)
        return scheme.value.replace("_", "-") + ("" if value is None else f" {value:g}")
