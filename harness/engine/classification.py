"""A token classifier and what audits ask of it: how sure it is of a name, which entities it marks, what it attends to.

Texts come in and numbers go out; prompts, names and what follows from their confidences are somebody else's.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from tokenizers import Encoding, Tokenizer
from transformers import AutoModelForTokenClassification, AutoTokenizer, PreTrainedModel

from harness.core.arrays import Bools, Floats, Ints
from harness.core.errors import HarnessError
from harness.core.text import shorten
from harness.engine.finite import no_number
from harness.engine.loading import loaded_model
from harness.engine.memory import is_out_of_memory

Result = TypeVar("Result")
PERSONS = ("PER", "PERSON")
"""What label schemes call a person, behind any prefix."""
_ROWS_AT_ONCE = {"cpu": 64, "cuda": 1024}
_ROWS_WITH_ATTENTION = 8
"""How many times more memory a sequence takes while its attention is kept."""
_PREFIXES = ("B", "I", "E", "S", "L", "U")
"""Begin, inside, end, single, last, unit: the letters of IOB1, IOB2, IOBES and BILOU."""
_OUTSIDE = "O"
_SPACES = " ▁Ġ"
"""How tokenizers write the space before a word, which alone is no token of a name."""
_STRIDE = 32
"""Tokens that two neighbouring windows of a long text share, so that each is read with words on both sides."""


class Span(NamedTuple):
    """Characters `start` up to `end` of a text."""

    start: int
    end: int


class Entity(NamedTuple):
    """Characters `start` up to `end` of a text, and the kind that the model gives them: its label, without prefix."""

    start: int
    end: int
    kind: str


class Attended(NamedTuple):
    """Tokens of one text, without special ones: where they lie, and how much attention each gives to a name.

    spans: [tokens, 2] first character and the one behind the last; to_name: [tokens] attention weight on all tokens of
    the name together, in [0, 1], averaged over heads and layers; is_name: [tokens].
    """

    spans: Ints
    to_name: Floats
    is_name: Bools


class TokenClassifier:
    """A model that gives every token of a text a label.

    labels: its names for them, by number; room: tokens of a text that it reads at once, special ones included, None
    where unbounded. rows_at_once: how many texts go through the model together; halved for good when memory runs out.
    """

    def __init__(self, model: PreTrainedModel, tokenizer: Tokenizer, *, rows_at_once: int | None = None) -> None:
        """Take a model that lies on its device and is in evaluation mode, and its fast tokenizer."""
        self.model = model
        self.device: torch.device = model.device
        self.tokenizer = tokenizer
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        names: Any = model.config.id2label or {}
        self.labels = tuple(str(names.get(number, number)) for number in range(model.config.num_labels or 0))
        self.room = _room(model)
        self.rows_at_once = rows_at_once or _ROWS_AT_ONCE.get(self.device.type, 64)
        self._padding = int(getattr(model.config, "pad_token_id", None) or 0)
        self._known = int(getattr(model.get_input_embeddings(), "num_embeddings", 1 << 62))
        self._unknown = _unknown_token(tokenizer)

    def label_numbers(self, named: Sequence[str] = ()) -> Ints:
        """The labels in `named`, as they stand in the model's list; by default those of a person, with any prefix.

        Raises HarnessError, naming the model's labels, when it has none of them.
        """
        if not named:
            found = [number for number, label in enumerate(self.labels) if _kind(label).upper() in PERSONS]
            if not found:
                raise HarnessError(
                    f"no label of the model stands for a person ({self._told()}): name those that do by --label."
                )
            return np.array(found)
        by_name = {label.casefold(): number for number, label in enumerate(self.labels)}
        if absent := [name for name in named if name.casefold() not in by_name]:
            raise HarnessError(f"the model has no label {shorten(absent[0])!r}: its labels are {self._told()}.")
        return np.array(sorted({by_name[name.casefold()] for name in named}))

    def has_tokens(self, names: Sequence[str]) -> Bools:
        """Which names have at least one token in the vocabulary, [names]."""
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
        """How sure the model is that the name in each text is one of `labels`, [texts] in [0, 1].

        The mean over the name's tokens of the largest probability among `labels`, in float64 (Xia et al. 2024). The
        name's tokens are those that cover a character of it; by_set: those anywhere in the text whose ids are among
        the ids of the name encoded alone, as the source has it. NaN where no token is found, or where the text is
        longer than the model reads. Raises HarnessError when the model answers NaN.
        """
        encodings = self.tokenizer.encode_batch(list(texts))
        chosen = [
            self._of_set(encoding, text[span.start : span.end]) if by_set else covering(encoding, span)
            for text, span, encoding in zip(texts, names, encodings, strict=True)
        ]
        fits = [row for row in range(len(texts)) if chosen[row].any() and self._fits(encodings[row])]
        result = np.full(len(texts), np.nan)
        for rows, probabilities in self._probabilities(encodings, fits):
            for row, of_tokens in zip(rows, probabilities, strict=True):  # of_tokens: [tokens, labels]
                result[row] = of_tokens[chosen[row]][:, labels].max(axis=1).mean()
        return result

    def marked_entities(self, texts: Sequence[str]) -> list[list[Entity]]:
        """What the model takes for entities in each text, in order; texts of any length.

        A word takes the most likely label of its first token (words as the tokenizer parts them), and neighbours of
        one kind are one entity unless a B- begins another. Raises HarnessError when the model answers NaN.
        """
        windows: list[tuple[int, Encoding]] = []
        for row, text in enumerate(texts):
            encoding = self.tokenizer.encode(text)
            windows += [(row, part) for part in ([encoding] if self._fits(encoding) else self._windows(text))]
        tokens: list[dict[tuple[int, int], tuple[int, int, int]]] = [{} for _ in texts]
        encodings = [encoding for _, encoding in windows]
        for places, probabilities in self._probabilities(encodings, list(range(len(windows)))):
            for place, of_tokens in zip(places, probabilities, strict=True):
                row, encoding = windows[place]
                for token, (span, label) in enumerate(zip(encoding.offsets, of_tokens.argmax(axis=1), strict=True)):
                    if encoding.special_tokens_mask[token] or span[0] == span[1]:
                        continue
                    # Where windows overlap, the one that has more text around the token has the word.
                    depth = min(token, len(of_tokens) - 1 - token)
                    before = tokens[row].get(span)
                    if before is None or before[0] < depth:
                        tokens[row][span] = (depth, int(label), int(_continues(encoding, token)))
        return [
            _entities(
                text, sorted((*span, self.labels[label], bool(goes_on)) for span, (_, label, goes_on) in of.items())
            )
            for text, of in zip(texts, tokens, strict=True)
        ]

    def attention(self, texts: Sequence[str], names: Sequence[Span]) -> list[Attended | None]:
        """How much attention each token of a text gives to the name in it; None where the text is too long.

        The model computes its attention in the open for as long as this takes (`attn_implementation="eager"`).
        """
        encodings = self.tokenizer.encode_batch(list(texts))
        fits = [row for row in range(len(texts)) if self._fits(encodings[row])]
        result: list[Attended | None] = [None] * len(texts)
        before = self.model.config._attn_implementation
        self.model.set_attn_implementation("eager")
        try:
            for rows, averaged in self._attentions(encodings, fits):
                for row, weights in zip(rows, averaged, strict=True):  # weights: [tokens, tokens], query first
                    encoding = encodings[row]
                    is_name = covering(encoding, names[row])
                    ordinary = np.array(encoding.special_tokens_mask) == 0
                    to_name = weights[:, is_name].sum(axis=1)
                    spans = np.array(encoding.offsets).reshape(-1, 2)
                    result[row] = Attended(spans[ordinary], to_name[ordinary], is_name[ordinary])
        finally:
            self.model.set_attn_implementation(before)
        return result

    def _told(self) -> str:
        """The model's labels, in words."""
        return shorten(", ".join(self.labels), 200)

    def _of_set(self, encoding: Encoding, name: str) -> Bools:
        members = set(self.tokenizer.encode(name, add_special_tokens=False).ids)
        return np.array([token in members for token in encoding.ids], bool)

    def _fits(self, encoding: Encoding) -> bool:
        return len(encoding.ids) > 0 and (self.room is None or len(encoding.ids) <= self.room)

    def _windows(self, text: str) -> list[Encoding]:
        """The encodings of a long text's parts that the model has room for, offsets as in the whole text."""
        assert self.room is not None
        self.tokenizer.enable_truncation(self.room, stride=min(_STRIDE, self.room // 4))
        first = self.tokenizer.encode(text)
        self.tokenizer.no_truncation()
        return [first, *first.overflowing]

    def _probabilities(
        self, encodings: Sequence[Encoding], rows: list[int]
    ) -> Iterator[tuple[list[int], list[Floats]]]:
        """(some of `rows`, for each of these [tokens, labels] probabilities), similar lengths together."""

        def of(together: list[int]) -> list[Floats]:
            tokens, mask = self._padded([encodings[row] for row in together])
            logits = self.model(input_ids=tokens, attention_mask=mask).logits  # [rows, longest, labels]
            if not bool(torch.isfinite(logits).all()):
                raise no_number("the model answered NaN or infinity", self.model.dtype)
            # Near 1, float32 has ties that float64 tells apart.
            probabilities = logits.cpu().double().softmax(dim=2).numpy()
            return [of_row[: len(encodings[row].ids)] for row, of_row in zip(together, probabilities, strict=True)]

        yield from self._in_parts(encodings, rows, of)

    def _attentions(self, encodings: Sequence[Encoding], rows: list[int]) -> Iterator[tuple[list[int], list[Floats]]]:
        """(some of `rows`, for each of these [tokens, tokens] attention weights over heads and layers)."""

        def of(together: list[int]) -> list[Floats]:
            tokens, mask = self._padded([encodings[row] for row in together])
            layers = self.model(input_ids=tokens, attention_mask=mask, output_attentions=True).attentions
            if not layers or layers[0] is None:
                raise HarnessError(f"a {type(self.model).__name__} does not say what it attends to.")
            # Each layer: [rows, heads, longest, longest].
            averaged = (sum(layer.float().mean(dim=1) for layer in layers) / len(layers)).cpu().numpy()
            if not np.isfinite(averaged).all():
                raise no_number("the model attends to NaN", self.model.dtype)
            sizes = [len(encodings[row].ids) for row in together]
            return [of_row[:size, :size] for size, of_row in zip(sizes, averaged, strict=True)]

        yield from self._in_parts(encodings, rows, of, share=_ROWS_WITH_ATTENTION)

    def _in_parts(
        self, encodings: Sequence[Encoding], rows: list[int], of: Callable[[list[int]], Result], *, share: int = 1
    ) -> Iterator[tuple[list[int], Result]]:
        """`of` each part of `rows`, shortest texts first, in parts that fit into memory."""
        waiting = sorted(rows, key=lambda row: len(encodings[row].ids))
        while waiting:
            part = waiting[: max(1, self.rows_at_once // share)]
            result: Result | None = None
            try:
                with torch.inference_mode():
                    result = of(part)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if len(part) == 1:
                    raise HarnessError(
                        f"the memory of {self.device} does not suffice for one text at a time; free some, "
                        "or take a smaller --dtype."
                    ) from None
            # Here and not in the handler above, where the traceback still holds the failed call's tensors.
            if result is None:
                self.rows_at_once = share * max(1, len(part) // 2)
                if self.device.type == "cuda":
                    torch.cuda.empty_cache()
                continue
            yield part, result
            waiting = waiting[len(part) :]

    def _padded(self, encodings: Sequence[Encoding]) -> tuple[torch.Tensor, torch.Tensor]:
        """Token ids and mask of texts side by side, both [texts, longest]."""
        longest = max(len(encoding.ids) for encoding in encodings)
        tokens = np.full((len(encodings), longest), self._padding)
        mask = np.zeros((len(encodings), longest), np.int64)
        for row, encoding in enumerate(encodings):
            tokens[row, : len(encoding.ids)] = encoding.ids
            mask[row, : len(encoding.ids)] = 1
        if int(tokens.max()) >= self._known:
            raise HarnessError(
                f"the tokenizer gives token {int(tokens.max())} and the model knows {self._known}: "
                "they are not of one folder."
            )
        return torch.from_numpy(tokens).to(self.device), torch.from_numpy(mask).to(self.device)


def load_classifier(
    path: Path,
    *,
    device: str = "auto",
    dtype: str = "auto",
    threads: int | None = None,
    rows_at_once: int | None = None,
) -> TokenClassifier:
    """The token classifier in the folder `path`, in Hugging Face layout; arguments as `load_target`'s.

    Raises HarnessError as `load_target` does, and when the folder holds no tokenizer that knows its characters.
    """
    path = Path(path)
    try:
        model = loaded_model(
            path,
            AutoModelForTokenClassification,
            "a token classification model",
            device=device,
            dtype=dtype,
            threads=threads,
        )
    except HarnessError as error:
        if other := _other_architecture(path):
            raise HarnessError(f"{error} Its config.json names {other}, which is no token classifier.") from error
        raise
    return TokenClassifier(model, _tokenizer(path), rows_at_once=rows_at_once)


def covering(encoding: Encoding, span: Span) -> Bools:
    """Which tokens cover a character of `span`, [tokens]; special ones cover none."""
    offsets = np.array(encoding.offsets).reshape(-1, 2)
    overlap = np.minimum(offsets[:, 1], span.end) - np.maximum(offsets[:, 0], span.start)
    return np.asarray((overlap > 0) & (np.array(encoding.special_tokens_mask) == 0))


def _tokenizer(path: Path) -> Tokenizer:
    """The folder's tokenizer.json, or what transformers makes of its other files."""
    try:
        if (path / "tokenizer.json").exists():
            return Tokenizer.from_file(str(path / "tokenizer.json"))
        loaded: Any = AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False)
        backend: Tokenizer | None = getattr(loaded, "backend_tokenizer", None)
    except Exception as error:
        # Whatever a broken file makes the loader raise, the user reads one sentence; --debug shows the rest.
        reason = shorten(" ".join(str(error).split()), 160)
        raise HarnessError(f"{path}: its tokenizer cannot be loaded ({reason}).") from error
    if backend is None:
        raise HarnessError(
            f"{path}: its tokenizer does not say which characters a token covers; tokenizer.json is needed."
        )
    return backend


def _other_architecture(path: Path) -> str | None:
    """What the folder says that it holds, where that is a model for something else."""
    try:
        named = json.loads((path / "config.json").read_bytes())["architectures"][0]
    except (OSError, ValueError, RecursionError, LookupError, TypeError):
        return None
    return shorten(named, 60) if isinstance(named, str) and not named.endswith("ForTokenClassification") else None


def _unknown_token(tokenizer: Tokenizer) -> int | None:
    """What stands for characters outside the vocabulary; None where every character has a token."""
    model = json.loads(tokenizer.to_str())["model"]
    # Unigram models have a number for it, which Python sees nowhere else; others a name.
    number, name = model.get("unk_id"), model.get("unk_token")
    return number if isinstance(number, int) else tokenizer.token_to_id(name) if isinstance(name, str) else None


def _room(model: PreTrainedModel) -> int | None:
    """Tokens that the position embeddings reach; RoBERTa's begin behind the padding's position."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            padding = module.padding_idx
            return module.num_embeddings - (0 if padding is None else padding + 1)
    limit = getattr(model.config, "max_position_embeddings", None)
    return limit if isinstance(limit, int) and limit > 0 else None


def _kind(label: str) -> str:
    """`PER` of `B-PER`, `I-PER` and `PER`."""
    prefix, dash, kind = label.partition("-")
    return kind if dash and prefix.upper() in _PREFIXES else label


def _continues(encoding: Encoding, token: int) -> bool:
    """The token goes on with the word of the one before it."""
    words = encoding.word_ids
    return token > 0 and words[token] is not None and words[token] == words[token - 1]


def _entities(text: str, tokens: list[tuple[int, int, str, bool]]) -> list[Entity]:
    """Neighbouring words of one kind, joined. tokens: (start, end, label, continues a word), by start."""
    found: list[Entity] = []
    is_open = False
    for start, end, label, continues in tokens:
        # A token may cover the space before its word.
        start += len(text[start:end]) - len(text[start:end].lstrip())
        if continues:
            if is_open:
                found[-1] = found[-1]._replace(end=end)
            continue
        kind = _kind(label)
        if kind == _OUTSIDE:
            is_open = False
        elif is_open and found[-1].kind == kind and not label.upper().startswith(("B-", "S-", "U-")):
            found[-1] = found[-1]._replace(end=end)
        else:
            found.append(Entity(start, end, kind))
            is_open = True
    return found
