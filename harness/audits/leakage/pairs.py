"""The options of the audit of leakage, and its pairs of prefix and suffix."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, TypeVar

import numpy as np
from pydantic import field_validator

from harness.audits.endpoint.scoring import ENDPOINT_SCHEMES, ScoringParams
from harness.audits.near_params import NearParams
from harness.audits.probabilities import DEFAULT_SCHEMES, MAX_QUERIES, RANDOM_SCHEMES, SCHEMES, DataSet, Scheme
from harness.core.arrays import Ints, Tokens
from harness.core.attack import Field
from harness.core.audit import Inputs
from harness.core.findings import Stretch
from harness.core.options import option
from harness.core.tokenizers import Tokenizer, decode_pieces, parse_tokenizer
from harness.core.windows import WINDOW, cluster_ids

if TYPE_CHECKING:
    from tokenizers import Encoding

    from harness.audits.classifier import Entity

ModelType = TypeVar("ModelType")

LONGEST_FOLLOWED = 8
"""Tokens of the longest suffix whose inexact matches are measured."""
MAX_ERRORS = 2
"""Maximum substitutions in a match."""
_CONTEXT = 20
"""Tokens at the end of a prefix that are shown."""


class LeakageParams(NearParams, ScoringParams):
    """The options of the audit.

    The defaults of `temperature`, `top_k`, `top_p` and `queries` are values of the source (Tiwari & Suh 2024): Table 1
    and the 30 queries of its introduction. It gives no value for `typical_p` and `decaying_temperature`, and measures
    the inexact matches of all sequences.
    """

    temperature: float = Field(0.1, gt=0, le=10, description="Sampling temperature.")
    top_k: int = Field(10, ge=1, le=1024, description="Tokens kept by top-k.")
    top_p: float = Field(0.6, gt=0, lt=1, description="Probability kept by top-p.")
    prefix_lengths: tuple[Annotated[int, Field(ge=1, le=4096)], ...] = option(
        (),
        name="shorter-prefixes",
        metavar="N,N,…",
        separator=",",
        unset="none",
        description="Prefix lengths to add.",
    )
    schemes: tuple[Scheme, ...] = option(
        default_factory=lambda values: DEFAULT_SCHEMES if values.get("endpoint") is None else ENDPOINT_SCHEMES,
        metavar="SCHEME,…",
        separator=",",
        unset="all but decaying_temperature",
        description="Schemes in addition to greedy, plain and top_k.",
    )
    queries: int = Field(
        30,
        ge=1,
        le=MAX_QUERIES,
        description="Number of queries after which leaks are counted.",
    )
    inexact: int = Field(
        200, ge=0, description="Sequences whose inexact matches (up to 8 tokens) are measured; 0: none."
    )
    branches: int = Field(256, ge=1, le=65_536, description="Beams for --inexact.")
    least: float = Field(1e-5, ge=0, lt=1, description="Minimum probability of a beam.")
    entity_kinds: tuple[str, ...] = option(
        (), metavar="KIND,…", separator=",", unset="all", description="Kinds of entities, such as PER."
    )

    @field_validator("schemes")
    @classmethod
    def _in_fixed_order(cls, schemes: tuple[Scheme, ...]) -> tuple[Scheme, ...]:
        # The conclusion is about these three.
        measured_schemes = {*schemes, Scheme.GREEDY, Scheme.PLAIN, Scheme.TOP_K}
        return tuple(scheme for scheme in SCHEMES if scheme in measured_schemes)

    @property
    def random_schemes(self) -> tuple[Scheme, ...]:
        """The schemes without greedy decoding."""
        return tuple(scheme for scheme in self.schemes if scheme in RANDOM_SCHEMES)

    def inexact_sequences(self, pairs: "Pairs") -> int:
        """Return the number of sequences whose inexact matches are measured."""
        return min(self.inexact, len(pairs)) if pairs.suffixes.shape[1] <= LONGEST_FOLLOWED else 0

    @field_validator("prefix_lengths")
    @classmethod
    def _in_order(cls, lengths: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(lengths)))


@dataclass(frozen=True)
class Pairs(Inputs):
    """The n pairs of an audit: prefixes [n, prefix length] and suffixes [n, length]."""

    prefixes: Tokens
    suffixes: Tokens
    tokenizer: str | None
    """The content of a tokenizer.json, None if the models have none."""
    notes: Sequence[str] = ()
    """Sentences about skipped input."""
    rows: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """The row of each pair in its source, [n]: its record, or the document from which it is cut."""
    names: Sequence[str] = ()
    """The name of each pair's record or document, [n]; () for pairs that are not read from text."""
    source_rows: int = 0
    """The number of rows of the source."""
    documents: Sequence[str] = ()
    """Texts, if there are no pairs yet: the audit cuts them at the entities that a tagger marks."""
    limit: int = 0
    """The maximum number of pairs that are used of those cut from the documents."""
    data_sets: Sequence[DataSet] = ()
    """Results of stored audits of other data sets; lists of their parts after they were stored."""

    def __len__(self) -> int:
        return len(self.prefixes)

    @property
    def prefix_length(self) -> int:
        """Tokens of a whole prefix."""
        return int(self.prefixes.shape[1])

    def record_of(self, pair: int) -> str | int | None:
        """Return the name of the record, such as `data.jsonl:3`; for tokens its number, from 1; None if unknown."""
        if self.names:
            return self.names[pair]
        return int(self.rows[pair]) + 1 if len(self.rows) else None

    def clusters(self, numbers: Ints) -> Ints:
        """Return the cluster of near-copies of each of the pairs with these numbers, [n] int64."""
        whole = np.concatenate([self.prefixes[numbers], self.suffixes[numbers]], axis=1)
        return cluster_ids([whole], window=min(WINDOW, whole.shape[1]))

    def split_models(self, models: Sequence[ModelType]) -> tuple[Sequence[ModelType], ModelType | None]:
        """Return the targets among the audit's models, and the tagger of the documents, which is the last one."""
        return (models[:-1], models[-1]) if self.documents else (models, None)


