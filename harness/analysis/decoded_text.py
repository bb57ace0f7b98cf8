"""Decode token ids into text that is safe to print, whatever bytes a model produces."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from harness.core.arrays import Tokens
from harness.core.inputs import as_harness_error
from harness.core.text import sanitize
from harness.core.tokenizers import Tokenizer, decode_pieces, load_tokenizer
from harness.runs.folder import RunFolder
from harness.runs.specs import AttackSpec


def text_of_run(folder: RunFolder, spec: AttackSpec) -> "TokenText":
    """Return the decoder for the run's tokens, with its copy of the tokenizer or else the target's.

    Raises HarnessError if the tokenizer file is invalid.
    """
    with as_harness_error(folder.path):
        return TokenText(tokenizer_of_run(folder, spec))


def tokenizer_of_run(folder: RunFolder, spec: AttackSpec) -> Path:
    """Return the run's copy of the tokenizer, or else the target's. The file may not exist."""
    if folder.tokenizer.exists() or spec.target is None:
        return folder.tokenizer
    return spec.target.path / "tokenizer.json"


class TokenText:
    """Decodes token ids with a tokenizer.json. Without one, and for ids that it lacks, it returns numbers."""

    def __init__(self, tokenizer_file: Path | None) -> None:
        """Load the tokenizer if the file exists. Raises HarnessError if the file is invalid."""
        self._tokenizer: Tokenizer | None = None
        if tokenizer_file is not None and tokenizer_file.is_file():
            self._tokenizer = load_tokenizer(tokenizer_file)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each token, [ids], with control characters replaced.

        A character made of several tokens belongs to the last of them. The joined pieces are the text of all tokens.
        """
        if self._tokenizer is None:
            return [f"{token} " for token in ids]
        pieces: list[str] = []
        for is_known, group in groupby(ids, key=self._is_known):
            tokens = list(group)
            if is_known:
                pieces += map(sanitize, decode_pieces(self._tokenizer, tokens))
            else:
                pieces += [f"⟨{token}⟩" for token in tokens]
        return pieces

    def texts(self, rows: Tokens) -> list[str]:
        """Return the text of each row of `rows` [rows, length], with control characters replaced."""
        if self._tokenizer is None:
            return ["".join(f"{token} " for token in row) for row in rows.tolist()]
        texts = [sanitize(text) for text in self._tokenizer.decode_batch(rows.tolist(), skip_special_tokens=False)]
        # decode_batch leaves out unknown ids without saying so.
        unknown = [token for token in np.unique(rows).tolist() if not self._is_known(token)]
        for row in np.flatnonzero(np.isin(rows, unknown).any(axis=1)):
            texts[row] = self.text(rows[row].tolist())
        return texts

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of all `ids`, with control characters replaced."""
        return "".join(self.pieces(ids))

    def _is_known(self, token: int) -> bool:
        return self._tokenizer is not None and self._tokenizer.id_to_token(token) is not None
