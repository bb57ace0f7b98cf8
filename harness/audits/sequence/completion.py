"""Complete paragraphs: the interface of completers, and a target on this machine.

Prompts with equally many tokens are batched without padding.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from harness.audits.sequence.dataset import Dataset, SequenceParams, first_words, words_of
from harness.core.arrays import Ints
from harness.core.errors import HarnessError
from harness.core.tokenizers import load_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from harness.engine.target import Target


class State(StrEnum):
    """The outcome for a requested paragraph."""

    COMPLETED = "completed"
    UNANSWERED = "unanswered"
    """The endpoint gave no readable answer."""
    NO_ROOM = "no_room"
    """Prompt and suffix exceed the model's context, or the prompt has no token of its vocabulary."""


class Completion(NamedTuple):
    """A paragraph's completion, cut to its suffix's number of words. fault: why there is none, as a clause."""

    state: State
    text: str = ""
    fault: str = ""


class Completer(Protocol):
    """Completes paragraphs.

    order: [n] the paragraphs in random order.
    batch_size: how many are committed together at most.
    ends: places in the order where a batch ends.
    """

    order: Ints
    batch_size: int
    ends: Sequence[int]

    def begin(self, paragraphs: Ints, done: Ints) -> None:
        """Set the `paragraphs` [m] that are completed next; those in `done` have been completed before."""
        ...

    def complete(self, items: Ints, seed: int) -> tuple[Ints, list[Completion]]:
        """Return as many further completions as there are `items`, places in `paragraphs`, and their paragraphs.

        The completion of a paragraph is a function of the seed where the model allows it.
        """
        ...


def shuffled(items: int, seed: int) -> Ints:
    """Return 0 … `items` - 1 in random order: an audit that ends early has measured a fair sample of both sides."""
    return np.random.default_rng([seed, 1]).permutation(items).astype(np.int64)


_ENCODED_AT_ONCE = 1_000
"""Texts: an encoding takes far more memory than its ids."""
_SLACK, _MARGIN = 1.25, 4
"""Tokens per token of the suffix, and further tokens: other words may take more tokens than the suffix."""


class LocalCompleter:
    """Completes the paragraphs of a dataset with a local target."""

    batch_size = 64

    def __init__(self, target: "Target", dataset: Dataset, params: SequenceParams, *, seed: int) -> None:
        """Encode all paragraphs. Raises HarnessError if the target has no tokenizer."""
        if target.tokenizer_file is None:
            raise HarnessError("the target has no tokenizer.json, which the sequence audit needs. Add the file.")
        self._target = target
        self._policy = params.policy
        self._tokenizer = load_tokenizer(target.tokenizer_file, reads_special_tokens=dataset.has_special_tokens)
        self._prompts = list(_encode(self._tokenizer, dataset.prompts))
        suffixes = _encode(self._tokenizer, (f" {text}" for text in dataset.suffixes))
        self._needed = np.array([len(ids) for ids in suffixes], np.int64)
        self._words = [len(words_of(text)) for text in dataset.suffixes]
        self._tokens = np.array([len(ids) for ids in self._prompts], np.int64)
        runs = self._batches(seed)
        self._paragraphs = self.order = np.concatenate(runs)
        self.ends: Sequence[int] = np.cumsum([len(run) for run in runs]).tolist()

    def begin(self, paragraphs: Ints, done: Ints) -> None:
        """Set the paragraphs. Item i is paragraph i of them, also after a resume."""
        self._paragraphs = paragraphs

    def complete(self, items: Ints, seed: int) -> tuple[Ints, list[Completion]]:
        """Complete paragraphs with equally long prompts. Up to rounding, a completion does not depend on the others."""
        paragraphs = self._paragraphs[items]
        lengths = np.array([self._length(paragraph) for paragraph in paragraphs.tolist()], np.int64)
        completions = [Completion(State.NO_ROOM) for _ in paragraphs]
        possible = np.flatnonzero(lengths > 0)
        if len(possible) == 0:
            return paragraphs, completions
        prefixes = np.array([self._prompts[paragraph] for paragraph in paragraphs[possible]], np.int64)
        drawn = self._target.sample(
            prefixes, self._policy, trials=1, seed=seed, length=int(lengths[possible].max())
        )  # one row per prefix, in order
        for place, ids in zip(possible, drawn.suffixes.tolist(), strict=True):
            text = first_words(self._decode(ids[: lengths[place]]), self._words[paragraphs[place]])
            completions[place] = Completion(State.COMPLETED, text)
        return paragraphs, completions

    def _batches(self, seed: int) -> list[Ints]:
        """Return batches of paragraphs with equally long prompts, and similar suffixes, in random order."""
        order = shuffled(len(self._tokens), seed)
        alike = order[np.lexsort((self._needed[order], self._tokens[order]))]
        groups = np.split(alike, 1 + np.flatnonzero(np.diff(self._tokens[alike])))
        most = self.batch_size
        batches = [group[first : first + most] for group in groups for first in range(0, len(group), most)]
        return [batches[place] for place in shuffled(len(batches), seed)]

    def _length(self, paragraph: int) -> int:
        """Return the number of tokens to sample; 0 if the suffix does not fit the context, or the prompt is empty."""
        needed, tokens = int(self._needed[paragraph]), int(self._tokens[paragraph])
        wanted = math.ceil(_SLACK * needed) + _MARGIN
        if tokens == 0:
            return 0
        if self._target.context_length is None:
            return wanted
        room = self._target.context_length - tokens - (self._target.bos_token is not None)
        return min(wanted, room) if needed <= room else 0

    def _decode(self, ids: list[int]) -> str:
        """Return the text up to the first end-of-text token."""
        end = next((place for place, token in enumerate(ids) if token in self._target.end_tokens), len(ids))
        text: str = self._tokenizer.decode(ids[:end], skip_special_tokens=True)
        return text


def _encode(tokenizer: "Tokenizer", texts: Iterable[str]) -> Iterator[list[int]]:
    """Yield the ids of each text. The target itself adds the token that its tokenizer puts before every text."""
    left = iter(texts)
    while part := list(islice(left, _ENCODED_AT_ONCE)):
        yield from (encoding.ids for encoding in tokenizer.encode_batch(part, add_special_tokens=False))
