"""Ask one token classifier about names in prompts: confidences and attention."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from harness.audits.entities.prompt import MASK, Prompt
from harness.core.arrays import Bools, Floats, Ints
from harness.core.spec import TargetConfig

if TYPE_CHECKING:
    from harness.audits.classifier import NameAttention, Span, TokenClassifier


class Attention(NamedTuple):
    """Attention of the other words of a prompt to the name. of_name: [names] their mean; of_word: [words, names]."""

    of_name: Floats
    of_word: Floats


class NameProbe:
    """A token classifier, and the names to ask about. has_tokens: [names] the vocabulary has tokens for the name."""

    def __init__(self, config: TargetConfig, names: Sequence[str], labels: Sequence[str], *, by_set: bool) -> None:
        """Load the model. Raises HarnessError if it is not a token classifier, or has none of the labels."""
        from harness.audits.classifier import load_classifier  # loads torch

        self.classifier: TokenClassifier = load_classifier(
            config.path, device=config.device, dtype=config.dtype, threads=config.threads
        )
        self.names = names
        self.labels: Ints = self.classifier.label_ids(labels)
        self.by_set = by_set
        self.has_tokens: Bools = self.classifier.has_tokens(names)

    def confidences(self, prompt: Prompt, chosen: Ints | None = None) -> Floats:
        """Return the confidence of each name in the prompt, [names]; NaN for names without one or not `chosen`."""
        with_tokens = np.flatnonzero(self.has_tokens) if chosen is None else chosen[self.has_tokens[chosen]]
        texts, spans = self._fill(prompt, with_tokens)
        result = np.full(len(self.names), np.nan)
        result[with_tokens] = self.classifier.confidences(texts, spans, self.labels, by_set=self.by_set)
        return result

    def attention(self, prompt: Prompt) -> Attention:
        """Return the attention that each word of the prompt gives to each name, NaN if there is none."""
        with_tokens = np.flatnonzero(self.has_tokens)
        texts, spans = self._fill(prompt, with_tokens)
        result = Attention(np.full(len(self.names), np.nan), np.full((prompt.length, len(self.names)), np.nan))
        for name, attended in zip(with_tokens.tolist(), self.classifier.attention(texts, spans), strict=True):
            if attended is None:
                continue
            if not attended.is_name.all():
                result.of_name[name] = attended.to_name[~attended.is_name].mean()
            result.of_word[:, name] = _word_means(prompt, len(self.names[name]), attended)
        return result

    def _fill(self, prompt: Prompt, with_tokens: Ints) -> "tuple[list[str], list[Span]]":
        """Return the prompt with each name, and the characters of the name."""
        from harness.audits.classifier import Span

        names = [self.names[name] for name in with_tokens.tolist()]
        start = prompt.name_start
        return [prompt.fill(name) for name in names], [Span(start, start + len(name)) for name in names]


def _word_means(prompt: Prompt, name_length: int, attended: "NameAttention") -> Floats:
    """Return the mean attention of each word's tokens, [words]; NaN for a word without tokens."""
    longer = name_length - len(MASK)
    means = np.full(prompt.length, np.nan)
    for place, word in enumerate(prompt.words):
        start = word.start + (longer if place > prompt.position else 0)
        end = word.end + (longer if place >= prompt.position else 0)
        is_of_word = np.minimum(attended.spans[:, 1], end) > np.maximum(attended.spans[:, 0], start)
        if is_of_word.any():
            means[place] = attended.to_name[is_of_word].mean()
    return means
