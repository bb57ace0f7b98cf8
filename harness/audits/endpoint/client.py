"""A client for `POST {base}/…` of an OpenAI-compatible API, with a rate limit, retries and a secret key.

Error messages never contain the key, the prompt or the answer.
"""

import json
import re
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import islice
from random import Random
from typing import Any, Generic, TypeVar

import httpx

from harness.audits.endpoint.params import REFUSAL, EndpointParams
from harness.core.audit import AuditContext
from harness.core.errors import HarnessError, Interruption
from harness.core.request import ENDPOINT_KEYS
from harness.corpora.text_files import parse_json

UNREACHABLE = "cannot be reached"
Value = TypeVar("Value")
Item = TypeVar("Item")

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
        sleep: Callable[[float], object] = time.sleep,
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


@dataclass(frozen=True)
class Answer(Generic[Value]):
    """The value that was read from an answer, or None and the reason as a clause about the endpoint.

    is_final: the endpoint answered, and would answer so again.
    """

    value: Value | None
    fault: str = ""
    is_final: bool = True


class BadAnswer(Exception):
    """An answer from which no value can be read. is_final: the same request would get it again."""

    def __init__(self, fault: str, *, wait: float = 0.0, is_final: bool = False) -> None:
        """fault: a clause about the endpoint. wait: seconds that it asks for."""
        super().__init__(fault)
        self.fault = fault
        self.wait = wait
        self.is_final = is_final


class _Closed(Exception):
    """A request that was not sent, because an earlier one failed or the audit ends."""


