"""The leakage audit: the probability that each sequence leaks, by model, prefix length and decoding scheme."""

import numpy as np
from numpy.typing import ArrayLike

from harness.audits.leakage.findings import leakage_findings
from harness.audits.leakage.pairs import MOST_ERRORS, LeakageParams, Pairs, entity_pairs
from harness.audits.leakage.results import MEAN_ESP, MEASURES, OVER
from harness.audits.leakage.rows import (
    INEXACT,
    MATCHES,
    MODELS,
    MOST_MATCHES,
    PAIRS,
    TABLES,
    TOKENS,
    likeliest_matches,
    measured_pairs,
    rows_of_setting,
    side_of,
)
from harness.audits.likelihoods import Likelihoods, Stage, likelihoods
from harness.audits.near_results import NEAR_WEIGHT, measure_near, near_stage
from harness.audits.probabilities import SCHEMES, Scheme, log_esp
from harness.audits.report import report_live, share_of
from harness.core.arrays import Floats, Ints
from harness.core.audit import Audit, AuditContext, AuditInputs, RowsOf
from harness.core.errors import HarnessError
from harness.core.findings import Findings
from harness.core.measures import Estimate, MeasureRow
from harness.core.rows import Table
from harness.core.spec import TargetConfig
from harness.core.tokenizers import parse_tokenizer

_DOCUMENTS, _SEQUENCES, _INEXACT_SEQUENCES = 32, 64, 16  # per batch
_INEXACT_WEIGHT = 8.0
"""Work for a sequence's inexact matches, relative to its exact probabilities."""
_LIVE_QUERIES = 1000


class LeakageAudit(Audit[LeakageParams]):
    """Probability that each sequence leaks."""

    name = "leakage"
    title = "Sequence-level leakage"
    reference = "Tiwari & Suh, Sequence-Level Leakage Risk of Training Data in Large Language Models, 2024"
    tables = TABLES
    measures = MEASURES

    def run(self, context: AuditContext) -> None:
        inputs = Pairs.from_inputs(context.inputs)
        targets, tagger = inputs.split_models(context.models)
        if tagger is not None:
            self._cut(context, inputs, tagger)
        pairs = measured_pairs(inputs, context.rows)
        if not len(pairs):
            raise HarnessError(
                f"the corpus contains no tagged entity of {pairs.suffixes.shape[1]} tokens after "
                f"{pairs.prefix_length} others. Set --suffix-tokens, --prefix-tokens or --entity-kinds."
            )
        lengths = _lengths(pairs, self.params)
        order = np.random.default_rng(context.seed).permutation(len(pairs))
        inexact, near = (np.sort(order[:size]) for size in (self.params.inexact_sequences(pairs), self.params.near))
        models = range(len(targets))
        for model in models:
            for length in reversed(lengths):
                context.announce(_exact_stage(model, length), len(pairs))
            context.announce(_inexact_stage(model), len(inexact), weight=_INEXACT_WEIGHT)
            context.announce(near_stage(model), len(near), weight=NEAR_WEIGHT)
        tokenizer = None if pairs.tokenizer is None else parse_tokenizer(pairs.tokenizer, "the audit's inputs")
        with likelihoods(self.params, context) as source:
            for model in models:
                for length in reversed(lengths):
                    self._measure(context, source, pairs, model, length)
                if len(inexact):
                    self._measure_inexact(context, pairs, model, inexact)
                policy = self.params.policies[Scheme.TOP_K]
                near_pairs = (pairs.prefixes[near], pairs.suffixes[near])
                measure_near(context, self.params, policy, model, tokenizer, near_pairs, (np.zeros_like(near), near))

    def findings(self, inputs: AuditInputs, rows: RowsOf, models: tuple[str, ...]) -> Findings:
        read = Pairs.from_inputs(inputs)
        targets, _ = read.split_models(self.params.model_names(models))
        pairs = measured_pairs(read, rows)
        return leakage_findings(self.params, pairs, rows, targets, _lengths(pairs, self.params))

    def _cut(self, context: AuditContext, inputs: Pairs, tagger: TargetConfig) -> None:
        """Cut the documents at the entities that the tagger, a token classifier, marks in them."""
        from harness.audits.classifier import load_classifier  # loads torch

        assert inputs.tokenizer is not None
        tokenizer, classifier = parse_tokenizer(inputs.tokenizer, "the audit's inputs"), None
        for batch in context.batches("cut", len(inputs.documents), size=_DOCUMENTS):
            classifier = classifier or load_classifier(
                tagger.path, device=tagger.device, dtype=tagger.dtype, threads=tagger.threads
            )
            texts = inputs.documents[batch.rows]
            for document, text, entities in zip(batch.items, texts, classifier.find_entities(texts), strict=True):
                cuts = list(entity_pairs(text, entities, tokenizer, inputs, self.params.entity_kinds))
                order = np.random.default_rng([batch.seed, int(document)]).random(len(cuts))
                starts, tokens = zip(*cuts, strict=True) if cuts else ((), ())
                _emit(context, PAIRS, len(cuts), document=document, start=starts, order=order, tokens=tokens)

    def _measure(self, context: AuditContext, source: Likelihoods, pairs: Pairs, model: int, length: int) -> None:
        """Measure the token probabilities of all sequences after the last `length` tokens of their prefixes."""
        schemes = self.params.schemes
        live = _LiveShares(context, self.params, model, length)
        policies = [self.params.policies[scheme] for scheme in schemes]
        rows = context.rows(TOKENS.name)
        stage = Stage(
            _exact_stage(model, length),
            len(pairs),
            lambda chosen: (pairs.prefixes[chosen, -length:], pairs.suffixes[chosen]),
            size=_SEQUENCES,
            done=np.asarray(rows["sequence"], np.int64)[rows_of_setting(rows, model, length)],
        )
        for sequences, logprobs in source.exact_logprobs(model, stage, policies):
            if sequences[0] == 0 and self.params.endpoint is None:
                context.emit(MODELS.name, model=[model], parameters=[context.target(model).model.num_parameters()])
            measured = dict(zip(schemes, logprobs, strict=True))
            unasked = np.full(logprobs.shape[1:], np.nan)
            by_scheme = {scheme.value: measured.get(scheme, unasked) for scheme in SCHEMES}
            _emit(context, TOKENS, len(sequences), model=model, prefix_length=length, sequence=sequences, **by_scheme)
            live.add(log_esp(logprobs))

    def _measure_inexact(self, context: AuditContext, pairs: Pairs, model: int, chosen: Ints) -> None:
        """Measure the probabilities of inexact suffixes of the `chosen` sequences after their whole prefixes."""
        from harness.audits.leakage.inexact import inexact_probabilities  # loads torch

        errors = min(MOST_ERRORS, pairs.suffixes.shape[1])
        batches = context.batches(_inexact_stage(model), len(chosen), size=_INEXACT_SEQUENCES, weight=_INEXACT_WEIGHT)
        for batch in batches:
            sequences = chosen[batch.items]
            for scheme in self.params.schemes:
                inexact = inexact_probabilities(
                    context.target(model),
                    pairs.prefixes[sequences],
                    pairs.suffixes[sequences],
                    self.params.policies[scheme],
                    errors=errors,
                    branches=self.params.branches,
                    least=self.params.least,
                    best=MOST_MATCHES,  # all matches that are shown may be of one sequence
                )
                key = {"model": model, "scheme": SCHEMES.index(scheme)}
                for number in range(1, errors + 1):
                    _emit(
                        context,
                        INEXACT,
                        len(sequences),
                        **key,
                        sequence=sequences,
                        errors=number,
                        probability=inexact.probability[:, number],
                        bound=inexact.bound[:, number],
                    )
                matched = sequences[inexact.row]
                columns = {
                    "sequence": matched,
                    "errors": (inexact.matches != pairs.suffixes[matched]).sum(axis=1),
                    "logprob": inexact.logprob,
                    "tokens": inexact.matches.astype(float),
                }
                likeliest = likeliest_matches(columns)
                kept = {name: values[likeliest] for name, values in columns.items()}
                _emit(context, MATCHES, len(likeliest), **key, **kept)


