"""The token that a model's tokenizer puts before every text, whichever files declare it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.core.errors import HarnessError
from harness.core.files import require_content
from harness.core.tokenizers import Tokenizer, added_tokens, library_errors, load_tokenizer, parse_tokenizer

_OTHER_FILES = ("vocab.json", "vocab.txt", "*.model", "tekken.json", "*.tiktoken")
"""The vocabulary of a tokenizer that has no tokenizer.json."""


def first_token(path: Path) -> int | None:
    """Return the token that the tokenizer in the folder `path` puts before every text, None if it puts none.

    A tokenizer.json decides alone. Without one, the tokenizer that `transformers` builds from the other files decides,
    such as vocab.json and merges.txt with `add_bos_token` in tokenizer_config.json. A folder without a vocabulary has
    no first token. Raises HarnessError if a file cannot be read, or if the tokenizer puts several tokens.
    """
    if (path / "tokenizer.json").is_file():
        tokens = added_tokens(load_tokenizer(path / "tokenizer.json"))
    elif any(any(path.glob(name)) for name in _OTHER_FILES):
        built = build_tokenizer(path)
        with library_errors(f"the tokenizer fails: {path}"):
            whole, plain = (built("a", add_special_tokens=is_added)["input_ids"] for is_added in (True, False))
        tokens = whole[: next((n for n in range(len(whole)) if whole[n : n + len(plain)] == plain), 0)]
    else:
        return None
    if len(tokens) > 1:
        raise HarnessError(
            f"the tokenizer puts {len(tokens)} tokens before every text, and only one is supported: {path}. Choose "
            "another model."
        )
    return tokens[0] if tokens else None


def first_token_sentence(number: int, rows: int, token: int | None) -> str:
    """Return a sentence about prefixes that begin with the first token themselves. number: how many of `rows`."""
    return (
        f"{number:,} of {rows:,} prefixes begin with token {token}, which the tokenizer puts "
        "before every text. The model sees it once."
    )


def different_first_tokens(names: Sequence[str], tokens: Sequence[int | None]) -> list[str]:
    """Return a note if models differ in the token before every text. tokens: that of each model, None for none."""
    pairs = zip(names, tokens, strict=True)
    of_models = ", ".join(f"{name} {'none' if token is None else f'token {token}'}" for name, token in pairs)
    note = f"The tokenizers put different first tokens before every text: {of_models}. Models of equal weights would"
    return [f"{note} differ too."] if len(set(tokens)) > 1 else []


def build_tokenizer(path: Path) -> Any:
    """Return the tokenizer that `transformers` builds from a folder without tokenizer.json.

    Raises HarnessError if it cannot build one.
    """
    from transformers import AutoTokenizer  # slow to import

    for file in (file for name in _OTHER_FILES for file in path.glob(name)):
        require_content(file)
    with library_errors(f"the tokenizer cannot be loaded: {path}", "Add the tokenizer.json of the model."):
        return AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False)


def load_offset_tokenizer(path: Path) -> Tokenizer:
    """Return the tokenizer of the folder `path`, which reports the characters of each token.

    Raises HarnessError if the folder has none.
    """
    if (path / "tokenizer.json").exists():
        return load_tokenizer(path / "tokenizer.json")
    backend = getattr(build_tokenizer(path), "backend_tokenizer", None)
    if backend is None:
        raise HarnessError(f"the tokenizer reports no character offsets: {path}. Add a tokenizer.json to the folder.")
    return parse_tokenizer(backend.to_str(), str(path))
