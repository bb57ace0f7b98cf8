"""The parameters, the sequences and the tables of a comparison of targets.

Sequences are read from pairs, with a control, or taken from stored audits with their results.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from harness.audits.leakage.inputs import PairSubject, read_pairs, require_pairs, stored_leakage
from harness.audits.leakage.pairs import Pairs
from harness.audits.models import Model
from harness.audits.options import AuditParams, Preparation, Reading, StoredAudit
from harness.audits.probabilities import Scheme
from harness.audits.shared_tokenizer import SharedTokenizer
from harness.audits.sources import named_source, round_option, source_files, source_name
from harness.core.arrays import Bools, Floats, Ints, mapped_array
from harness.core.attack import Field
from harness.core.audit import AuditInputs, RowsOf
from harness.core.errors import HarnessError, UsageError
from harness.core.options import option
from harness.core.policy import Policy
from harness.core.rows import Kind, Rows, table
from harness.core.text import format_number, pluralize
from harness.corpora.documents import require_fields

SCHEMES = (Scheme.GREEDY, Scheme.PLAIN, Scheme.TOP_K)
"""The schemes that are compared, in the order of stored probabilities."""


class CompareParams(AuditParams):
    """The options of the audit."""

    top_k: int = Field(10, ge=1, le=1024, description="Tokens kept by top-k sampling; 10 as in the challenge.")
    queries: int = Field(
        1000, ge=1, le=1_000_000, description="Queries per sequence after which leaked sequences are counted."
    )

    @property
    def policies(self) -> list[Policy]:
        """The policy of each of `SCHEMES`."""
        return [Policy(top_k=1), Policy(), Policy(top_k=self.top_k)]

    @property
    def main(self) -> Scheme:
        """The random scheme under which sequences leak."""
        return Scheme.TOP_K

    @property
    def label(self) -> str:
        """The random scheme with its parameter."""
        return f"top-k {format_number(self.top_k)}"


@dataclass(frozen=True)
class Stored:
    """One target of a stored audit."""

    name: str
    logprobs: Floats
    """[schemes, n, length], those of `SCHEMES`."""
    top_k: int
    """The number of tokens that the scheme `random` samples from."""


@dataclass(frozen=True)
class Sequences:
    """The n sequences of a comparison."""

    pairs: Pairs
    is_control: Bools
    """[n], those that should not have changed."""
    copies: Ints
    """[n] int64, how often each is in the training data, -1 if unknown."""
    rows: Ints
    """[n], the row of each in its source."""
    stored: Sequence[Stored] = ()
    """The targets of stored audits, which come before the measured ones."""

    def to_inputs(self) -> AuditInputs:
        """Return the sequences in the form in which the run stores them."""
        inputs = self.pairs.to_inputs()
        texts = {**inputs.texts, "stored": [target.name for target in self.stored]}
        arrays = {**inputs.arrays, "is_control": self.is_control, "copies": self.copies, "rows": self.rows}
        arrays |= {f"stored_{number}": target.logprobs for number, target in enumerate(self.stored)}
        return AuditInputs(texts, arrays | {"top_k": np.array([target.top_k for target in self.stored], np.int64)})

    @classmethod
    def from_inputs(cls, inputs: AuditInputs) -> "Sequences":
        """Return the sequences that `to_inputs` stored."""
        arrays = inputs.arrays
        stored = [
            Stored(name, np.asarray(arrays[f"stored_{number}"], np.float64), int(arrays["top_k"][number]))
            for number, name in enumerate(inputs.texts["stored"])
        ]
        is_control = np.asarray(arrays["is_control"], bool)
        copies, rows = (np.asarray(arrays[name], np.int64) for name in ("copies", "rows"))
        return cls(Pairs.from_inputs(inputs), is_control, copies, rows, stored)


def with_control(pairs: Pairs, control: Pairs | None) -> tuple[Pairs, Bools]:
    """Return the pairs and those of the control together, and which are of the control.

    Raises HarnessError if their lengths differ or a sequence is in both.
    """
    if control is None:
        return pairs, np.zeros(len(pairs), bool)
    for part in ("prefixes", "suffixes"):
        length, of_control = (getattr(sequences, part).shape[1] for sequences in (pairs, control))
        if length != of_control:
            raise HarnessError(
                f"the {part} have {length} tokens, and those of the control {of_control}. Set --prefix-tokens and "
                "--suffix-tokens."
            )
    both = len(_row_keys(pairs).keys() & _row_keys(control).keys())
    if both:
        raise HarnessError(f"{both:,} sequences of the control are among the compared ones. Choose another control.")
    joined = replace(
        pairs,
        rows=np.concatenate([pairs.rows, control.rows]),
        names=[*pairs.names, *control.names] if pairs.names and control.names else [],
        prefixes=np.concatenate([pairs.prefixes, control.prefixes]).astype(np.int64),
        suffixes=np.concatenate([pairs.suffixes, control.suffixes]).astype(np.int64),
        notes=list(dict.fromkeys([*pairs.notes, *control.notes])),
    )
    return joined, np.repeat([False, True], [len(pairs), len(control)])


def read_copies(path: Path | None, pairs: Pairs, control: int) -> Ints:
    """Return how often each of the pairs is in the training data, and -1 for the control and if it is unknown.

    path: an .npy file of integers, one for each pair of the source. Raises HarnessError if it is not one.
    """
    if path is None:
        return np.full(len(pairs) + control, -1, np.int64)
    copies = np.asarray(mapped_array(path))
    if copies.ndim != 1 or not np.issubdtype(copies.dtype, np.integer):
        raise HarnessError(f"{path}: expected integers [pairs], found {copies.dtype} {list(copies.shape)}.")
    if len(copies) != pairs.source_rows:
        raise HarnessError(
            f"{path} has {len(copies):,} numbers of copies, and there are {pairs.source_rows:,} pairs. Give one for "
            "each pair."
        )
    if len(copies) and int(copies.min()) < 0:
        raise HarnessError(f"{path}: contains a negative number of copies.")
    return np.concatenate([copies[pairs.rows].astype(np.int64), np.full(control, -1, np.int64)])


def common_sequences(audits: Sequence[tuple[str, Pairs, Sequence[Stored]]]) -> Sequences:
    """Return the sequences that all stored audits have, with their results. audits: each with its id.

    Raises HarnessError if two audits have different tokenizers, lengths or values of top-k, or no common sequence.
    """
    first, pairs, _ = audits[0]
    tokenizer = SharedTokenizer([id_ for id_, _, _ in audits], [of_audit.tokenizer for _, of_audit, _ in audits])
    different = tokenizer.notes(_whole(of_audit) for _, of_audit, _ in audits)
    for id_, of_audit, _ in audits[1:]:
        lengths = [f"{part.prefixes.shape[1]} + {part.suffixes.shape[1]}" for part in (pairs, of_audit)]
        if lengths[0] != lengths[1]:
            raise HarnessError(
                f"{first} has sequences of {lengths[0]} tokens, and {id_} of {lengths[1]}. Audit the same pairs."
            )
    keys = [row.tobytes() for row in _whole(pairs)]
    rows_by_key = [_row_keys(of_audit) for _, of_audit, _ in audits]
    chosen = [row for row, key in enumerate(keys) if all(key in rows for rows in rows_by_key)]
    if not chosen:
        raise HarnessError(f"{first} and {audits[-1][0]} have no sequence in common. Audit the same pairs.")
    names = Counter(target.name for _, _, targets in audits for target in targets)
    stored: list[Stored] = []
    of_audits = (note for _, of_audit, _ in audits for note in of_audit.notes)
    notes = list(dict.fromkeys([*of_audits, *different, *tokenizer.first_token_notes()]))
    for (id_, of_audit, targets), rows in zip(audits, rows_by_key, strict=True):
        places = [rows[keys[row]] for row in chosen]
        for target in targets:
            # Two precisions of a model have one name.
            name = target.name if names[target.name] == 1 else f"{target.name} ({id_})"
            stored.append(Stored(name, target.logprobs[:, places], target.top_k))
        if len(chosen) < len(of_audit):
            notes.append(f"{len(chosen):,} of {pluralize(len(of_audit), 'sequence')} of {id_} are in all audits.")
    if len({target.top_k for target in stored}) > 1:
        raise HarnessError(
            f"{first} and {audits[-1][0]} used different values of --top-k. Run one of them again with the same value."
        )
    # An endpoint may not have measured all sequences.
    known = ~np.isnan(np.concatenate([target.logprobs for target in stored])).any(axis=(0, 2))
    if not known.all():
        notes.append(f"Left out {pluralize(int((~known).sum()), 'sequence')} that some audit could not measure.")
        stored = [replace(target, logprobs=target.logprobs[:, known]) for target in stored]
    places_known = np.array(chosen, np.int64)[known]
    shared = replace(pairs, prefixes=pairs.prefixes[places_known], suffixes=pairs.suffixes[places_known], notes=notes)
    number = len(places_known)
    return Sequences(shared, np.zeros(number, bool), np.full(number, -1, np.int64), places_known, stored)


def _whole(pairs: Pairs) -> Ints:
    return np.concatenate([pairs.prefixes, pairs.suffixes], axis=1).astype(np.int64)


def _row_keys(pairs: Pairs) -> dict[bytes, int]:
    """Return the first row of each distinct sequence, by its tokens."""
    return {row.tobytes(): number for number, row in reversed(list(enumerate(_whole(pairs))))}


_KEY = dict.fromkeys(("target", "sequence"), Kind.INTEGER)
TOKENS = table("token", **_KEY, **{scheme.value: Kind.REALS for scheme in SCHEMES})
"""The log-probability of each suffix token under each scheme."""
COMPLETIONS = table("completion", **_KEY, tokens=Kind.REALS)
"""The greedy completion of a prefix."""
TABLES = (TOKENS, COMPLETIONS)


@dataclass(frozen=True)
class TargetRows:
    """The rows of one target."""

    target: int
    sequences: Ints
    """[n], ascending."""
    logprobs: Floats
    """[schemes, n, length]."""
    completions: dict[int, Ints]
    """The greedy completion by sequence."""


def _by_sequence(tokens: Rows, places: Ints) -> tuple[Ints, Floats]:
    """Return the sequences of some rows, [n] ascending, and the first row's log-probabilities, [schemes, n, length]."""
    sequences, first = np.unique(np.asarray(tokens["sequence"], np.int64)[places], return_index=True)
    return sequences, np.array([np.asarray(tokens[scheme.value], np.float64)[places[first]] for scheme in SCHEMES])


