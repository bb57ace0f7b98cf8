"""A client for `POST {base}/…` of an OpenAI-compatible API, with a rate limit, retries and a secret key.

The timeouts of httpx are those of single operations, so a server that sends a byte now and then never reaches them.
Each request is therefore a task on an event loop, where one deadline ends it in any phase: while it connects, during
the TLS handshake, while it is sent, and while headers and body arrive. The loop has a thread of its own; the callers
are other threads, which wait for their turn, parse the answer, and retry with tenacity.

Error messages never contain the key, the prompt or the answer, and answers never contain the key.
"""

import asyncio
import json
import re
import threading
import time
import unicodedata
import zlib
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import islice
from random import Random
from typing import Any, Generic, NamedTuple, TypeVar

import httpx
import tenacity

from harness.audits.endpoint.params import BLOCKED, REFUSAL, EndpointParams, KeyMask, is_filter
from harness.audits.endpoint.proxies import is_loopback, through_proxy
from harness.core.audit import AuditContext
from harness.core.errors import HarnessError, Interruption
from harness.core.protocol import ENDPOINT_KEYS
from harness.corpora.text_files import parse_json

UNREACHABLE = "cannot be reached"
TIMED_OUT = "timed out"
Value = TypeVar("Value")
Item = TypeVar("Item")

_BACKOFF = tenacity.wait_exponential_jitter(max=60)
"""Seconds before a retry: 1, 2, 4, … and at most 60, and up to a second more at random."""
_RETRIED = frozenset((408, 409, 425, 429, 500, 502, 503, 504))
_VALIDATION = b"validation error"
"""The words with which llama-cpp-python refuses the value of a parameter, with status 500."""
_LEGAL_REASONS = 451
"""The status "Unavailable For Legal Reasons" (RFC 7725)."""
_MESSAGES, _FIRST_CHARACTERS = (400, 403), 120
"""Statuses of errors that may name a filter in the beginning of their message alone."""
_QUOTED = re.compile(r"[:\"'`\n‘“«]")
_LARGEST_ANSWER = 8 << 20  # bytes
_TOO_LARGE = "sent more than 8 MiB"
_LONGEST_WAIT = 600.0
"""Seconds. If an endpoint asks for a longer wait, the audit ends and can be resumed later."""
_RENAMED = {"max_tokens": "max_completion_tokens"}
"""Parameters that newer models know by another name."""
NEUTRAL: Mapping[str, float] = {
    "min_p": 0,
    "top_k": -1,
    "repeat_penalty": 1,
    "repetition_penalty": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "top_p": 1,
}
"""Values that leave a model's distribution as it is, by the names of vLLM, SGLang and llama.cpp.

Each request sends them, because a server may take other defaults from the model's generation_config.json. The names
that the fewest servers accept come first.
"""
_OPTIONAL = {"temperature": 1, **NEUTRAL}
"""Parameters that are left out if the endpoint refuses them and they have this value."""
_NAMED = re.compile(rf"\b(?:{'|'.join((*_OPTIONAL, *_RENAMED, 'seed'))})\b")
_UNKNOWN = re.compile(r"(?i)unsupported|unrecognized|unknown|not supported|extra")
_CODE = re.compile(r"[a-zA-Z][a-zA-Z0-9_.-]{0,60}")
_VAGUE_CODE = re.compile(r"(?i)argument|field|param|request|valid|value")
"""A part of codes such as `invalid_request_error`, which may be about any parameter."""
_USED_UP = re.compile(
    r"(?i)insufficient.{0,9}(?:quota|balance|credit|fund)|billing.(?:hard.limit|error)|credit.balance|out of credit|"
    r"exceeded_current_quota"
)
"""Codes, or the beginnings of messages, that say that a key has no money left."""
_NO_CREDIT = "has no quota left for this API key"
_FATAL = {
    401: f"rejects the API key, which is read from the environment variable {' or '.join(ENDPOINT_KEYS)}",
    402: _NO_CREDIT,
    407: "is behind a proxy that wants a user name and a password",
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


def retry_after_seconds(header: str | None, now: datetime | None = None) -> float | None:
    """Return the seconds from `now` that a Retry-After header asks for (RFC 9110, 10.2.3); None if it is invalid."""
    if header is None:
        return None
    value = header.strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        moment = parsedate_to_datetime(value)
        return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - (now or datetime.now(UTC))).total_seconds())
    except (TypeError, ValueError, OverflowError):
        return None