class PairTexts:
    """The texts of pairs and of other tokens, or their numbers if there is no tokenizer."""

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs
        self._tokenizer = None if pairs.tokenizer is None else parse_tokenizer(pairs.tokenizer, "the audit's inputs")

    def pieces(self, tokens: Ints) -> list[str]:
        """Return the text of each token. A character of several tokens belongs to the last of them."""
        if self._tokenizer is None:
            return [f"{token} " for token in tokens.tolist()]
        return decode_pieces(self._tokenizer, tokens.tolist())

    def text(self, tokens: Ints) -> str:
        """Return the text of all tokens."""
        if self._tokenizer is None:
            return "".join(self.pieces(tokens))
        return self._tokenizer.decode(tokens.tolist(), skip_special_tokens=False)

    def suffix(self, pair: int) -> str:
        """Return the suffix of a pair."""
        return self.text(self._pairs.suffixes[pair])

    def pair(self, pair: int) -> dict[str, str]:
        """Return the end of the prefix and the suffix of a pair, by their names in tables and passages."""
        return {"end of the prefix": self.text(self._pairs.prefixes[pair][-_CONTEXT:]), "suffix": self.suffix(pair)}

    def marked(self, tokens: Ints, compared: Ints) -> list[Stretch]:
        """Return the text of `tokens` [n], in which those that differ from `compared` [n] are marked."""
        return [
            Stretch(piece, is_different)
            for piece, is_different in zip(self.pieces(tokens), (tokens != compared).tolist(), strict=True)
        ]


def entity_pairs(
    text: str, entities: "Sequence[Entity]", tokenizer: Tokenizer, pairs: Pairs, kinds: Sequence[str]
) -> Iterator[tuple[int, list[int]]]:
    """Yield the first character and the tokens, prefix and suffix, of each pair whose suffix is a whole entity.

    pairs: they have the lengths of a prefix and of a suffix.
    kinds: those to use, in any case; () for all.
    """
    encoding = tokenizer.encode(text, add_special_tokens=False)
    before, after = pairs.prefix_length, pairs.suffixes.shape[1]
    kinds = [kind.upper() for kind in kinds]
    for start, end, kind in entities:
        if kinds and kind.upper() not in kinds:
            continue
        tokens = cut_at(encoding, text, start, before=before, after=after, end=end)
        if tokens is not None:
            yield start, tokens


def cut_at(
    encoding: "Encoding", text: str, start: int, *, before: int, after: int, end: int | None = None
) -> list[int] | None:
    """Return the tokens before and after the character `start`; None if there are fewer or a token crosses it.

    end: the character before which the tokens must end, None if any will do.
    """
    place = token_at(encoding, text, start)
    if place is None or place < before or place + after > len(encoding.ids):
        return None
    if end is not None and encoding.offsets[place + after - 1][1] != end:
        return None
    return encoding.ids[place - before : place + after]


def token_at(encoding: "Encoding", text: str, start: int) -> int | None:
    """Return the token that begins at the character `start` or at the spaces before it; None if none does."""
    offsets = encoding.offsets
    place = next((number for number, (_, end) in enumerate(offsets) if end > start), None)
    if place is None:
        return None
    begin = offsets[place][0]
    # Tokens that share a character overlap.
    is_first = place == 0 or offsets[place - 1][1] <= start
    return place if is_first and begin <= start and not text[begin:start].strip() else None
