"""From files, rounds and corpora that nobody vouches for to the pairs that the audit measures with."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harness.audits.leakage.pairs import Pairs
from harness.audits.leakage.reading import array_pairs, documents_of, text_pairs
from harness.audits.tokenizing import tokenizer_of
from harness.core.arrays import Tokens
from harness.core.errors import HarnessError
from harness.core.examples import load_answers, load_prefixes
from harness.core.rounds import Round

PREFIX, SUFFIX = 50, 50
_TOKEN_FILES = (".npy", ".npz")


class Model(NamedTuple):
    """One of the targets: its name, and the folder that it lies in."""

    id: str
    path: Path


class Size(NamedTuple):
    """prefix: tokens of a prefix; suffix: tokens of a suffix; None for what the source has, or else 50."""

    prefix: int | None = None
    suffix: int | None = None


def pairs_of_file(path: Path, models: Sequence[Model], size: Size, *, limit: int, seed: int) -> Pairs:
    """Pairs in a file: tokens as .npz or .npy, text as .jsonl or .tsv. Raises HarnessError when it gives none."""
    tokenizer = shared_tokenizer(models)
    if path.suffix.lower() in _TOKEN_FILES:
        prefixes, suffixes = array_pairs(path, prefix_length=size.prefix)
        return _chosen(path.name, prefixes, suffixes, tokenizer, models, size, limit=limit, seed=seed)
    if tokenizer is None:
        raise HarnessError(
            f"{models[0].id} comes without a tokenizer.json, and {path} holds text: name another target."
        )
    cut, notes = text_pairs(
        path,
        tokenizer_of(tokenizer, models[0].id),
        prefix_length=size.prefix or PREFIX,
        suffix_length=size.suffix or SUFFIX,
    )
    found = _chosen(path.name, *cut, tokenizer, models, size, limit=limit, seed=seed)
    return replace(found, notes=notes)


def pairs_of_round(round_: Round, models: Sequence[Model], size: Size, *, limit: int, seed: int) -> Pairs:
    """A round's prefixes and answers. Raises HarnessError for a blind round."""
    answers = load_answers(round_)
    if answers is None:
        raise HarnessError(
            f"round {round_.name} is blind, and the audit asks how likely its answers are: take one that knows them."
        )
    tokenizer = shared_tokenizer(models)
    return _chosen(round_.name, load_prefixes(round_), answers, tokenizer, models, size, limit=limit, seed=seed)


def pairs_of_demo_names(models: Sequence[Model], size: Size, *, limit: int, seed: int) -> Pairs:
    """Names of 4 tokens in the demo's invented corpus, and what stands before them."""
    # Here: the demo's affair alone.
    from harness.engine.demo import WEIGHTS
    from harness.engine.demo.names import name_pairs

    tokenizer = shared_tokenizer([Model("demo", WEIGHTS), *models])
    made = name_pairs(WEIGHTS / "tokenizer.json", prefix_length=size.prefix or PREFIX, tokens=size.suffix or 4)
    if not made:
        raise HarnessError(
            f"no name of the demo's corpus has {size.suffix} tokens: --suffix-tokens 3, 4 or 5 has some."
        )
    prefixes, suffixes = (np.array(part, np.int64) for part in zip(*made, strict=True))
    return _chosen("the demo's names", prefixes, suffixes, tokenizer, models, size, limit=limit, seed=seed)


def uncut_documents(path: Path, field: str, models: Sequence[Model], size: Size, entity_tokens: int) -> Pairs:
    """A corpus whose entities are yet to be marked: a text file, a folder of them, or JSON Lines."""
    tokenizer = shared_tokenizer(models)
    if tokenizer is None:
        raise HarnessError(f"{models[0].id} comes without a tokenizer.json, and a corpus is text: name another target.")
    prefix_length = size.prefix or PREFIX
    _require_room(models, prefix_length + entity_tokens)
    documents, notes = documents_of(path, field)
    none = np.empty((0, prefix_length), np.int64), np.empty((0, entity_tokens), np.int64)
    return Pairs(*none, tokenizer, prefix_length, documents, notes)


