"""The parameters of the sequence audit: how paragraphs are cut, how they are completed, and by which model."""

from typing import Self

from pydantic import field_validator, model_validator

from harness.audits.options import AuditParams
from harness.audits.sequence.thresholds import Counting
from harness.core.attack import Field
from harness.core.policy import Policy

_BASE_URL = "a base URL is expected, such as http://localhost:8000/v1"


class SequenceParams(AuditParams):
    """The options of the audit, which are checked before the corpus is read."""

    prompt_length: int | None = Field(
        None, ge=1, le=10_000, description="Words in a prompt: 35, or a round's own prefix, if not set."
    )
    longest_suffix: int = Field(250, ge=1, le=10_000, description="Maximum words of a suffix that are compared.")
    limit: int = Field(
        10_000, ge=1, description="Maximum paragraphs of the corpus and of the control, sampled by seed."
    )
    overlap: Counting = Field(
        Counting.MULTISET, description="Whether the overlap counts a repeated word each time (multiset) or once (set)."
    )
    temperature: float = Field(0.0, ge=0, le=10, description="Sampling temperature; 0 selects greedy decoding.")
    top_k: int | None = Field(None, ge=1, description="Tokens kept by top-k sampling; not available for an endpoint.")
    top_p: float = Field(1.0, gt=0, le=1, description="Probability mass kept by top-p sampling.")
    endpoint: str | None = Field(
        None, description="Base URL of an OpenAI-compatible completions API, used instead of a local target."
    )
    endpoint_model: str | None = Field(None, min_length=1, description="Name of the model at the endpoint.")
    requests_per_minute: float = Field(60.0, gt=0, le=60_000, description="Maximum requests per minute.")
    concurrency: int = Field(1, ge=1, le=64, description="Maximum concurrent requests.")
    timeout: float = Field(60.0, gt=0, le=3600, description="Seconds until a request times out.")
    retries: int = Field(6, ge=0, le=20, description="Maximum retries of a failed request.")

    @field_validator("endpoint")
    @classmethod
    def _normalize_url(cls, endpoint: str | None) -> str | None:
        if endpoint is None:
            return None
        import httpx  # slow to import, and not needed for a local target

        try:
            url = httpx.URL(endpoint)
        except httpx.InvalidURL:
            raise ValueError(f"not a URL; {_BASE_URL}") from None
        if url.scheme not in ("http", "https") or not url.host:
            raise ValueError(f"not an http(s) URL; {_BASE_URL}")
        if url.userinfo or url.query:
            raise ValueError("the URL contains a password or a query; set the API key in the environment instead")
        return endpoint.rstrip("/").removesuffix("/completions")

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if (self.endpoint is None) != (self.endpoint_model is None):
            raise ValueError("--endpoint and --endpoint-model must be given together")
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
