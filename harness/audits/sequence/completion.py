"""Complete paragraphs: the interface of completers, a target on this machine, and completions that a file has."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from harness.audits.sequence.answers import NO_FACTS, AnswerFacts, cut_echo
from harness.audits.sequence.dataset import PROMPT_LENGTH, Cut, Dataset, Paragraph, SequenceParams, cut_after
from harness.audits.sequence.words import first_words, words_of
from harness.core.arrays import Ints
from harness.core.errors import HarnessError, UsageError
from harness.core.inputs import require_file
from harness.core.text import compatible, shorten
from harness.core.tokenizers import WRITE_TOKENIZER, Tokenizer, load_tokenizer
from harness.corpora.documents import records_in
from harness.corpora.text_files import Notes

if TYPE_CHECKING:
    from harness.engine.target import Target

_MAX_CHARACTERS = 1 << 16
_FORMS = [(*texts, "completion", *model) for texts in (("prefix", "suffix"), ("text",)) for model in (("model",), ())]
"""The fields of a record with a completion."""
_ONE_MODEL = "the model"
"""The name of the model of a file without the field `model`."""
_ENCODED_AT_ONCE = 1_000
"""Texts: an encoding takes far more memory than its ids."""
_SLACK, _MARGIN = 1.25, 4
"""Tokens per token of the suffix, and further tokens: other words may take more tokens than the suffix."""


class State(StrEnum):
    """The outcome for a requested paragraph."""

    COMPLETED = "completed"
    UNANSWERED = "unanswered"
    """The endpoint gave no readable answer."""
    BLOCKED = "blocked"
    """A filter of the provider withheld or cut the answer."""
    OTHER_MODEL = "other_model"
    """Another model answered. Rows have `COMPLETED` instead: `read_setting` compares the names of all answers."""
    NO_ROOM = "no_room"
    """Prompt and suffix exceed the model's context, or the prompt has no token of its vocabulary."""


class Completion(NamedTuple):
    """A paragraph's completion, cut to its suffix's number of words.

    fault: why there is none, as a clause.
    cut_words: words of the prompt that were cut off its beginning.
    facts: what the answer of an endpoint says.
    """

    state: State
    text: str = ""
    fault: str = ""
    cut_words: int = 0
    facts: AnswerFacts = NO_FACTS


class Completer(ABC):
    """Completes paragraphs.

    order: [n] the paragraphs in random order.
    batch_size: how many are committed together at most.
    ends: places in the order where a batch ends.
    """

    batch_size: int
    ends: Sequence[int] = ()

    def __init__(self, order: Ints) -> None:
        self.order = self._paragraphs = order

    def form(self, text: str) -> str:
        """Return `text` in the form of all completions, in which they are compared with suffixes."""
        return compatible(text)

    def begin(self, paragraphs: Ints, done: Ints) -> None:
        """Set the `paragraphs` [m] that are completed next; those in `done` have been completed before."""
        self._paragraphs = paragraphs

    @abstractmethod
    def complete(self, items: Ints, seed: int) -> tuple[Ints, list[Completion]]:
        """Return as many further completions as there are `items`, places in `paragraphs`, and their paragraphs.

        The completion of a paragraph is a function of the seed where the model allows it.
        """


def shuffled(items: int, seed: int) -> Ints:
    """Return 0 … `items` - 1 in random order: an audit that ends early has measured a fair sample of both sides."""
    return np.random.default_rng([seed, 1]).permutation(items).astype(np.int64)


def bounded(answer: str, prompt: str, suffix: str) -> str:
    """Return the beginning of `answer` that may be a prompt and a suffix.

    At most 8 times the suffix's characters and 1,000 more are kept, and at most 65,536: a model that writes no language
    may write words of any length. The prompt's are added.
    """
    return answer[: min(_MAX_CHARACTERS, 8 * len(suffix) + 1_000) + 2 * len(prompt)]


def completed(answer: str, prompt: str, suffix: str, facts: AnswerFacts = NO_FACTS) -> Completion:
    """Return the completion in `answer`, normalized, without the prompt and cut to the number of words of `suffix`."""
    prompt, suffix = compatible(prompt), compatible(suffix)
    text, cut_words = cut_echo(prompt, bounded(compatible(answer), prompt, suffix))
    text = first_words(bounded(text, "", suffix), len(words_of(suffix)))
    return Completion(State.COMPLETED, text, cut_words=cut_words, facts=facts)