def shared_tokenizer(models: Sequence[Model]) -> str | None:
    """The content of the tokenizer.json that all models have; None where they have none, and equal vocabularies.

    Equal is what tokens stand for and how text becomes them, not how the file is written. Raises HarnessError, naming
    two models, where they differ.
    """
    files = [model.path / "tokenizer.json" for model in models]
    contents = [_content(file) for file in files]
    meanings = [_meaning(content, file) for content, file in zip(contents, files, strict=True)]
    for model, meaning in zip(models[1:], meanings[1:], strict=True):
        if meaning != meanings[0]:
            raise HarnessError(
                f"{models[0].id} and {model.id} have different tokenizers, and their probabilities are of different "
                "tokens: audit them apart."
            )
    if contents[0] is None:
        sizes = [_configured(model, "vocab_size") for model in models]
        for model, vocabulary in zip(models[1:], sizes[1:], strict=True):
            if vocabulary != sizes[0]:
                raise HarnessError(
                    f"{models[0].id} predicts {sizes[0]} tokens and {model.id} {vocabulary}, and neither comes with a "
                    "tokenizer.json that would say that they mean the same: audit them apart."
                )
    return contents[0]


def _content(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8") if file.is_file() else None
    except UnicodeError:
        raise HarnessError(f"{file}: not the JSON of a tokenizer: it holds bytes that are not UTF-8.") from None
    except OSError as error:
        raise HarnessError(f"{file}: cannot be read ({error.strerror}).") from None


def _meaning(content: str | None, file: Path) -> Any:
    if content is None:
        return None
    try:
        whole = json.loads(content)
        return {name: whole.get(name) for name in ("model", "added_tokens", "normalizer", "pre_tokenizer")}
    except (ValueError, AttributeError, RecursionError):
        raise HarnessError(f"{file}: not the JSON of a tokenizer.") from None


def _chosen(
    source: str,
    prefixes: Tokens,
    suffixes: Tokens,
    tokenizer: str | None,
    models: Sequence[Model],
    size: Size,
    *,
    limit: int,
    seed: int,
) -> Pairs:
    """At most `limit` of the pairs, drawn by seed and cut to size. Raises HarnessError where they do not fit."""
    for what, wanted, there in (("prefix", size.prefix, prefixes.shape[1]), ("suffix", size.suffix, suffixes.shape[1])):
        if wanted is not None and wanted > there:
            raise HarnessError(f"{source}: a {what} has {there} tokens, and {wanted} are asked for.")
    prefixes = prefixes[:, prefixes.shape[1] - (size.prefix or prefixes.shape[1]) :]
    suffixes = suffixes[:, : size.suffix or suffixes.shape[1]]
    if not len(prefixes):
        raise HarnessError(f"{source}: no pair to measure.")
    for model in models:
        vocabulary = _configured(model, "vocab_size")
        most = max(int(prefixes.max()), int(suffixes.max()))
        if vocabulary is not None and most >= vocabulary:
            raise HarnessError(f"{source}: holds token {most:,}, and {model.id} has {vocabulary:,} tokens.")
    _require_room(models, prefixes.shape[1] + suffixes.shape[1])
    rows = np.sort(np.random.default_rng(seed).permutation(len(prefixes))[:limit])
    return Pairs(prefixes[rows], suffixes[rows], tokenizer, prefixes.shape[1])


def _require_room(models: Sequence[Model], wanted: int) -> None:
    for model in models:
        context = _configured(model, "max_position_embeddings", "n_positions")
        if context is not None and context < wanted:
            raise HarnessError(
                f"{model.id} attends to {context:,} tokens; prefix and suffix take {wanted:,}: ask for fewer."
            )


def _configured(model: Model, *names: str) -> int | None:
    """What config.json says under the first of `names` that it has; None when it says no number."""
    try:
        config = json.loads((model.path / "config.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    found = [config[name] for name in names if isinstance(config, dict) and isinstance(config.get(name), int)]
    return found[0] if found else None
