"""Load a tokenizer.json of anybody, in one way for all readers of text, and use it in bounded memory."""

import base64
import contextlib
import functools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core.errors import HarnessError
from harness.core.inputs import read_bounded
from harness.core.text import sanitize, shorten

if TYPE_CHECKING:
    from tokenizers import Encoding

WRITE_TOKENIZER = (
    "Write the file with transformers: AutoTokenizer.from_pretrained(DIRECTORY).save_pretrained(DIRECTORY)."
)
"""Advice for a model whose tokenizer is in another format, such as tokenizer.model or vocab.json."""
_MAX_BYTES = 64 << 20
"""The largest vocabularies of 2026, of 260,000 tokens, take 35 MB."""
_MAX_UNIGRAM_CHARACTERS = 8 << 20
"""The characters of all tokens of a Unigram model, of which the library uses up to 350 bytes for each."""
_MAX_ADDED_CHARACTERS = 1 << 19
"""The characters of all added tokens, for which the library takes long."""
_MAX_CHARACTERS = 1 << 25
"""The characters that a call may produce beyond those that usual tokenizers do."""
_USUAL_GROWTH, _USUAL_MAX_LENGTH, _USUAL_TOKEN = 16, 256, 64
"""The characters of normalized text for each character, and of decoded text for a long token and for one on average."""
_MAX_TOKEN_LENGTH, _MAX_NAME_LENGTH, _MAX_SPECIAL_BYTES, _MAX_GROWTH = 1 << 14, 256, 1 << 16, 1 << 10
_NAMES = ("unk_token", "continuing_subword_prefix", "end_of_word_suffix")
_MAX_REPLACEMENT_LENGTH = 18  # characters for one, in Unicode's own tables
_UNICODE_FORMS = {"NFKC": 18, "NFKD": 18, "NFC": 3, "NFD": 4, "Lowercase": 3, "BertNormalizer": 6}
"""The most characters that a step makes of one. It does so again only if a step before it inserts such characters."""
_ANY_TEXT = "\ufffd"
_DOUBLING = ("ByteLevel", "Metaspace", "BPEDecoder", "WordPiece")


