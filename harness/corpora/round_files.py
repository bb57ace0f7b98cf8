"""Write the files of a round that was drawn from a corpus: arrays, rules, pointers, a data card, a page for teams."""

import io
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Tokens, token_dtype
from harness.core.exports import write_rows
from harness.core.files import file_sha256, write_export
from harness.core.templates import filled_in
from harness.core.times import moment_text, parse_moment
from harness.corpora.making import ATTACKED, TRAINING, Examples, Filters, Rules
from harness.corpora.sequences import Sequences
from harness.corpora.token_stream import TokenStream

CARD, CARD_TEXT, POINTERS, TEAMS = "card.json", "README.md", "pointers.csv", "TEAMS.md"
_ARRAYS = tuple(f"{split}_{part}.npy" for split in (TRAINING, *ATTACKED) for part in ("prefix", "suffix"))
_COLUMNS = ("split", "row", "document", "token", "copies", "context", "cluster")


@dataclass(frozen=True)
class Origin:
    """The source of a round, for its data card."""

    name: str
    """Name of the round."""
    corpus: str
    """Name of the file or directory of the corpus."""
    target: str
    """Id of the target."""
    vocabulary: int
    """Number of ids of the tokenizer."""
    tokenizer_sha256: str
    """SHA-256 of the tokenizer."""
    budget: str
    """Wall clock of a run."""
    contexts: tuple[int, ...]
    """Numbers of tokens from which the target was to complete an example. Empty without `--extractable`."""
    target_sha256: str
    """SHA-256 of the target's weights. Empty without `--extractable`."""
    notes: list[str]
    """Notes on skipped parts of the corpus."""
    harness_version: str
    """Version of the harness."""


def existing_files(folder: Path, name: str, answers: Path | None) -> list[Path]:
    """Return the files of rounds of this name that exist already in `folder` and in the directory for `answers`."""
    inside = [CARD, CARD_TEXT, TEAMS, *_ARRAYS, POINTERS, *(f"{name}-{split}.toml" for split in ATTACKED)]
    apart = [] if answers is None else [answers / file for file in ("test_suffix.npy", POINTERS)]
    return [path for path in (*(folder / file for file in inside), *apart) if path.exists()]


def write_round(
    folder: Path,
    answers: Path | None,
    stream: TokenStream,
    examples: Examples,
    rules: Rules,
    origin: Origin,
    contest: Mapping[str, str],
) -> dict[str, Any]:
    """Write the files of a round to `folder` and return its data card, which is written last.

    Files of an earlier round of the same name are deleted first, so none is taken for one of this round. answers: the
    directory for the answers of the test split and their pointers, None for `folder`. contest: fields of each round
    that `origin` does not have, such as `title`. Raises OSError if a file cannot be written.

    Keys:
        rounds (string[]): TOML files of the rounds, the validation round first.
    """
    places = dict.fromkeys(rules.sizes, folder) | ({"test": answers} if answers is not None else {})
    for place in {folder, *places.values()}:
        place.mkdir(parents=True, exist_ok=True)
    for path in reversed(existing_files(folder, origin.name, answers)):
        path.unlink()
    written: dict[str, Path] = {}

    def add(place: Path, name: str, content: bytes | str) -> None:
        write_export(place / name, content)
        written[name if place == folder else f"{place.resolve().name}/{name}"] = place / name

    splits = {name: sequences for name, sequences in examples.splits.items() if len(sequences.copies)}
    for name, sequences in splits.items():
        tokens = sequences.tokens.astype(token_dtype(origin.vocabulary))
        add(folder, f"{name}_prefix.npy", _array(tokens[:, : rules.prefix_length]))
        add(places[name], f"{name}_suffix.npy", _array(tokens[:, rules.prefix_length :]))
    for place in dict.fromkeys(places.values()):
        add(place, POINTERS, _pointers(stream, examples, [name for name in splits if places[name] == place]))
    rounds = {f"{origin.name}-{name}.toml": name for name in ATTACKED if name in splits}
    card = _card(stream, examples, rules, origin, written) | {"rounds": list(rounds)}
    # The organizers edit these files later, so the card has no hash of them.
    for file, name in rounds.items():
        write_export(folder / file, _rules_text(name, splits, rules, origin, contest, is_apart=places[name] != folder))
    write_export(folder / TEAMS, _team_page(card, contest))
    write_export(folder / CARD_TEXT, _card_text(card))
    write_export(folder / CARD, json.dumps(card, indent=1) + "\n")
    return card


