"""The audit's tables, their rows as arrays, and the classes of a sequence by how its probability changes.

A sequence's probability changes over growing settings: model sizes, or prefix lengths. The source's six classes of such
changes overlap; a partition is reported beside them.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum

import numpy as np

from harness.audits.leakage.pairs import LeakageParams, Pairs
from harness.audits.near_results import NEAR
from harness.audits.probabilities import SCHEMES, Scheme, log_esp
from harness.core.arrays import Bools, Floats, Ints
from harness.core.audit import RowsOf
from harness.core.rows import Kind, Rows, table

PAIRS = table("pair", document=Kind.INTEGER, start=Kind.INTEGER, prefix=Kind.REALS, suffix=Kind.REALS)
"""Pairs cut from documents: their tokens, and the character at which the suffix begins."""
MODELS = table("model", model=Kind.INTEGER, parameters=Kind.INTEGER)
TOKENS = table(
    "token",
    model=Kind.INTEGER,
    prefix_length=Kind.INTEGER,
    sequence=Kind.INTEGER,
    **{scheme.value: Kind.REALS for scheme in SCHEMES},
)
"""A sequence after a prefix: the log-probability of each suffix token under each scheme."""
_MATCH_KEY = dict.fromkeys(("model", "sequence", "scheme", "errors"), Kind.INTEGER)
INEXACT = table("inexact", **_MATCH_KEY, probability=Kind.REAL, low=Kind.REAL, high=Kind.REAL, how=Kind.INTEGER)
"""The probability of a number of substitutions, with its bounds. how: a `Method`."""
MATCHES = table("match", **_MATCH_KEY, logprob=Kind.REAL, tokens=Kind.REALS)
"""Likely suffixes with substitutions: their log-probability and tokens."""
TABLES = (PAIRS, MODELS, TOKENS, INEXACT, MATCHES, NEAR)


class Method(IntEnum):
    """The kind of an inexact probability: exact, a sum whose rest is bounded, or an estimate with a 95 % interval."""

    EXACT = 0
    BOUNDED = 1
    SAMPLED = 2


@dataclass(frozen=True)
class Setting:
    """One model and prefix length.

    model: its number. sequences: [n] int64, ascending, measured under some scheme. log_esps: [schemes, n], NaN for a
    sequence that a scheme could not measure. mean_by_position: [schemes, length], the mean probability of each token.
    unmeasured: the number of other sequences, which no scheme could measure.
    """

    model: int
    prefix_length: int
    sequences: Ints
    log_esps: Floats
    mean_by_position: Floats
    unmeasured: int = 0

    def log_esp(self, scheme: Scheme) -> Floats:
        """Return the log ESP of each sequence under `scheme`, [n], NaN for one that it could not measure."""
        return np.asarray(self.log_esps[SCHEMES.index(scheme)])

    def measured_log_esp(self, scheme: Scheme, *others: Scheme) -> Floats:
        """Return the log ESP under `scheme` of the sequences that it and the `others` could measure, [at most n]."""
        is_known = ~np.isnan([self.log_esp(each) for each in (scheme, *others)]).any(axis=0)
        return self.log_esp(scheme)[is_known]

    def position_means(self, scheme: Scheme) -> Floats:
        """The mean token probability under `scheme`, [length]."""
        return np.asarray(self.mean_by_position[SCHEMES.index(scheme)])


@dataclass(frozen=True)
class InexactRows:
    """One model, scheme and number of errors. sequences: [n], ascending; probability, low, high, method: [n]."""

    sequences: Ints
    probability: Floats
    low: Floats
    high: Floats
    method: Ints


@dataclass(frozen=True)
class Measurements:
    """All rows so far.

    parameters: [models], 0 for a model that was not loaded yet. settings: those with rows, ordered by model size and
    prefix length. inexact: by model, scheme and number of errors. matches: rows of `MATCHES`.
    """

    parameters: Ints
    settings: tuple[Setting, ...]
    inexact: dict[tuple[int, Scheme, int], InexactRows]
    matches: Rows

    @property
    def models(self) -> list[int]:
        """The numbers of the models with rows, smallest model first."""
        return list(dict.fromkeys(setting.model for setting in self.settings))

    @property
    def reference(self) -> Setting | None:
        """The largest model with the longest prefix among those with rows."""
        return self.settings[-1] if self.settings else None

    def setting(self, model: int, prefix_length: int) -> Setting | None:
        """Return the setting of this model and prefix length, or None without rows."""
        keys = [(setting.model, setting.prefix_length) for setting in self.settings]
        return self.settings[keys.index((model, prefix_length))] if (model, prefix_length) in keys else None


def read_measurements(rows: RowsOf, models: int) -> Measurements:
    """Return all rows. If a sequence has several rows, the last one counts."""
    parameters = np.zeros(models, np.int64)
    sizes = rows(MODELS.name)
    parameters[np.asarray(sizes["model"], np.int64)] = sizes["parameters"]
    tokens = rows(TOKENS.name)
    settings = []
    for (model, length), sequences, places in _grouped(tokens, ("model", "prefix_length")):
        esps = np.array([log_esp(np.asarray(tokens[scheme.value])[places]) for scheme in SCHEMES])
        # An endpoint may not measure a sequence under every scheme.
        is_known = ~np.isnan(esps).all(axis=0)
        if not is_known.any():
            continue
        sequences, places, unmeasured = sequences[is_known], places[is_known], int((~is_known).sum())
        esps = esps[:, is_known]
        means = np.array(
            [
                _mean_by_position(np.asarray(tokens[scheme.value])[places], esp)
                for scheme, esp in zip(SCHEMES, esps, strict=True)
            ]
        )
        settings.append(Setting(model, length, sequences, esps, means, unmeasured))
    # Models of equal or unknown size keep the order in which they were named.
    settings.sort(key=lambda setting: (parameters[setting.model], setting.model, setting.prefix_length))
    inexact = {}
    found = rows(INEXACT.name)
    for (model, scheme, errors), sequences, places in _grouped(found, ("model", "scheme", "errors")):
        probability, low, high = (
            np.asarray(found[name], np.float64)[places] for name in ("probability", "low", "high")
        )
        method = np.asarray(found["how"], np.int64)[places]
        inexact[model, SCHEMES[scheme], errors] = InexactRows(sequences, probability, low, high, method)
    return Measurements(parameters, tuple(settings), inexact, rows(MATCHES.name))


def rows_of_setting(tokens: Rows, model: int, prefix_length: int) -> Ints:
    """Return the places of the rows of `TOKENS` with this model and prefix length, ascending."""
    is_setting = (np.asarray(tokens["model"]) == model) & (np.asarray(tokens["prefix_length"]) == prefix_length)
    return np.flatnonzero(is_setting)


def _mean_by_position(logprobs: Floats, log_esps: Floats) -> Floats:
    """Return the mean probability of each token of the sequences with a log ESP, [length]; NaN if none has one."""
    known = logprobs[~np.isnan(log_esps)]
    return np.asarray(np.exp(known).mean(axis=0)) if len(known) else np.full(logprobs.shape[1], np.nan)


def measured_pairs(inputs: Pairs, rows: RowsOf, params: LeakageParams) -> Pairs:
    """Return the given pairs, or those cut from the documents so far, ordered by document and position."""
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


def _grouped(rows: Rows, names: tuple[str, ...]) -> list[tuple[tuple[int, ...], Ints, Ints]]:
    """Group rows by the columns `names`: each key, its sequences, ascending, and the place of each's last row."""
    keys = np.column_stack([np.asarray(rows[name], np.int64) for name in names])
    sequence = np.asarray(rows["sequence"], np.int64)
    groups = []
    for key in np.unique(keys, axis=0) if len(keys) else []:
        places = np.flatnonzero((keys == key).all(axis=1))[::-1]
        sequences, last = np.unique(sequence[places], return_index=True)
        groups.append((tuple(key.tolist()), sequences, places[last]))
    return groups


