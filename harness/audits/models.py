"""The models of an audit before they are loaded: their tokenizers, and the checks that their configurations allow."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from harness.core.arrays import Tokens
from harness.core.errors import HarnessError
from harness.core.tokenizers import Tokenizer, parse_tokenizer
from harness.corpora.text_files import parse_json, read_text
from harness.engine.first_token import first_token, first_token_sentence
from harness.engine.resolving import CONTEXT_KEYS, VOCABULARY_KEYS, configured_number


class Model(NamedTuple):
    """A target: its name and its directory."""

    id: str
    path: Path


def shared_tokenizer(models: Sequence[Model]) -> str | None:
    """Return the tokenizer.json that all models share; None if they have none but equal vocabulary sizes.

    Tokenizers are equal if they convert text to the same tokens, even if the files differ. Raises HarnessError that
    names two models if they differ.
    """
    files = [model.path / "tokenizer.json" for model in models]
    contents = [read_text(file) if file.is_file() else None for file in files]
    keys: list[Any] = [
        configured_number(model.path, VOCABULARY_KEYS) if content is None else tokenizer_key(content, file)
        for model, content, file in zip(models, contents, files, strict=True)
    ]
    for model, key, content in zip(models, keys, contents, strict=True):
        if key != keys[0] or (content is None) != (contents[0] is None):
            raise HarnessError(
                f"{models[0].id} and {model.id} have different tokenizers, so their probabilities are of different "
                "tokens. Choose models of one tokenizer."
            )
    return contents[0]


def tokenizer_key(content: str, file: Path) -> Any:
    """Return what decides how a tokenizer.json converts text to tokens. Raises HarnessError if it is not one."""
    try:
        whole = parse_json(content)
        return {name: whole.get(name) for name in ("model", "added_tokens", "normalizer", "pre_tokenizer")}
    except (ValueError, AttributeError):
        raise HarnessError(f"not a tokenizer.json: {file}.") from None


def require_tokenizer(tokenizer: str | None, models: Sequence[Model]) -> str:
    """Return the content of the models' tokenizer.json. Raises HarnessError if they have none."""
    if tokenizer is None:
        raise HarnessError(f"{models[0].id} has no tokenizer.json, which text needs. Choose another target.")
    return tokenizer


def load_text_tokenizer(model: Model) -> Tokenizer:
    """Return the tokenizer with which a model reads the text of a corpus.

    Raises HarnessError if the model has no tokenizer.json.
    """
    file = model.path / "tokenizer.json"
    content = require_tokenizer(read_text(file) if file.is_file() else None, [model])
    return parse_tokenizer(content, str(file))


def first_token_notes(prefixes: Tokens, models: Sequence[Model]) -> list[str]:
    """Return a note for each model whose tokenizer puts a first token before texts that `prefixes` have already."""
    notes = []
    for model in models:
        token = first_token(model.path)
        if number := 0 if token is None else int((prefixes[:, 0] == token).sum()):
            notes.append(first_token_sentence(number, len(prefixes), token))
    return list(dict.fromkeys(notes))


def require_context(
    models: Sequence[Model],
    wanted: int,
    *,
    subject: str = "prefix and suffix have",
    option: str = "--prefix-tokens or --suffix-tokens",
    is_served: bool = False,
) -> None:
    """Raise HarnessError unless every model attends to `wanted` tokens. subject, option: words of the sentence.

    is_served: the first model is behind an endpoint, whose context also has the tokenizer's first token and a token
    that the endpoint generates.
    """
    for number, model in enumerate(models):
        context = configured_number(model.path, CONTEXT_KEYS)
        if context is None:
            continue
        added = 1 + (first_token(model.path) is not None) if is_served and number == 0 else 0
        if context < wanted + added:
            more = f"a request to the endpoint adds {added}, " if added else ""
            raise HarnessError(
                f"{subject} {wanted:,} tokens, {more}and the context of {model.id} is {context:,}. Set {option}."
            )