def read_targets(rows: RowsOf, targets: int) -> list[TargetRows]:
    """Return the rows of each target that has some."""
    tokens, completed = rows(TOKENS.name), rows(COMPLETIONS.name)
    measured = []
    for number in range(targets):
        places = np.flatnonzero(np.asarray(tokens["target"]) == number)
        if len(places):
            completions = {
                int(completed["sequence"][place]): completed["tokens"][place].astype(np.int64)
                for place in np.flatnonzero(np.asarray(completed["target"]) == number).tolist()
            }
            measured.append(TargetRows(number, *_by_sequence(tokens, places), completions))
    return measured


class CompareSubject(PairSubject):
    """Compare what targets have memorized of the same sequences.

    The first --target or --run is before, the others are after. Audits are compared without their models.
    """

    run: tuple[str, ...] = option(
        (),
        metavar="RUN",
        description="Leakage audit whose probabilities are compared, the earlier one first; repeatable.",
    )
    control: Path | None = option(None, metavar="PAIRS", description="Pairs or texts that should not have changed.")
    control_round: str | None = round_option("Round whose examples should not have changed.")
    copies: Path | None = option(
        None, metavar="FILE", description="Copies of each pair or text in the training data, as .npy."
    )

    def read(self, params: CompareParams, preparation: Preparation) -> Reading:
        """Read the sequences of stored audits, or pairs to measure. Raises HarnessError if that fails."""
        return self._read_runs(params, preparation) if self.run else self._read_pairs(params, preparation)

    def _read_runs(self, params: CompareParams, preparation: Preparation) -> Reading:
        if named := [name for name, value in self if name not in ("run", "limit") and value not in (None, False, ())]:
            options = ["the pairs" if name == "pairs" else f"--{name.replace('_', '-')}" for name in named]
            raise UsageError(f"--run compares stored audits. Remove {' and '.join(options)}.")
        audits = [preparation.open_audit(name) for name in self.run]
        if len({audit.id for audit in audits}) < len(audits):
            raise UsageError("a run is named twice with --run. Name two audits.")
        sequences = common_sequences([stored_targets(audit) for audit in audits])
        if len(sequences.stored) < 2:
            raise UsageError("one target is named, and a comparison needs two. Name another audit with --run.")
        params = params.changed(top_k=sequences.stored[0].top_k)
        files = {f"run {number}": audit.path for number, audit in enumerate(audits, 1)}
        return Reading(params, sequences.to_inputs(), "runs", files, ())

    def _read_pairs(self, params: CompareParams, preparation: Preparation) -> Reading:
        require_fields(self.field, [self.pairs, self.control])
        source = named_source(self, self.pairs, self.round)
        source = require_pairs(source, "a file of pairs, --round, or stored audits with --run")
        ids, revision = self.models(source, preparation.revision)
        if len(ids) < 2:
            raise UsageError(
                f"only {ids[0]} is named, and a comparison needs two targets. Name another one with --target. "
                "Precisions of one target are compared as stored audits, with --run."
            )
        records = preparation.find_models(ids, revision=revision)
        models = [Model(record.id, record.path) for record in records]
        pairs, control = read_pairs(source, models, self.size, limit=self.limit, seed=preparation.seed), None
        files = source_files("pairs", source)
        if control_source := named_source(self, self.control, self.control_round):
            control = read_pairs(control_source, models, self.size, limit=self.limit, seed=preparation.seed)
            files |= {f"control {option}": path for option, path in source_files("pairs", control_source).items()}
        joined, is_control = with_control(pairs, control)
        copies = read_copies(self.copies, pairs, 0 if control is None else len(control))
        if self.copies is not None:
            files["copies"] = self.copies
        inputs = Sequences(joined, is_control, copies, joined.rows).to_inputs()
        return Reading(params, inputs, source_name(source), files, records)


def stored_targets(audit: StoredAudit) -> tuple[str, Pairs, Sequence[Stored]]:
    """Return the id, the pairs and the targets of a leakage audit. Raises HarnessError for another audit."""
    params, pairs, names = stored_leakage(audit)
    tokens = audit.rows("token")
    length = np.asarray(tokens["prefix_length"], np.int64) == pairs.prefix_length
    stored = []
    for number, name in enumerate(names):
        places = np.flatnonzero(length & (np.asarray(tokens["model"], np.int64) == number))
        # If a sequence has several rows, the last one counts.
        sequences, logprobs = _by_sequence(tokens, places[::-1])
        if len(sequences) < len(pairs):
            raise HarnessError(f"{audit.id} has not measured all sequences of {name}. Continue with harness resume.")
        stored.append(Stored(name, logprobs, params.top_k))
    return audit.id, pairs, stored