class Shape(StrEnum):
    """The positions of the largest and the smallest probability."""

    STRAIGHT = "straight"
    U = "U-shaped"
    INVERTED_U = "inverted-U-shaped"
    BOTH = "largest and smallest inside"
    LEVEL = "ends equal"


CLASSES = tuple((shape, is_up) for shape in (Shape.STRAIGHT, Shape.U, Shape.INVERTED_U) for is_up in (True, False))
"""The source's six classes: a shape, and whether it increases."""
PARTS = (*CLASSES, (Shape.BOTH, True), (Shape.BOTH, False), (Shape.LEVEL, True))
"""The partition."""


def class_name(shape: Shape, is_up: bool) -> str:
    """Return the name of a class in reports."""
    return shape.value if shape is Shape.LEVEL else f"{shape.value}, {'increasing' if is_up else 'decreasing'}"


def source_classes(values: Floats) -> Bools:
    """Return which of `CLASSES` each of n sequences belongs to, [6, n] (Tiwari & Suh 2024, trends).

    values: [settings, n] ESP or any increasing function of it, at least two settings in growing order. Straight: both
    extremes are at the ends. U-shaped: the smallest is inside. Inverted: the largest is. A class increases if the last
    value exceeds the first. A sequence with both extremes inside is in two classes, one with equal ends in none. An
    extreme that an end shares with an inner setting counts as being at the end.
    """
    low_inside, high_inside = _extremes_inside(values)
    return _by_direction(values, ~low_inside & ~high_inside, low_inside, high_inside)


def partition(values: Floats) -> Bools:
    """Return which one of `PARTS` each sequence belongs to, [9, n].

    The parts are the source's classes, but sequences with both extremes inside or with equal ends have their own.
    """
    low_inside, high_inside = _extremes_inside(values)
    both = low_inside & high_inside
    parts = _by_direction(values, ~low_inside & ~high_inside, low_inside & ~both, high_inside & ~both, both)
    return np.concatenate([parts, [values[0] == values[-1]]])


def _extremes_inside(values: Floats) -> tuple[Bools, Bools]:
    """Return where the smallest value is below both ends, and where the largest is above both, [n] each."""
    return values.min(axis=0) < np.minimum(values[0], values[-1]), values.max(axis=0) > np.maximum(
        values[0], values[-1]
    )


def _by_direction(values: Floats, *shapes: Bools) -> Bools:
    """Return each of `shapes` [n] divided into sequences that increase and that decrease, [2 * shapes, n]."""
    directions = (values[-1] > values[0], values[-1] < values[0])
    return np.array([shape & direction for shape in shapes for direction in directions])
