"""The audit's tables, their rows as arrays, and the classes of a sequence by how its probability changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from harness.audits.leakage.pairs import LeakageParams, Pairs
from harness.audits.leakage.tokens import MODELS, TOKENS
from harness.audits.near_results import NEAR
from harness.audits.probabilities import SCHEMES, DataSet, Scheme, log_esp
from harness.core.arrays import Bools, Floats, Ints, place_among_equals
from harness.core.audit import RowsOf, last_rows
from harness.core.rows import Kind, Rows, table

PAIRS = table("pair", document=Kind.INTEGER, start=Kind.INTEGER, order=Kind.REAL, tokens=Kind.REALS)
"""Pairs cut from documents: the character at which the suffix begins, a random number in [0, 1), and all tokens."""
_MATCH_KEY = dict.fromkeys(("model", "sequence", "scheme", "errors"), Kind.INTEGER)
INEXACT = table("inexact", **_MATCH_KEY, probability=Kind.REAL, bound=Kind.REAL)
"""The probability of the suffixes with a number of substitutions that were followed, and a bound of all others."""
MATCHES = table("match", **_MATCH_KEY, logprob=Kind.REAL, tokens=Kind.REALS)
"""Likely suffixes with substitutions: their log-probability and tokens."""
TABLES = (PAIRS, MODELS, TOKENS, INEXACT, MATCHES, NEAR)
MAX_MATCHES = 100
"""The likeliest matches of each number of substitutions that are reported (Tiwari & Suh 2024, Table 2)."""
MODEL_SIZES, PREFIX_LENGTHS = "model sizes", "prefix lengths"
CLASSES = tuple(
    f"{shape}, {direction}"
    for shape in ("straight", "U-shaped", "inverted-U-shaped")
    for direction in ("increasing", "decreasing")
)
"""The source's six classes of the change of a probability over growing settings."""


@dataclass(frozen=True)
class Setting:
    """One model and prefix length."""

    model: int
    prefix_length: int
    sequences: Ints
    """The sequences that some scheme could measure, [n] int64, ascending."""
    logs: Mapping[Scheme, Floats]
    """The log ESP of each sequence, [n], NaN for one that the scheme could not measure."""
    token_means: Mapping[Scheme, Floats]
    """The mean probability of each token of the suffix, [length]."""
    unmeasured: int = 0
    """The number of other sequences, which no scheme could measure."""

    @property
    def side(self) -> str:
        """The measured part."""
        return f"prefixes of {self.prefix_length} tokens"

    def log_esp(self, scheme: Scheme, sequences: Ints) -> Floats:
        """Return the log ESP of some of the sequences, [m], under a scheme."""
        return self.logs[scheme][np.searchsorted(self.sequences, sequences)]

    def known_log_esps(self, scheme: Scheme, *common: Scheme) -> Floats:
        """Return the log ESP under a scheme of the sequences that it and the `common` ones measured, [at most n]."""
        is_known = ~np.isnan([self.logs[name] for name in (scheme, *common)]).any(axis=0)
        return self.logs[scheme][is_known]

    def data_set(self, model: str, params: LeakageParams) -> DataSet:
        """Return the results as a data set, named by the model and the prefixes."""
        labels = {scheme: params.label(scheme) for scheme in params.schemes}
        return DataSet(f"{model}, {self.side}", labels, {scheme: self.known_log_esps(scheme) for scheme in labels})


@dataclass(frozen=True)
class Measurements:
    """The rows so far, by setting."""

    parameters: Ints
    """[models], 0 for a model that was not loaded yet."""
    settings: tuple[Setting, ...]
    """The settings with rows, ordered by model size and prefix length. The last one is the reference."""
    inexact: Rows
    """The rows of `INEXACT`."""
    matches: Rows
    """The rows of `MATCHES`."""


def read_measurements(rows: RowsOf, models: int) -> Measurements:
    """Return all rows. If a sequence has several rows, the last one counts."""
    parameters = np.zeros(models, np.int64)
    sizes = rows(MODELS.name)
    parameters[np.asarray(sizes["model"], np.int64)] = sizes["parameters"]
    settings, tokens = [], rows(TOKENS.name)
    keys = np.column_stack([tokens["model"], tokens["prefix_length"]])
    for model, length in np.unique(keys, axis=0).tolist():
        part = last_rows(tokens, "sequence", model=model, prefix_length=length)
        logs = {scheme: log_esp(part[scheme.value]) for scheme in SCHEMES}
        # An endpoint may not measure a sequence under every scheme.
        is_known = ~np.isnan(list(logs.values())).all(axis=0)
        if is_known.any():
            means = {scheme: _mean_by_position(part[scheme.value], logs[scheme]) for scheme in SCHEMES}
            logs = {scheme: esps[is_known] for scheme, esps in logs.items()}
            settings.append(Setting(model, length, part["sequence"][is_known], logs, means, int((~is_known).sum())))
    # Models of equal or unknown size keep the order in which they were named.
    settings.sort(key=lambda setting: (parameters[setting.model], setting.model, setting.prefix_length))
    return Measurements(parameters, tuple(settings), rows(INEXACT.name), rows(MATCHES.name))


