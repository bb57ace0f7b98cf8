"""Completions by a target on this machine: prompts of equally many tokens go through it together, so none is padded."""

import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from harness.audits.sequence.completing import Completion, State, shuffled
from harness.audits.sequence.material import Material
from harness.audits.sequence.params import SequenceParams
from harness.audits.sequence.words import first_words, words_of
from harness.audits.tokenizing import tokenizer_in
from harness.core.arrays import Ints
from harness.core.errors import HarnessError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from harness.engine.target import Target

_BATCH = 64
_ENCODED_AT_ONCE = 1_000
"""Texts: an encoding takes far more memory than its ids."""
_SLACK, _FURTHER = 1.25, 4
"""Tokens drawn for a suffix: so many times its own, and so many more, since other words may take more tokens."""


class LocalCompleter:
    """A target that completes the paragraphs of `material`."""

    batch_size = _BATCH

    def __init__(self, target: "Target", material: Material, params: SequenceParams, *, seed: int) -> None:
        """Raises HarnessError when the target came without a tokenizer."""
        self._target = target
        self._policy = params.policy
        self._tokenizer = _tokenizer_of(target)
        prompts = _encoded(self._tokenizer, material.prompts, is_whole=True)
        suffixes = _encoded(self._tokenizer, (f" {text}" for text in material.suffixes), is_whole=False)
        self._prompts = [_without_end(ids, target.end_tokens) for ids in prompts]
        self._needed = np.array([len(ids) for ids in suffixes], np.int64)
        self._words = [len(words_of(text)) for text in material.suffixes]
        self._tokens = np.array([len(ids) for ids in self._prompts], np.int64)
        self._begun = self.order = self._order(seed)

    def begin(self, paragraphs: Ints, done: Ints) -> None:
        """Items are places in `paragraphs`, whatever was done."""
        self._begun = paragraphs

    def complete(self, items: Ints, seed: int) -> tuple[Ints, list[Completion]]:
        """Whatever else is among `items`, a paragraph's completion is the same, but for rounding."""
        paragraphs = self._begun[items]
        lengths = np.array([self._length(paragraph) for paragraph in paragraphs.tolist()], np.int64)
        made = [Completion(State.NO_ROOM) for _ in paragraphs]
        for tokens in np.unique(self._tokens[paragraphs]).tolist():
            group = np.flatnonzero((self._tokens[paragraphs] == tokens) & (lengths > 0))
            if len(group) == 0:
                continue
            prefixes = np.array([self._prompts[paragraph] for paragraph in paragraphs[group]], np.int64)
            drawn = self._target.sample(
                prefixes, self._policy, trials=1, seed=seed, length=int(lengths[group].max())
            )  # one row a prefix, in their order
            for place, ids in zip(group, drawn.suffixes.tolist(), strict=True):
                text = self._text(ids[: lengths[place]])
                made[place] = Completion(State.COMPLETED, first_words(text, self._words[paragraphs[place]]))
        return paragraphs, made

    def _order(self, seed: int) -> Ints:
        """Batches of paragraphs of like length, in random order; the last one, where it is smaller, of any length."""
        order = shuffled(len(self._tokens), seed)
        whole = len(order) // self.batch_size * self.batch_size
        alike, rest = (part[np.lexsort((self._needed[part], self._tokens[part]))] for part in np.split(order, [whole]))
        batches = alike.reshape(-1, self.batch_size)
        return np.concatenate([batches[shuffled(len(batches), seed)].reshape(-1), rest])

    def _length(self, paragraph: int) -> int:
        """Tokens that are drawn for a paragraph; 0 where the model has no room for its suffix, or it has no prompt."""
        needed, tokens = int(self._needed[paragraph]), int(self._tokens[paragraph])
        wanted = math.ceil(_SLACK * needed) + _FURTHER
        if tokens == 0:
            return 0
        if self._target.context_length is None:
            return wanted
        room = self._target.context_length - tokens
        return min(wanted, room) if needed <= room else 0

    def _text(self, ids: list[int]) -> str:
        """As text, up to where the model ended it."""
        end = next((place for place, token in enumerate(ids) if token in self._target.end_tokens), len(ids))
        text: str = self._tokenizer.decode(ids[:end], skip_special_tokens=True)
        return text


def _tokenizer_of(target: "Target") -> "Tokenizer":
    if target.tokenizer_file is None:
        raise HarnessError("the target came without a tokenizer.json, and the audit asks it in words; add the file.")
    tokenizer = tokenizer_in(target.tokenizer_file)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _encoded(tokenizer: "Tokenizer", texts: Iterable[str], *, is_whole: bool) -> Iterator[list[int]]:
    """The ids of each text; of a whole one with what the tokenizer begins a text with."""
    left = iter(texts)
    while some := list(islice(left, _ENCODED_AT_ONCE)):
        yield from (encoding.ids for encoding in tokenizer.encode_batch(some, add_special_tokens=is_whole))


def _without_end(ids: list[int], ends: frozenset[int]) -> list[int]:
    """Some tokenizers end every text that they are given, and what follows would be another text."""
    last = len(ids)
    while last and ids[last - 1] in ends:
        last -= 1
    return ids[:last]
