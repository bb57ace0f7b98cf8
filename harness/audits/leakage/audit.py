"""`leakage`: how likely each sequence is to come out of each model, behind each prefix, under six decoding schemes."""

import numpy as np

from harness.audits.leakage.cutting import Marker, entity_pairs
from harness.audits.leakage.estimating import estimated, planned
from harness.audits.leakage.findings import leakage_findings
from harness.audits.leakage.pairs import Pairs
from harness.audits.leakage.params import LONGEST_FOLLOWED, MOST_ERRORS, SCHEMES, LeakageParams, Scheme
from harness.audits.leakage.probabilities import log_esp, share_of
from harness.audits.leakage.rows import INEXACT, MATCHES, MODELS, PAIRS, TABLES, TOKENS, How, pairs_measured
from harness.audits.leakage.summaries import MOST_MATCHES
from harness.audits.tokenizing import tokenizer_of
from harness.core.arrays import Floats, Ints
from harness.core.audit import Audit, AuditBatch, AuditContext, AuditInputs, RowsOf
from harness.core.errors import HarnessError
from harness.core.findings import Findings

_DOCUMENTS, _SEQUENCES, _INEXACT_SEQUENCES = 32, 64, 16
_INEXACT_WEIGHT = 8.0
"""Work of a sequence's inexact matches, where 1 is that of its exact probabilities."""
_BEST = MOST_MATCHES
"""Matches kept of each sequence and scheme: all those that are shown may be of one."""
_OFTEN = 1000