def _lengths(pairs: Pairs, params: LeakageParams) -> list[int]:
    """Return the requested prefix lengths that the prefixes have, ascending, and always the whole one."""
    whole = pairs.prefix_length
    return sorted({length for length in params.prefix_lengths if length <= whole} | {whole})


def _emit(context: AuditContext, table: Table, rows: int, **columns: ArrayLike) -> None:
    """Emit `rows` rows, if any; a single number fills its column."""
    if rows:
        filled = {name: np.full(rows, value) if np.ndim(value) == 0 else value for name, value in columns.items()}
        context.emit(table.name, **filled)


class _LiveShares:
    """The shares of one model and prefix length so far, those of earlier executions included."""

    def __init__(self, context: AuditContext, params: LeakageParams, model: int, length: int) -> None:
        self._context = context
        self._model, self._side = context.model_names[model], side_of(length)
        self._labels = [params.label(scheme) for scheme in params.schemes]
        self._sequences, self._over, self._esps = (np.zeros(len(params.schemes)) for _ in range(3))
        rows = context.rows(TOKENS.name)
        places = rows_of_setting(rows, model, length)
        if len(places):
            self._count(np.array([log_esp(np.asarray(rows[scheme.value])[places]) for scheme in params.schemes]))

    def add(self, log_esps: Floats) -> None:
        """Count a batch, [schemes, sequences], and report."""
        self._count(log_esps)
        columns = (self._labels, self._sequences.astype(int).tolist(), self._over.tolist(), self._esps.tolist())
        for case, number, over, esps in zip(*columns, strict=True):
            if number:
                mean = Estimate(esps / number, of=number)
                report_live(self._context, MeasureRow(MEAN_ESP, mean, self._model, self._side, case))
                share = share_of(over, number)
                report_live(self._context, MeasureRow(OVER, share, self._model, self._side, case, _LIVE_QUERIES))

    def _count(self, log_esps: Floats) -> None:
        self._sequences += (~np.isnan(log_esps)).sum(axis=1)
        self._over += (log_esps > -np.log(_LIVE_QUERIES)).sum(axis=1)
        self._esps += np.nansum(np.exp(log_esps), axis=1)


def _exact_stage(model: int, length: int) -> str:
    return f"model {model + 1}, {length} tokens"


def _inexact_stage(model: int) -> str:
    return f"model {model + 1}, inexact"