@dataclass(frozen=True)
class Answer(Generic[Value]):
    """The value that was read from an answer, or None and the reason as a clause about the endpoint.

    not_sent: neutral parameters that the endpoint refuses, so that its own defaults may apply.
    """

    value: Value | None
    fault: str = ""
    not_sent: tuple[str, ...] = ()


@dataclass(eq=False)
class BadAnswer(Exception):
    """An answer from which no value can be read.

    fault: a clause about the endpoint.
    wait: seconds that it asks for.
    is_final: the same request would get it again.
    parameter: one that the endpoint refuses.
    is_vague: the endpoint refuses the request without a reason, which may be a parameter.
    """

    fault: str
    wait: float = 0.0
    is_final: bool = False
    parameter: str | None = None
    is_vague: bool = False


class _Refusal(NamedTuple):
    """The code of an error, if it is a name such as `model_not_found`, and the parameter that the error is about.

    is_filter: a filter of the provider refuses the prompt or its completion. is_used_up: the key has no money left.
    """

    code: str | None = None
    parameter: str | None = None
    is_filter: bool = False
    is_used_up: bool = False


class _Closed(Exception):
    """A request that was not sent, because an earlier one failed or the audit ends."""


class Endpoint:
    """A connection to one endpoint, and the threads of its requests. `request` may be called from any thread."""

    def __init__(self, params: EndpointParams, *, key: str | None, seed: int) -> None:
        assert params.endpoint is not None and params.endpoint_model is not None
        self.params = params
        self.url: str = params.endpoint
        self._key = _clean_key(key)
        self._mask = KeyMask(self._key)
        self._seed = seed
        self._refused: set[str] = set()
        self._is_accepted = False
        self._is_closed = threading.Event()
        self._limiter = RateLimiter(params.requests_per_minute, sleep=self._is_closed.wait)
        self._retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, BadAnswer) and not error.is_final),
            stop=tenacity.stop_after_attempt(params.retries + 1),
            wait=_wait_seconds,
            # All requests wait, because the others would get the same answer.
            sleep=self._pause,
            reraise=True,
        )
        # A decoder of httpx would expand a few kilobytes to gigabytes.
        headers = {"Content-Type": "application/json", "Accept-Encoding": "gzip"}
        url = httpx.URL(self.url)
        self._base, mark, query = self.url.partition("?")
        self._query = mark + query
        if self._key:
            # A version of the API in the query is a sign of Azure, which has a header of its own.
            headers |= {"api-key": self._key} if self._query else {"Authorization": f"Bearer {self._key}"}
        self._through = through_proxy(url)
        try:
            self._client = httpx.AsyncClient(
                headers=headers,
                verify=httpx.create_ssl_context(),
                # A redirect would send the prompts elsewhere.
                follow_redirects=False,
                # No proxy reaches this machine.
                trust_env=not is_loopback(url.host),
            )
        except UnicodeEncodeError:
            raise HarnessError("the API key contains characters outside ASCII. Copy the key again.") from None
        except (ImportError, ValueError, httpx.InvalidURL):
            raise HarnessError(
                f"{self.url}: cannot be reached{self._through}. Use an http or https proxy, or set NO_PROXY to "
                "reach the endpoint directly."
            ) from None
        self._threads = ThreadPoolExecutor(params.concurrency)
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="endpoint", daemon=True).start()

    @property
    def is_unencrypted(self) -> bool:
        """True if the key is sent unencrypted to another machine."""
        url = httpx.URL(self.url)
        return self._key is not None and url.scheme == "http" and not is_loopback(url.host)

    def close(self) -> None:
        """Close the connection. Requests that are in flight, or wait for their turn or for a retry, are dropped."""
        self._is_closed.set()
        self._run(self._drop_requests())
        self._threads.shutdown(cancel_futures=True)
        self._run(self._client.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)

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
        """Return the generator of request `number`, which seeds its draws."""
        return Random(f"{self._seed}/{number}")  # noqa: S311  a seed, not a secret

    def request(
        self,
        body: dict[str, Any],
        read: Callable[[Any], Value],
        *,
        path: str = "completions",
        guesses_refused: bool = False,
    ) -> Answer[Value]:
        """Post `body` with the model's name and neutral parameters, and return what `read` makes of the answer's JSON.

        read: raises BadAnswer, LookupError or TypeError for JSON without a value. A request that is refused, with a
        status such as 400, 413 or 422, is not sent again, unless the endpoint refuses a parameter that has another name
        or may be left out: then once for each name. guesses_refused: until a first request is accepted, also if the
        endpoint does not name the parameter.

        Raises Interruption if the endpoint rejects the key, the address or temperature 0.
        """
        body = {**NEUTRAL, **body}
        # A guess is kept only if it was right.
        refused = set(self._refused)
        while True:
            sent = {
                _RENAMED.get(name, name) if name in refused else name: value
                for name, value in body.items()
                if name not in refused or not _is_optional(name, value)
            }
            content = json.dumps({"model": self.params.endpoint_model, **sent}).encode()
            try:
                value = self._retrying(self._attempt, path, content, read)
            except BadAnswer as error:
                refusal = error.parameter
                if refusal is None and error.is_vague and guesses_refused and not self._is_accepted:
                    refusal = next((name for name in NEUTRAL if name in sent and _is_optional(name, sent[name])), None)
                if refusal == "temperature" and body[refusal] == 0:
                    raise Interruption(
                        f"{self.url}: the endpoint {error.fault}, so greedy decoding cannot be measured. Start an "
                        "audit with --temperature 1."
                    ) from None
                if refusal not in sent or not (refusal in _RENAMED or _is_optional(refusal, sent[refusal])):
                    return Answer(None, error.fault)
                refused.add(refusal)
                if error.parameter is not None:
                    self._refused.add(refusal)
            else:
                self._refused |= refused
                self._is_accepted = True
                return Answer(value, not_sent=tuple(sorted(name for name in NEUTRAL if name not in sent)))

    def _attempt(self, path: str, content: bytes, read: Callable[[Any], Value]) -> Value:
        """Send one request and return what `read` makes of the answer. Raises BadAnswer for a fault."""
        self._limiter.wait()
        received = self._run(self._post(path, content))
        answer = self._parse(received)
        try:
            return read(answer)
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
            if self._refusal(200, received).is_used_up:
                raise Interruption(f"{self._base}/{path}: the endpoint {_NO_CREDIT}{self._through}.") from None
            if _names_filter(answer):
                raise BadAnswer(f"{BLOCKED} (an answer without a completion)", is_final=True) from None
            raise BadAnswer("sends JSON without a completion") from None

    def _pause(self, seconds: float) -> None:
        if seconds > _LONGEST_WAIT:
            wait = f"asks for a wait of {seconds / 60:.0f} minutes. Resume the audit then"
            raise Interruption(f"{self.url}: the endpoint {wait}.")
        self._limiter.pause(seconds)

    def _run(self, task: Coroutine[Any, Any, Value]) -> Value:
        """Return the result of a coroutine that runs on the event loop."""
        return asyncio.run_coroutine_threadsafe(task, self._loop).result()

    async def _drop_requests(self) -> None:
        requests = asyncio.all_tasks() - {asyncio.current_task()}
        for request in requests:
            request.cancel()
        await asyncio.gather(*requests, return_exceptions=True)

    async def _post(self, path: str, content: bytes) -> bytes:
        """Send one request and return the answer. Raises BadAnswer for a fault of the answer or of the connection."""
        if self._is_closed.is_set():
            raise _Closed
        received = bytearray()
        # httpx closes the socket of a handshake that times out, and not that of one that is cancelled.
        timeout = httpx.Timeout(None, connect=self.params.timeout / 2)
        try:
            address = f"{self._base}/{path}{self._query}"
            async with (
                asyncio.timeout(self.params.timeout),
                self._client.stream("POST", address, content=content, timeout=timeout) as response,
            ):
                async for piece in response.aiter_raw():
                    received += piece
                    if len(received) > _LARGEST_ANSWER:
                        raise BadAnswer(_TOO_LARGE, is_final=True)
        except (TimeoutError, httpx.TimeoutException):
            raise BadAnswer(TIMED_OUT) from None
        except httpx.RemoteProtocolError:
            raise BadAnswer("sent an invalid or incomplete answer") from None
        except httpx.TransportError:
            raise BadAnswer(UNREACHABLE + self._through) from None
        return self._checked(path, response, _decompress(received, response.headers.get("Content-Encoding", "")))

    def _checked(self, path: str, response: httpx.Response, content: bytes) -> bytes:
        status = response.status_code
        if status == 200:
            return content
        refusal = self._refusal(status, content)
        reply = f"status {status}, {refusal.code}" if refusal.code else f"status {status}"
        if status == _LEGAL_REASONS or refusal.is_filter:
            raise BadAnswer(f"{BLOCKED} ({reply})", is_final=True)
        if status in _FATAL or 300 <= status < 400 or refusal.is_used_up:
            clause = _NO_CREDIT if refusal.is_used_up else _FATAL.get(status, "redirects requests")
            raise Interruption(f"{self._base}/{path}: the endpoint {clause} ({reply}){self._through}.")
        is_refusal = refusal.parameter is not None and _VALIDATION in content
        if (status in _RETRIED or status > 504) and not is_refusal:
            wait = retry_after_seconds(response.headers.get("Retry-After")) or 0.0
            raise BadAnswer(f"answers with {reply}{self._through}", wait=wait)
        code = ": ".join(filter(None, (refusal.code, refusal.parameter)))
        is_vague = status in (400, 422) and (refusal.code is None or bool(_VAGUE_CODE.search(refusal.code)))
        raise BadAnswer(
            f"{REFUSAL} (status {status}{', ' if code else ''}{code})",
            is_final=True,
            parameter=refusal.parameter,
            is_vague=is_vague,
        )

    def _refusal(self, status: int, content: bytes) -> "_Refusal":
        """Return what an error is about. Its message is never shown, because it may quote the prompt."""
        try:
            answer = self._parse(content)
        except BadAnswer:
            return _Refusal()
        answer = answer[0] if isinstance(answer, list) and answer else answer
        error = answer.get("error", answer) if isinstance(answer, dict) else answer
        fields = error if isinstance(error, dict) else {}
        inner = fields.get("innererror")
        code_fields = (
            inner.get("code") if isinstance(inner, dict) else None,
            *map(fields.get, ("code", "type", "status")),
        )
        codes = [code for code in (*code_fields, error) if isinstance(code, str) and _CODE.fullmatch(code)]
        code = next(filter(_USED_UP.search, codes), next(iter(codes), None))
        message = fields.get("message", error)
        # A quotation of the prompt comes after a colon or a quotation mark.
        start = _QUOTED.split(message, 1)[0][:_FIRST_CHARACTERS] if isinstance(message, str) else ""
        is_blocked = any(map(is_filter, (*codes, start if status in _MESSAGES else "")))
        is_used_up = any(map(_USED_UP.search, (*codes, start)))
        text = content.decode(errors="replace")
        names = set(_NAMED.findall(text))
        if isinstance(name := fields.get("param"), str) and name in names:
            names = {name}
        for old, new in _RENAMED.items():
            # A limit that is only too large keeps its name.
            if new in text or (names == {old} and _UNKNOWN.search(text)):
                return _Refusal(code, old, is_blocked, is_used_up)
        # An error that quotes the whole request names every parameter.
        is_quote = {"max_tokens", "temperature"} <= names
        name = next((name for name in (*NEUTRAL, "seed", "temperature") if name in names), None)
        return _Refusal(code, None if is_quote else name, is_blocked, is_used_up)

    def _parse(self, content: bytes) -> Any:
        """Return the value of an answer, in which the key is masked. Every text of a server comes from here."""
        try:
            return self._mask.masked(parse_json(content))
        except (ValueError, RecursionError):
            raise BadAnswer("sends invalid JSON") from None


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


