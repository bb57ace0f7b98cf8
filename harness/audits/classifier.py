"""A token classifier and the measurements that audits need: its confidence in a name, its entities and its attention.

Texts come in and numbers go out. This module knows nothing of prompts and lists of names.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers import Encoding
from transformers import AutoModelForTokenClassification, PreTrainedModel

from harness.audits.entities.names import PERSONS
from harness.core.arrays import Bools, Floats, Ints, padded
from harness.core.errors import HarnessError
from harness.core.text import shorten
from harness.core.tokenizers import Tokenizer
from harness.engine.first_token import load_offset_tokenizer
from harness.engine.loading import load_model
from harness.engine.memory import non_finite_error, run_within_memory

_ROWS_AT_ONCE = {"cpu": 64, "cuda": 1024}
_ROWS_WITH_ATTENTION = 8
"""A sequence needs this many times more memory while its attention is stored."""
_PREFIXES = ("B", "I", "E", "S", "L", "U")
"""Begin, inside, end, single, last and unit: the letters of IOB1, IOB2, IOBES and BILOU."""
_OUTSIDE = "O"
_SPACES = " ▁Ġ"
"""Characters that tokenizers write for the space before a word. A space alone is not a token of a name."""
_STRIDE = 32
"""Tokens that two neighbouring windows of a long text share, so that each token has context on both sides."""


class Span(NamedTuple):
    """Characters `start` to `end` of a text."""

    start: int
    end: int


class Entity(NamedTuple):
    """Characters `start` to `end` of a text, and the model's label for them without prefix."""

    start: int
    end: int
    kind: str


class PromptTokens(NamedTuple):
    """The tokens of a text in which all tokens of a name are one, special tokens excluded."""

    length: int
    position: int
    """The number of tokens before the name."""
    spans: list[Span]
    """Characters of each token in order, each once: a token for a space alone may have none of its own."""
    labels: list[str]
    """Text of each of `spans`, and of the special tokens before and after them."""
    name: int
    """Index of the name in `labels`."""