class Endpoint:
    """A connection to one endpoint, and the threads of its requests. `request` may be called from any thread."""

    def __init__(self, params: EndpointParams, *, key: str | None, seed: int) -> None:
        assert params.endpoint is not None and params.endpoint_model is not None
        self.params = params
        self.url: str = params.endpoint
        self._key = _clean_key(key)
        self._seed = seed
        self._is_closed = threading.Event()
        self._limiter = RateLimiter(params.requests_per_minute, sleep=self._is_closed.wait)
        self._threads = ThreadPoolExecutor(params.concurrency)
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        try:
            # A redirect would send the prompts elsewhere.
            self._client = httpx.Client(headers=headers, timeout=params.timeout, follow_redirects=False)
        except UnicodeEncodeError:
            raise HarnessError("the API key contains characters outside ASCII. Set the key alone.") from None

    @property
    def is_unencrypted(self) -> bool:
        """True if the key is sent unencrypted to another machine."""
        url = httpx.URL(self.url)
        return self._key is not None and url.scheme == "http" and url.host not in _LOOPBACK

    def close(self) -> None:
        """Close the connection. Requests that wait for their turn or for a retry are dropped, those in flight end."""
        self._is_closed.set()
        self._threads.shutdown(cancel_futures=True)
        self._client.close()

    def answers_as_they_arrive(
        self, items: Sequence[Item], request: Callable[[Item], Value]
    ) -> Iterator[tuple[Item, Value]]:
        """Yield each item with what `request` returned for it in a thread.

        If one fails, no request is sent after it. Its error is raised when all answers in flight are yielded.
        """
        left, error = iter(items), None
        in_flight: dict[Future[Value], Item] = {}
        while True:
            for item in islice(left, self.params.concurrency - len(in_flight)):
                in_flight[self._threads.submit(request, item)] = item
            if not in_flight:
                break
            answered = wait(in_flight, return_when=FIRST_COMPLETED).done.pop()
            item = in_flight.pop(answered)
            if fault := answered.exception():
                left, error = iter(()), error or fault
                self._is_closed.set()
            else:
                yield item, answered.result()
        if error:
            raise error

    def random(self, number: int) -> Random:
        """Return the generator of request `number`, which seeds its draws and its waiting times."""
        return Random(f"{self._seed}/{number}")  # noqa: S311  a seed, not a secret

    def request(
        self, body: dict[str, Any], read: Callable[[Any], Value], *, number: int, path: str = "completions"
    ) -> Answer[Value]:
        """Post `body` with the name of the model to `path`, and return what `read` makes of the answer's JSON.

        read: raises BadAnswer, LookupError or TypeError for JSON without a value. Raises Interruption if the endpoint
        rejects the key or the address. A request that is refused, with a status such as 400, 413 or 422, is not sent
        again.
        """
        random = self.random(number)
        content = json.dumps({"model": self.params.endpoint_model, **body}).encode()
        fault = ""
        for attempt in range(self.params.retries + 1):
            self._limiter.wait()
            if self._is_closed.is_set():
                raise _Closed
            try:
                return Answer(_read_json(self._post(path, content), read))
            except BadAnswer as error:
                fault = error.fault
                if error.is_final:
                    return Answer(None, fault)
                wait = max(backoff_seconds(attempt, random), error.wait)
            if attempt < self.params.retries:
                if wait > _LONGEST_WAIT:
                    raise self._error(path, f"asks for a wait of {wait / 60:.0f} minutes. Resume the audit then")
                self._limiter.pause(wait)
        return Answer(None, fault, is_final=False)

    def _post(self, path: str, content: bytes) -> bytes:
        """Send one request and return the answer. Raises BadAnswer for a fault of the answer or of the connection."""
        deadline = time.monotonic() + self.params.timeout
        received = bytearray()
        try:
            headers = {"Content-Type": "application/json"}
            with self._client.stream("POST", f"{self.url}/{path}", content=content, headers=headers) as response:
                for piece in response.iter_bytes():
                    received += piece
                    if len(received) > _LARGEST_ANSWER:
                        raise BadAnswer("sent more than 8 MiB", is_final=True)
                    if time.monotonic() > deadline:
                        raise BadAnswer("timed out")
        except httpx.TimeoutException:
            raise BadAnswer("timed out") from None
        except httpx.RemoteProtocolError:
            raise BadAnswer("sent an incomplete answer") from None
        except (httpx.DecodingError, httpx.StreamError):
            raise BadAnswer("sent an answer that cannot be decoded") from None
        except httpx.TransportError:
            raise BadAnswer(UNREACHABLE) from None
        status = response.status_code
        if status == 200:
            return bytes(received)
        if status in _RETRIED or status > 504:
            wait = retry_after_seconds(response.headers.get("Retry-After")) or 0.0
            raise BadAnswer(f"answers with status {status}", wait=wait)
        if status not in _FATAL and not 300 <= status < 400:
            raise BadAnswer(f"{REFUSAL} (status {status})", is_final=True)
        code = _error_code(bytes(received))
        shown = f", {code}" if code is not None and not (self._key and self._key in code) else ""
        raise self._error(path, f"{_FATAL.get(status, 'redirects requests')} (status {status}{shown})")

    def _error(self, path: str, clause: str) -> Interruption:
        return Interruption(f"{self.url}/{path}: the endpoint {clause}.")


@contextmanager
def open_endpoint(params: EndpointParams, context: AuditContext) -> Iterator[Endpoint]:
    """Connect an audit to its endpoint, and warn if the key would be sent unencrypted."""
    endpoint = Endpoint(params, key=context.api_key, seed=context.seed)
    try:
        if endpoint.is_unencrypted:
            context.warn("The endpoint's URL begins with http: the API key and the corpus are sent unencrypted.")
        yield endpoint
    finally:
        endpoint.close()


def _clean_key(key: str | None) -> str | None:
    """Return `key` without surrounding whitespace, None if nothing is left."""
    key = (key or "").strip()
    if any(unicodedata.category(character) == "Cc" for character in key):
        raise HarnessError("the API key contains control characters, such as a line break. Set the key alone.")
    return key or None


def _read_json(content: bytes, read: Callable[[Any], Value]) -> Value:
    try:
        return read(parse_json(content))
    except ValueError:
        raise BadAnswer("sends invalid JSON") from None
    except (LookupError, TypeError, AttributeError, OverflowError):
        raise BadAnswer("sends JSON without a completion") from None


def _error_code(content: bytes) -> str | None:
    """Return an error's code if it is a plain name such as `model_not_found`. Its message may quote key and prompt."""
    try:
        error = parse_json(content)["error"]
        code = error.get("code") or error.get("type")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return code if isinstance(code, str) and _CODE.fullmatch(code) else None
