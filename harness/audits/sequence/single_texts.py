"""Sentences about single texts of a sequence audit, which its answer about the whole corpus does not mention."""

from collections.abc import Iterator

import numpy as np

from harness.audits.sequence.comparison import Setting
from harness.audits.sequence.dataset import Control
from harness.audits.sequence.thresholds import Threshold
from harness.audits.sequence.words import words_of
from harness.core.arrays import Bools, Ints
from harness.core.text import pluralize

_RUN = 10
"""Words of the threshold `START_10`, and of a verbatim run that is counted like it."""
_SHOWN = 5
_STEP = 5
"""A suggested prompt length is a multiple of so many words."""


def single_texts(setting: Setting) -> Iterator[str]:
    """Yield which paragraphs are continued word for word, and whether most suffixes are too short to tell."""
    corpus = np.flatnonzero(setting.is_corpus)
    if len(corpus):
        yield from _continued(setting, corpus)
        yield from _short_suffixes(setting, corpus)


def is_continued(setting: Setting) -> Bools:
    """Return which paragraphs are continued word for word, whether they are of the corpus or of the control."""
    # A run counts wherever it begins: a completion may begin with an introduction.
    is_long: Bools = (setting.aligned[Threshold.START_10] == 1) | (setting.aligned["run_words"] >= _RUN)
    return is_long


def _continued(setting: Setting, corpus: Ints) -> Iterator[str]:
    aligned, passed = setting.aligned, is_continued(setting)
    continued = corpus[passed[corpus]]
    continued = continued[np.argsort(-aligned["run_words"][continued], kind="stable")]
    names = [_name(setting, paragraph) for paragraph in continued[:_SHOWN].tolist()]
    more = f" and {len(continued) - _SHOWN:,} more" if len(continued) > _SHOWN else ""
    of_control = ""
    if setting.dataset.control is Control.CORPUS:
        control = np.flatnonzero(setting.dataset.is_control & aligned["is_compared"])
        of_control = f"; {int(passed[control].sum()):,} of {len(control):,} of the control"
    examples = f": {', '.join(names)}{more}" if names else ""
    number = f"{len(continued):,} of {pluralize(len(corpus), 'paragraph')} {'is' if len(continued) == 1 else 'are'}"
    yield f"{number} continued word for word for {_RUN} words or more{examples}{of_control}"


def _name(setting: Setting, paragraph: int) -> str:
    """Return the document of a paragraph, with its number unless it is the only one."""
    dataset = setting.dataset
    document = dataset.document[paragraph]
    name = dataset.documents[int(document)]
    is_only = np.count_nonzero(dataset.document == document) == 1
    return name if is_only else f"{name}, paragraph {int(dataset.number[paragraph])}"


def _short_suffixes(setting: Setting, corpus: Ints) -> Iterator[str]:
    """Yield a warning if most suffixes have too few words, with a prompt length that leaves three quarters enough."""
    length = setting.dataset.prompt_length
    left = np.array([len(words_of(setting.dataset.suffixes[paragraph])) for paragraph in corpus.tolist()])
    short = int((left < _RUN).sum())
    if 2 * short <= len(corpus):
        return
    advice = ""
    if length is not None:
        shorter = int(length + np.quantile(left, 0.25) - _RUN) // _STEP * _STEP
        advice = f"; try --prompt-length {shorter}" if shorter >= _STEP else "; use longer texts"
    yield f"{short:,} of {len(corpus):,} have fewer than {_RUN} words left after the prompt{advice}"
