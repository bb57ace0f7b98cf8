"""The options of the audit, and the paragraphs that it measures: those of the corpus, then those of the control.

A word is a run of characters without whitespace, as Unicode defines it. Text in a script that has no spaces between
words must be split into words before. Blank lines separate paragraphs; a line break inside a paragraph is whitespace
like any other.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, NamedTuple, Self

import numpy as np
from pydantic import field_validator, model_validator

from harness.audits.endpoint.params import EndpointParams
from harness.audits.sequence.words import WordForm, word_spans
from harness.core.arrays import Bools, Ints
from harness.core.attack import Field
from harness.core.audit import Inputs
from harness.core.options import option
from harness.core.policy import Policy

PROMPT_LENGTH = 35
"""Words of a prompt in the source of the method."""
MAX_CHARACTERS = 1 << 20
"""Maximum characters of a paragraph. The rest of a longer one is never part of a prompt or a suffix."""


class SequenceParams(EndpointParams):
    """The options of the audit, which are checked before the corpus is read."""

    prompt_length: tuple[Annotated[int, Field(ge=1, le=10_000)], ...] = option(
        (),
        metavar="N,N,…",
        separator=",",
        unset="35; for a round, its prefixes",
        description="Words of a prompt. With several lengths, the answer is about the longest prompts.",
    )
    word_form: WordForm = option(
        WordForm.STRIPPED,
        metavar="FORM",
        description="Words to compare: stripped (no punctuation), verbatim, or folded (no punctuation, no case).",
    )
    longest_suffix: int = Field(250, ge=1, le=10_000, description="Maximum words of a suffix to compare.")
    limit: int = Field(10_000, ge=1, description="Maximum paragraphs of the corpus and of the control, drawn by seed.")
    temperature: float = Field(0.0, ge=0, le=10, description="Sampling temperature; 0 is greedy.")
    top_k: int | None = option(None, ge=1, unset="off", description="Tokens kept by top-k.")
    top_p: float = Field(1.0, gt=0, le=1, description="Probability kept by top-p.")
    chat: bool = Field(False, description="Instruct a chat endpoint to continue the text.")

    @field_validator("prompt_length")
    @classmethod
    def _in_order(cls, lengths: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(lengths), reverse=True))

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.chat and self.endpoint is None:
            raise ValueError("--chat needs an endpoint; set --endpoint")
        if self.endpoint is not None and self.top_k is not None:
            raise ValueError("the completions API has no top_k; remove --top-k")
        if self.temperature == 0 and (self.top_k is not None or self.top_p < 1):
            raise ValueError("--top-k and --top-p have no effect at temperature 0; set --temperature")
        return self

    @property
    def policy(self) -> Policy:
        """The decoding policy of a local target."""
        if self.temperature == 0:
            return Policy(top_k=1)
        return Policy(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p)


def paragraphs_of(lines: Iterable[str]) -> Iterator[str]:
    """Yield the paragraphs of a text that comes in pieces. A piece without a line feed continues in the next one."""
    pieces: list[str] = []
    size, is_continued = 0, False
    for line in lines:
        if is_continued or not line.isspace():
            if size < MAX_CHARACTERS:
                pieces.append(line)
            size += len(line)
        elif pieces:
            yield "".join(pieces).strip()
            pieces, size = [], 0
        is_continued = not line.endswith("\n")
    if pieces:
        yield "".join(pieces).strip()


class Cut(NamedTuple):
    """A paragraph cut in two: the prompt that the model gets, and the suffix that follows it."""

    prompt: str
    suffix: str


def cut_after(paragraph: str, prompt_length: int, longest_suffix: int) -> Cut | None:
    """Return the first `prompt_length` words and at most `longest_suffix` words that follow; None if none follow."""
    spans = word_spans(paragraph, prompt_length + longest_suffix)
    if len(spans) <= prompt_length:
        return None
    last = spans[prompt_length - 1][1]
    return Cut(paragraph[spans[0][0] : last], paragraph[spans[prompt_length][0] : spans[-1][1]])


def cut_at(text: str, boundary: int, longest_suffix: int) -> Cut | None:
    """Return the words that end before the character `boundary`, and the words after it; None if either is empty.

    A word across the boundary belongs to the suffix. The last word of `text` is dropped unless whitespace follows it,
    since a passage that was cut out of a document may end within a word.
    """
    spans = word_spans(text)
    if spans and spans[-1][1] == len(text):
        spans.pop()
    before = [span for span in spans if span[1] <= boundary]
    after = spans[len(before) :][:longest_suffix]
    if not before or not after:
        return None
    return Cut(text[before[0][0] : before[-1][1]], text[after[0][0] : after[-1][1]])


class Paragraph(NamedTuple):
    """A paragraph: its document, its number there from 1, and its two parts, or None if it is too short.

    is_shortened: words at the end of the suffix were dropped.
    """

    document: str
    number: int
    cut: Cut | None
    is_shortened: bool = False


class Control(StrEnum):
    """The baseline that the corpus is compared with."""

    CORPUS = "another_text"
    """Other paragraphs, which the target is believed never to have seen."""
    PERMUTED = "permuted_suffixes"
    """The suffixes of other paragraphs of the corpus, which measure chance overlap only."""


class ReadCounts(NamedTuple):
    """The number of paragraphs of one side that were read, and why some were not used.

    too_short: no word after the prompt.
    repeated: further occurrences of a sampled paragraph.
    not_chosen: beyond the limit.
    shortened: sampled, with a suffix cut at the maximum length.
    """

    paragraphs: int
    too_short: int
    repeated: int
    not_chosen: int
    shortened: int


@dataclass(frozen=True)
class Dataset(Inputs):
    """The n paragraphs of an audit, those of the corpus first.

    prompts, suffixes: [n] texts.
    documents: distinct names.
    document: [n] index into `documents`.
    number: [n] place of a paragraph in its document, from 1.
    occurrences: [n] how often its side contains it.
    is_control: [n].
    is_shared: [n] the other side contains a long run of its words.
    readings: the numbers of `ReadCounts` of the corpus, and of the control if there is one.
    prompt_length: words of a prompt, None for the prefixes of a round or of given completions.
    notes: sentences about skipped input.
    models: the names of the models whose completions are given; empty if the audit makes the completions.
    completions: [models x n] those completions, model by model.
    has_special_tokens: the texts are decoded tokens of a round, in which the name of a special token stands for the
    token.
    """

    prompts: list[str]
    suffixes: list[str]
    documents: list[str]
    document: Ints
    number: Ints
    occurrences: Ints
    is_control: Bools
    is_shared: Bools
    readings: Sequence[Sequence[int]]
    prompt_length: int | None
    notes: Sequence[str] = ()
    models: Sequence[str] = ()
    completions: Sequence[str] = ()
    has_special_tokens: bool = False

    def __len__(self) -> int:
        return len(self.prompts)

    def by_prompt_length(self, params: SequenceParams) -> list["Dataset"]:
        """Return the dataset, and the same paragraphs cut after each of the shorter prompt lengths."""
        texts = [f"{prompt} {suffix}" for prompt, suffix in zip(self.prompts, self.suffixes, strict=True)]
        datasets = [self]
        for length in params.prompt_length[1:]:
            cuts = (cut for text in texts if (cut := cut_after(text, length, params.longest_suffix)))
            prompts, suffixes = map(list, zip(*cuts, strict=True))
            datasets.append(replace(self, prompts=prompts, suffixes=suffixes, prompt_length=length))
        return datasets

    @property
    def control(self) -> Control:
        """The kind of control."""
        return Control.CORPUS if bool(self.is_control.any()) else Control.PERMUTED

    @property
    def counts(self) -> dict[str, ReadCounts]:
        """The numbers of paragraphs that were read, by side."""
        return {side: ReadCounts(*row) for side, row in zip(("corpus", "control"), self.readings, strict=False)}


def permuted_partners(dataset: Dataset, seed: int) -> Ints:
    """Return, for each paragraph, another one whose suffix serves as its control; -1 if there is none.

    Paragraphs form a ring ordered by suffix length, ties in random order, and each takes the next one's suffix: texts
    of similar length can both be judged by the same thresholds.
    """
    partner = np.full(len(dataset), -1, np.int64)
    if dataset.control is Control.PERMUTED and len(dataset) > 1:
        lengths = np.array([len(suffix.split()) for suffix in dataset.suffixes])
        ring = np.lexsort((np.random.default_rng([seed, 0]).permutation(len(dataset)), lengths))
        partner[ring] = np.roll(ring, -1)
    return partner
