"""Read the texts of a book audit, and check that every target can tokenize them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from harness.audits.book.params import BookParams
from harness.audits.models import Model, load_text_tokenizer, require_context
from harness.audits.options import Preparation, Reading, Subject, option
from harness.audits.sources import field_option, line_ends_option, target_option
from harness.core.arrays import Bools
from harness.core.audit import AuditInputs
from harness.core.errors import HarnessError, UsageError
from harness.corpora.documents import documents_in, require_fields
from harness.corpora.text_files import Notes

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_CHARACTERS_PER_TOKEN = 16
"""Usually enough to see whether a text has as many tokens as a window."""


@dataclass(frozen=True)
class Texts:
    """The texts of an audit.

    is_control: [texts], those that the targets never saw. notes: sentences about skipped input.
    """

    names: Sequence[str]
    texts: Sequence[str]
    is_control: Bools
    notes: Sequence[str]

    def to_inputs(self) -> AuditInputs:
        """Return the texts in the form in which the run stores them."""
        texts = {"names": list(self.names), "texts": list(self.texts), "notes": list(self.notes)}
        return AuditInputs(texts, {"is_control": self.is_control})

    @classmethod
    def from_inputs(cls, inputs: AuditInputs) -> "Texts":
        """Return the texts that `to_inputs` stored."""
        texts = inputs.texts
        return cls(texts["names"], texts["texts"], np.asarray(inputs.arrays["is_control"], bool), texts["notes"])


def read_texts(
    paths: Sequence[Path],
    control: Path | None,
    models: Sequence[Model],
    params: BookParams,
    *,
    field: str | None = None,
    split: str | None = None,
    keeps_line_ends: bool = False,
) -> AuditInputs:
    """Read the documents of all `paths`, and those of `control`. models: the targets.

    A document that has fewer tokens than a window, or the text of another one, is skipped, with a note. Raises
    HarnessError for input that cannot be read, if no document remains, if the control is one of the texts, or if a
    target has no tokenizer.json or too short a context.
    """
    require_context(models, params.window_tokens, is_served=params.endpoint is not None)
    tokenizers = [load_text_tokenizer(model) for model in models]
    notes = Notes()
    names = _UniqueNames()
    texts: dict[str, tuple[str, bool]] = {}
    for path in [*paths, *([control] if control is not None else [])]:
        documents = documents_in(
            path, field=field, split=split, notes=notes, keeps_line_ends=keeps_line_ends, replaces_invalid_bytes=True
        )
        for document in documents:
            text = "".join(document.lines)
            fewest = min(_tokens_up_to(text, each, params.window_tokens) for each in tokenizers)
            if fewest < params.window_tokens:
                notes.add(
                    "texts shorter than a window",
                    f"Skipped {document.name}: {fewest} tokens, and a window has {params.window_tokens}.",
                )
            elif text not in texts:
                texts[text] = (names.unique(document.name), path is control)
            elif path is control and not texts[text][1]:
                raise HarnessError(
                    f"the control {document.name} is the same text as {texts[text][0]}. Name text that no target has "
                    "seen."
                )
            else:
                notes.add(
                    "texts that were read before",
                    f"Skipped {document.name}: the same text as {texts[text][0]}.",
                )
    is_control = [each for _, each in texts.values()]
    if all(is_control):
        why = f" {notes.sentences[0]}" if notes.sentences else ""
        raise HarnessError(f"{paths[0]} contains no text of {params.window_tokens} tokens.{why} Name a longer text.")
    if control is not None and not any(is_control):
        raise HarnessError(f"{control} contains no text of {params.window_tokens} tokens. Name a longer control text.")
    found = [name for name, _ in texts.values()]
    return Texts(found, list(texts), np.array(is_control), notes.sentences).to_inputs()


def _tokens_up_to(text: str, tokenizer: "Tokenizer", wanted: int) -> int:
    """Return the number of tokens of a text, or at least `wanted` if it has more."""
    for part in (text[: _CHARACTERS_PER_TOKEN * wanted], text):
        tokens = len(tokenizer.encode(part, add_special_tokens=False).ids)
        if tokens >= wanted or len(part) == len(text):
            break
    return tokens


class _UniqueNames:
    """Numbers names that were used before."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()

    def unique(self, name: str) -> str:
        """Return `name`, or `name (2)` if it is taken."""
        self._taken[name] += 1
        while self._taken[name] > 1:
            name = f"{name} ({self._taken[name]})"
            self._taken[name] += 1
        return name


class BookSubject(Subject):
    """Map which passages of long texts can be extracted.

    Computes the probability that each target completes each window of the texts.
    """

    text: tuple[Path, ...] = option(
        (),
        metavar="TEXT…",
        is_argument=True,
        description="Text files, directories of them, or .jsonl, .csv or .parquet files.",
    )
    control: Path | None = option(None, metavar="TEXT", description="Text of the same kind that no target has seen.")
    field: str | None = field_option()
    keep_line_ends: bool = line_ends_option()
    split: str | None = option(None, description="Split of a data set that has several.")
    target: tuple[str, ...] = target_option()

    def read(self, params: BookParams, preparation: Preparation) -> Reading:
        """Read the texts. Raises HarnessError if no text or target is named, or the texts cannot be read."""
        if not self.text:
            raise UsageError("no text is named. Give a file or a directory.")
        if not self.target:
            raise UsageError("no target is named. Give --target.")
        require_fields(self.field, [*self.text, self.control])
        params = params.for_targets(self.target, preparation.say)
        records = preparation.find_models(self.target, is_first_served=params.endpoint is not None)
        models = [Model(record.id, record.path) for record in records]
        inputs = read_texts(
            self.text,
            self.control,
            models,
            params,
            field=self.field,
            split=self.split,
            keeps_line_ends=self.keep_line_ends,
        )
        params = params.probed(models[0], preparation.say)
        files = {"text" if number == 1 else f"text {number}": path for number, path in enumerate(self.text, 1)}
        if self.control is not None:
            files["control"] = self.control
        return Reading(params, inputs, self.text[0].resolve().stem, files, records)
