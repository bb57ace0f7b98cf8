"""The paragraphs that the audit measures, each cut in two: those of the corpus, then those of the control."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from harness.core.arrays import Bools, Ints
from harness.core.audit import AuditInputs

_TEXTS = ("prompts", "suffixes", "documents")
_ARRAYS = ("document", "number", "occurrences", "is_control", "is_shared")


class Control(StrEnum):
    """The baseline that the corpus is compared with."""

    CORPUS = "corpus"
    """Other paragraphs, which the target is believed never to have seen."""
    PERMUTED = "permuted_suffixes"
    """The suffixes of other paragraphs of the corpus, which measure chance overlap only."""


class ReadCounts(NamedTuple):
    """The number of paragraphs of one side that were read, and why some were not used.

    too_short: no word after the prompt. repeated: further occurrences of a sampled paragraph. not_chosen: beyond the
    limit. shortened: sampled, with a suffix cut at the maximum length.
    """

    paragraphs: int
    too_short: int
    repeated: int
    not_chosen: int
    shortened: int


@dataclass(frozen=True)
class Dataset:
    """The n paragraphs of an audit, those of the corpus first.

    prompts, suffixes: [n] texts. documents: distinct names. document: [n] index into `documents`. number: [n] place of
    a paragraph in its document, from 1. occurrences: [n] how often its side contains it. is_control: [n]. is_shared:
    [n] the other side contains a long run of its words. prompt_length: words of a prompt, None for a round's own
    prefixes. notes: sentences about skipped input. has_special_tokens: the texts are decoded tokens of a round, in
    which the name of a special token stands for the token.
    """

    prompts: list[str]
    suffixes: list[str]
    documents: list[str]
    document: Ints
    number: Ints
    occurrences: Ints
    is_control: Bools
    is_shared: Bools
    corpus_counts: ReadCounts
    control_counts: ReadCounts | None
    prompt_length: int | None
    notes: Sequence[str] = ()
    has_special_tokens: bool = False

    def __len__(self) -> int:
        return len(self.prompts)

    @property
    def control(self) -> Control:
        """The kind of control."""
        return Control.CORPUS if bool(self.is_control.any()) else Control.PERMUTED

    def to_inputs(self) -> AuditInputs:
        """Return the dataset in the form in which the run stores it."""
        counts = [self.corpus_counts, *([self.control_counts] if self.control_counts else [])]
        return AuditInputs(
            texts={name: getattr(self, name) for name in _TEXTS} | {"notes": list(self.notes)},
            arrays={
                **{name: getattr(self, name) for name in _ARRAYS},
                "readings": np.array(counts, np.int64),
                "prompt_length": np.array([self.prompt_length or 0], np.int64),
                "has_special_tokens": np.array([self.has_special_tokens]),
            },
        )

    @classmethod
    def from_inputs(cls, inputs: AuditInputs) -> "Dataset":
        """Return the dataset that `to_inputs` stored."""
        counts = [ReadCounts(*row) for row in inputs.arrays["readings"].tolist()]
        fields: dict[str, Any] = {name: inputs.texts[name] for name in _TEXTS}
        fields |= {name: inputs.arrays[name] for name in _ARRAYS}
        return cls(
            **fields,
            corpus_counts=counts[0],
            control_counts=counts[1] if len(counts) > 1 else None,
            prompt_length=int(inputs.arrays["prompt_length"][0]) or None,
            notes=inputs.texts["notes"],
            has_special_tokens=bool(inputs.arrays["has_special_tokens"][0]),
        )


def permuted_partners(dataset: Dataset, seed: int) -> Ints:
    """Return, for each paragraph of the corpus, another one whose suffix serves as its control; -1 if there is none.

    Paragraphs form a ring ordered by suffix length, ties in random order, and each takes the next one's suffix: texts
    of similar length can both be judged by the same thresholds.
    """
    corpus = np.flatnonzero(~dataset.is_control)
    lengths = np.array([len(dataset.suffixes[paragraph].split()) for paragraph in corpus])
    ties = np.random.default_rng([seed, 0]).permutation(len(corpus))
    ring = np.lexsort((ties, lengths))
    partner = np.full(len(corpus), -1)
    if len(corpus) > 1:
        partner[ring] = np.roll(ring, -1)
    return partner.astype(np.int64)