def _array(tokens: Tokens) -> bytes:
    """Return the content of a .npy file."""
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(tokens), allow_pickle=False)
    return file.getvalue()


def _pointers(stream: TokenStream, examples: Examples, splits: list[str]) -> str:
    """Return a CSV with the place of each example: its document and the place of its first token there.

    context: the tokens from which the target completes it, 0 if that was not asked.
    """
    output = io.StringIO()
    write_rows(output, [_COLUMNS])
    for name in splits:
        sequences = examples.splits[name]
        rows = zip(
            stream.pointers(sequences.positions),
            sequences.copies.tolist(),
            sequences.contexts.tolist(),
            examples.clusters[name].tolist(),
            strict=True,
        )
        write_rows(output, ((name, row, *pointer, *rest) for row, (pointer, *rest) in enumerate(rows)))
    return output.getvalue()


def _team_page(card: Mapping[str, Any], contest: Mapping[str, str]) -> str:
    """Return a page in Markdown that says how to take part. The last round is attacked, the one before has answers."""
    *develop, attacked = card["rounds"]
    closes = moment_text(parse_moment(contest["closes"])) if "closes" in contest else ""
    title = contest.get("title", f"Round {card['name']}")
    fields = {**card, "title": title, "closes": closes, "attacked": attacked, "develop": next(iter(develop), "")}
    return filled_in("harness.corpora", TEAMS, **fields)


def _rules_text(
    split: str,
    splits: Mapping[str, Sequences],
    rules: Rules,
    origin: Origin,
    contest: Mapping[str, str],
    *,
    is_apart: bool,
) -> str:
    """Return the TOML file of the round that attacks `split`."""
    count = len(splits[split].copies)
    fields: dict[str, str | int] = {
        "name": f"{origin.name}-{split}",
        "title": f"{count:,} sequences of {origin.corpus}, {split} split",
        "prefix_file": f"{split}_prefix.npy",
    }
    if not is_apart:
        fields["answer_file"] = f"{split}_suffix.npy"
    if TRAINING in splits:
        fields |= {"train_prefix_file": "train_prefix.npy", "train_suffix_file": "train_suffix.npy"}
    fields |= {
        "prefix_length": rules.prefix_length,
        "suffix_length": rules.suffix_length,
        "vocabulary": origin.vocabulary,
        "error_cap": max(1, count // 10),
        "budget": origin.budget,
        "target": origin.target,
        **contest,
    }
    # A basic string of TOML has the escapes of JSON.
    return "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in fields.items())


def _card(
    stream: TokenStream, examples: Examples, rules: Rules, origin: Origin, written: Mapping[str, Path]
) -> dict[str, Any]:
    """Return the data card without the names of the rounds.

    Keys:
        corpus_documents (number): Documents of the corpus.
        corpus_tokens (number): Tokens of the corpus.
        corpus_sha256 (string): SHA-256 of the tokens, with a separator after each document.
        cluster_window (number): Tokens that two examples of one cluster share.
        rules (Rules): Rules by which the examples were drawn.
        counts (object): Prefixes that were drawn, and what removed them, in the order of the steps.
        splits (object): Splits by name, each with its `examples`, the `wanted` number, its `clusters`, and `copies` by
            stratum.
        files (object): SHA-256 of arrays and pointers, by name. With `--answers-out`, the name of that directory comes
            before the answers.
    """
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
        "corpus_sha256": stream.sha256(),
        "cluster_window": rules.cluster_window,
        "rules": {**asdict(rules), "sizes": dict(rules.sizes)},
        "counts": dict(examples.counts),
        "splits": splits,
        "files": {name: file_sha256(path) for name, path in written.items()},
    }


def _distribution(copies: list[int], strata: tuple[int, ...]) -> dict[str, int]:
    """Return the number of examples of each stratum, by its name such as `2-9` or `10+`."""
    counts = {}
    for low, end in zip(strata, [*strata[1:], math.inf], strict=True):
        name = f"{low}+" if end == math.inf else f"{low}" if end == low + 1 else f"{low}-{end - 1}"
        counts[name] = sum(low <= count < end for count in copies)
    return counts


def _card_text(card: Mapping[str, Any]) -> str:
    """Return the data card as Markdown."""
    rules = card["rules"]
    copied_tokens = Filters(**rules["filters"]).copied_tokens(rules["suffix_length"])
    unhashed = f"{', '.join(card['rounds'])} and {TEAMS}"
    return filled_in(
        "harness.corpora", CARD_TEXT, **card, copied_tokens=copied_tokens, pointers=POINTERS, unhashed=unhashed
    )
