"""The parameters of the leakage audit, and the six decoding schemes that they stand for."""

from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import ValidationError, field_validator

from harness.core.attack import Field, Params
from harness.core.errors import HarnessError
from harness.core.policy import Policy
from harness.core.text import pluralize


class Scheme(StrEnum):
    """How a target picks the next token; in the order in which results are shown."""

    GREEDY = "greedy"
    PLAIN = "plain"
    TEMPERATURE = "temperature"
    TOP_K = "top_k"
    TOP_P = "top_p"
    TYPICAL_P = "typical_p"


SCHEMES = tuple(Scheme)
RANDOM_SCHEMES = SCHEMES[1:]
"""Those that leave something to chance."""
LONGEST_FOLLOWED = 8
"""Tokens of a suffix up to which inexact matches are followed; longer ones are sampled."""
MOST_ERRORS = 2
"""Substitutions in a match that is followed, at most; in one that is sampled there is one."""


def reach_of_matches(suffix_length: int) -> str:
    """Among what the likeliest partial matches are found, for a reader."""
    if suffix_length > LONGEST_FOLLOWED:
        return "of those drawn, one token substituted"
    return f"at most {pluralize(min(MOST_ERRORS, suffix_length), 'token')} substituted"


class LeakageParams(Params):
    """What is settled before anything is read. Where the source leaves a scheme's parameter open, it is this one's."""

    temperature: float = Field(0.7, gt=0, le=10, description="Divides the logits, in the scheme `temperature`.")
    top_k: int = Field(10, ge=1, le=1024, description="Tokens kept: 10 as in the source's Table 1; its text has 5.")
    top_p: float = Field(0.9, gt=0, lt=1, description="Mass of the smallest set of likely tokens kept.")
    typical_p: float = Field(0.6, gt=0, lt=1, description="Mass of the most typical tokens kept.")
    prefix_lengths: tuple[Annotated[int, Field(ge=1, le=4096)], ...] = Field(
        (), description="Tokens of each prefix that is shown, counted from its end; by default the whole prefix."
    )
    queries: int = Field(30, ge=1, le=1_000_000, description="Queries at which the extraction rate is put right.")
    inexact: int = Field(200, ge=0, description="Sequences, drawn by seed, of which inexact matches are measured.")
    branches: int = Field(256, ge=1, le=65_536, description="Beginnings of a suffix that are followed for those.")
    least: float = Field(1e-5, ge=0, lt=1, description="A probability below which no beginning is followed.")
    draws: int = Field(16, ge=2, le=4096, description="Substitutions drawn where a suffix has more than 8 tokens.")
    entity_tokens: int = Field(4, ge=1, le=4096, description="Tokens of an entity that a corpus is cut at.")
    entity_kinds: tuple[str, ...] = Field((), description="Kinds of entities that count, such as PER; all by default.")

    @field_validator("prefix_lengths")
    @classmethod
    def _in_order(cls, lengths: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(lengths)))

    @classmethod
    def checked(cls, **fields: Any) -> Self:
        """These parameters. Raises HarnessError, naming the option, for the first that cannot be."""
        try:
            return cls(**fields)
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            option = str(fault["loc"][0]).replace("_", "-") if fault["loc"] else "parameters"
            raise HarnessError(f"--{option}: {fault['msg']}.") from None

    @property
    def policies(self) -> dict[Scheme, Policy]:
        """What each scheme allows, and with what probability."""
        return {
            Scheme.GREEDY: Policy(top_k=1),
            Scheme.PLAIN: Policy(),
            Scheme.TEMPERATURE: Policy(temperature=self.temperature),
            Scheme.TOP_K: Policy(top_k=self.top_k),
            Scheme.TOP_P: Policy(top_p=self.top_p),
            Scheme.TYPICAL_P: Policy(typical_p=self.typical_p),
        }

    def words(self, scheme: Scheme) -> str:
        """The scheme with its parameter, for a reader."""
        return {
            Scheme.GREEDY: "greedy",
            Scheme.PLAIN: "plain",
            Scheme.TEMPERATURE: f"temperature {self.temperature:g}",
            Scheme.TOP_K: f"top-k {self.top_k}",
            Scheme.TOP_P: f"top-p {self.top_p:g}",
            Scheme.TYPICAL_P: f"typical-p {self.typical_p:g}",
        }[scheme]