class LeakageAudit(Audit[LeakageParams]):
    """Probability of leaking each sequence."""

    name = "leakage"
    title = "Sequence-level leakage"
    reference = "Tiwari & Suh, Sequence-Level Leakage Risk of Training Data in Large Language Models, 2024"
    tables = TABLES

    def run(self, context: AuditContext) -> None:
        given = Pairs.of(context.inputs)
        if given.documents:
            self._cut(context, given)
        pairs = pairs_measured(given, context.rows, self.params)
        if not len(pairs):
            raise HarnessError(
                f"no marked entity of {self.params.entity_tokens} tokens stands behind {pairs.prefix_length} others "
                "anywhere in the corpus: ask for other sizes, or for other kinds."
            )
        lengths = _lengths(pairs, self.params)
        chosen = np.sort(np.random.default_rng(context.seed).permutation(len(pairs))[: self.params.inexact])
        models = range(len(context.models) - (1 if given.documents else 0))
        for model in models:
            for length in reversed(lengths):
                context.announce(_exact_stage(model, length), len(pairs))
            context.announce(_inexact_stage(model), len(chosen), weight=_INEXACT_WEIGHT)
        for model in models:
            for length in reversed(lengths):
                self._measure(context, pairs, model, length)
            if len(chosen):
                self._measure_inexact(context, pairs, model, chosen)

    def findings(self, inputs: AuditInputs, rows: RowsOf, models: tuple[str, ...]) -> Findings:
        given = Pairs.of(inputs)
        pairs = pairs_measured(given, rows, self.params)
        return leakage_findings(
            self.params, pairs, rows, models[:-1] if given.documents else models, _lengths(pairs, self.params)
        )

    def _cut(self, context: AuditContext, given: Pairs) -> None:
        """Cut the documents at the entities that the last model, a token classifier, marks in them."""
        assert given.tokenizer is not None
        tokenizer = tokenizer_of(given.tokenizer, "the audit's inputs")
        marker: Marker | None = None
        for batch in context.batches("cut", len(given.documents), size=_DOCUMENTS):
            marker = marker or _marker(context)
            texts = given.documents[batch.rows]
            for document, text, entities in zip(batch.items, texts, marker.find_entities(texts), strict=True):
                cuts = list(
                    entity_pairs(
                        text,
                        entities,
                        tokenizer,
                        prefix_length=given.prefix_length,
                        entity_tokens=self.params.entity_tokens,
                        kinds=self.params.entity_kinds,
                    )
                )
                if cuts:
                    context.emit(
                        PAIRS.name,
                        document=np.full(len(cuts), document),
                        start=[cut.start for cut in cuts],
                        prefix=np.array([cut.prefix for cut in cuts], float),
                        suffix=np.array([cut.suffix for cut in cuts], float),
                    )

    def _measure(self, context: AuditContext, pairs: Pairs, model: int, length: int) -> None:
        """The token probabilities of all sequences behind their prefixes' last `length` tokens."""
        is_one = len(_lengths(pairs, self.params)) == len(context.models) == 1
        tally = _Tally(context, model, length, prefix="" if is_one else f"{_exact_stage(model, length)}: ")
        policies = list(self.params.policies.values())
        for batch in context.batches(_exact_stage(model, length), len(pairs), size=_SEQUENCES):
            target = context.target(model)
            found = target.exact_logprobs(pairs.prefixes[batch.rows, -length:], pairs.suffixes[batch.rows], policies)
            if batch.items[0] == 0:
                context.emit(MODELS.name, model=[model], parameters=[target.model.num_parameters()])
            context.emit(
                TOKENS.name,
                model=np.full(len(batch.items), model),
                prefix_length=np.full(len(batch.items), length),
                sequence=batch.items,
                **{scheme.value: logprobs for scheme, logprobs in zip(SCHEMES, found, strict=True)},
            )
            tally.take(np.array([log_esp(logprobs) for logprobs in found]))

    def _measure_inexact(self, context: AuditContext, pairs: Pairs, model: int, chosen: Ints) -> None:
        """The probabilities of inexact suffixes of the `chosen` sequences, behind their whole prefixes."""
        stage = _inexact_stage(model)
        for batch in context.batches(stage, len(chosen), size=_INEXACT_SEQUENCES, weight=_INEXACT_WEIGHT):
            sequences = chosen[batch.items]
            for scheme in SCHEMES:
                if pairs.suffixes.shape[1] <= LONGEST_FOLLOWED or scheme is Scheme.GREEDY:
                    self._follow(context, pairs, model, scheme, sequences)
                else:
                    self._sample(context, pairs, model, scheme, sequences, batch)

    def _follow(self, context: AuditContext, pairs: Pairs, model: int, scheme: Scheme, sequences: Ints) -> None:
        errors = min(MOST_ERRORS, pairs.suffixes.shape[1])
        found = context.target(model).inexact_probabilities(
            pairs.prefixes[sequences],
            pairs.suffixes[sequences],
            self.params.policies[scheme],
            errors=errors,
            branches=self.params.branches,
            least=self.params.least,
            best=_BEST,
        )
        for number in range(1, errors + 1):
            probability, bound = found.probability[:, number], found.bound[:, number]
            _emit_inexact(
                context,
                model,
                sequences,
                scheme,
                errors=number,
                probability=probability,
                low=probability,
                high=np.minimum(1, probability + bound),
                how=np.where(bound > 0, How.HEAD, How.EXACT),
            )
        wrong = (found.matches != pairs.suffixes[sequences[found.row]]).sum(axis=1)
        _emit_matches(context, model, scheme, sequences[found.row], wrong, found.logprob, found.matches)

    def _sample(
        self, context: AuditContext, pairs: Pairs, model: int, scheme: Scheme, sequences: Ints, batch: AuditBatch
    ) -> None:
        """One substitution, estimated from drawn ones, which depend on the seed and the sequence alone."""
        target, policy, draws = context.target(model), self.params.policies[scheme], self.params.draws
        prefixes, suffixes = pairs.prefixes[sequences], pairs.suffixes[sequences]
        (own,) = target.exact_logprobs(prefixes, suffixes, [policy])
        generators = [np.random.default_rng([batch.seed, SCHEMES.index(scheme), int(number)]) for number in sequences]
        plans = [planned(logprobs, draws, each) for logprobs, each in zip(own, generators, strict=True)]
        uniform = np.array([each.random(draws) for each in generators])
        needed = np.flatnonzero([len(plan.positions) > 0 for plan in plans])
        # What nothing has to be drawn for is certain.
        results = [(plan.certain, plan.certain, plan.certain) for plan in plans]
        if len(needed):
            positions = np.array([plans[row].positions for row in needed])  # [needed, draws]
            drawn = target.draw_substitutes(prefixes[needed], suffixes[needed], positions, uniform[needed], policy)
            changed = np.repeat(suffixes[needed, None].astype(np.int64), draws, axis=1)  # [needed, draws, length]
            np.put_along_axis(changed, positions[:, :, None], drawn[:, :, None], axis=2)
            flat = changed.reshape(-1, suffixes.shape[1])
            (logprobs,) = target.exact_logprobs(np.repeat(prefixes[needed], draws, axis=0), flat, [policy])
            logprobs = logprobs.reshape(changed.shape)
            is_after = np.arange(suffixes.shape[1]) > positions[:, :, None]
            log_rest = np.where(is_after, logprobs, 0).sum(axis=2)  # [needed, draws]
            for place, row in enumerate(needed):
                results[row] = estimated(plans[row], log_rest[place])
            _emit_drawn_matches(context, model, scheme, sequences[needed], changed, logprobs.sum(axis=2))
        probability, low, high = np.array(results).T
        how = np.where(np.isin(np.arange(len(plans)), needed), How.SAMPLED, How.EXACT)
        _emit_inexact(context, model, sequences, scheme, errors=1, probability=probability, low=low, high=high, how=how)


