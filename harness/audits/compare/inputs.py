"""The sequences of a comparison: read from pairs, with a control, or taken from stored audits with their results."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from harness.audits.leakage.pairs import Pairs
from harness.core.arrays import Bools, Floats, Ints, mapped_array
from harness.core.audit import AuditInputs
from harness.core.errors import HarnessError


@dataclass(frozen=True)
class Stored:
    """One target of a stored audit. logprobs: [schemes, n, length], those of `SCHEMES`; top_k: of its random scheme."""

    name: str
    logprobs: Floats
    top_k: int


@dataclass(frozen=True)
class Sequences:
    """The n sequences of a comparison.

    is_control: [n], those that should not have changed. copies: [n] int64, how often each is in the training data, 0 if
    unknown. stored: the targets of stored audits, which come before the measured ones.
    """

    pairs: Pairs
    is_control: Bools
    copies: Ints
    stored: Sequence[Stored] = ()

    def to_inputs(self) -> AuditInputs:
        """Return the sequences in the form in which the run stores them."""
        inputs = self.pairs.to_inputs()
        texts = {**inputs.texts, "stored": [one.name for one in self.stored]}
        arrays = {**inputs.arrays, "is_control": self.is_control, "copies": self.copies}
        arrays |= {f"stored_{number}": one.logprobs for number, one in enumerate(self.stored)}
        return AuditInputs(texts, arrays | {"top_k": np.array([one.top_k for one in self.stored], np.int64)})

    @classmethod
    def from_inputs(cls, inputs: AuditInputs) -> "Sequences":
        """Return the sequences that `to_inputs` stored."""
        arrays = inputs.arrays
        stored = [
            Stored(name, np.asarray(arrays[f"stored_{number}"], np.float64), int(arrays["top_k"][number]))
            for number, name in enumerate(inputs.texts["stored"])
        ]
        is_control = np.asarray(arrays["is_control"], bool)
        return cls(Pairs.from_inputs(inputs), is_control, np.asarray(arrays["copies"], np.int64), stored)


def with_control(pairs: Pairs, control: Pairs | None) -> tuple[Pairs, Bools]:
    """Return the pairs and those of the control together, and which are of the control.

    Raises HarnessError if their lengths differ.
    """
    if control is None:
        return pairs, np.zeros(len(pairs), bool)
    for what, one, other in (
        ("prefixes", pairs.prefixes, control.prefixes),
        ("suffixes", pairs.suffixes, control.suffixes),
    ):
        if one.shape[1] != other.shape[1]:
            raise HarnessError(
                f"the {what} have {one.shape[1]} tokens, and those of the control {other.shape[1]}. Set "
                "--prefix-tokens and --suffix-tokens."
            )
    joined = replace(
        pairs,
        prefixes=np.concatenate([pairs.prefixes, control.prefixes]).astype(np.int64),
        suffixes=np.concatenate([pairs.suffixes, control.suffixes]).astype(np.int64),
        notes=[*pairs.notes, *control.notes],
    )
    return joined, np.repeat([False, True], [len(pairs), len(control)])


def read_copies(path: Path | None, rows: Ints, control: int) -> Ints:
    """Return how often each of the pairs `rows` [n] of the source is in the training data, and 0 for the control.

    path: an .npy file of integers [pairs of the source]. Raises HarnessError if it is not one or is too short.
    """
    if path is None:
        return np.zeros(len(rows) + control, np.int64)
    copies = np.asarray(mapped_array(path))
    if copies.ndim != 1 or not np.issubdtype(copies.dtype, np.integer):
        raise HarnessError(f"{path}: expected integers [pairs], found {copies.dtype} {list(copies.shape)}.")
    if len(rows) and int(rows.max()) >= len(copies):
        raise HarnessError(f"{path} has {len(copies):,} numbers of copies, and pair {int(rows.max()) + 1:,} needs one.")
    return np.concatenate([copies[rows].astype(np.int64), np.zeros(control, np.int64)])


def common_sequences(audits: Sequence[tuple[str, Pairs, Sequence[Stored]]]) -> Sequences:
    """Return the sequences that all stored audits have, with their results. audits: each with its id.

    Raises HarnessError if two audits have different tokenizers, another top-k or no common sequence.
    """
    first, pairs, _ = audits[0]
    keys = [_row_keys(each) for _, each, _ in audits]
    common = set(keys[0]).intersection(*map(set, keys[1:]))
    chosen = sorted(row for key, row in keys[0].items() if key in common)
    stored: list[Stored] = []
    for (name, other, results), rows_by_key in zip(audits, keys, strict=True):
        if other.tokenizer != pairs.tokenizer:
            raise HarnessError(f"{first} and {name} have different tokenizers. Compare audits of one tokenizer.")
        if not common:
            raise HarnessError(f"{first} and {name} have no sequence in common. Audit the same pairs.")
        by_row = {row: key for key, row in keys[0].items()}
        places = [rows_by_key[by_row[row]] for row in chosen]
        stored += [replace(one, logprobs=one.logprobs[:, places]) for one in results]
    if len({one.top_k for one in stored}) > 1:
        raise HarnessError(f"{first} and {audits[-1][0]} used different values of --top-k. Repeat one of them.")
    rows = np.array(chosen, np.int64)
    shared = replace(pairs, prefixes=pairs.prefixes[rows], suffixes=pairs.suffixes[rows], documents=())
    none = np.zeros(len(rows), np.int64)
    return Sequences(shared, none.astype(bool), none, stored)


def _row_keys(pairs: Pairs) -> dict[bytes, int]:
    """Return the first row of each distinct sequence, by its tokens."""
    whole = np.concatenate([pairs.prefixes, pairs.suffixes], axis=1).astype(np.int64)
    return {row.tobytes(): number for number, row in reversed(list(enumerate(whole)))}
