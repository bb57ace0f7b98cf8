"""The parameters and the texts of a book audit, and the windows into which texts are cut.

Prefix and suffix are tokenized together and divided at a token boundary, so no token crosses the boundary and makes
the suffix unlikely.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import numpy as np
from pydantic import field_validator

from harness.audits.endpoint.scoring import ScoringParams
from harness.audits.models import Model, first_token_notes, load_text_tokenizer, require_context
from harness.audits.near_params import NearParams
from harness.audits.options import Preparation, Reading, Subject
from harness.audits.probabilities import RANDOM_SCHEMES, Scheme
from harness.audits.sources import CorpusFiles, field_option, line_ends_option, target_option
from harness.core.arrays import Bools
from harness.core.attack import Field
from harness.core.audit import Inputs
from harness.core.errors import HarnessError
from harness.core.options import option
from harness.core.tokenizers import Tokenizer
from harness.corpora.documents import require_fields
from harness.corpora.text_files import Notes

THRESHOLDS = (0.001, 0.01, 0.1, 0.5)
"""The probabilities at which coverage is reported."""
MIN_PROBABILITY = 1e-9
"""A window whose first tokens have a smaller probability under every scheme is not followed to its end."""
_CHARACTERS_PER_TOKEN = 16
"""Usually enough to see whether a text has as many tokens as a window."""


class StrideUnit(StrEnum):
    """The unit in which the distance between two windows is counted."""

    CHARACTERS = "characters"
    TOKENS = "tokens"


class BookParams(NearParams, ScoringParams):
    """The options of the audit. Defaults follow the source."""

    schemes: tuple[Scheme, ...] = option(
        (Scheme.TOP_K, Scheme.GREEDY),
        min_length=1,
        metavar="SCHEME,…",
        separator=",",
        description=f"Decoding schemes: {', '.join(Scheme)}.",
    )
    top_k: int = Field(
        40,
        ge=1,
        le=1024,
        description="Tokens kept by top-k. A vLLM server returns only 20 unless started with --max-logprobs.",
    )
    near: int = Field(100, ge=0, description="Number of windows with a near-verbatim lower bound; 0: none.")
    prefix_tokens: int = Field(50, ge=1, le=4096, description="Number of tokens of a window that the model is given.")
    suffix_tokens: int = Field(50, ge=1, le=4096, description="Number of next tokens, whose probability is computed.")
    stride: int = Field(10, ge=1, le=1_000_000, description="Distance between the starts of two windows.")
    stride_unit: StrideUnit = option(
        StrideUnit.CHARACTERS, metavar="UNIT", description="Unit of the stride: characters or tokens."
    )

    @field_validator("schemes")
    @classmethod
    def _are_distinct(cls, schemes: tuple[Scheme, ...]) -> tuple[Scheme, ...]:
        return tuple(dict.fromkeys(schemes))

    @property
    def window_tokens(self) -> int:
        """Tokens of a window."""
        return self.prefix_tokens + self.suffix_tokens

    @property
    def main_scheme(self) -> Scheme:
        """The scheme of single figures: the first random one, or else greedy decoding."""
        return next((scheme for scheme in self.schemes if scheme in RANDOM_SCHEMES), self.schemes[0])


@dataclass(frozen=True)
class Texts(Inputs):
    """The texts of an audit.

    is_control: [texts], those that the targets never saw.
    notes: sentences about skipped input.
    """

    names: Sequence[str]
    texts: Sequence[str]
    is_control: Bools
    notes: Sequence[str]


def read_texts(
    corpora: Sequence[CorpusFiles], control: CorpusFiles | None, models: Sequence[Model], params: BookParams
) -> Texts:
    """Read the documents of all `corpora`, and those of `control`. models: the targets.

    A document that has fewer tokens than a window, or the text of another one, is skipped, with a note. Raises
    HarnessError for input that cannot be read, if no document remains, if the control is one of the texts, or if a
    target has no tokenizer.json or too short a context.
    """
    require_context(models, params.window_tokens, is_served=params.endpoint is not None)
    tokenizers = [load_text_tokenizer(model) for model in models]
    notes = Notes()
    taken: Counter[str] = Counter()
    texts: dict[str, tuple[str, bool]] = {}
    for corpus in [*corpora, *([control] if control is not None else [])]:
        for document in corpus.documents(notes, replaces_invalid_bytes=True):
            text = "".join(document.lines)
            fewest = min(_tokens_up_to(text, tokenizer, params.window_tokens) for tokenizer in tokenizers)
            if fewest < params.window_tokens:
                notes.add(
                    "texts shorter than a window",
                    f"Skipped {document.name}: {fewest} tokens, and a window has {params.window_tokens}.",
                )
            elif text not in texts:
                texts[text] = (_unique(document.name, taken), corpus is control)
            elif corpus is control and not texts[text][1]:
                raise HarnessError(
                    f"the control {document.name} is the same text as {texts[text][0]}. Name text that no target has "
                    "seen."
                )
            else:
                notes.add("texts that were read before", f"Skipped {document.name}: the same text as {texts[text][0]}.")
    names, is_control = [name for name, _ in texts.values()], [is_control for _, is_control in texts.values()]
    if all(is_control):
        why = f" {notes.sentences[0]}" if notes.sentences else ""
        raise HarnessError(
            f"{corpora[0].path} contains no text of {params.window_tokens} tokens.{why} Name a longer text."
        )
    if control is not None and not any(is_control):
        raise HarnessError(
            f"{control.path} contains no text of {params.window_tokens} tokens. Name a longer control text."
        )
    return Texts(names, list(texts), np.array(is_control), [*notes.sentences, *first_token_notes(models)])


def _tokens_up_to(text: str, tokenizer: Tokenizer, limit: int) -> int:
    """Return the number of tokens of a text, or at least `limit` if it has more."""
    for part in (text[: _CHARACTERS_PER_TOKEN * limit], text):
        tokens = len(tokenizer.encode(part, add_special_tokens=False).ids)
        if tokens >= limit or len(part) == len(text):
            break
    return tokens


def _unique(name: str, taken: Counter[str]) -> str:
    """Return `name`, or `name (2)` if it is taken, and count it."""
    taken[name] += 1
    while taken[name] > 1:
        name = f"{name} ({taken[name]})"
        taken[name] += 1
    return name


class BookSubject(Subject):
    """Map which passages of long texts can be extracted.

    Computes the probability that each target completes each window of the texts.
    """

    NEEDS = (("text",), ("target",))

    text: tuple[Path, ...] = option(
        (),
        metavar="TEXT",
        is_argument=True,
        description="Text files, EPUBs, directories of them, or .jsonl, .csv or .parquet files; .gz and .zst too.",
    )
    control: Path | None = option(
        None, metavar="TEXT", unset="none", description="Text of the same kind that no target has seen."
    )
    field: str | None = field_option()
    keep_line_ends: bool = line_ends_option()
    split: str | None = option(None, unset="the only one", description="Split of a data set.")
    target: tuple[str, ...] = target_option()

    def read(self, params: BookParams, preparation: Preparation) -> Reading:
        """Read the texts. Raises HarnessError if they cannot be read."""
        require_fields(self.field, [*self.text, self.control])
        params = params.for_targets(self.target, preparation.say)
        records = preparation.find_models(self.target, is_first_served=params.endpoint is not None)
        models = [Model(record.id, record.path) for record in records]
        corpora = [CorpusFiles(path, self.field, self.split, self.keep_line_ends) for path in self.text]
        control = None if self.control is None else replace(corpora[0], path=self.control)
        inputs = read_texts(corpora, control, models, params)
        params = params.probed(models[0], preparation.say)
        files = {"text" if number == 1 else f"text {number}": path for number, path in enumerate(self.text, 1)}
        if self.control is not None:
            files["control"] = self.control
        return Reading(params, inputs, self.text[0].resolve().stem, files, records)
