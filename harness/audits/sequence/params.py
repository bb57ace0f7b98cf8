"""The parameters of the sequence audit: how paragraphs are cut, how they are completed, and by which model."""

from typing import Self

from pydantic import model_validator

from harness.audits.endpoint.params import EndpointParams
from harness.core.attack import Field
from harness.core.policy import Policy


class SequenceParams(EndpointParams):
    """The options of the audit, which are checked before the corpus is read."""

    prompt_length: int | None = Field(
        None, ge=1, le=10_000, description="Words of a prompt: 35, or a round's own prefixes."
    )
    longest_suffix: int = Field(250, ge=1, le=10_000, description="Maximum words of a suffix that are compared.")
    limit: int = Field(10_000, ge=1, description="Maximum paragraphs per side, sampled by seed.")
    temperature: float = Field(0.0, ge=0, le=10, description="Sampling temperature; 0 is greedy decoding.")
    top_k: int | None = Field(None, ge=1, description="Tokens kept by top-k sampling.")
    top_p: float = Field(1.0, gt=0, le=1, description="Probability mass kept by top-p sampling.")
    chat: bool = Field(False, description="Use the endpoint's chat completions, with an instruction to continue.")

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.chat and self.endpoint is None:
            raise ValueError("--chat needs an endpoint; set --endpoint")
        if self.endpoint is not None and self.top_k is not None:
            raise ValueError("the completions API has no top_k; remove --top-k")
        if self.temperature == 0 and (self.top_k is not None or self.top_p < 1):
            raise ValueError("--top-k and --top-p have no effect at temperature 0; set --temperature")
        return self

    @property
    def policy(self) -> Policy:
        """The decoding policy of a local target."""
        if self.temperature == 0:
            return Policy(top_k=1)
        return Policy(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p)
