"""The models of an audit before they are loaded: their tokenizers, and the checks that their configurations allow."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from harness.audits.shared_tokenizer import SharedTokenizer
from harness.core.arrays import Tokens
from harness.core.errors import HarnessError
from harness.core.tokenizers import WRITE_TOKENIZER, Tokenizer, parse_tokenizer
from harness.corpora.text_files import read_text
from harness.engine.first_token import (
    different_first_tokens,
    first_token,
    first_token_sentence,
    load_offset_tokenizer,
)
from harness.engine.resolving import CONTEXT_KEYS, VOCABULARY_KEYS, configured_number


class Model(NamedTuple):
    """A target: its name and its directory."""

    id: str
    path: Path


def shared_tokenizer(models: Sequence[Model]) -> SharedTokenizer:
    """Return the tokenizer that all models share, which checks the texts and tokens of an audit.

    A model without tokenizer.json gets the one that `transformers` builds from its other files, if another model has
    one. Raises HarnessError that names two models if none has one and they have different numbers of tokens.
    """
    files = [model.path / "tokenizer.json" for model in models]
    contents = [read_text(file) if file.is_file() else None for file in files]
    if any(contents):
        pairs = zip(files, contents, strict=True)
        contents = [content or load_offset_tokenizer(file.parent).to_str() for file, content in pairs]
    sizes = [configured_number(model.path, VOCABULARY_KEYS) for model in models]
    for model, size in zip(models, sizes, strict=True):
        if not any(contents) and size != sizes[0]:
            raise HarnessError(
                f"{models[0].id} and {model.id} have different tokenizers: {sizes[0]} and {size} tokens. Choose "
                "targets of one tokenizer."
            )
    return SharedTokenizer([model.id for model in models], contents)


def load_text_tokenizer(model: Model) -> Tokenizer:
    """Return the tokenizer with which a model reads the text of a corpus.

    Raises HarnessError if the model has no tokenizer.json.
    """
    file = model.path / "tokenizer.json"
    if not file.is_file():
        raise HarnessError(f"{model.id} has no tokenizer.json, which reading text needs. {WRITE_TOKENIZER}")
    return parse_tokenizer(read_text(file), str(file))


def first_token_notes(models: Sequence[Model], prefixes: Tokens | None = None) -> list[str]:
    """Return notes on the tokens that the models' tokenizers put before every text.

    They name several models that differ in it, and the first token that some of `prefixes` [n, tokens] have already.
    """
    if prefixes is None and len(models) < 2:
        return []
    tokens = [first_token(model.path) for model in models]
    notes = different_first_tokens([model.id for model in models], tokens)
    for token in tokens:
        if prefixes is not None and (number := 0 if token is None else int((prefixes[:, 0] == token).sum())):
            notes.append(first_token_sentence(number, len(prefixes), token))
    return list(dict.fromkeys(notes))


def require_context(
    models: Sequence[Model],
    tokens: int,
    *,
    subject: str = "prefix and suffix have",
    option: str = "--prefix-tokens or --suffix-tokens",
    is_served: bool = False,
) -> None:
    """Raise HarnessError unless every model attends to `tokens` tokens. subject, option: words of the sentence.

    is_served: the first model is behind an endpoint, whose context also has the tokenizer's first token and a token
    that the endpoint generates.
    """
    for number, model in enumerate(models):
        context = configured_number(model.path, CONTEXT_KEYS)
        if context is None:
            continue
        added = 1 + (first_token(model.path) is not None) if is_served and number == 0 else 0
        if context < tokens + added:
            more = f"a request to the endpoint adds {added}, " if added else ""
            raise HarnessError(
                f"{subject} {tokens:,} tokens, {more}and the context of {model.id} is {context:,}. Set {option}."
            )
