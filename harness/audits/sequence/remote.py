"""Complete paragraphs with an endpoint: one paragraph per request, committed as soon as it is answered.

After a kill at most the requests in flight are sent again.
"""

import math
import re
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice

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
        self._answers: Iterator[tuple[int, Answer]] = iter(())

    def close(self) -> None:
        """Wait for the requests in flight and drop the others."""
        self._threads.shutdown(cancel_futures=True)

    def begin(self, paragraphs: Ints, done: Ints) -> None:
        """Set the paragraphs. They are completed in the order of the answers, so that none waits for another."""
        self._answers = self._request_all(paragraphs[~np.isin(paragraphs, done)].tolist())

    def complete(self, items: Ints, seed: int) -> tuple[Ints, list[Completion]]:
        """Complete paragraphs.

        Raises HarnessError if the endpoint rejects the key or the address (after all answers in flight have arrived),
        or if too many paragraphs in a row got no answer.
        """
        answered = list(islice(self._answers, len(items)))
        paragraphs = np.array([paragraph for paragraph, _ in answered], np.int64)
        return paragraphs, [self._completion(*each) for each in answered]

    def _completion(self, paragraph: int, answer: Answer) -> Completion:
        if answer.text is not None:
            self._failures = 0
            return Completion(State.COMPLETED, cut_to_suffix(answer.text, self._dataset.suffixes[paragraph]))
        self._failures += 1
        if self._failures == _MOST_FAILURES:
            raise HarnessError(
                f"{self._params.endpoint}: the endpoint {answer.fault}; {_MOST_FAILURES} paragraphs in a row got no "
                f"answer after {pluralize(self._params.retries + 1, 'request')} each. All answers are kept; resume the "
                "audit when the endpoint works."
            )
        return Completion(State.UNANSWERED, fault=answer.fault)

    def _request_all(self, paragraphs: list[int]) -> Iterator[tuple[int, Answer]]:
        """Yield paragraphs with their answers. After an error no request is sent, and it is raised at the end."""
        left, error = iter(paragraphs), None
        in_flight: set[Future[tuple[int, Answer]]] = set()
        while True:
            free = self._params.concurrency - len(in_flight)
            in_flight |= {self._threads.submit(self._request, paragraph) for paragraph in islice(left, free)}
            if not in_flight:
                break
            answered = wait(in_flight, return_when=FIRST_COMPLETED).done.pop()
            in_flight.remove(answered)
            if answered.exception():
                left, error = iter(()), answered.exception()
            else:
                yield answered.result()
        if error:
            raise error

    def _request(self, paragraph: int) -> tuple[int, Answer]:
        prompt, suffix = self._dataset.prompts[paragraph], self._dataset.suffixes[paragraph]
        return paragraph, self._endpoint.complete(prompt, max_tokens(suffix), paragraph)


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