def _names_filter(answer: Any) -> bool:
    """Return True if an answer's JSON has the name of a filter as a value, or a reason why its prompt was blocked."""
    pending = [answer]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            if part.get("blockReason"):
                return True
            part = list(part.values())
        if isinstance(part, list):
            pending += part
        elif isinstance(part, str) and _CODE.fullmatch(part) and is_filter(part):
            return True
    return False


def _is_optional(name: str, value: Any) -> bool:
    """Return True if a request without this parameter means the same, or is only less reproducible."""
    return name == "seed" or (name in _OPTIONAL and value == _OPTIONAL[name])


def _clean_key(key: str | None) -> str | None:
    """Return `key` without surrounding whitespace, None if nothing is left."""
    key = (key or "").strip()
    if any(unicodedata.category(character) == "Cc" for character in key):
        raise HarnessError("the API key contains control characters, such as a line break. Remove them.")
    return key or None


def _wait_seconds(state: tenacity.RetryCallState) -> float:
    """Return the seconds until a retry, as many as the endpoint asks for or more."""
    error = state.outcome.exception() if state.outcome else None
    return max(_BACKOFF(state), error.wait if isinstance(error, BadAnswer) else 0.0)


def _decompress(content: bytearray, encoding: str) -> bytes:
    """Return the content of an answer. Raises BadAnswer if it is too large, without expanding it further."""
    if encoding.lower() in ("", "identity"):
        return bytes(content)
    decoder = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        decoded = decoder.decompress(content, _LARGEST_ANSWER + 1)
    except zlib.error:
        decoded = b""
    if len(decoded) > _LARGEST_ANSWER:
        raise BadAnswer(_TOO_LARGE, is_final=True)
    if encoding.lower() not in ("gzip", "x-gzip") or not decoder.eof:
        raise BadAnswer("sent an answer that cannot be decoded")
    return decoded