class GivenCompletions(NamedTuple):
    """The completions of a file, and the paragraphs that they complete.

    by_model: the completion of each paragraph, by the name of the model in the order of the file.
    prompt_length: words of a prompt, None if the records have prefixes.
    """

    paragraphs: list[Paragraph]
    by_model: dict[str, dict[Cut, str]]
    prompt_length: int | None


def read_completions(path: Path, params: SequenceParams, notes: Notes) -> GivenCompletions:
    """Return the completions of a JSON, JSON Lines, CSV or TSV file.

    A record has a prefix and a suffix, or a text that is cut after the prompt length, and a completion. The field
    `model` names one of several models. Raises HarnessError if no record has these fields, if a model has no completion
    of a paragraph, or two different ones.
    """
    require_file(path)
    fields = next((form for form in _FORMS if next(records_in(path, path.name, form, Notes()), None)), None)
    if fields is None:
        raise HarnessError(
            f"{path}: no record has the fields prefix, suffix and completion, or text and completion. Name a .jsonl, "
            ".json, .csv or .tsv file with these fields."
        )
    length = None if fields[0] == "prefix" else max(params.prompt_length, default=PROMPT_LENGTH)
    if len(params.prompt_length) > (length is not None):
        raise UsageError(f"--prompt-length: {path} has completions of one prompt each. Give one length for text only.")
    paragraphs: dict[Cut | str, Paragraph] = {}
    by_model: dict[str, dict[Cut, str]] = {}
    place = fields.index("completion")
    for line, texts in records_in(path, path.name, fields, notes):
        words = words_of(" ".join(texts[:place]))
        before = len(words_of(texts[0])) if length is None else length
        cut = cut_after(" ".join(words), before, params.longest_suffix) if before else None
        is_shortened = cut is not None and len(words) > before + params.longest_suffix
        paragraph = Paragraph(f"{path.name}:{line}", 1, cut, is_shortened)
        paragraphs.setdefault(" ".join(words) if cut is None else cut, paragraph)
        completions = by_model.setdefault("".join(texts[place + 1 :]) or _ONE_MODEL, {})
        if cut is not None:
            completion = bounded(texts[place], cut.prompt, cut.suffix)
            if completions.setdefault(cut, completion) != completion:
                raise HarnessError(
                    f"{path}, line {line}: a second completion of the same paragraph. Give one for each paragraph and "
                    "model, which the field `model` names."
                )
    for model, completions in by_model.items():
        for paragraph in paragraphs.values():
            if paragraph.cut is not None and paragraph.cut not in completions:
                raise HarnessError(
                    f"{path}: {shorten(model)} has no completion of the paragraph in {paragraph.document}. Give one "
                    "for each paragraph and model."
                )
    return GivenCompletions(list(paragraphs.values()), by_model, length)


class GivenCompleter(Completer):
    """Returns the completions of one model that were given."""

    batch_size = 256

    def __init__(self, dataset: Dataset, model: int, *, seed: int) -> None:
        super().__init__(shuffled(len(dataset), seed))
        self._dataset = dataset
        self._texts = dataset.completions[model * len(dataset) :]

    def complete(self, items: Ints, seed: int) -> tuple[Ints, list[Completion]]:
        """Return the completions of paragraphs."""
        paragraphs = self._paragraphs[items]
        prompts, suffixes = self._dataset.prompts, self._dataset.suffixes
        return paragraphs, [
            completed(self._texts[paragraph], prompts[paragraph], suffixes[paragraph])
            for paragraph in paragraphs.tolist()
        ]