class Tokenizer:
    """A tokenizer that uses little memory for little text, and whose errors and panics are HarnessErrors.

    Other attributes are those of `tokenizers.Tokenizer`. The steps in a tokenizer.json can replace text by any other
    text, before the model and after it. So the size of a result is known before anything is encoded or decoded.
    """

    __slots__ = ("_library", "_per_token", "_text_excess", "_token_excess", "_where")

    def __init__(self, library: Any, where: str, longest_token: int) -> None:
        """Wrap a `tokenizers.Tokenizer` whose longest token has `longest_token` characters.

        Raises HarnessError that names `where` if its steps could turn short texts into very long ones.
        """
        self._library, self._where = library, where
        text_growth = _growth(library.normalizer) * _growth(library.pre_tokenizer)
        decoder_growth = _growth(library.decoder)
        self._per_token = max(1, longest_token) * decoder_growth
        self._text_excess, self._token_excess = text_growth - _USUAL_GROWTH, self._per_token - _USUAL_MAX_LENGTH
        names = (getattr(library.model, name, None) or "" for name in _NAMES)
        special = b"" if library.post_processor is None else library.post_processor.__getstate__()
        if max(text_growth, decoder_growth) > _MAX_GROWTH:
            raise _refusal(where, f"it may turn one character into more than {_MAX_GROWTH:,}")
        if self._per_token > _MAX_TOKEN_LENGTH:
            raise _refusal(where, f"a token may be decoded to more than {_MAX_TOKEN_LENGTH:,} characters")
        if max(map(len, names)) > _MAX_NAME_LENGTH or len(special) > _MAX_SPECIAL_BYTES:
            raise _refusal(where, "its special tokens are too long or too many")

    def __getattr__(self, name: str) -> Any:
        """Return another attribute of the library's tokenizer."""
        return getattr(self._library, name)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> "Encoding":
        """Return the tokens of a text. Raises HarnessError if the library fails."""
        excess = len(text) * self._text_excess
        return self._call("encode", text, excess, add_special_tokens=add_special_tokens)  # type: ignore[no-any-return]

    def encode_batch(
        self, texts: Sequence[str], *, add_special_tokens: bool = True, has_offsets: bool = True
    ) -> "list[Encoding]":
        """Return the tokens of each text. Raises HarnessError if the library fails.

        has_offsets: False saves time if the places of the tokens in the text are not needed.
        """
        method = "encode_batch" if has_offsets else "encode_batch_fast"
        excess = sum(map(len, texts)) * self._text_excess
        return self._call(method, texts, excess, add_special_tokens=add_special_tokens)  # type: ignore[no-any-return]

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Return the text of tokens. Raises HarnessError if the library fails, or the text may be too long."""
        excess = len(ids) * self._token_excess
        return self._call("decode", ids, excess, skip_special_tokens=skip_special_tokens)  # type: ignore[no-any-return]

    def decode_batch(self, rows: Sequence[Sequence[int]], *, skip_special_tokens: bool = True) -> list[str]:
        """Return the text of each row of tokens. Raises HarnessError as `decode` does."""
        texts: list[str] = []
        excess = 0
        longest = max(map(len, rows), default=0) * self._per_token
        at_once = max(1, int(_MAX_CHARACTERS // max(1, longest)))
        for first in range(0, len(rows), at_once):
            part = rows[first : first + at_once]
            longest_excess = max(map(len, part)) * self._token_excess
            texts += self._call("decode_batch", part, longest_excess, skip_special_tokens=skip_special_tokens)
            excess += sum(map(len, texts[first:])) - _USUAL_TOKEN * sum(map(len, part))
            self._require_short(excess)
        return texts

    def normalize(self, text: str) -> str:
        """Return `text` in the form in which the tokenizer reads it, such as NFC or lower case.

        A tokenizer without a normalizer reads a text as it is. Raises HarnessError if the library fails.
        """
        normalizer = self._library.normalizer
        if normalizer is None:
            return text
        self._require_short(len(text) * self._text_excess)
        with library_errors(f"the tokenizer fails: {self._where}"):
            normalized: str = normalizer.normalize_str(text)
        # Normalizers for models of sentencepiece also write spaces as U+2581.
        return normalized.replace("\u2581", " ")

    def _call(self, method: str, inputs: Any, excess: float, **options: bool) -> Any:
        """Call a method of the library. excess: the most characters beyond those that usual tokenizers produce."""
        self._require_short(excess)
        with library_errors(f"the tokenizer fails: {self._where}"):
            return getattr(self._library, method)(inputs, **options)

    def _require_short(self, excess: float) -> None:
        if excess > _MAX_CHARACTERS:
            raise _refusal(self._where, f"it may make more than {_MAX_CHARACTERS:,} characters at once")


def load_tokenizer(file: Path, *, reads_special_tokens: bool = False) -> Tokenizer:
    """Return the tokenizer in a tokenizer.json, as `parse_tokenizer` does. Raises HarnessError if there is none."""
    try:
        content = read_bounded(file, limit=_MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise HarnessError(f"not a tokenizer.json: {file} (not UTF-8 text). Download it again.") from None
    return parse_tokenizer(content, str(file), reads_special_tokens=reads_special_tokens)


def parse_tokenizer(content: str, where: str, *, reads_special_tokens: bool = False) -> Tokenizer:
    """Return the tokenizer described by the content of a tokenizer.json.

    It neither truncates nor pads, whatever the file stores. A text such as `<|endoftext|>` is text like any other,
    unless `reads_special_tokens` is set. Raises HarnessError that names `where`.
    """
    with library_errors(f"not a tokenizer.json: {where}"):
        try:
            library, longest_token = _parse(content, reads_special_tokens)
        except _RefusedError as refused:
            raise _refusal(where, str(refused)) from None
        return Tokenizer(library, where, longest_token)


@functools.lru_cache(maxsize=2)  # a large vocabulary takes seconds, and a command opens it several times
def _parse(content: str, reads_special_tokens: bool) -> tuple[Any, int]:
    """Return a `tokenizers.Tokenizer` and the characters of its longest token.

    Raises _RefusedError if the library needs much memory for it, and what the library raises if it is damaged.
    """
    import tokenizers  # only loaded by what needs one

    longest_token = _check_vocabulary(content)
    library = tokenizers.Tokenizer.from_str(content)
    library.no_truncation()
    library.no_padding()
    library.encode_special_tokens = not reads_special_tokens
    return library, longest_token


class _RefusedError(Exception):
    """A tokenizer would need too much memory. The text says which part of it."""


@contextlib.contextmanager
def library_errors(fault: str, advice: str = "Choose another model.") -> Iterator[None]:
    """Convert whatever a library raises inside the block to a HarnessError with the reason, panics included."""
    try:
        yield
    except (HarnessError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic is no Exception
        reason = sanitize(shorten(" ".join(str(error).split()), 160))
        raise HarnessError(f"{fault} ({reason}). {advice}") from error


def _refusal(where: str, reason: str) -> HarnessError:
    return HarnessError(f"refused tokenizer: {where} ({reason}). Choose another model.")


def _check_vocabulary(content: str) -> int:
    """Return the characters of the longest token. Raises _RefusedError if the library needs much memory for it."""
    fields = json.loads(content, object_pairs_hook=_distinct_fields)
    for step in _steps(fields.get("normalizer")):
        # The library allocates as many bytes as the table says that it has.
        table = base64.b64decode(step.get("precompiled_charsmap") or "AAAAAA==")
        if int.from_bytes(table[:4], "little") > len(table) - 4:
            raise _RefusedError("its table of characters is cut short")
    vocabulary = fields["model"]["vocab"]
    tokens = [token if isinstance(token, str) else token[0] for token in vocabulary]
    if isinstance(vocabulary, list) and sum(map(len, tokens)) > _MAX_UNIGRAM_CHARACTERS:
        raise _RefusedError(f"its tokens have more than {_MAX_UNIGRAM_CHARACTERS:,} characters")
    added = [token["content"] for token in fields.get("added_tokens") or ()]
    longest = max(map(len, (*tokens, *added)), default=0)
    if longest > _MAX_TOKEN_LENGTH or sum(map(len, added)) > _MAX_ADDED_CHARACTERS:
        raise _RefusedError(f"a token has {longest:,} characters, or its added tokens have too many together")
    return longest


def _distinct_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of a JSON object. Raises ValueError if a part of a tokenizer is repeated: which one counts?"""
    fields = dict(pairs)
    if len(fields) < len(pairs) and fields.keys() & {"model", "vocab", "added_tokens"}:
        raise ValueError("a field occurs twice")
    return fields


