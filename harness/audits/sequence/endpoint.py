"""Completions by an OpenAI-compatible API: asked at a pace, again after faults, and never told the key in an error.

Knows `POST {base}/completions` alone. What is asked and what becomes of the answer is somebody else's.
"""

import json
import re
import threading
import time
import unicodedata
from concurrent.futures import Future
from random import Random
from types import TracebackType
from typing import Any, NamedTuple, Self

import httpx

from harness.audits.sequence.completing import REFUSAL
from harness.audits.sequence.pacing import Pace, back_off, seconds_asked
from harness.audits.sequence.params import SequenceParams
from harness.core.errors import HarnessError
from harness.core.request import ENDPOINT_KEYS

_TRIED_AGAIN = frozenset((408, 409, 425, 429, 500, 502, 503, 504))
_LARGEST_ANSWER = 8 << 20
_LONGEST_WAIT = 600.0
"""Seconds; an endpoint that asks for a longer one ends the audit, which can be resumed then."""
_CODE = re.compile(r"[a-z][a-z0-9_.-]{0,60}")
_GRACE = 1.0
"""Seconds beyond the timeout, in which the client ends a request by itself where it can."""
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_ENDS = frozenset((401, 403, 404))
"""Statuses about key and address, which every paragraph would get; others, but for redirects, are a paragraph's own."""
_REASONS = {
    401: f"refuses the key; it is read from the environment, {' or '.join(ENDPOINT_KEYS)}",
    403: "denies access with this key",
    404: "has no completions there, or no model of that name",
}


class Answer(NamedTuple):
    """A completion, or None and why there is none: a clause about the endpoint."""

    text: str | None
    fault: str = ""


class _Faulty(Exception):
    """An attempt that may go better the next time; `wait`: seconds that the endpoint asks for."""

    def __init__(self, fault: str, wait: float | None = None) -> None:
        super().__init__(fault)
        self.fault = fault
        self.wait = wait


class _Refused(Exception):
    """This prompt is refused, and would be again."""

    def __init__(self, fault: str) -> None:
        super().__init__(fault)
        self.fault = fault


