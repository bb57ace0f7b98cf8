"""Parameters of an audit whose target is behind an endpoint, and the form of the requests that the endpoint takes."""

from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from harness.audits.options import AuditParams
from harness.core.attack import Field


class PromptForm(StrEnum):
    """The kind of value that a prompt is sent as."""

    TOKENS = "tokens"
    TEXT = "text"


class LogprobsField(StrEnum):
    """The field of a request that asks for the log-probabilities of prompt tokens."""

    PROMPT_LOGPROBS = "prompt_logprobs"
    """vLLM: a dictionary by token id for each prompt token."""
    ECHO = "echo"
    """The completions API of OpenAI with `logprobs`: lists, and a dictionary by token text for each prompt token."""


class EndpointForm(BaseModel):
    """The findings of the probe of an endpoint, recorded before the clock starts.

    bos_token: the token id that the audit puts before every prompt, None if the model sees none or the endpoint adds
    it. skip: positions that the endpoint returns before those of the prompt. likeliest: the number of likeliest tokens
    that is requested for each position. fingerprint: the log-probabilities of the probe's text.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: PromptForm
    field: LogprobsField
    bos_token: int | None
    skip: int
    likeliest: int
    fingerprint: tuple[float, ...]


REFUSAL = "refuses the request"
"""The start of the fault of a prompt that an endpoint would refuse again, such as one too long for its model."""
_BASE_URL = "a base URL is expected, such as http://localhost:8000/v1"


class EndpointParams(AuditParams):
    """The address of an endpoint, and how many requests it gets."""

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
        return endpoint.rstrip("/").removesuffix("/completions").removesuffix("/chat")

    def model_names(self, models: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of the models for a report: that of the endpoint instead of the first one's."""
        return models if self.endpoint_model is None else (self.endpoint_model, *models[1:])

    @model_validator(mode="after")
    def _has_a_model(self) -> Self:
        if (self.endpoint is None) != (self.endpoint_model is None):
            raise ValueError("--endpoint and --endpoint-model must be given together")
        return self


class ScoringParams(EndpointParams):
    """The parameters of an audit that computes probabilities of given text, locally or with an endpoint."""

    form: EndpointForm | None = Field(None, description="What the probe of the endpoint found; not an option.")