def measured_pairs(inputs: Pairs, rows: RowsOf) -> Pairs:
    """Return the pairs of the inputs, or a sample of those cut from their documents, by document and position."""
    if not inputs.documents:
        return inputs
    cut = rows(PAIRS.name)
    sample = np.argsort(cut["order"], kind="stable")[: inputs.limit]
    sample = sample[np.lexsort((cut["start"][sample], cut["document"][sample]))]
    length = inputs.prefix_length
    tokens = cut["tokens"].astype(np.int64).reshape(-1, length + inputs.suffixes.shape[1])[sample]
    documents = np.asarray(cut["document"], np.int64)[sample]
    return replace(inputs, prefixes=tokens[:, :length], suffixes=tokens[:, length:], rows=documents, documents=())


def likeliest_matches(matches: Rows) -> Ints:
    """Return the places of the likeliest rows of `MATCHES`, `MAX_MATCHES` of each number of errors, likeliest first.

    All rows are of one model and scheme. A match with several rows counts once. Equally likely matches are ordered by
    sequence and tokens, so the order of the rows does not matter.
    """
    tokens, sequence = np.asarray(matches["tokens"]), np.asarray(matches["sequence"])
    order = np.lexsort((*tokens.T[::-1], sequence, -np.asarray(matches["logprob"])))
    _, first = np.unique(np.column_stack([sequence, tokens])[order], axis=0, return_index=True)
    order = order[np.sort(first)]
    return order[place_among_equals(np.asarray(matches["errors"])[order]) < MAX_MATCHES]


def _mean_by_position(logprobs: Floats, log_esps: Floats) -> Floats:
    """Return the mean probability of each token of the sequences with a log ESP, [length]; NaN if none has one."""
    rows = logprobs[~np.isnan(log_esps)]
    return np.asarray(np.exp(rows).mean(axis=0)) if len(rows) else np.full(logprobs.shape[1], np.nan)


def source_classes(values: Floats) -> Bools:
    """Return which of `CLASSES` each of n sequences belongs to, [6, n] (Tiwari & Suh 2024, trends).

    values: [settings, n] ESP or any increasing function of it, at least two settings in growing order. Straight: both
    extremes are at the ends. U-shaped: the smallest is inside. Inverted: the largest is. A class increases if the last
    value exceeds the first. A sequence with both extremes inside is in two classes, one with equal ends in none. An
    extreme that an end shares with an inner setting counts as being at the end.
    """
    first, last = values[0], values[-1]
    low_inside, high_inside = values.min(axis=0) < np.minimum(first, last), values.max(axis=0) > np.maximum(first, last)
    shapes = (~low_inside & ~high_inside, low_inside, high_inside)
    return np.array([shape & direction for shape in shapes for direction in (last > first, last < first)])


@dataclass(frozen=True)
class Trend:
    """The probabilities of n sequences over growing settings, the last of which is the reference."""

    over: str
    """`MODEL_SIZES` or `PREFIX_LENGTHS`."""
    settings: Sequence[Setting]
    sequences: Ints
    """The sequences that every random scheme measured in every setting, [n] int64, ascending."""
    logs: Mapping[Scheme, Floats]
    """The log ESP under each random scheme, [settings, n]."""

    def is_easier(self, scheme: Scheme) -> Bools:
        """Return which sequences have a larger ESP in some other setting than in the last one, [n]."""
        logs = self.logs[scheme]
        return np.asarray(logs[:-1].max(axis=0) > logs[-1])


def read_trends(measurements: Measurements, schemes: Sequence[Scheme]) -> list[Trend]:
    """Return the trends over all models with the longest prefix and over all prefixes of the largest model, if any."""
    reference = measurements.settings[-1]
    growing = {
        MODEL_SIZES: [part for part in measurements.settings if part.prefix_length == reference.prefix_length],
        PREFIX_LENGTHS: [part for part in measurements.settings if part.model == reference.model],
    }
    trends = []
    for over, settings in growing.items():
        if len(settings) > 1:
            common: Ints = reduce(np.intersect1d, (setting.sequences for setting in settings))
            logs = np.array([[setting.log_esp(scheme, common) for setting in settings] for scheme in schemes])
            is_known = ~np.isnan(logs).any(axis=(0, 1))
            of_schemes = dict(zip(schemes, logs[:, :, is_known], strict=True))  # [settings, n] each
            trends.append(Trend(over, settings, common[is_known], of_schemes))
    return trends
