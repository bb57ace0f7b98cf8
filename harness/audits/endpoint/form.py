"""The form in which an endpoint takes prompts and returns the log-probabilities of their tokens."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


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
