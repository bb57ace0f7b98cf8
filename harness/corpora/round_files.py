"""Write the files of a round that was drawn from a corpus: arrays, rules, pointers, and a data card."""

import csv
import io
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import token_dtype
from harness.core.errors import HarnessError
from harness.core.files import atomic_file, file_sha256, write_export
from harness.corpora.making import ATTACKED, TRAINING, Examples, Rules
from harness.corpora.token_stream import TokenStream

CARD, CARD_TEXT, POINTERS = "card.json", "README.md", "pointers.csv"
_COLUMNS = ("split", "row", "document", "token", "copies", "context", "cluster")


@dataclass(frozen=True)
class Origin:
    """Where a round comes from, for its data card.

    name: of the round. corpus: its path as given. target: the id of the model. vocabulary: of the tokenizer, whose
    SHA-256 is `tokenizer_sha256`. budget: the wall clock of a run. contexts: the numbers of tokens from which the
    target was to complete an example, empty if that was not asked. notes: what was skipped.
    """

    name: str
    corpus: str
    target: str
    vocabulary: int
    tokenizer_sha256: str
    budget: str
    contexts: tuple[int, ...]
    notes: list[str]


def write_round(
    folder: Path, answers: Path | None, stream: TokenStream, examples: Examples, rules: Rules, origin: Origin
) -> dict[str, Any]:
    """Write the files of a round to `folder` and return its data card, which is written last.

    The files of an earlier round in `folder`, which its data card names, are deleted. answers: the directory for the
    answers of the test split and their pointers, None for `folder`. Raises HarnessError if a directory cannot be
    written.
    """
    places = dict.fromkeys(rules.sizes, folder) | ({"test": answers} if answers is not None else {})
    written: list[Path] = []
    try:
        for place in {folder, *places.values()}:
            place.mkdir(parents=True, exist_ok=True)
        _remove_earlier(folder)
        for name, sequences in examples.splits.items():
            if len(sequences.copies):
                tokens = sequences.tokens.astype(token_dtype(origin.vocabulary))
                prefix, suffix = np.split(tokens, [rules.prefix_length], axis=1)
                for path, part in (
                    (folder / f"{name}_prefix.npy", prefix),
                    (places[name] / f"{name}_suffix.npy", suffix),
                ):
                    with atomic_file(path, is_private=False) as file:
                        np.save(file, np.ascontiguousarray(part), allow_pickle=False)
                    written.append(path)
        for place in dict.fromkeys(places.values()):
            here = [name for name in examples.splits if places[name] == place]
            write_export(place / POINTERS, _pointers(stream, examples, here))
            written.append(place / POINTERS)
        for name in ATTACKED:
            if name in examples.splits and len(examples.splits[name].copies):
                path = folder / f"{origin.name}-{name}.toml"
                is_apart = places[name] != folder
                write_export(path, _rules_text(name, examples, rules, origin, is_apart=is_apart))
                written.append(path)
        card = _card(stream, examples, rules, origin, written)
        write_export(folder / CARD_TEXT, _card_text(card))
        write_export(folder / CARD, json.dumps(card, indent=1) + "\n")
    except OSError as error:
        raise HarnessError(f"cannot write {error.filename or folder}: {error.strerror}.") from None
    return card


def _remove_earlier(folder: Path) -> None:
    """Delete the round that a data card in `folder` describes, so that no file of it is taken for the new one."""
    try:
        names = json.loads((folder / CARD).read_bytes())["files"]
    except (OSError, ValueError, LookupError, TypeError):
        return
    (folder / CARD).unlink()
    for name in names:
        if Path(name).name == name:
            (folder / name).unlink(missing_ok=True)


def _pointers(stream: TokenStream, examples: Examples, splits: list[str]) -> str:
    """Return a CSV with the place of each example: its document and the place of its first token there.

    context: the tokens from which the target completes it, 0 if that was not asked.
    """
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for name in splits:
        sequences = examples.splits[name]
        rows = zip(
            stream.pointers(sequences.positions),
            sequences.copies.tolist(),
            sequences.contexts.tolist(),
            examples.clusters[name].tolist(),
            strict=True,
        )
        writer.writerows((name, row, *pointer, *rest) for row, (pointer, *rest) in enumerate(rows))
    return output.getvalue()