class TokenClassifier:
    """A model that gives every token of a text a label.

    labels: the names of the labels by id.
    max_tokens: the maximum number of tokens of a text, special tokens included, None if unbounded.
    rows_at_once: how many texts go through the model together; each time memory runs out it is halved for all later
    calls.
    """

    def __init__(self, model: PreTrainedModel, tokenizer: Tokenizer) -> None:
        """Wrap a model that is on its device and in evaluation mode, and its fast tokenizer."""
        self.model = model
        self.device: torch.device = model.device
        self.tokenizer = tokenizer
        names: Any = model.config.id2label or {}
        self.labels = tuple(str(names.get(number, number)) for number in range(model.config.num_labels or 0))
        self.max_tokens = _max_tokens(model)
        self.rows_at_once = _ROWS_AT_ONCE[self.device.type]
        self._padding = int(getattr(model.config, "pad_token_id", None) or 0)
        self._known = int(getattr(model.get_input_embeddings(), "num_embeddings", 1 << 62))
        self._unknown = _unknown_token(tokenizer)

    def label_ids(self, named: Sequence[str] = ()) -> Ints:
        """Return the ids of the labels in `named`, or by default of the labels of a person, with any prefix.

        Raises HarnessError, which names the model's labels, if the model has none of them.
        """
        if not named:
            persons = [number for number, label in enumerate(self.labels) if _kind(label).upper() in PERSONS]
            if not persons:
                raise HarnessError(
                    f"the model has no label for a person. Its labels are {self._label_list()}. Choose with --label."
                )
            return np.array(persons)
        by_name = {label.casefold(): number for number, label in enumerate(self.labels)}
        if absent := [name for name in named if name.casefold() not in by_name]:
            raise HarnessError(f"the model has no label {shorten(absent[0])!r}. Its labels are {self._label_list()}.")
        return np.array(sorted({by_name[name.casefold()] for name in named}))

    def has_tokens(self, names: Sequence[str]) -> Bools:
        """Return which names have at least one token in the vocabulary, [names]."""
        encodings = self.tokenizer.encode_batch(list(names), add_special_tokens=False)
        return np.array(
            [
                any(
                    number != self._unknown and bool(token.strip(_SPACES))
                    for number, token in zip(encoding.ids, encoding.tokens, strict=True)
                )
                for encoding in encodings
            ],
            bool,
        )

    def confidences(self, texts: Sequence[str], names: Sequence[Span], labels: Ints, *, by_set: bool = False) -> Floats:
        """Return the model's confidence that the name in each text is one of `labels`, [texts] in [0, 1].

        It is the mean over the name's tokens of the largest probability among `labels`, in float64 (Xia et al. 2024).
        The name's tokens are those that cover one of its characters. by_set: use instead all tokens of the text whose
        ids occur in the name encoded alone, and divide by the number of tokens of the name alone (Algorithm 1 of the
        source). If other words of the text repeat a token of the name, that may exceed 1. NaN if there is no such token
        or the text is too long for the model. Raises HarnessError if the model returns NaN.
        """
        encodings = self.tokenizer.encode_batch(list(texts))
        is_of_name = [tokens_covering(encoding, span) for span, encoding in zip(names, encodings, strict=True)]
        counts = [int(is_name.sum()) for is_name in is_of_name]
        if by_set:
            alone = [text[span.start : span.end] for text, span in zip(texts, names, strict=True)]
            ids = [encoding.ids for encoding in self.tokenizer.encode_batch(alone, add_special_tokens=False)]
            is_of_name = [np.isin(encoding.ids, of_name) for encoding, of_name in zip(encodings, ids, strict=True)]
            counts = list(map(len, ids))
        fits = [row for row in range(len(texts)) if is_of_name[row].any() and self._fits(encodings[row])]
        result = np.full(len(texts), np.nan)
        for row, of_tokens in self._measure(encodings, fits, self._probabilities):  # of_tokens: [tokens, labels]
            result[row] = of_tokens[is_of_name[row]][:, labels].max(axis=1).sum() / counts[row]
        return result

    def find_entities(self, texts: Sequence[str]) -> list[list[Entity]]:
        """Return the entities that the model finds in each text, in order. Texts may have any length.

        A word takes the most likely label of its first token, with words as the tokenizer splits them. Neighbouring
        words of one kind are one entity unless a B- label begins another. Raises HarnessError if the model returns NaN.
        """
        windows = self._windows(texts)
        # By text and characters: the tokens up to an end of the window, the label, and if the token continues a word.
        tokens: list[dict[tuple[int, int], tuple[int, str, bool]]] = [{} for _ in texts]
        encodings = [encoding for _, encoding in windows]
        for place, of_tokens in self._measure(encodings, list(range(len(windows))), self._probabilities):
            row, encoding = windows[place]
            words = encoding.word_ids
            for token, (span, label) in enumerate(zip(encoding.offsets, of_tokens.argmax(axis=1), strict=True)):
                # Where windows overlap, use the one with more context around the token.
                depth = min(token, len(of_tokens) - 1 - token)
                is_text = span[0] < span[1] and not encoding.special_tokens_mask[token]
                if is_text and depth > tokens[row].get(span, (-1,))[0]:
                    continues = token > 0 and words[token] is not None and words[token] == words[token - 1]
                    tokens[row][span] = (depth, self.labels[label], continues)
        return [_join_words(text, of_text) for text, of_text in zip(texts, tokens, strict=True)]

    def prompt_tokens(self, text: str, name: Span) -> PromptTokens:
        """Return the tokens of a text, where those that cover a character of the name are one token."""
        encoding = self.tokenizer.encode(text)
        first, last = _special_tokens(encoding)
        ordinary = [Span(*encoding.offsets[token]) for token in range(len(first), len(encoding.ids) - len(last))]
        before = [span for span in ordinary if span.end <= name.start]
        tokens = [*before, name, *(span for span in ordinary if span.start >= name.end)]
        spans = [span for span in dict.fromkeys(tokens) if span.start < span.end]
        words = [text[span.start : span.end].strip() for span in spans]
        labels = [*(encoding.tokens[token] for token in first), *words, *(encoding.tokens[token] for token in last)]
        return PromptTokens(len(tokens), len(before), spans, labels, len(first) + spans.index(name))

    def attention(self, texts: Sequence[str], parts: Sequence[Sequence[Span]]) -> list[Floats | None]:
        """Return the attention between parts of each text, None if the text is too long.

        parts: characters of each part of a text. A result has shape [n, n], query first, where n counts the parts and
        the special tokens before and after them. It is the mean over heads, layers and the tokens that cover a
        character of each part; NaN for a part without a token.

        During this call the model uses `attn_implementation="eager"`, which returns attention weights.
        """
        encodings = self.tokenizer.encode_batch(list(texts))
        fits = [row for row in range(len(texts)) if self._fits(encodings[row])]
        result: list[Floats | None] = [None] * len(texts)
        before = self.model.config._attn_implementation
        self.model.set_attn_implementation("eager")
        try:
            # weights: [tokens, longest], query first
            for row, weights in self._measure(encodings, fits, self._attention, share=_ROWS_WITH_ATTENTION):
                shares = _shares_of_tokens(encodings[row], parts[row])
                result[row] = shares @ weights[:, : shares.shape[1]] @ shares.T
        finally:
            self.model.set_attn_implementation(before)
        return result

    def _label_list(self) -> str:
        return shorten(", ".join(self.labels), 200)

    def _windows(self, texts: Sequence[str]) -> list[tuple[int, Encoding]]:
        """Return encodings of the texts, with the row of each: of a long text, parts that fit into the model."""
        if self.max_tokens is not None:
            self.tokenizer.enable_truncation(self.max_tokens, stride=min(_STRIDE, self.max_tokens // 4))
        try:
            encodings = self.tokenizer.encode_batch(list(texts))
        finally:
            self.tokenizer.no_truncation()  # other readers share the tokenizer
        parts = [(row, part) for row, whole in enumerate(encodings) for part in (whole, *whole.overflowing)]
        return [(row, part) for row, part in parts if part.ids]

    def _fits(self, encoding: Encoding) -> bool:
        return len(encoding.ids) > 0 and (self.max_tokens is None or len(encoding.ids) <= self.max_tokens)

    def _probabilities(self, tokens: torch.Tensor, mask: torch.Tensor) -> Floats:
        """Return the probabilities of labels for tokens [texts, longest], [texts, longest, labels]."""
        logits = self.model(input_ids=tokens, attention_mask=mask).logits
        if not bool(torch.isfinite(logits).all()):
            raise non_finite_error("the model returned NaN or infinity", self.model.dtype)
        # Float64 separates values near 1 that are equal in float32.
        return np.asarray(logits.cpu().double().softmax(dim=2).numpy())

    def _attention(self, tokens: torch.Tensor, mask: torch.Tensor) -> Floats:
        """Return the mean attention weights over heads and layers, [texts, longest, longest]."""
        layers = self.model(input_ids=tokens, attention_mask=mask, output_attentions=True).attentions
        if not layers or layers[0] is None:
            raise HarnessError(f"a {type(self.model).__name__} returns no attention weights. Choose another model.")
        # Each layer: [texts, heads, longest, longest].
        averaged = (sum(layer.float().mean(dim=1) for layer in layers) / len(layers)).cpu().numpy()
        if not np.isfinite(averaged).all():
            raise non_finite_error("the model's attention weights are NaN", self.model.dtype)
        return np.asarray(averaged)

    def _measure(
        self,
        encodings: Sequence[Encoding],
        rows: list[int],
        measure: Callable[[torch.Tensor, torch.Tensor], Floats],
        *,
        share: int = 1,
    ) -> Iterator[tuple[int, Floats]]:
        """Yield each of `rows` and `measure` of its tokens, [tokens, …], shortest texts first.

        measure: maps token ids and mask of as many texts as fit into memory, [texts, longest] each.
        share: the memory that it needs for a text, relative to that for probabilities.
        """
        waiting = sorted(rows, key=lambda row: len(encodings[row].ids))
        problem = "no room for one text at a time. Free memory or use a smaller --dtype."
        while waiting:
            count_at_once = min(len(waiting), max(1, self.rows_at_once // share))
            with torch.inference_mode():
                values, count = run_within_memory(
                    lambda count, waiting=waiting: measure(  # type: ignore[misc]
                        *self._padded([encodings[row] for row in waiting[:count]])
                    ),
                    count_at_once,
                    place=str(self.device),
                    problem=problem,
                )
            if count < count_at_once:
                self.rows_at_once = share * count
            for row, of_tokens in zip(waiting[:count], values, strict=True):
                yield row, of_tokens[: len(encodings[row].ids)]
            waiting = waiting[count:]

    def _padded(self, encodings: Sequence[Encoding]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return token ids and mask of several texts, both [texts, longest]."""
        tokens = padded([encoding.ids for encoding in encodings], self._padding)
        mask = padded([[1] * len(encoding.ids) for encoding in encodings])
        if int(tokens.max()) >= self._known:
            raise HarnessError(
                f"the tokenizer returned token {int(tokens.max())} and the model has {self._known} embeddings. "
                "Name a model with its own tokenizer."
            )
        return torch.from_numpy(tokens).to(self.device), torch.from_numpy(mask).to(self.device)


def load_classifier(path: Path, **options: Any) -> TokenClassifier:
    """Load the token classifier in the folder `path`, in Hugging Face layout. The options are those of `load_model`.

    Raises HarnessError as `load_target` does, and if the folder has no tokenizer that reports character offsets.
    """
    path = Path(path)
    model = load_model(path, AutoModelForTokenClassification, "a token classification model", **options)
    return TokenClassifier(model, load_offset_tokenizer(path))


def tokens_covering(encoding: Encoding, span: Span) -> Bools:
    """Return which tokens cover a character of `span`, [tokens]. Special tokens cover none."""
    covers: Bools = _covers(encoding, [span])[0]
    return covers


def _covers(encoding: Encoding, spans: Sequence[Span]) -> Bools:
    """Return which tokens cover a character of each span, [spans, tokens]. Special tokens cover none."""
    offsets = np.array(encoding.offsets).reshape(-1, 2)
    starts, ends = np.array(spans).reshape(-1, 2, 1).transpose(1, 0, 2)  # [spans, 1] each
    overlap = np.minimum(offsets[:, 1], ends) - np.maximum(offsets[:, 0], starts)
    return np.asarray((overlap > 0) & (np.array(encoding.special_tokens_mask) == 0))


def _special_tokens(encoding: Encoding) -> tuple[Ints, Ints]:
    """Return the places of the special tokens before the text and after it."""
    is_special = np.array(encoding.special_tokens_mask, bool)
    before = int(np.argmin(is_special))
    special = np.flatnonzero(is_special)
    return special[:before], special[before:]


def _shares_of_tokens(encoding: Encoding, parts: Sequence[Span]) -> Floats:
    """Return the share of each token in the mean over each part's tokens, [parts and special tokens, tokens]."""
    is_token = np.eye(len(encoding.ids), dtype=bool)
    first, last = _special_tokens(encoding)
    members = np.concatenate([is_token[first], _covers(encoding, parts), is_token[last]])
    number = members.sum(axis=1, keepdims=True)
    return np.asarray(members / np.where(number, number, np.nan))


def _unknown_token(tokenizer: Tokenizer) -> int | None:
    """Return the token for characters outside the vocabulary, None if every character has a token."""
    model = json.loads(tokenizer.to_str())["model"]
    # Unigram models have a token id here, which the Python API does not expose. Others have a token.
    number, name = model.get("unk_id"), model.get("unk_token")
    return number if isinstance(number, int) else tokenizer.token_to_id(name) if isinstance(name, str) else None


def _max_tokens(model: PreTrainedModel) -> int | None:
    """Return the number of tokens that the position embeddings allow. RoBERTa's begin after the padding's position."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            padding = module.padding_idx
            return module.num_embeddings - (0 if padding is None else padding + 1)
    limit = getattr(model.config, "max_position_embeddings", None)
    return limit if isinstance(limit, int) and limit > 0 else None


def _kind(label: str) -> str:
    """Return `PER` for `B-PER`, `I-PER` and `PER`."""
    prefix, dash, kind = label.partition("-")
    return kind if dash and prefix.upper() in _PREFIXES else label


def _join_words(text: str, tokens: Mapping[tuple[int, int], tuple[int, str, bool]]) -> list[Entity]:
    """Return the entities of a text: neighbouring words of one kind, each with the label of its first token.

    tokens: by first character and end, a number, the label, and True if the token continues a word.
    """
    entities: list[Entity] = []
    is_open = False
    for (start, end), (_, label, continues) in sorted(tokens.items()):
        kind = _kind(label)
        is_joined = is_open and kind == entities[-1].kind and not label.upper().startswith(("B-", "S-", "U-"))
        if is_open and (continues or is_joined):
            entities[-1] = entities[-1]._replace(end=end)
        elif not continues:
            is_open = kind != _OUTSIDE
            if is_open:
                # A token may cover the space before its word.
                start += len(text[start:end]) - len(text[start:end].lstrip())
                entities.append(Entity(start, end, kind))
    return entities