def _growth(component: Any) -> float:
    """Return the most characters that a part of a tokenizer, such as its decoder, makes of one character."""
    growth, inserted = 1.0, ""
    for step in () if component is None else _steps(json.loads(component.__getstate__())):
        match step:
            case {"pattern": {"String": str(old)}, "content": str(new)} if old:
                factor = max(1, len(new) / len(old))
            case {"pattern": _, "content": str(new)}:  # it may match before every character
                factor = 2 * len(new) + 1 if new else 1
            case {"prepend": str(new)}:
                factor = 1 + len(new)
            case {"precompiled_charsmap": str(table)}:
                longest, new = _longest_replacement(table), _ANY_TEXT
                factor = longest if inserted or longest > _MAX_REPLACEMENT_LENGTH else 1
            case _:
                name, new = str(step.get("type")), ""
                factor = 2 if name in _DOUBLING else 1 if inserted.isascii() else _UNICODE_FORMS.get(name, 1)
        growth *= factor
        inserted += new
    return growth


def _steps(state: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects in a JSON value, outer ones first."""
    if isinstance(state, dict):
        yield state
    for part in state.values() if isinstance(state, dict) else state if isinstance(state, list) else ():
        yield from _steps(part)


def _longest_replacement(table: str) -> int:
    """Return the characters of the longest replacement in a table of SentencePiece, which follow a search tree."""
    content = base64.b64decode(table)
    replacements = content[4 + int.from_bytes(content[:4], "little") :].split(b"\0")
    return max(1, *(len(replacement.decode(errors="replace")) for replacement in replacements))


def added_tokens(tokenizer: Tokenizer) -> list[int]:
    """Return the special tokens that the tokenizer puts before every text."""
    encoding = tokenizer.encode("a")
    # The mask is 1 for what the tokenizer adds to the text.
    mask = encoding.special_tokens_mask
    added: list[int] = encoding.ids[: mask.index(0) if 0 in mask else 0]
    return added


def decode_pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """Return the text of each token, whose ids the tokenizer knows. The joined pieces are the text of all tokens.

    A character made of several tokens belongs to the last of them.
    """
    pieces, done = [], 0
    for end in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[:end], skip_special_tokens=False)
        # An incomplete character decodes to U+FFFD until its last token follows.
        whole = len(text) if end == len(ids) else len(text.rstrip("\ufffd"))
        pieces.append(text[done:whole])
        done = max(done, whole)
    return pieces
