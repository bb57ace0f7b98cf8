"""Token ids as text that may be printed: whatever bytes a model produces stay text and steer nothing."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from harness.core.arrays import Tokens
from harness.core.errors import HarnessError
from harness.core.text import sanitize
from harness.jobs.attack.spec import AttackSpec
from harness.runs.errors import as_harness_error
from harness.runs.folder import RunFolder

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def _tokenizer_file(folder: RunFolder, spec: AttackSpec) -> Path:
    """The run's own copy of its target's tokenizer, else the target's, whether it is there or not."""
    if folder.tokenizer.exists() or spec.target is None:
        return folder.tokenizer
    return spec.target.path / "tokenizer.json"


def text_of_run(folder: RunFolder, spec: AttackSpec) -> "TokenText":
    """How the run's tokens read. Raises HarnessError when its tokenizer is there and is none."""
    with as_harness_error(folder.path):
        return TokenText(_tokenizer_file(folder, spec))


class TokenText:
    """Token ids as text, by a tokenizer.json; as numbers where there is none, or where it lacks an id."""

    def __init__(self, tokenizer_file: Path | None) -> None:
        """Raises HarnessError when the file is there and is no tokenizer."""
        self._tokenizer = None
        if tokenizer_file is not None and tokenizer_file.is_file():
            from tokenizers import Tokenizer

            try:
                self._tokenizer = Tokenizer.from_file(str(tokenizer_file))
            except Exception as error:  # tokenizers raises plain Exception for every fault of a file
                raise HarnessError(f"{tokenizer_file}: no tokenizer ({sanitize(str(error))[:120]}).") from None

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The text of each token, [ids], controls made visible; joined they are the text of all.

        A character that several tokens make up belongs to the last of them.
        """
        if self._tokenizer is None:
            return [f"{token} " for token in ids]
        pieces: list[str] = []
        for is_text, run in groupby(ids, key=self._is_text):
            some = list(run)
            pieces += _decoded(self._tokenizer, some) if is_text else [f"⟨{token}⟩" for token in some]
        return pieces

    def texts(self, rows: Tokens) -> list[str]:
        """Each row of `rows` [rows, length] as one visible text."""
        if self._tokenizer is None:
            return ["".join(f"{token} " for token in row) for row in rows.tolist()]
        texts = [sanitize(text) for text in self._tokenizer.decode_batch(rows.tolist(), skip_special_tokens=False)]
        lacking = [token for token in np.unique(rows).tolist() if not self._is_text(token)]
        for row in np.flatnonzero(np.isin(rows, lacking).any(axis=1)):
            texts[row] = self.text(rows[row].tolist())
        return texts

    def text(self, ids: Sequence[int]) -> str:
        """All of `ids` as one visible text."""
        return "".join(self.pieces(ids))

    def _is_text(self, token: int) -> bool:
        """The tokenizer has this id; what it lacks it passes over in silence."""
        return self._tokenizer is not None and self._tokenizer.id_to_token(token) is not None


def _decoded(tokenizer: "Tokenizer", ids: list[int]) -> list[str]:
    """The pieces of ids that the tokenizer has."""
    pieces, told = [], 0
    for end in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[:end], skip_special_tokens=False)
        # An unfinished character decodes to U+FFFD until its last token comes.
        whole = text if end == len(ids) else text.rstrip("\ufffd")
        pieces.append(sanitize(whole[told:]))
        told = max(told, len(whole))
    return pieces
