"""The parameters of the leakage audit, and the six decoding schemes that they define."""

from enum import StrEnum
from typing import Annotated

from pydantic import field_validator

from harness.audits.options import AuditParams
from harness.core.attack import Field
from harness.core.policy import Policy
from harness.core.text import pluralize


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
LONGEST_FOLLOWED = 8
"""Tokens of the longest suffix whose inexact matches are searched for; those of longer ones are sampled."""
MOST_ERRORS = 2
"""Maximum substitutions in a match that is searched for; a sampled match has one."""


def describe_matches(suffix_length: int) -> str:
    """Return among which matches the likeliest partial matches were found."""
    if suffix_length > LONGEST_FOLLOWED:
        return "sampled, with one token substituted"
    return f"at most {pluralize(min(MOST_ERRORS, suffix_length), 'token')} substituted"


class LeakageParams(AuditParams):
    """The options of the audit. Defaults follow the source where it gives a value."""

    temperature: float = Field(0.7, gt=0, le=10, description="Temperature of the `temperature` scheme.")
    top_k: int = Field(10, ge=1, le=1024, description="Tokens kept by the `top_k` scheme.")
    top_p: float = Field(0.9, gt=0, lt=1, description="Probability mass kept by the `top_p` scheme.")
    typical_p: float = Field(0.6, gt=0, lt=1, description="Probability mass kept by the `typical_p` scheme.")
    prefix_lengths: tuple[Annotated[int, Field(ge=1, le=4096)], ...] = Field(
        (),
        description="Prefix lengths to sweep over, in tokens counted from the prefix's end; the whole prefix always.",
    )
    queries: int = Field(30, ge=1, le=1_000_000, description="Number of queries for the corrected extraction rate.")
    inexact: int = Field(200, ge=0, description="Sequences, sampled by seed, whose inexact matches are measured.")
    branches: int = Field(256, ge=1, le=65_536, description="Partial suffixes kept in the search for inexact matches.")
    least: float = Field(1e-5, ge=0, lt=1, description="Minimum probability of a partial suffix that is kept.")
    draws: int = Field(16, ge=2, le=4096, description="Substitutions sampled in suffixes of more than 8 tokens.")
    entity_tokens: int = Field(4, ge=1, le=4096, description="Tokens of an entity at which a corpus is cut.")
    entity_kinds: tuple[str, ...] = Field((), description="Kinds of entities to use, such as PER; all if empty.")

    @field_validator("prefix_lengths")
    @classmethod
    def _in_order(cls, lengths: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(lengths)))

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
