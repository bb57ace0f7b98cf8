"""Read the texts of a book audit, and check that every target can tokenize them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.audits.book.params import BookParams
from harness.audits.models import Model, require_context, require_tokenizer
from harness.core.arrays import Bools
from harness.core.audit import AuditInputs
from harness.core.errors import HarnessError
from harness.corpora.documents import documents_in
from harness.corpora.text_files import Notes, parse_tokenizer, read_text

_SAMPLED = 64
"""Characters per token that are certainly enough to see whether a text has as many tokens as a window."""


@dataclass(frozen=True)
class Texts:
    """The texts of an audit. is_control: [texts], those that the targets never saw. notes: about skipped input."""

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
    field: str,
    split: str | None = None,
) -> AuditInputs:
    """Read the documents of all `paths`, and those of `control`. models: the targets.

    A document that has fewer tokens than a window is skipped, with a note. Raises HarnessError for input that cannot be
    read, if no document remains, or if a target has no tokenizer.json or too short a context.
    """
    require_context(models, params.window_tokens)
    tokenizers = []
    for model in models:
        file = model.path / "tokenizer.json"
        content = require_tokenizer(read_text(file) if file.is_file() else None, [model])
        tokenizers.append(parse_tokenizer(content, str(file)))
    notes = Notes()
    names: list[str] = []
    texts: list[str] = []
    is_control: list[bool] = []
    for path in [*paths, *([control] if control is not None else [])]:
        for document in documents_in(path, field=field, split=split, notes=notes, keeps_line_ends=True):
            text = "".join(document.lines)
            beginning = text[: _SAMPLED * params.window_tokens]
            fewest = min(len(each.encode(beginning, add_special_tokens=False).ids) for each in tokenizers)
            if fewest < params.window_tokens:
                notes.add(
                    "texts shorter than a window",
                    f"Skipped {document.name}: {fewest} tokens, and a window has {params.window_tokens}.",
                )
                continue
            names.append(_unique_name(document.name, names))
            texts.append(text)
            is_control.append(path is control)
    if all(is_control):
        why = f" {notes.sentences[0]}" if notes.sentences else ""
        raise HarnessError(f"{paths[0]} contains no text of {params.window_tokens} tokens.{why} Name a longer text.")
    if control is not None and not any(is_control):
        raise HarnessError(f"{control} contains no text of {params.window_tokens} tokens. Name a longer control text.")
    return Texts(names, texts, np.array(is_control), notes.sentences).to_inputs()


def _unique_name(name: str, taken: Sequence[str]) -> str:
    number, unique = 1, name
    while unique in taken:
        number += 1
        unique = f"{name} ({number})"
    return unique
