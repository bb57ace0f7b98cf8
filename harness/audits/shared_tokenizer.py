"""One tokenizer for several models, whose files may differ.

Saving a tokenizer again changes its file, and training scripts add tokens such as `[PAD]`. Probabilities can be
compared if the tokens that occur are the same, so the tokens and the texts of an audit decide, not the files.
"""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from harness.core.errors import HarnessError
from harness.core.text import pluralize, sanitize, shorten
from harness.core.tokenizers import WRITE_TOKENIZER, Tokenizer, added_tokens, parse_tokenizer
from harness.engine.first_token import different_first_tokens

if TYPE_CHECKING:
    from tokenizers import Encoding

_SHOWN_TOKENS = 3
_SHOWN_CHARACTERS = 40


class SharedTokenizer:
    """The tokenizer of the first of several models, compared with those of the others.

    content: that of the first model's tokenizer.json, None if no model has one.
    """

    def __init__(self, names: Sequence[str], contents: Sequence[str | None]) -> None:
        """Take the contents of the tokenizer.json of each model, None for one without the file.

        Raises HarnessError if one is damaged, or if only some models have one.
        """
        self._names, self.content = names, contents[0]
        pairs = list(zip(names, contents, strict=True))
        if None in contents and any(contents):
            differing = next(name for name, content in pairs if (content is None) != (self.content is None))
            raise self._difference(differing, "only one of them has a tokenizer.json")
        parsed = {content: parse_tokenizer(content, name) for name, content in pairs if content is not None}
        self._tokenizers = [parsed[content] for content in contents if content is not None]
        self._further = [(name, parsed[content]) for name, content in pairs if content and content != self.content]

    def require_first(self) -> Tokenizer:
        """Return the tokenizer of the first model. Raises HarnessError if there is none."""
        if not self._tokenizers:
            raise HarnessError(f"{self._names[0]} has no tokenizer.json, which reading text needs. {WRITE_TOKENIZER}")
        return self._tokenizers[0]

    def encode(self, text: str) -> "Encoding":
        """Return the tokens of `text`, without those that a tokenizer puts before every text.

        Raises HarnessError if the tokenizer of another model returns other ids, or if there is none.
        """
        encoding = self.require_first().encode(text, add_special_tokens=False)
        for name, tokenizer in self._further:
            pairs = zip_longest(encoding.ids, tokenizer.encode(text, add_special_tokens=False).ids)
            place = next((place for place, (first, second) in enumerate(pairs) if first != second), None)
            if place is not None:
                start = encoding.offsets[place][0] if place < len(encoding.ids) else len(text)
                raise self._difference(name, f"they split a text differently from character {start + 1:,} on")
        return encoding

    def notes(self, tokens: Iterable[ArrayLike]) -> list[str]:
        """Return a note for each model whose tokenizer differs in tokens that do not occur in any of `tokens`.

        Raises HarnessError if a token that occurs is another one for one of the models.
        """
        notes: list[str] = []
        occurring: set[int] = set()
        if self._further:
            occurring.update(*(np.unique(part).tolist() for part in tokens))
        for name, tokenizer in self._further:
            both = self._tokenizers[0], tokenizer
            first, second = (of_model.get_vocab(with_added_tokens=True).items() for of_model in both)
            differing = {token for _, token in first ^ second}
            examples = [
                f"{token} is {' and '.join(_shown(of_model.id_to_token(token)) for of_model in both)}"
                for token in sorted(differing & occurring or differing)[:_SHOWN_TOKENS]
            ]
            if differing & occurring:
                raise self._difference(name, f"token {examples[0]}")
            if differing:
                notes.append(
                    f"The tokenizers of {self._names[0]} and {name} differ in {pluralize(len(differing), 'token')} "
                    f"that no sequence contains: {', '.join(examples)}{', …' * (len(differing) > _SHOWN_TOKENS)}."
                )
        return notes

    def first_token_notes(self) -> list[str]:
        """Return a note if the tokenizers put different tokens before every text."""
        firsts = [next(iter(added_tokens(tokenizer)), None) for tokenizer in self._tokenizers]
        return different_first_tokens(self._names, firsts)

    def _difference(self, name: str, difference: str) -> HarnessError:
        return HarnessError(
            f"{self._names[0]} and {name} have different tokenizers: {difference}. Choose targets of one tokenizer."
        )


def _shown(text: str | None) -> str:
    return "no token" if text is None else f"'{sanitize(shorten(text, _SHOWN_CHARACTERS))}'"
