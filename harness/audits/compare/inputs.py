"""The parameters and the sequences of a comparison of targets: pairs with a control, or those of stored audits."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from harness.audits.leakage.inputs import PairSubject, read_pairs, stored_leakage
from harness.audits.leakage.pairs import Pairs
from harness.audits.leakage.tokens import tokens_by_sequence
from harness.audits.models import Model
from harness.audits.options import AuditParams, Preparation, Reading, StoredAudit
from harness.audits.probabilities import Scheme
from harness.audits.shared_tokenizer import SharedTokenizer
from harness.audits.sources import named_source, round_option, source_files, source_name
from harness.core.arrays import Bools, Floats, Ints, mapped_array
from harness.core.attack import Field
from harness.core.errors import HarnessError, UsageError
from harness.core.options import option
from harness.core.policy import Policy
from harness.core.text import format_number, pluralize
from harness.corpora.documents import require_fields

SCHEMES = (Scheme.GREEDY, Scheme.PLAIN, Scheme.TOP_K)
"""The schemes that are compared, in the order of stored probabilities."""
_UNKNOWN = -1


class CompareParams(AuditParams):
    """The options of the audit."""

    top_k: int = Field(10, ge=1, le=1024, description="Tokens kept by top-k.")
    queries: int = Field(1000, ge=1, le=1_000_000, description="Number of queries after which leaks are counted.")

    @property
    def policies(self) -> dict[Scheme, Policy]:
        """The policy of each of `SCHEMES`."""
        return dict(zip(SCHEMES, (Policy(top_k=1), Policy(), Policy(top_k=self.top_k)), strict=True))

    @property
    def label(self) -> str:
        """The scheme under which sequences leak, with its parameter."""
        return f"top-k {format_number(self.top_k)}"


@dataclass(frozen=True, kw_only=True)
class ComparedPairs(Pairs):
    """The n pairs of a comparison."""

    is_control: Bools
    """[n], those that should not have changed."""
    copies: Ints
    """[n] int64, how often each is in the training data, -1 if unknown."""
    targets: Sequence[str] = ()
    """The targets of stored audits, which are compared instead of models."""
    logprobs: Floats = field(default_factory=lambda: np.empty(0))
    """Their results, [targets, schemes, n, length]."""


class StoredTarget(NamedTuple):
    """One target of a stored audit: its name, its log-probabilities [schemes, n, length], and the k of top-k."""

    name: str
    logprobs: Floats
    top_k: int


def with_control(pairs: Pairs, control: Pairs | None, copies: Path | None = None) -> ComparedPairs:
    """Return the pairs and those of the control together.

    copies: a file that `read_copies` reads. Raises HarnessError if the lengths differ or a sequence is in both.
    """
    of_pairs = read_copies(copies, pairs)
    if control is None:
        return ComparedPairs(**vars(pairs), is_control=np.zeros(len(pairs), bool), copies=of_pairs)
    for part in ("prefixes", "suffixes"):
        length, of_control = (getattr(sequences, part).shape[1] for sequences in (pairs, control))
        if length != of_control:
            raise HarnessError(
                f"the {part} have {length} tokens, and the control's {part} {of_control}. Set --prefix-tokens and "
                "--suffix-tokens."
            )
    if both := len(_row_keys(pairs).keys() & _row_keys(control).keys()):
        raise HarnessError(f"the control shares {both:,} sequences with the compared pairs. Choose another control.")
    joined = replace(
        pairs,
        prefixes=np.concatenate([pairs.prefixes, control.prefixes]),
        suffixes=np.concatenate([pairs.suffixes, control.suffixes]),
        rows=np.concatenate([pairs.rows, control.rows]),
        names=[*pairs.names, *control.names] if pairs.names and control.names else [],
        notes=list(dict.fromkeys([*pairs.notes, *control.notes])),
    )
    is_control = np.repeat([False, True], [len(pairs), len(control)])
    numbers = np.concatenate([of_pairs, np.full(len(control), _UNKNOWN)])
    return ComparedPairs(**vars(joined), is_control=is_control, copies=numbers)


def read_copies(path: Path | None, pairs: Pairs) -> Ints:
    """Return how often each of the pairs is in the training data, -1 if it is unknown.

    path: an .npy file of integers, one for each pair of the source. Raises HarnessError if it is not one.
    """
    if path is None:
        return np.full(len(pairs), _UNKNOWN)
    copies = np.asarray(mapped_array(path))
    if copies.ndim != 1 or not np.issubdtype(copies.dtype, np.integer):
        raise HarnessError(f"{path}: expected one integer per pair, found {copies.dtype} {list(copies.shape)}.")
    if len(copies) != pairs.source_rows:
        raise HarnessError(
            f"{path} has {len(copies):,} numbers of copies, and there are {pairs.source_rows:,} pairs. Give one for "
            "each pair."
        )
    if len(copies) and int(copies.min()) < 0:
        raise HarnessError(f"{path}: a number of copies is negative. Write 0 or more.")
    return copies[pairs.rows].astype(np.int64)


def common_sequences(audits: Sequence[tuple[str, Pairs, Sequence[StoredTarget]]]) -> ComparedPairs:
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
    rows_by_key = [_row_keys(of_audit) for _, of_audit, _ in audits]
    keys = [key for key in (row.tobytes() for row in _whole(pairs)) if all(key in rows for rows in rows_by_key)]
    if not keys:
        raise HarnessError(f"{first} and {audits[-1][0]} have no sequence in common. Audit the same pairs.")
    targets = [(id_, target) for id_, _, of_audit in audits for target in of_audit]
    if len({target.top_k for _, target in targets}) > 1:
        raise HarnessError(
            f"{first} and {audits[-1][0]} used different values of --top-k. Run one of them again with the same value."
        )
    of_audits = (note for _, of_audit, _ in audits for note in of_audit.notes)
    notes = list(dict.fromkeys([*of_audits, *different, *tokenizer.first_token_notes()]))
    places = {id_: [rows[key] for key in keys] for (id_, _, _), rows in zip(audits, rows_by_key, strict=True)}
    for id_, of_audit, _ in audits:
        if len(keys) < len(of_audit):
            notes.append(f"{len(keys):,} of {pluralize(len(of_audit), 'sequence')} of {id_} are in all audits.")
    logprobs = np.array([target.logprobs[:, places[id_]] for id_, target in targets])  # [targets, schemes, n, length]
    # An endpoint may not have measured all sequences.
    is_known = ~np.isnan(logprobs).any(axis=(0, 1, 3))
    if not is_known.all():
        notes.append(f"Left out {pluralize(int((~is_known).sum()), 'sequence')} that some audit could not measure.")
    rows = np.array(places[first], np.int64)[is_known]
    shared = replace(
        pairs, prefixes=pairs.prefixes[rows], suffixes=pairs.suffixes[rows], rows=rows, names=(), notes=notes
    )
    # Two precisions of a model have one name.
    names = Counter(target.name for _, target in targets)
    return ComparedPairs(
        **vars(shared),
        is_control=np.zeros(len(rows), bool),
        copies=np.full(len(rows), _UNKNOWN),
        targets=[target.name if names[target.name] == 1 else f"{target.name} ({id_})" for id_, target in targets],
        logprobs=logprobs[:, :, is_known],
    )


def stored_targets(audit: StoredAudit) -> tuple[str, Pairs, list[StoredTarget]]:
    """Return the id, the pairs and the targets of a leakage audit. Raises HarnessError for another audit."""
    params, pairs, names = stored_leakage(audit)
    targets = []
    for model, name in enumerate(names):
        sequences, logprobs = tokens_by_sequence(audit.rows("token"), model, pairs.prefix_length, SCHEMES)
        if len(sequences) < len(pairs):
            raise HarnessError(f"{audit.id} has not measured all sequences for target {name}. Use harness resume.")
        targets.append(StoredTarget(name, logprobs, params.top_k))
    return audit.id, pairs, targets


def _whole(pairs: Pairs) -> Ints:
    return np.concatenate([pairs.prefixes, pairs.suffixes], axis=1).astype(np.int64)


def _row_keys(pairs: Pairs) -> dict[bytes, int]:
    """Return the first row of each distinct sequence, by its tokens."""
    return {row.tobytes(): number for number, row in reversed(list(enumerate(_whole(pairs))))}


class CompareSubject(PairSubject):
    """Compare what targets have memorized of the same sequences.

    The first --target or --run is the model before the change, the others are after it. --run reads stored audits and
    loads no model.
    """

    NEEDS = (("pairs", "round", "run"), ("target", "round", "run"))

    run: tuple[str, ...] = option(
        (),
        metavar="RUN",
        description="Leakage audit to compare, the earlier one first; repeatable.",
    )
    control: Path | None = option(
        None, metavar="PAIRS", description="Pairs or texts that the training should not affect."
    )
    control_round: str | None = round_option("Round whose examples the training should not affect.")
    copies: Path | None = option(None, metavar="FILE", description="Numbers of copies of each pair in training, .npy.")

    def read(self, params: CompareParams, preparation: Preparation) -> Reading:
        """Read the sequences of stored audits, or pairs to measure. Raises HarnessError if that fails."""
        return self._read_runs(params, preparation) if self.run else self._read_pairs(params, preparation)

    def _read_runs(self, params: CompareParams, preparation: Preparation) -> Reading:
        if options := [name for name, value in self if name not in ("run", "limit") and value not in (None, False, ())]:
            words = ["the pairs" if name == "pairs" else f"--{name.replace('_', '-')}" for name in options]
            raise UsageError(f"--run compares stored audits. Remove {' and '.join(words)}.")
        audits = [preparation.open_audit(name) for name in self.run]
        if len({audit.id for audit in audits}) < len(audits):
            raise UsageError("a run is named twice with --run. Name two audits.")
        stored = [stored_targets(audit) for audit in audits]
        pairs = common_sequences(stored)
        if len(pairs.targets) < 2:
            raise UsageError("one target is named, and a comparison needs two. Name another audit with --run.")
        params = params.changed(top_k=stored[0][2][0].top_k)
        files = {f"run {number}": audit.path for number, audit in enumerate(audits, 1)}
        return Reading(params, pairs, "runs", files, ())

    def _read_pairs(self, params: CompareParams, preparation: Preparation) -> Reading:
        require_fields(self.field, [self.pairs, self.control])
        source = named_source(self, self.pairs, self.round)
        assert source is not None
        ids, revision = self.models(source, preparation.revision)
        if len(ids) < 2:
            raise UsageError(
                f"only {ids[0]} is named, and a comparison needs two targets. Name another one with --target. "
                "Precisions of one target are compared as stored audits, with --run."
            )
        records = preparation.find_models(ids, revision=revision)
        models = [Model(record.id, record.path) for record in records]
        read = partial(read_pairs, models=models, size=self.size, limit=self.limit, seed=preparation.seed)
        control_source = named_source(self, self.control, self.control_round)
        pairs = with_control(read(source), None if control_source is None else read(control_source), self.copies)
        files = source_files("pairs", source) | source_files("control pairs", control_source)
        if self.copies is not None:
            files["copies"] = self.copies
        return Reading(params, pairs, source_name(source), files, records)
