"""Parameters of an audit whose target is behind an endpoint, and the form of the requests that the endpoint takes."""

import base64
import re
from enum import StrEnum
from typing import Any, ClassVar, Self

from pydantic import BaseModel, field_validator, model_validator

from harness.audits.options import AuditParams
from harness.core.attack import Field
from harness.core.options import option
from harness.core.protocol import ENDPOINT_KEYS
from harness.core.text import sanitize, shorten

MASK = "[API key]"
_SHORTEST_KEY = 8
"""Characters. A shorter key is a placeholder, such as `EMPTY`, which may be a word of an answer."""
REFUSAL = "refuses the request"
"""The start of the fault of a prompt that an endpoint would refuse again, such as one too long for its model."""
BLOCKED = "blocks the answer"
"""The start of the fault of an answer that a filter of the provider withheld or cut."""
_FILTERS = re.compile(
    r"(?i)content.?(?:filter|polic)|recitation|safety|block(?:list|ed|.?reason)|prohibited|refusal|copyright|guardrail|"
    r"moderation|spii|sensitive|censor|inspection|risk.?control|responsible.?ai"
)
"""Reasons for which providers end an answer because of its content."""
_LONGEST_MODEL = 200
"""Characters."""
_API_VERSION = "api-version"
"""The name in the query of an address of Azure."""
_BASE_URL = "a base URL is expected, such as http://localhost:8000/v1"


class KeyMask:
    """Replaces a key: as it is, or escaped as in URLs, JSON and HTML, in base64 or in hexadecimal digits."""

    def __init__(self, key: str | None) -> None:
        self._pattern = None
        if key is not None and len(key) >= _SHORTEST_KEY:
            self._pattern = re.compile("|".join([_escaped(key), key.encode().hex(), *_in_base64(key)]), re.IGNORECASE)

    def masked(self, value: Any) -> Any:
        """Return a value of JSON with `[API key]` in place of the key in each text and each name."""
        if self._pattern is None:
            return value
        if isinstance(value, str):
            return self._pattern.sub(MASK, value)
        if isinstance(value, list):
            return [self.masked(part) for part in value]
        if isinstance(value, dict):
            return {self.masked(name): self.masked(part) for name, part in value.items()}
        return value


def _escaped(key: str) -> str:
    """Return a pattern of `key` in which any character may be escaped."""
    characters = []
    for character in key:
        code = ord(character)
        forms = [character, f"\\{character}", f"%{code:02x}", f"\\u{code:04x}", f"\\x{code:02x}"]
        characters.append("|".join([*map(re.escape, forms), f"&#0*{code};", f"&#x0*{code:x};"]))
    return "".join(f"(?:{forms})" for forms in characters)


def _in_base64(key: str) -> list[str]:
    """Return patterns of `key` in base64, in both alphabets, for each number of bytes before it."""
    patterns = []
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + key.encode()).decode().rstrip("=")
        # The first and the last characters depend on the bytes beside the key.
        patterns.append(re.escape(encoded[(before * 4 + 2) // 3 : len(key.encode() + bytes(before)) * 4 // 3]))
    return [pattern.replace(r"\+", "[-+]").replace("/", "[_/]") for pattern in patterns]


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


class EndpointForm(BaseModel, frozen=True, extra="forbid"):
    """The findings of the probe of an endpoint, recorded before the clock starts.

    bos_token: the token id that the audit puts before every prompt, None if the model sees none or the endpoint adds
    it.
    skip: positions that the endpoint returns before those of the prompt.
    likeliest: the number of likeliest tokens that is requested for each position.
    fingerprint: the log-probabilities of the probe's text.
    model: the name in the probe's answers, empty if they have none.
    """

    prompt: PromptForm
    field: LogprobsField
    bos_token: int | None
    skip: int
    likeliest: int
    fingerprint: tuple[float, ...]
    model: str = ""


def is_filter(reason: str) -> bool:
    """Return True if the reason of an end, or the code of an error, names a filter of the provider."""
    return bool(_FILTERS.search(reason))


def model_of(answer: Any) -> str:
    """Return the name of the model in an answer's JSON, safe to print; empty if it has none."""
    name = answer.get("model")
    return shorten(sanitize(name), _LONGEST_MODEL) if isinstance(name, str) else ""


class EndpointParams(AuditParams):
    """The address of an endpoint, and how many requests it gets."""

    heading: ClassVar[str] = "Endpoint"

    endpoint: str | None = option(
        None,
        metavar="URL",
        description="Base URL of an OpenAI-compatible API. Its key: HARNESS_ENDPOINT_KEY or OPENAI_API_KEY.",
    )
    endpoint_model: str | None = option(
        None, min_length=1, metavar="MODEL", description="Name of the model at the endpoint."
    )
    requests_per_minute: float = Field(60.0, gt=0, le=60_000, description="Requests per minute.")
    concurrency: int = Field(1, ge=1, le=64, description="Maximum concurrent requests.")
    timeout: float = option(60.0, gt=0, le=3600, metavar="SECONDS", description="Time limit of a request.")
    retries: int = Field(6, ge=0, le=20, description="Retries of a failed request.")

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
        if url.userinfo:
            raise ValueError(f"the URL contains a user name or a password; set {ENDPOINT_KEYS[0]} instead")
        if url.fragment or any(name != _API_VERSION for name in url.params):
            raise ValueError(
                f"the URL has a fragment, or a query with more than {_API_VERSION}; remove them, and set a key in "
                f"{ENDPOINT_KEYS[0]}"
            )
        address = endpoint.partition("?")[0].rstrip("/").removesuffix("/completions").removesuffix("/chat")
        return f"{address}?{url.query.decode()}" if url.query else address

    def model_names(self, models: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of the models for a report: that of the endpoint instead of the first one's."""
        return models if self.endpoint_model is None else (self.endpoint_model, *models[1:])

    @model_validator(mode="after")
    def _has_a_model(self) -> Self:
        if (self.endpoint is None) != (self.endpoint_model is None):
            raise ValueError("--endpoint and --endpoint-model must be given together")
        return self
