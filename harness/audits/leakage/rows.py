"""The audit's tables, and their rows as arrays by model, prefix length and sequence, in whatever order they came."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from harness.audits.leakage.pairs import Pairs
from harness.audits.leakage.params import SCHEMES, LeakageParams, Scheme
from harness.audits.leakage.probabilities import log_esp
from harness.core.arrays import Floats, Ints
from harness.core.audit import RowsOf
from harness.core.rows import Kind, Rows, table

PAIRS = table("pair", document=Kind.INTEGER, start=Kind.INTEGER, prefix=Kind.REALS, suffix=Kind.REALS)
"""Pairs that were cut from documents: tokens, and the character that the suffix begins at."""
MODELS = table("model", model=Kind.INTEGER, parameters=Kind.INTEGER)
TOKENS = table(
    "token",
    model=Kind.INTEGER,
    prefix_length=Kind.INTEGER,
    sequence=Kind.INTEGER,
    **{scheme.value: Kind.REALS for scheme in SCHEMES},
)
"""A sequence behind a prefix: the log-probability of each suffix token under each scheme."""
INEXACT = table(
    "inexact",
    model=Kind.INTEGER,
    sequence=Kind.INTEGER,
    scheme=Kind.INTEGER,
    errors=Kind.INTEGER,
    probability=Kind.REAL,
    low=Kind.REAL,
    high=Kind.REAL,
    how=Kind.INTEGER,
)
"""The probability of so many substitutions, and what it lies between; how: a `How`."""
MATCHES = table(
    "match",
    model=Kind.INTEGER,
    sequence=Kind.INTEGER,
    scheme=Kind.INTEGER,
    errors=Kind.INTEGER,
    logprob=Kind.REAL,
    tokens=Kind.REALS,
)
"""Suffixes with substitutions, likely ones: their log-probability and tokens."""
TABLES = (PAIRS, MODELS, TOKENS, INEXACT, MATCHES)


class How(IntEnum):
    """How an inexact probability was found, and so what low and high are."""

    EXACT = 0
    HEAD = 1
    SAMPLED = 2


@dataclass(frozen=True)
class Setting:
    """One model and prefix length. model: its number; sequences: [n] int64, ascending; log_esps: [schemes, n];
    mean_by_position: [schemes, length], the mean probability of each token."""

    model: int
    prefix_length: int
    sequences: Ints
    log_esps: Floats
    mean_by_position: Floats

    def of(self, scheme: Scheme) -> Floats:
        """[n] the log ESP under `scheme`."""
        return np.asarray(self.log_esps[SCHEMES.index(scheme)])

    def means_of(self, scheme: Scheme) -> Floats:
        """[length] the mean token probability under `scheme`."""
        return np.asarray(self.mean_by_position[SCHEMES.index(scheme)])


@dataclass(frozen=True)
class InexactOf:
    """One model, scheme and number of errors: [n] sequences, ascending, and what lies where."""

    sequences: Ints
    probability: Floats
    low: Floats
    high: Floats
    how: Ints


@dataclass(frozen=True)
class Measured:
    """Everything that was measured so far. parameters: of each model, 0 where it is not loaded yet; settings: those
    with any row, by size of the model and length; models: their numbers, smallest first."""

    parameters: Ints
    settings: tuple[Setting, ...]
    inexact: dict[tuple[int, Scheme, int], InexactOf]
    matches: Rows

    @property
    def models(self) -> list[int]:
        return list(dict.fromkeys(setting.model for setting in self.settings))

    @property
    def reference(self) -> Setting | None:
        """The largest model behind the longest prefix, of those that have rows."""
        largest = [setting for setting in self.settings if setting.model == self.models[-1]] if self.settings else []
        return largest[-1] if largest else None

    def at(self, model: int, prefix_length: int) -> Setting | None:
        """The setting of this model and length, None where it has no rows."""
        found = [one for one in self.settings if (one.model, one.prefix_length) == (model, prefix_length)]
        return found[0] if found else None


def measured(rows: RowsOf, models: int) -> Measured:
    """What all rows say; the last one of a sequence counts."""
    parameters = np.zeros(models, np.int64)
    sizes = rows(MODELS.name)
    parameters[np.asarray(sizes["model"], np.int64)] = sizes["parameters"]
    tokens = rows(TOKENS.name)
    keys = np.column_stack([np.asarray(tokens[name], np.int64) for name in ("model", "prefix_length")])
    settings = []
    for model, length in np.unique(keys, axis=0) if len(keys) else []:
        mine = np.flatnonzero((keys == (model, length)).all(axis=1))
        sequences, place = _last(np.asarray(tokens["sequence"], np.int64)[mine])
        logprobs = [np.asarray(tokens[scheme.value])[mine[place]] for scheme in SCHEMES]  # each [n, length]
        settings.append(
            Setting(
                int(model),
                int(length),
                sequences,
                np.array([log_esp(each) for each in logprobs]),
                np.array([np.exp(each).mean(axis=0) for each in logprobs]),
            )
        )
    # Equal sizes, and those not known yet, in the order in which they were named.
    settings.sort(key=lambda one: (parameters[one.model], one.model, one.prefix_length))
    return Measured(parameters, tuple(settings), _inexact(rows(INEXACT.name)), rows(MATCHES.name))


def pairs_measured(inputs: Pairs, rows: RowsOf, params: LeakageParams) -> Pairs:
    """The pairs: those given, or those that were cut from the documents so far, by document and place."""
    if not inputs.documents:
        return inputs
    cut = rows(PAIRS.name)
    document, start = (np.asarray(cut[name], np.int64) for name in ("document", "start"))
    order = np.lexsort((start, document))
    prefixes, suffixes = (np.asarray(cut[name]).astype(np.int64)[order] for name in ("prefix", "suffix"))
    if not len(order):
        prefixes = np.empty((0, inputs.prefix_length), np.int64)
        suffixes = np.empty((0, params.entity_tokens), np.int64)
    return Pairs(prefixes, suffixes, inputs.tokenizer, inputs.prefix_length, inputs.documents, inputs.notes)


def _inexact(rows: Rows) -> dict[tuple[int, Scheme, int], InexactOf]:
    model, sequence, scheme, errors, how = (
        np.asarray(rows[name], np.int64) for name in ("model", "sequence", "scheme", "errors", "how")
    )
    found = {}
    for key in np.unique(np.column_stack([model, scheme, errors]), axis=0) if len(model) else []:
        mine = np.flatnonzero((model == key[0]) & (scheme == key[1]) & (errors == key[2]))
        sequences, place = _last(sequence[mine])
        chosen = mine[place]
        probability, low, high = (np.asarray(rows[name], np.float64)[chosen] for name in ("probability", "low", "high"))
        found[int(key[0]), SCHEMES[int(key[1])], int(key[2])] = InexactOf(
            sequences, probability, low, high, how[chosen]
        )
    return found


def _last(sequences: Ints) -> tuple[Ints, Ints]:
    """The distinct sequences, ascending, and the place of the last row of each."""
    distinct, from_the_end = np.unique(sequences[::-1], return_index=True)
    return distinct, len(sequences) - 1 - from_the_end
