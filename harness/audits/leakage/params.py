"""The parameters of the leakage audit."""

from typing import Annotated, Any

from pydantic import field_validator

from harness.audits.endpoint.params import ENDPOINT_SCHEMES, ScoringParams
from harness.audits.near_results import NearParams
from harness.audits.options import option
from harness.audits.schemes import RANDOM_SCHEMES, SCHEMES, Scheme
from harness.core.attack import Field
from harness.core.text import pluralize

LONGEST_FOLLOWED = 8
"""Tokens of the longest suffix whose inexact matches are searched for; those of longer ones are sampled."""
MOST_ERRORS = 2
"""Maximum substitutions in a match that is searched for; a sampled match has one."""


def describe_matches(suffix_length: int) -> str:
    """Return among which matches the likeliest partial matches were found."""
    if suffix_length > LONGEST_FOLLOWED:
        return "sampled, with one token substituted"
    return f"at most {pluralize(min(MOST_ERRORS, suffix_length), 'token')} substituted"


def _default_schemes(values: dict[str, Any]) -> tuple[Scheme, ...]:
    return SCHEMES if values.get("endpoint") is None else ENDPOINT_SCHEMES


class LeakageParams(NearParams, ScoringParams):
    """The options of the audit. Defaults follow the source where it gives a value."""

    prefix_lengths: tuple[Annotated[int, Field(ge=1, le=4096)], ...] = option(
        (),
        metavar="N,N,…",
        separator=",",
        description="Prefix lengths to sweep over, in tokens; --names: 10,20,30,40,50.",
    )
    schemes: tuple[Scheme, ...] = option(
        default_factory=_default_schemes,
        metavar="SCHEME,…",
        separator=",",
        description="Decoding schemes beside greedy, plain and top_k; all by default.",
    )
    queries: int = Field(30, ge=1, le=1_000_000, description="Number of queries for the corrected extraction rate.")
    inexact: int = Field(200, ge=0, description="Sequences whose inexact matches are measured; 0 for none.")
    branches: int = Field(256, ge=1, le=65_536, description="Partial suffixes kept in the search for inexact matches.")
    least: float = Field(1e-5, ge=0, lt=1, description="Minimum probability of a partial suffix that is kept.")
    draws: int = Field(16, ge=2, le=4096, description="Substitutions sampled in suffixes of more than 8 tokens.")
    entity_tokens: int = option(
        4, ge=1, le=4096, is_hidden=True, description="Tokens of an entity at which a corpus is cut."
    )
    entity_kinds: tuple[str, ...] = option(
        (), metavar="KIND,…", separator=",", description="Kinds of entities to use, such as PER."
    )

    @field_validator("schemes")
    @classmethod
    def _in_fixed_order(cls, schemes: tuple[Scheme, ...]) -> tuple[Scheme, ...]:
        # The conclusion is about these three.
        chosen = {*schemes, Scheme.GREEDY, Scheme.PLAIN, Scheme.TOP_K}
        return tuple(scheme for scheme in SCHEMES if scheme in chosen)

    @property
    def random_schemes(self) -> tuple[Scheme, ...]:
        """The schemes without greedy decoding."""
        return tuple(scheme for scheme in self.schemes if scheme in RANDOM_SCHEMES)

    @field_validator("prefix_lengths")
    @classmethod
    def _in_order(cls, lengths: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(lengths)))
