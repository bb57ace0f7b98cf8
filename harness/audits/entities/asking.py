"""Names put into prompts and asked of one model: confidences and attention, for as many names as it has tokens for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from harness.audits.entities.prompt import MASK, Prompt, Word
from harness.core.arrays import Bools, Floats, Ints
from harness.core.spec import TargetConfig

if TYPE_CHECKING:
    from harness.engine.classification import NameAttention, Span, TokenClassifier


class Attention(NamedTuple):
    """How much the other words of a prompt attend to the name. of_name: [names] their mean; of_word: [words, names]."""

    of_name: Floats
    of_word: Floats


class Asked:
    """A token classifier, and the names that are asked about. has_tokens: [names]."""

    def __init__(self, order: TargetConfig, names: Sequence[str], labels: Sequence[str], *, by_set: bool) -> None:
        """Load the model. Raises HarnessError when it is none, or has none of the labels."""
        # torch is loaded with the first model, and not by whoever lists the audit.
        from harness.engine.classification import load_classifier

        self.classifier: TokenClassifier = load_classifier(
            order.path, device=order.device, dtype=order.dtype, threads=order.threads
        )
        self.names = names
        self.labels: Ints = self.classifier.label_ids(labels)
        self.by_set = by_set
        self.has_tokens: Bools = self.classifier.has_tokens(names)

    def confidences(self, prompt: Prompt, chosen: Ints | None = None) -> Floats:
        """The confidence of each name in the prompt, [names]; NaN for those not chosen, and where there is none."""
        asked = np.flatnonzero(self.has_tokens) if chosen is None else chosen[self.has_tokens[chosen]]
        texts, spans = self._filled(prompt, asked)
        result = np.full(len(self.names), np.nan)
        result[asked] = self.classifier.confidences(texts, spans, self.labels, by_set=self.by_set)
        return result

    def attention(self, prompt: Prompt) -> Attention:
        """The attention that each word of the prompt gives to each name in it, NaN where there is none."""
        asked = np.flatnonzero(self.has_tokens)
        texts, spans = self._filled(prompt, asked)
        found = Attention(np.full(len(self.names), np.nan), np.full((prompt.length, len(self.names)), np.nan))
        for name, attended in zip(asked.tolist(), self.classifier.attention(texts, spans), strict=True):
            if attended is None:
                continue
            if not attended.is_name.all():
                found.of_name[name] = attended.to_name[~attended.is_name].mean()
            found.of_word[:, name] = _of_words(prompt, len(self.names[name]), attended)
        return found

    def _filled(self, prompt: Prompt, asked: Ints) -> "tuple[list[str], list[Span]]":
        """The prompt with each name, and where the name stands in it."""
        from harness.engine.classification import Span

        names = [self.names[name] for name in asked.tolist()]
        start = prompt.name_start
        return [prompt.filled(name) for name in names], [Span(start, start + len(name)) for name in names]


def _of_words(prompt: Prompt, name_length: int, attended: "NameAttention") -> Floats:
    """The mean over each word's tokens, [words]; NaN where it has none."""
    longer = name_length - len(MASK)
    return np.array([_of_word(prompt, place, word, longer, attended) for place, word in enumerate(prompt.words)])


def _of_word(prompt: Prompt, place: int, word: Word, longer: int, attended: "NameAttention") -> float:
    start = word.start + (longer if place > prompt.position else 0)
    end = word.end + (longer if place >= prompt.position else 0)
    is_of_word = (np.minimum(attended.spans[:, 1], end) - np.maximum(attended.spans[:, 0], start)) > 0
    return float(attended.to_name[is_of_word].mean()) if is_of_word.any() else float("nan")
