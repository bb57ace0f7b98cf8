"""A client for `POST {base}/completions` of an OpenAI-compatible API, with a rate limit, retries and a secret key.

Error messages never contain the key, the prompt or the answer.
"""

import json
import re
import threading
import time
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random
from typing import Any, NamedTuple

import httpx

from harness.audits.sequence.completion import REFUSAL
from harness.audits.sequence.params import SequenceParams
from harness.core.errors import HarnessError
from harness.core.request import ENDPOINT_KEYS
from harness.corpora.text_files import parse_json, without_surrogates

_LONGEST_BACKOFF = 60.0  # seconds
_RETRIED = frozenset((408, 409, 425, 429, 500, 502, 503, 504))
_LARGEST_ANSWER = 8 << 20  # bytes
_LONGEST_WAIT = 600.0
"""Seconds. If an endpoint asks for a longer wait, the audit ends and can be resumed later."""
_CODE = re.compile(r"[a-z][a-z0-9_.-]{0,60}")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_FATAL = {
    401: f"rejects the API key, which is read from the environment variable {' or '.join(ENDPOINT_KEYS)}",
    403: "denies access with this API key",
    404: "has no completions API at this address, or no model of this name",
}
"""Statuses about key or address, which every paragraph would get."""


class RateLimiter:
    """Spaces the starts of requests of all threads so that at most so many start per minute."""

    def __init__(
        self,
        requests_per_minute: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._spacing = 60.0 / requests_per_minute
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._next = clock()

    def wait(self) -> None:
        """Block until the next request may start."""
        with self._lock:
            turn = max(self._clock(), self._next)
            self._next = turn + self._spacing
        if (left := turn - self._clock()) > 0:
            self._sleep(left)

    def pause(self, seconds: float) -> None:
        """Let no request start for `seconds`."""
        with self._lock:
            self._next = max(self._next, self._clock() + seconds)


def backoff_seconds(attempt: int, random: Random) -> float:
    """Return 1, 2, 4, … seconds, at most 60, for `attempt` 0, 1, 2, …, times a random factor from 1/2 to 3/2."""
    return min(_LONGEST_BACKOFF, 2.0**attempt) * (0.5 + random.random())


def retry_after_seconds(header: str | None, now: datetime | None = None) -> float | None:
    """Return the seconds from `now` that a Retry-After header asks for (RFC 9110, 10.2.3); None if it is invalid."""
    if header is None:
        return None
    value = header.strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        moment = parsedate_to_datetime(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())
    except (TypeError, ValueError, OverflowError):
        return None


class Answer(NamedTuple):
    """A completion, or None and the reason as a clause about the endpoint."""

    text: str | None
    fault: str = ""


class _Retryable(Exception):
    """A request that may succeed when it is sent again. wait: seconds that the endpoint asks for."""

    def __init__(self, fault: str, wait: float = 0.0) -> None:
        super().__init__(fault)
        self.fault = fault
        self.wait = wait


class Endpoint:
    """A connection to one endpoint. `complete` may be called from several threads."""

    def __init__(self, params: SequenceParams, *, key: str | None, seed: int) -> None:
        assert params.endpoint is not None and params.endpoint_model is not None
        self._params = params
        self._url = f"{params.endpoint}/completions"
        self._key = _clean_key(key)
        self._seed = seed
        self._limiter = RateLimiter(params.requests_per_minute)
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        try:
            # A redirect would send the prompts elsewhere.
            self._client = httpx.Client(headers=headers, timeout=params.timeout, follow_redirects=False)
        except UnicodeEncodeError:
            raise HarnessError("the API key contains characters outside ASCII. Set the key alone.") from None

    @property
    def is_unencrypted(self) -> bool:
        """True if the key is sent unencrypted to another machine."""
        url = httpx.URL(self._url)
        return self._key is not None and url.scheme == "http" and url.host not in _LOOPBACK

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def complete(self, prompt: str, tokens: int, number: int) -> Answer:
        """Complete `prompt` with at most `tokens` tokens. `number` seeds the draws and the waiting times.

        Raises HarnessError if the endpoint rejects the key or the address. A prompt that is refused, with a status such
        as 400, 413 or 422, is not sent again.
        """
        random = Random(f"{self._seed}/{number}")  # noqa: S311  a seed, not a secret
        content = self._content(prompt, tokens, random)
        fault = ""
        for attempt in range(self._params.retries + 1):
            self._limiter.wait()
            try:
                return self._post(content)
            except _Retryable as error:
                fault = error.fault
                wait = max(backoff_seconds(attempt, random), error.wait)
            if attempt < self._params.retries:
                if wait > _LONGEST_WAIT:
                    raise self._error(f"asks for a wait of {wait / 60:.0f} minutes. Resume the audit then")
                self._limiter.pause(wait)
        return Answer(None, fault)

    def _content(self, prompt: str, tokens: int, random: Random) -> bytes:
        params = self._params
        body: dict[str, Any] = {"model": params.endpoint_model, "prompt": prompt, "max_tokens": tokens}
        body["temperature"] = params.temperature
        if params.temperature > 0:
            body |= {"top_p": params.top_p, "seed": random.randrange(1 << 31)}
        return json.dumps(body).encode()

    def _post(self, content: bytes) -> Answer:
        """Send one request. Raises _Retryable for a fault that may be temporary."""
        deadline = time.monotonic() + self._params.timeout
        received = bytearray()
        try:
            headers = {"Content-Type": "application/json"}
            with self._client.stream("POST", self._url, content=content, headers=headers) as response:
                for piece in response.iter_bytes():
                    received += piece
                    if len(received) > _LARGEST_ANSWER:
                        raise _Retryable("sent more than 8 MiB")
                    if time.monotonic() > deadline:
                        raise _Retryable("timed out")
        except httpx.TimeoutException:
            raise _Retryable("timed out") from None
        except httpx.RemoteProtocolError:
            raise _Retryable("sent an incomplete answer") from None
        except (httpx.DecodingError, httpx.StreamError):
            raise _Retryable("sent an answer that cannot be decoded") from None
        except httpx.TransportError:
            raise _Retryable("cannot be reached") from None
        status = response.status_code
        if status == 200:
            return Answer(_completion_text(bytes(received)))
        if status in _RETRIED or status > 504:
            wait = retry_after_seconds(response.headers.get("Retry-After")) or 0.0
            raise _Retryable(f"answers with status {status}", wait)
        if status not in _FATAL and not 300 <= status < 400:
            return Answer(None, f"{REFUSAL} (status {status})")
        code = _error_code(bytes(received))
        shown = f", {code}" if code is not None and not (self._key and self._key in code) else ""
        raise self._error(f"{_FATAL.get(status, 'redirects requests')} (status {status}{shown})")

    def _error(self, clause: str) -> HarnessError:
        return HarnessError(f"{self._url}: the endpoint {clause}.")


def _clean_key(key: str | None) -> str | None:
    """Return `key` without surrounding whitespace, None if nothing is left."""
    key = (key or "").strip()
    if any(unicodedata.category(character) == "Cc" for character in key):
        raise HarnessError("the API key contains control characters, such as a line break. Set the key alone.")
    return key or None


def _completion_text(content: bytes) -> str:
    try:
        choices = parse_json(content)["choices"]
        text = choices[0]["text"]
    except ValueError:
        raise _Retryable("sends invalid JSON") from None
    except (KeyError, IndexError, TypeError):
        text = None
    if not isinstance(text, str):
        raise _Retryable("sends JSON without a completion")
    return without_surrogates(text)


def _error_code(content: bytes) -> str | None:
    """Return an error's code if it is a plain name such as `model_not_found`. Its message may quote key and prompt."""
    try:
        error = parse_json(content)["error"]
        code = error.get("code") or error.get("type")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return code if isinstance(code, str) and _CODE.fullmatch(code) else None