class LocalCompleter(Completer):
    """Completes the paragraphs of a dataset with a local target."""

    batch_size = 64

    def __init__(self, target: "Target", dataset: Dataset, params: SequenceParams, *, seed: int) -> None:
        """Encode all paragraphs. Raises HarnessError if the target has no tokenizer."""
        if target.tokenizer_file is None:
            raise HarnessError(f"the target has no tokenizer.json, which reading text needs. {WRITE_TOKENIZER}")
        self._target = target
        self._policy = params.policy
        self._tokenizer = load_tokenizer(target.tokenizer_file, reads_special_tokens=dataset.has_special_tokens)
        self._prompts = [np.array(ids, np.int64) for ids in _encode(self._tokenizer, dataset.prompts)]
        suffixes = _encode(self._tokenizer, (f" {text}" for text in dataset.suffixes))
        self._needed = np.array([len(ids) for ids in suffixes], np.int64)
        self._words = [len(words_of(self.form(text))) for text in dataset.suffixes]
        self._tokens = np.array([len(ids) for ids in self._prompts], np.int64)
        self._lengths = np.array([self._length(paragraph) for paragraph in range(len(dataset))], np.int64)
        batches = self._batches(seed)
        super().__init__(np.concatenate(batches))
        self.ends: Sequence[int] = np.cumsum([len(batch) for batch in batches]).tolist()

    def form(self, text: str) -> str:
        """Return `text` as the target's tokenizer normalizes it."""
        return self._tokenizer.normalize(text)

    def complete(self, items: Ints, seed: int) -> tuple[Ints, list[Completion]]:
        """Complete paragraphs. Up to rounding, a completion does not depend on the others."""
        paragraphs = self._paragraphs[items]
        completions = [Completion(State.NO_ROOM) for _ in paragraphs]
        possible = np.flatnonzero(self._lengths[paragraphs] > 0)
        suffixes = self._target.complete(
            [self._prompts[paragraph] for paragraph in paragraphs[possible]],
            self._policy,
            lengths=self._lengths[paragraphs[possible]],
            seed=seed,
        )
        for place, ids in zip(possible, suffixes, strict=True):
            text = first_words(self.form(self._decode(ids.tolist())), self._words[paragraphs[place]])
            completions[place] = Completion(State.COMPLETED, text)
        return paragraphs, completions

    def _batches(self, seed: int) -> list[Ints]:
        """Return batches of paragraphs, in random order, that take the least time together.

        The paragraphs are sorted by the length of their prompts. A batch takes a step for each token after the end of
        its shortest prompt (see `harness.engine.completing`), and a step costs `STEP_ROWS` rows and its own.
        """
        from harness.engine.completing import STEP_ROWS  # loads torch

        order = shuffled(len(self._tokens), seed)
        order = order[np.lexsort((self._lengths[order], self._tokens[order]))]
        tokens, ends = self._tokens[order], (self._tokens + self._lengths)[order]
        # The least cost of the first paragraphs, by their number, and where the last batch of them begins.
        cost, begins = np.zeros(len(order) + 1), np.zeros(len(order) + 1, np.int64)
        for end in range(1, len(order) + 1):
            first = np.arange(max(0, end - self.batch_size), end)
            last_token = np.maximum.accumulate(ends[first][::-1])[::-1]
            costs = cost[first] + (last_token - tokens[first]) * (STEP_ROWS + end - first)
            begins[end], cost[end] = first[costs.argmin()], costs.min()
        batches, end = [], len(order)
        while end:
            batches.append(order[begins[end] : end])
            end = int(begins[end])
        return [batches[place] for place in shuffled(len(batches), seed)]

    def _length(self, paragraph: int) -> int:
        """Return the number of tokens to sample; 0 if the suffix does not fit the context, or the prompt is empty."""
        needed, tokens = int(self._needed[paragraph]), int(self._tokens[paragraph])
        length = math.ceil(_SLACK * needed) + _MARGIN
        if tokens == 0:
            return 0
        if self._target.context_length is None:
            return length
        room = self._target.context_length - tokens - (self._target.bos_token is not None)
        return min(length, room) if needed <= room else 0

    def _decode(self, ids: list[int]) -> str:
        """Return the text up to the first end-of-text token."""
        end = next((place for place, token in enumerate(ids) if token in self._target.end_tokens), len(ids))
        return self._tokenizer.decode(ids[:end], skip_special_tokens=True)


def _encode(tokenizer: Tokenizer, texts: Iterable[str]) -> Iterator[list[int]]:
    """Yield the ids of each text. The target itself adds the token that its tokenizer puts before every text."""
    left = iter(texts)
    while part := list(islice(left, _ENCODED_AT_ONCE)):
        yield from (encoding.ids for encoding in tokenizer.encode_batch(part, add_special_tokens=False))