def _lengths(pairs: Pairs, params: LeakageParams) -> list[int]:
    """The prefix lengths that are asked for and that the prefixes have, ascending, the whole one always among them."""
    whole = pairs.prefix_length
    return sorted({length for length in params.prefix_lengths if length <= whole} | {whole})


def _marker(context: AuditContext) -> Marker:
    # Here: it loads torch, and only audits of a corpus have a classifier.
    from harness.engine.classification import load_classifier

    order = context.models[-1]
    return load_classifier(order.path, device=order.device, dtype=order.dtype, threads=order.threads)


def _emit_inexact(
    context: AuditContext,
    model: int,
    sequences: Ints,
    scheme: Scheme,
    *,
    errors: int,
    probability: Floats,
    low: Floats,
    high: Floats,
    how: Ints,
) -> None:
    context.emit(
        INEXACT.name,
        model=np.full(len(sequences), model),
        sequence=sequences,
        scheme=np.full(len(sequences), SCHEMES.index(scheme)),
        errors=np.full(len(sequences), errors),
        probability=probability,
        low=low,
        high=high,
        how=how,
    )


def _emit_matches(
    context: AuditContext, model: int, scheme: Scheme, sequences: Ints, errors: Ints, logprobs: Floats, tokens: Ints
) -> None:
    if len(sequences):
        context.emit(
            MATCHES.name,
            model=np.full(len(sequences), model),
            sequence=sequences,
            scheme=np.full(len(sequences), SCHEMES.index(scheme)),
            errors=errors,
            logprob=logprobs,
            tokens=tokens.astype(float),
        )


def _emit_drawn_matches(
    context: AuditContext, model: int, scheme: Scheme, sequences: Ints, changed: Ints, logprobs: Floats
) -> None:
    """The likeliest distinct ones of changed [sequences, draws, length], of log-probability [sequences, draws]."""
    for sequence, tokens, likely in zip(sequences, changed, logprobs, strict=True):
        distinct, first = np.unique(tokens, axis=0, return_index=True)
        order = np.argsort(-likely[first], kind="stable")[:_BEST]
        order = order[~np.isneginf(likely[first][order])]
        count = len(order)
        _emit_matches(
            context,
            model,
            scheme,
            np.full(count, sequence),
            np.ones(count, np.int64),
            likely[first][order],
            distinct[order],
        )


class _Tally:
    """The shares of one model and prefix length so far, for who watches; those of earlier executions included."""

    def __init__(self, context: AuditContext, model: int, length: int, *, prefix: str) -> None:
        """prefix: of its figures' names, where there are other models or lengths."""
        self._context = context
        self._prefix = prefix
        rows = context.rows(TOKENS.name)
        mine = np.flatnonzero((np.asarray(rows["model"]) == model) & (np.asarray(rows["prefix_length"]) == length))
        self._sequences = len(mine)
        self._often = np.zeros(len(SCHEMES))
        self._mass = np.zeros(len(SCHEMES))
        if len(mine):
            self._add(np.array([log_esp(np.asarray(rows[scheme.value])[mine]) for scheme in SCHEMES]))

    def take(self, log_esps: Floats) -> None:
        """Count a batch, [schemes, sequences], and report."""
        self._sequences += log_esps.shape[1]
        self._add(log_esps)
        for scheme, often, mass in zip(SCHEMES, self._often, self._mass, strict=True):
            if scheme is Scheme.GREEDY:
                rate = share_of(often, self._sequences)
                name = f"{self._prefix}greedy_extraction_rate"
                self._context.figure(name, rate.value, low=rate.low, high=rate.high, of=rate.of)
                continue
            share = share_of(often, self._sequences)
            self._context.figure(
                f"{self._prefix}{scheme}_over_1_in_{_OFTEN}", share.value, low=share.low, high=share.high, of=share.of
            )
            self._context.figure(f"{self._prefix}{scheme}_mean_esp", mass / self._sequences, of=self._sequences)

    def _add(self, log_esps: Floats) -> None:
        self._often += (log_esps > -np.log(_OFTEN)).sum(axis=1)
        self._mass += np.exp(log_esps).sum(axis=1)


def _exact_stage(model: int, length: int) -> str:
    return f"model {model + 1}, {length} tokens"


def _inexact_stage(model: int) -> str:
    return f"model {model + 1}, inexact"
