"""Complete paragraphs with an endpoint: one paragraph per request, committed as soon as it is answered.

After a kill at most the requests in flight are sent again.
"""

import math
import re
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from types import TracebackType
from typing import Self

import numpy as np

from harness.audits.sequence.completion import Completion, State, shuffled
from harness.audits.sequence.dataset import Dataset
from harness.audits.sequence.endpoint import Answer, Endpoint
from harness.audits.sequence.params import SequenceParams
from harness.audits.sequence.words import first_words, words_of
from harness.core.arrays import Ints
from harness.core.errors import HarnessError
from harness.core.text import pluralize

_BYTES_PER_TOKEN = 2
_MARGIN, _MOST_TOKENS = 16, 4_096
_SINGLE_TOKENS = re.compile(r"[!-@\[-`{-~]")
"""ASCII digits and punctuation, which may take a token each."""
_MOST_CHARACTERS = 1 << 16
_MOST_FAILURES = 8
"""Unanswered paragraphs in a row, each after all retries, at which the audit ends."""


class RemoteCompleter:
    """Completes the paragraphs of a dataset with an endpoint."""

    batch_size = 1

    def __init__(self, endpoint: Endpoint, dataset: Dataset, params: SequenceParams, *, seed: int) -> None:
        self.order = shuffled(len(dataset), seed)
        self._endpoint = endpoint
        self._dataset = dataset
        self._params = params
        self._failures = 0
        self._threads = ThreadPoolExecutor(params.concurrency)
        self._left: Iterator[int] = iter(())
        self._in_flight: dict[Future[Answer], int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._threads.shutdown(cancel_futures=True)

    def begin(self, paragraphs: Ints, done: Ints) -> None:
        """Set the paragraphs. Each item is whichever paragraph is answered next, so that none waits for another."""
        self._left = iter(paragraphs[~np.isin(paragraphs, done)].tolist())

    def complete(self, items: Ints, seed: int) -> tuple[Ints, list[Completion]]:
        """Complete paragraphs.

        Raises HarnessError if the endpoint rejects the key or the address, after all answers in flight, or if too many
        paragraphs in a row got no answer.
        """
        paragraphs, completions = zip(*(self._next() for _ in items), strict=True)
        return np.array(paragraphs, np.int64), list(completions)

    def _next(self) -> tuple[int, Completion]:
        for paragraph in islice(self._left, self._params.concurrency - len(self._in_flight)):
            self._in_flight[self._threads.submit(self._request, paragraph)] = paragraph
        answered = self._wait_for_answer()
        paragraph, answer = self._in_flight.pop(answered), answered.result()
        if answer.text is not None:
            self._failures = 0
            return paragraph, Completion(State.COMPLETED, cut_to_suffix(answer.text, self._dataset.suffixes[paragraph]))
        self._failures += 1
        if self._failures == _MOST_FAILURES:
            raise HarnessError(
                f"{self._params.endpoint}: the endpoint {answer.fault}; {_MOST_FAILURES} paragraphs in a row got no "
                f"answer after {pluralize(self._params.retries + 1, 'request')} each. All answers are kept; resume the "
                "audit when the endpoint works."
            )
        return paragraph, Completion(State.UNANSWERED, fault=answer.fault)

    def _wait_for_answer(self) -> Future[Answer]:
        """Return a request that is answered. One that raised is returned last, and no request is sent after it."""
        waiting = [future for future in self._in_flight if not (future.done() and future.exception())]
        if len(waiting) < len(self._in_flight):
            self._left = iter(())
        if not waiting:
            return next(iter(self._in_flight))
        wait(waiting, return_when=FIRST_COMPLETED)
        done = [future for future in waiting if future.done() and not future.exception()]
        return done[0] if done else self._wait_for_answer()

    def _request(self, paragraph: int) -> Answer:
        suffix = self._dataset.suffixes[paragraph]
        return self._endpoint.complete(self._dataset.prompts[paragraph], max_tokens(suffix), paragraph)


def cut_to_suffix(answer: str, suffix: str) -> str:
    """Return `answer` cut to the number of words of `suffix`.

    At most 8 times the suffix's characters and 1,000 more are kept, and at most 65,536: a model that writes no language
    may write words of any length.
    """
    most = min(_MOST_CHARACTERS, 8 * len(suffix) + 1_000)
    return first_words(answer[:most], len(words_of(suffix)))


def max_tokens(suffix: str) -> int:
    """Return a maximum of tokens for a completion as long as `suffix`, enough for nearly any tokenizer, up to 4,096.

    One token per two bytes of UTF-8, one for each ASCII digit or punctuation mark, and 16 more: about twice what
    English takes, and three tokens per two characters of Chinese.
    """
    size = len(suffix.encode("utf-8", "replace")) + len(_SINGLE_TOKENS.findall(suffix))
    return min(_MOST_TOKENS, math.ceil(size / _BYTES_PER_TOKEN) + _MARGIN)