class Endpoint:
    """One endpoint, and the connection to it. `complete` may be called from several threads."""

    def __init__(self, params: SequenceParams, *, key: str | None, seed: int) -> None:
        assert params.endpoint is not None and params.endpoint_model is not None
        self._params = params
        self._url = f"{params.endpoint}/completions"
        self._key = key = _plain(key)
        self._seed = seed
        self._pace = Pace(params.requests_per_minute)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            # A redirect would carry the prompts elsewhere.
            self._client = httpx.Client(headers=headers, timeout=params.timeout, follow_redirects=False)
        except UnicodeEncodeError:
            raise HarnessError("the endpoint's key holds characters that no header has; set the key alone.") from None

    @property
    def is_overheard(self) -> bool:
        """The key travels unencrypted, and not within this machine alone."""
        address = httpx.URL(self._url)
        return self._key is not None and address.scheme == "http" and address.host not in _THIS_MACHINE

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._client.close()

    def complete(self, prompt: str, tokens: int, number: int) -> Answer:
        """What follows `prompt`, `tokens` long at most; `number` is the item's own, for draws and for waiting times.

        Raises HarnessError when the endpoint refuses everybody: asking for other prompts would bring nothing. A prompt
        that it refuses, with a status such as 400, 413 or 422, is asked for once.
        """
        random = Random(f"{self._seed}/{number}")  # noqa: S311  seeded, no secret
        content = self._content(prompt, tokens, random)
        fault = ""
        for attempt in range(self._params.retries + 1):
            self._pace.wait()
            try:
                return Answer(self._asked_in_time(content))
            except _Refused as refused:
                return Answer(None, refused.fault)
            except _Faulty as faulty:
                fault = faulty.fault
                wait = max(back_off(attempt, random), faulty.wait or 0.0)
            if attempt < self._params.retries:
                if wait > _LONGEST_WAIT:
                    raise self._error(f"asks to be left alone for {wait / 60:.0f} minutes; resume the audit then")
                self._pace.hold(wait)
        return Answer(None, fault)

    def _content(self, prompt: str, tokens: int, random: Random) -> bytes:
        params = self._params
        body: dict[str, Any] = {"model": params.endpoint_model, "prompt": prompt, "max_tokens": tokens}
        body["temperature"] = params.temperature
        if params.temperature > 0:
            body |= {"top_p": params.top_p, "seed": random.randrange(1 << 31)}
        return json.dumps(body).encode()

    def _asked_in_time(self, content: bytes) -> str:
        """As `_asked`, and no longer than the time for an answer, even where headers come byte by byte."""
        answer: Future[str] = Future()

        def ask() -> None:
            try:
                answer.set_result(self._asked(content))
            except BaseException as error:
                answer.set_exception(error)

        # The client limits the time between two bytes alone; a thread that is left behind ends with the connection.
        threading.Thread(target=ask, daemon=True).start()
        try:
            return answer.result(self._params.timeout + _GRACE)
        except TimeoutError:
            raise _Faulty("took too long") from None

    def _asked(self, content: bytes) -> str:
        """The completion's text, after one request."""
        deadline = time.monotonic() + self._params.timeout
        received = bytearray()
        try:
            headers = {"Content-Type": "application/json"}
            with self._client.stream("POST", self._url, content=content, headers=headers) as response:
                for piece in response.iter_bytes():
                    received += piece
                    if len(received) > _LARGEST_ANSWER:
                        raise _Faulty("sent more than 8 MiB")
                    # The client's own limit is one between two pieces.
                    if time.monotonic() > deadline:
                        raise _Faulty("took too long")
        except httpx.TimeoutException:
            raise _Faulty("took too long") from None
        except httpx.RemoteProtocolError:
            raise _Faulty("broke off its answer") from None
        except (httpx.DecodingError, httpx.StreamError):
            raise _Faulty("sent an answer that cannot be decoded") from None
        except httpx.TransportError:
            raise _Faulty("cannot be reached") from None
        if response.status_code == 200:
            return _text_in(bytes(received))
        if response.status_code in _TRIED_AGAIN or response.status_code > 504:
            wait = seconds_asked(response.headers.get("Retry-After"))
            raise _Faulty(f"answers with status {response.status_code}", wait)
        if response.status_code not in _ENDS and not 300 <= response.status_code < 400:
            raise _Refused(f"{REFUSAL} (status {response.status_code})")
        reason = _REASONS.get(response.status_code, "does not complete prompts")
        code = _code_in(bytes(received))
        named = f", {code}" if code is not None and not (self._key and self._key in code) else ""
        raise self._error(f"{reason} (status {response.status_code}{named})")

    def _error(self, clause: str) -> HarnessError:
        return HarnessError(f"{self._url}: the endpoint {clause}.")


def _plain(key: str | None) -> str | None:
    """`key` without the whitespace that a file or a paste put around it; None where nothing is left."""
    key = (key or "").strip()
    if any(unicodedata.category(character) == "Cc" for character in key):
        raise HarnessError("the endpoint's key holds control characters, such as a line break; set the key alone.")
    return key or None


def _text_in(content: bytes) -> str:
    try:
        choices = json.loads(content)["choices"]
        text = choices[0]["text"]
    except (ValueError, RecursionError):
        raise _Faulty("sends no JSON") from None
    except (KeyError, IndexError, TypeError):
        raise _Faulty("sends JSON without a completion") from None
    if not isinstance(text, str):
        raise _Faulty("sends JSON without a completion")
    # JSON may name half a surrogate pair, which is no character.
    return text.encode("utf-8", "replace").decode()


def _code_in(content: bytes) -> str | None:
    """An error's code where it is a plain name, such as `model_not_found`; its message may quote prompt and key."""
    try:
        error = json.loads(content)["error"]
        code = error.get("code") or error.get("type")
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return None
    return code if isinstance(code, str) and _CODE.fullmatch(code) else None
