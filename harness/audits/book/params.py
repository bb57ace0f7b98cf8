"""The parameters of the book audit."""

from enum import StrEnum

from pydantic import field_validator

from harness.audits.endpoint.params import ScoringParams
from harness.audits.near_results import NearParams
from harness.audits.options import option
from harness.audits.schemes import RANDOM_SCHEMES, Scheme
from harness.core.attack import Field

THRESHOLDS = (0.001, 0.01, 0.1, 0.5)
"""The probabilities at which coverage is reported."""
LEAST = 1e-9
"""A window whose first tokens have a smaller probability under every scheme is not followed to its end."""


class StrideUnit(StrEnum):
    """The unit in which the distance between two windows is counted."""

    CHARACTERS = "characters"
    TOKENS = "tokens"


class BookParams(NearParams, ScoringParams):
    """The options of the audit. Defaults follow the source."""

    schemes: tuple[Scheme, ...] = option(
        (Scheme.TOP_K, Scheme.GREEDY),
        min_length=1,
        metavar="SCHEME,…",
        separator=",",
        description="Decoding schemes: greedy, plain, temperature, top_k, top_p, typical_p.",
    )
    top_k: int = Field(
        40,
        ge=1,
        le=1024,
        description="Tokens kept by the `top_k` scheme; vLLM returns 20 unless started with --max-logprobs.",
    )
    near: int = Field(100, ge=0, description="Windows whose near-verbatim probability is bounded; 0 for none.")
    prefix_tokens: int = Field(50, ge=1, le=4096, description="Tokens of a window that the model is given.")
    suffix_tokens: int = Field(50, ge=1, le=4096, description="Tokens of a window whose probability is computed.")
    stride: int = Field(10, ge=1, le=1_000_000, description="Distance between the starts of two windows.")
    stride_unit: StrideUnit = Field(StrideUnit.CHARACTERS, description="Unit of the stride.")

    @field_validator("schemes")
    @classmethod
    def _are_distinct(cls, schemes: tuple[Scheme, ...]) -> tuple[Scheme, ...]:
        return tuple(dict.fromkeys(schemes))

    @property
    def window_tokens(self) -> int:
        """Tokens of a window."""
        return self.prefix_tokens + self.suffix_tokens

    @property
    def main_scheme(self) -> Scheme:
        """The scheme of single figures: the first random one, or else greedy decoding."""
        return next((scheme for scheme in self.schemes if scheme in RANDOM_SCHEMES), self.schemes[0])
