"""A decoding policy: which tokens a model may emit at a step, and with what renormalised probability.

This module contains only the definition. `harness.engine` applies it to logits.
"""

from pydantic import BaseModel, ConfigDict, Field


class Policy(BaseModel):
    """The modification of a next-token distribution before a token is drawn.

    Applied in this order: repetition penalty (over prefix and suffix, Keskar et al. 2019, as in Hugging Face),
    temperature, top-k, top-p (the smallest set of most likely tokens whose mass is at least p, Holtzman et al. 2020),
    typical-p (Meister et al. 2023). A filter at its neutral value (None or 1) does nothing.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    # `default=`: type checkers without pydantic's plugin, which authors of attacks use, see no default otherwise.
    temperature: float = Field(default=1.0, gt=0, description="Divides the logits; values below 1 sharpen.")
    top_k: int | None = Field(default=None, ge=1, description="Tokens kept at each step, the most likely ones.")
    top_p: float = Field(default=1.0, gt=0, le=1, description="Probability mass of the most likely tokens kept.")
    typical_p: float = Field(default=1.0, gt=0, le=1, description="Probability mass of the most typical tokens kept.")
    repetition_penalty: float = Field(default=1.0, gt=0, description="Divides the positive logits of earlier tokens.")
