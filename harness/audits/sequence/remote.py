"""Completions by an endpoint: one paragraph a request, a few at once, each committed as soon as it is answered.

After a kill at most the requests that were under way are sent again.
"""

import math
import re
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from types import TracebackType
from typing import Self

import numpy as np

from harness.audits.sequence.completing import Completion, State, shuffled
from harness.audits.sequence.endpoint import Answer, Endpoint
from harness.audits.sequence.material import Material
from harness.audits.sequence.params import SequenceParams
from harness.audits.sequence.words import first_words, words_of
from harness.core.arrays import Ints
from harness.core.errors import HarnessError
from harness.core.text import pluralize

_BYTES_A_TOKEN = 2
_FURTHER, _MOST_TOKENS = 16, 4_096
_NOT_IN_WORDS = re.compile(r"[!-@\[-`{-~]")
"""ASCII digits and marks, which may take a token each."""
_MOST_CHARACTERS = 1 << 16
_GIVE_UP_AFTER = 8
"""Paragraphs in a row without an answer, each after all its tries: the endpoint is out of order."""


class RemoteCompleter:
    """An endpoint that completes the paragraphs of `material`."""

    batch_size = 1

    def __init__(self, endpoint: Endpoint, material: Material, params: SequenceParams, *, seed: int) -> None:
        self.order = shuffled(len(material), seed)
        self._endpoint = endpoint
        self._material = material
        self._params = params
        self._failed_in_a_row = 0
        self._threads = ThreadPoolExecutor(params.concurrency)
        self._left: Iterator[int] = iter(())
        self._under_way: dict[Future[Answer], int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._threads.shutdown(cancel_futures=True)

    def begin(self, paragraphs: Ints, done: Ints) -> None:
        """An item is whichever of `paragraphs` is answered next, so that none waits for another."""
        self._left = iter(paragraphs[~np.isin(paragraphs, done)].tolist())

    def complete(self, items: Ints, seed: int) -> tuple[Ints, list[Completion]]:
        """Raises HarnessError when the endpoint refuses everybody, after all that it did answer, or was long silent."""
        paragraphs, made = zip(*(self._next() for _ in items), strict=True)
        return np.array(paragraphs, np.int64), list(made)

    def _next(self) -> tuple[int, Completion]:
        for paragraph in islice(self._left, self._params.concurrency - len(self._under_way)):
            self._under_way[self._threads.submit(self._answer, paragraph)] = paragraph
        answered = self._answered()
        paragraph, answer = self._under_way.pop(answered), answered.result()
        if answer.text is not None:
            self._failed_in_a_row = 0
            return paragraph, Completion(State.COMPLETED, cut_as(self._material.suffixes[paragraph], answer.text))
        self._failed_in_a_row += 1
        if self._failed_in_a_row == _GIVE_UP_AFTER:
            raise HarnessError(
                f"{self._params.endpoint}: the endpoint {answer.fault}; {_GIVE_UP_AFTER} paragraphs in a row got no "
                f"answer, each after at most {pluralize(self._params.retries + 1, 'request')}; what was answered is "
                "kept, resume the audit when the endpoint is in order."
            )
        return paragraph, Completion(State.UNANSWERED, fault=answer.fault)

    def _answered(self) -> Future[Answer]:
        """One that is answered; one that raises only when no other is under way, and nothing is asked after it."""
        waiting = [future for future in self._under_way if not (future.done() and future.exception())]
        if len(waiting) < len(self._under_way):
            self._left = iter(())
        if not waiting:
            return next(iter(self._under_way))
        wait(waiting, return_when=FIRST_COMPLETED)
        done = [future for future in waiting if future.done() and not future.exception()]
        return done[0] if done else self._answered()

    def _answer(self, paragraph: int) -> Answer:
        suffix = self._material.suffixes[paragraph]
        return self._endpoint.complete(self._material.prompts[paragraph], tokens_for(suffix), paragraph)


def cut_as(suffix: str, answer: str) -> str:
    """`answer` cut to the number of words of `suffix`, and to 8 times its characters and 1,000, 65,536 at most.

    Words may be of any length where a model writes none of a language.
    """
    most = min(_MOST_CHARACTERS, 8 * len(suffix) + 1_000)
    return first_words(answer[:most], len(words_of(suffix)))


def tokens_for(suffix: str) -> int:
    """Tokens at most for a completion as long as `suffix`, more than tokenizers take for nearly any text, up to 4,096.

    A token for two bytes of UTF-8, for a digit or mark of ASCII one of its own, and 16 more: English gets some twice
    as many as it takes, Chinese three for two characters.
    """
    size = len(suffix.encode("utf-8", "replace")) + len(_NOT_IN_WORDS.findall(suffix))
    return min(_MOST_TOKENS, math.ceil(size / _BYTES_A_TOKEN) + _FURTHER)