def _rules_text(split: str, examples: Examples, rules: Rules, origin: Origin, *, is_apart: bool) -> str:
    """Return the TOML file of the round that attacks `split`."""
    count = len(examples.splits[split].copies)
    fields: dict[str, str | int] = {
        "name": f"{origin.name}-{split}",
        "title": f"{count:,} sequences of {Path(origin.corpus).name}, {split} split",
        "prefix_file": f"{split}_prefix.npy",
    }
    if not is_apart:
        fields["answer_file"] = f"{split}_suffix.npy"
    if TRAINING in examples.splits and len(examples.splits[TRAINING].copies):
        fields |= {"train_prefix_file": "train_prefix.npy", "train_suffix_file": "train_suffix.npy"}
    fields |= {
        "prefix_length": rules.prefix_length,
        "suffix_length": rules.suffix_length,
        "vocabulary": origin.vocabulary,
        "error_cap": max(1, count // 10),
        "budget": origin.budget,
        "target": origin.target,
    }
    # A basic string of TOML has the escapes of JSON.
    return "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in fields.items())


def _card(stream: TokenStream, examples: Examples, rules: Rules, origin: Origin, written: list[Path]) -> dict[str, Any]:
    splits = {
        name: {
            "examples": len(sequences.copies),
            "wanted": rules.sizes[name],
            "clusters": len(np.unique(examples.clusters[name])),
            "copies": _distribution(sequences.copies.tolist(), rules.strata),
        }
        for name, sequences in examples.splits.items()
    }
    return {
        **asdict(origin),
        "corpus_documents": stream.documents,
        "corpus_tokens": stream.token_count,
        "rules": {**asdict(rules), "sizes": dict(rules.sizes)},
        "counts": dict(examples.counts),
        "splits": splits,
        "files": {path.name: file_sha256(path) for path in written},
    }


def _distribution(copies: list[int], strata: tuple[int, ...]) -> dict[str, int]:
    """Return the number of examples of each stratum, by its name such as `2-9` or `10-`."""
    found = {}
    for least, end in zip(strata, [*strata[1:], math.inf], strict=True):
        name = f"{least}-" if end == math.inf else f"{least}" if end == least + 1 else f"{least}-{end - 1}"
        found[name] = sum(least <= count < end for count in copies)
    return found


def _condition(card: Mapping[str, Any]) -> list[str]:
    if not card["contexts"]:
        return []
    lengths = ", ".join(map(str, card["contexts"]))
    return [
        "",
        f"The target completes each suffix by greedy decoding from the last {lengths} tokens before it; `context` in "
        f"{POINTERS} is the smallest of these numbers that is enough.",
    ]


def _card_text(card: Mapping[str, Any]) -> str:
    """Return the data card as Markdown."""
    rules = card["rules"]
    lines = [
        f"# Round {card['name']}",
        "",
        f"Sequences of {rules['prefix_length']} + {rules['suffix_length']} tokens from `{card['corpus']}`: "
        f"{card['corpus_documents']:,} documents, {card['corpus_tokens']:,} tokens. The target is `{card['target']}`, "
        f"and the tokenizer has {card['vocabulary']:,} tokens (SHA-256 {card['tokenizer_sha256']}).",
        "",
        "Each prefix has one continuation in the whole corpus. Sequences that share 32 tokens are in the same cluster, "
        "and a cluster is in one split. Copies are occurrences of the whole sequence in the corpus.",
        "",
        "| split | examples | clusters | by copies |",
        "|---|---|---|---|",
    ]
    for name, split in card["splits"].items():
        copies = ", ".join(f"{stratum}: {count:,}" for stratum, count in split["copies"].items())
        lines.append(f"| {name} | {split['examples']:,} | {split['clusters']:,} | {copies} |")
    lines += ["", "| step | prefixes |", "|---|---|"]
    lines += [f"| {name} | {count:,} |" for name, count in card["counts"].items()]
    filters = rules["filters"]
    lines += [
        "",
        f"A suffix is trivial if one token makes up more than {filters['most_repeated']:.0%} of it, if its tokens "
        f"have less than {filters['least_entropy']:.0%} of the entropy of different tokens, or if "
        f"{filters['copied_share']:.0%} of it also occurs earlier in the sequence. The seed is {rules['seed']}.",
        *_condition(card),
        "",
        "| file | SHA-256 |",
        "|---|---|",
    ]
    lines += [f"| {name} | {sha256} |" for name, sha256 in card["files"].items()]
    if card["notes"]:
        lines += ["", "Notes:", "", *(f"- {note}" for note in card["notes"])]
    return "\n".join(lines) + "\n"
