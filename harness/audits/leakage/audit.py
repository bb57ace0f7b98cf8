"""The leakage audit: the probability that each sequence leaks, by model, prefix length and decoding scheme."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from harness.audits.leakage.findings import leakage_findings
from harness.audits.leakage.pairs import LONGEST_FOLLOWED, MOST_ERRORS, LeakageParams, Pairs, entity_pairs
from harness.audits.leakage.results import MEASURES, MOST_MATCHES
from harness.audits.leakage.rows import (
    INEXACT,
    MATCHES,
    MODELS,
    PAIRS,
    TABLES,
    TOKENS,
    Method,
    measured_pairs,
    rows_of_setting,
)
from harness.audits.likelihoods import Likelihoods, Stage, likelihoods
from harness.audits.near_results import NEAR, NEAR_BATCH, NEAR_WEIGHT
from harness.audits.probabilities import SCHEMES, Scheme, log_esp
from harness.audits.report import share_of
from harness.core.arrays import Floats, Ints
from harness.core.audit import Audit, AuditBatch, AuditContext, AuditInputs, RowsOf
from harness.core.errors import HarnessError
from harness.core.findings import Findings
from harness.core.rows import Table
from harness.core.tokenizers import parse_tokenizer

if TYPE_CHECKING:
    from harness.audits.classifier import TokenClassifier

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
        given = Pairs.from_inputs(context.inputs)
        if given.documents:
            self._cut(context, given)
        pairs = measured_pairs(given, context.rows, self.params)
        if not len(pairs):
            raise HarnessError(
                f"the corpus contains no tagged entity of {self.params.entity_tokens} tokens after "
                f"{pairs.prefix_length} others. Set --suffix-tokens, --prefix-tokens or --entity-kinds."
            )
        lengths = _lengths(pairs, self.params)
        order = np.random.default_rng(context.seed).permutation(len(pairs))
        chosen, near = np.sort(order[: self.params.inexact]), np.sort(order[: self.params.near])
        models = range(len(context.models) - bool(given.documents))
        for model in models:
            for length in reversed(lengths):
                context.announce(_exact_stage(model, length), len(pairs))
            context.announce(_inexact_stage(model), len(chosen), weight=_INEXACT_WEIGHT)
            context.announce(_near_stage(model), len(near), weight=NEAR_WEIGHT)
        with likelihoods(self.params, context) as source:
            for model in models:
                for length in reversed(lengths):
                    self._measure(context, source, pairs, model, length)
                if len(chosen):
                    self._measure_inexact(context, pairs, model, chosen)
                self._measure_near(context, pairs, model, near)

    def findings(self, inputs: AuditInputs, rows: RowsOf, models: tuple[str, ...]) -> Findings:
        given = Pairs.from_inputs(inputs)
        pairs = measured_pairs(given, rows, self.params)
        models = self.params.model_names(models)
        targets = models[:-1] if given.documents else models
        return leakage_findings(self.params, pairs, rows, targets, _lengths(pairs, self.params))

    def _cut(self, context: AuditContext, given: Pairs) -> None:
        """Cut the documents at the entities that the last model, a token classifier, marks in them."""
        assert given.tokenizer is not None
        tokenizer = parse_tokenizer(given.tokenizer, "the audit's inputs")
        tagger: TokenClassifier | None = None
        for batch in context.batches("cut", len(given.documents), size=_DOCUMENTS):
            tagger = tagger or _load_tagger(context)
            texts = given.documents[batch.rows]
            for document, text, entities in zip(batch.items, texts, tagger.find_entities(texts), strict=True):
                cuts = entity_pairs(
                    text,
                    entities,
                    tokenizer,
                    prefix_length=given.prefix_length,
                    entity_tokens=self.params.entity_tokens,
                    kinds=self.params.entity_kinds,
                )
                _emit(
                    context,
                    PAIRS,
                    len(cuts),
                    document=document,
                    start=[cut.start for cut in cuts],
                    prefix=np.array([cut.prefix for cut in cuts], float),
                    suffix=np.array([cut.suffix for cut in cuts], float),
                )

    def _measure(self, context: AuditContext, source: Likelihoods, pairs: Pairs, model: int, length: int) -> None:
        """Measure the token probabilities of all sequences after the last `length` tokens of their prefixes."""
        is_single = len(_lengths(pairs, self.params)) == len(context.models) == 1
        prefix = "" if is_single else f"{context.model_names[model]}, {length} tokens: "
        live = _LiveShares(context, self.params.schemes, model, length, prefix=prefix)
        schemes = self.params.schemes
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
            live.add(np.array([log_esp(each) for each in logprobs]))

    def _measure_inexact(self, context: AuditContext, pairs: Pairs, model: int, chosen: Ints) -> None:
        """Measure the probabilities of inexact suffixes of the `chosen` sequences after their whole prefixes."""
        stage = _inexact_stage(model)
        for batch in context.batches(stage, len(chosen), size=_INEXACT_SEQUENCES, weight=_INEXACT_WEIGHT):
            sequences = chosen[batch.items]
            for scheme in self.params.schemes:
                if pairs.suffixes.shape[1] <= LONGEST_FOLLOWED or scheme is Scheme.GREEDY:
                    self._search(context, pairs, model, scheme, sequences)
                else:
                    self._sample(context, pairs, model, scheme, sequences, batch)

    def _measure_near(self, context: AuditContext, pairs: Pairs, model: int, chosen: Ints) -> None:
        """Bound the probability of suffixes near those of the `chosen` sequences, under top-k."""
        if not len(chosen):
            return
        from harness.audits.near_verbatim import near_probabilities  # loads torch

        tokenizer = None if pairs.tokenizer is None else parse_tokenizer(pairs.tokenizer, "the audit's inputs")
        policy = self.params.policies[Scheme.TOP_K]
        for batch in context.batches(_near_stage(model), len(chosen), size=NEAR_BATCH, weight=NEAR_WEIGHT):
            sequences = chosen[batch.items]
            prefixes, suffixes = pairs.prefixes[sequences], pairs.suffixes[sequences]
            tokens, characters = near_probabilities(
                context.target(model), prefixes, suffixes, policy, self.params, tokenizer
            )
            _emit(
                context,
                NEAR,
                len(sequences),
                model=model,
                text=0,
                sequence=sequences,
                tokens=tokens,
                characters=characters,
            )

    def _search(self, context: AuditContext, pairs: Pairs, model: int, scheme: Scheme, sequences: Ints) -> None:
        from harness.audits.leakage.inexact import inexact_probabilities  # loads torch

        errors = min(MOST_ERRORS, pairs.suffixes.shape[1])
        found = inexact_probabilities(
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
            probability, bound = found.probability[:, number], found.bound[:, number]
            parts = (probability, probability, np.minimum(1, probability + bound))
            method = np.where(bound > 0, Method.BOUNDED, Method.EXACT)
            _emit_inexact(context, parts, method, **key, sequence=sequences, errors=number)
        of = sequences[found.row]
        wrong = (found.matches != pairs.suffixes[of]).sum(axis=1)
        tokens = found.matches.astype(float)
        _emit(context, MATCHES, len(of), **key, sequence=of, errors=wrong, logprob=found.logprob, tokens=tokens)

    def _sample(
        self, context: AuditContext, pairs: Pairs, model: int, scheme: Scheme, sequences: Ints, batch: AuditBatch
    ) -> None:
        """Estimate one substitution from sampled ones, which depend on the seed and the sequence alone."""
        from harness.audits.exact import exact_logprobs  # loads torch
        from harness.audits.leakage.inexact import draw_substitutes, estimate, plan_draws

        target, policy, draws = context.target(model), self.params.policies[scheme], self.params.draws
        key = {"model": model, "scheme": SCHEMES.index(scheme), "errors": 1}
        prefixes, suffixes = pairs.prefixes[sequences], pairs.suffixes[sequences]
        (own,) = exact_logprobs(target, prefixes, suffixes, [policy])
        generators = [np.random.default_rng([batch.seed, SCHEMES.index(scheme), int(number)]) for number in sequences]
        plans = [plan_draws(logprobs, draws, each) for logprobs, each in zip(own, generators, strict=True)]
        uniform = np.array([each.random(draws) for each in generators])
        needed = np.flatnonzero([len(plan.positions) > 0 for plan in plans])
        # Without positions to sample the probability is exact.
        results = [(plan.certain, plan.certain, plan.certain) for plan in plans]
        if len(needed):
            positions = np.array([plans[row].positions for row in needed])  # [needed, draws]
            drawn = draw_substitutes(target, prefixes[needed], suffixes[needed], positions, uniform[needed], policy)
            changed = np.repeat(suffixes[needed, None].astype(np.int64), draws, axis=1)  # [needed, draws, length]
            np.put_along_axis(changed, positions[:, :, None], drawn[:, :, None], axis=2)
            flat = changed.reshape(-1, suffixes.shape[1])
            (logprobs,) = exact_logprobs(target, np.repeat(prefixes[needed], draws, axis=0), flat, [policy])
            logprobs = logprobs.reshape(changed.shape)
            is_after = np.arange(suffixes.shape[1]) > positions[:, :, None]
            log_rest = np.where(is_after, logprobs, 0).sum(axis=2)  # [needed, draws]
            for place, row in enumerate(needed):
                results[row] = estimate(plans[row], log_rest[place])
                tokens, likely = _distinct_matches(changed[place], logprobs[place].sum(axis=1))
                _emit(
                    context,
                    MATCHES,
                    len(tokens),
                    **key,
                    sequence=sequences[row],
                    logprob=likely,
                    tokens=tokens.astype(float),
                )
        method = np.where(np.isin(np.arange(len(plans)), needed), Method.SAMPLED, Method.EXACT)
        _emit_inexact(context, np.array(results).T, method, **key, sequence=sequences)


def _lengths(pairs: Pairs, params: LeakageParams) -> list[int]:
    """Return the requested prefix lengths that the prefixes have, ascending, and always the whole one."""
    whole = pairs.prefix_length
    return sorted({length for length in params.prefix_lengths if length <= whole} | {whole})


def _load_tagger(context: AuditContext) -> "TokenClassifier":
    from harness.audits.classifier import load_classifier  # loads torch, and only a corpus needs a classifier

    config = context.models[-1]
    return load_classifier(config.path, device=config.device, dtype=config.dtype, threads=config.threads)


def _emit(context: AuditContext, table: Table, rows: int, **columns: ArrayLike) -> None:
    """Emit `rows` rows, if any; a single number fills its column."""
    if rows:
        filled = {name: np.full(rows, value) if np.ndim(value) == 0 else value for name, value in columns.items()}
        context.emit(table.name, **filled)


def _emit_inexact(context: AuditContext, parts: Iterable[Floats], method: Ints, **key: ArrayLike) -> None:
    """Emit inexact probabilities and their bounds, [n] each."""
    probability, low, high = parts
    _emit(context, INEXACT, len(method), **key, probability=probability, low=low, high=high, how=method)


def _distinct_matches(tokens: Ints, logprobs: Floats) -> tuple[Ints, Floats]:
    """Return the likeliest distinct rows of `tokens` [draws, length] that a scheme can draw, and their logprobs."""
    distinct, first = np.unique(tokens, axis=0, return_index=True)
    likely = logprobs[first]
    order = np.argsort(-likely, kind="stable")[:MOST_MATCHES]
    order = order[~np.isneginf(likely[order])]
    return distinct[order], likely[order]


class _LiveShares:
    """The shares of one model and prefix length so far, those of earlier executions included."""

    def __init__(
        self, context: AuditContext, schemes: Sequence[Scheme], model: int, length: int, *, prefix: str
    ) -> None:
        """schemes: those that are measured. prefix: of the figures' names, if there are other models or lengths."""
        self._context = context
        self._schemes = schemes
        self._prefix = prefix
        rows = context.rows(TOKENS.name)
        places = rows_of_setting(rows, model, length)
        self._sequences = np.zeros(len(schemes), np.int64)
        self._leaked = np.zeros(len(schemes))
        self._esp_sums = np.zeros(len(schemes))
        if len(places):
            self._count(np.array([log_esp(np.asarray(rows[scheme.value])[places]) for scheme in schemes]))

    def add(self, log_esps: Floats) -> None:
        """Count a batch, [schemes, sequences], and report."""
        self._count(log_esps)
        for scheme, number, leaked, esp_sum in zip(
            self._schemes, self._sequences.tolist(), self._leaked, self._esp_sums, strict=True
        ):
            if not number:
                continue
            is_greedy = scheme is Scheme.GREEDY
            name = "greedy extracted" if is_greedy else f"{scheme} ESP > 1/{_LIVE_QUERIES}"
            share = share_of(leaked, number)
            self._context.figure(f"{self._prefix}{name}", share.value, low=share.low, high=share.high, of=share.of)
            if not is_greedy:
                self._context.figure(f"{self._prefix}{scheme} mean ESP", esp_sum / number, of=number)

    def _count(self, log_esps: Floats) -> None:
        self._sequences += (~np.isnan(log_esps)).sum(axis=1)
        self._leaked += (log_esps > -np.log(_LIVE_QUERIES)).sum(axis=1)
        self._esp_sums += np.nansum(np.exp(log_esps), axis=1)


def _exact_stage(model: int, length: int) -> str:
    return f"model {model + 1}, {length} tokens"


def _near_stage(model: int) -> str:
    return f"model {model + 1}, near-verbatim"


def _inexact_stage(model: int) -> str:
    return f"model {model + 1}, inexact"
