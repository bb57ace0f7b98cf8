"""The leakage audit: the probability that each sequence leaks, by model, prefix length and decoding scheme."""

import numpy as np

from harness.audits.leakage.findings import leakage_findings
from harness.audits.leakage.measures import MEAN_ESP, MEASURES, OVER
from harness.audits.leakage.pairs import MAX_ERRORS, LeakageParams, Pairs, entity_pairs
from harness.audits.leakage.rows import (
    INEXACT,
    MATCHES,
    MAX_MATCHES,
    PAIRS,
    TABLES,
    likeliest_matches,
    measured_pairs,
)
from harness.audits.leakage.tokens import measure_tokens, stage_of_tokens
from harness.audits.likelihoods import exact_weight, likelihoods
from harness.audits.near_results import measure_near, near_stage
from harness.audits.probabilities import SCHEMES, Scheme
from harness.core.arrays import Ints
from harness.core.audit import Audit, AuditContext, RowsOf
from harness.core.errors import HarnessError
from harness.core.findings import Findings
from harness.core.spec import TargetConfig
from harness.core.tokenizers import parse_tokenizer

_DOCUMENTS, _INEXACT_SEQUENCES = 32, 1  # per batch


class LeakageAudit(Audit[LeakageParams]):
    """Probability that each sequence leaks."""

    name = "leakage"
    title = "Sequence-level leakage"
    reference = "Tiwari & Suh, Sequence-Level Leakage Risk of Training Data in Large Language Models, 2024"
    tables = TABLES
    measures = MEASURES
    live = (MEAN_ESP, (OVER, 1_000))
    inputs_type = Pairs

    def run(self, context: AuditContext) -> None:
        inputs: Pairs = context.inputs
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
                context.announce(
                    stage_of_tokens(model, length), len(pairs), weight=exact_weight(len(self.params.schemes))
                )
            context.announce(_inexact_stage(model), len(inexact), weight=self._inexact_weight(pairs))
            context.announce(near_stage(model), len(near), weight=self.params.near_weight(len(near)))
        tokenizer = None if pairs.tokenizer is None else parse_tokenizer(pairs.tokenizer, "the audit's inputs")
        policies = {scheme: self.params.policies[scheme] for scheme in self.params.schemes}
        with likelihoods(self.params, context) as source:
            for model in models:
                for length in reversed(lengths):
                    measure_tokens(context, source, pairs, policies, model, length)
                if len(inexact):
                    self._measure_inexact(context, pairs, model, inexact)
                near_pairs, keys = (pairs.prefixes[near], pairs.suffixes[near]), (np.zeros_like(near), near)
                measure_near(context, self.params, policies[Scheme.TOP_K], model, tokenizer, near_pairs, keys)

    def findings(self, inputs: Pairs, rows: RowsOf, models: tuple[str, ...]) -> Findings:
        targets, _ = inputs.split_models(self.params.model_names(models))
        pairs = measured_pairs(inputs, rows)
        return leakage_findings(self.params, pairs, rows, targets, _lengths(pairs, self.params))

    def _cut(self, context: AuditContext, inputs: Pairs, tagger: TargetConfig) -> None:
        """Cut the documents at the entities that the tagger, a token classifier, marks in them."""
        from harness.audits.classifier import load_classifier  # loads torch

        assert inputs.tokenizer is not None
        tokenizer, classifier = parse_tokenizer(inputs.tokenizer, "the audit's inputs"), None
        for batch in context.batches("cut", len(inputs.documents), size=_DOCUMENTS):
            if classifier is None:
                with context.loading():
                    classifier = load_classifier(tagger.path, **tagger.loading)
            texts = inputs.documents[batch.rows]
            for document, text, entities in zip(batch.items, texts, classifier.find_entities(texts), strict=True):
                cuts = list(entity_pairs(text, entities, tokenizer, inputs, self.params.entity_kinds))
                order = np.random.default_rng([batch.seed, int(document)]).random(len(cuts))
                if cuts:
                    starts, tokens = zip(*cuts, strict=True)
                    context.emit(PAIRS.name, document=document, start=starts, order=order, tokens=tokens)

    def _inexact_weight(self, pairs: Pairs) -> float:
        """Return the work for a sequence's inexact matches, relative to a pass over it, as on Gemma 3 270M."""
        suffix = int(pairs.suffixes.shape[1])
        return 2 * len(self.params.schemes) * self.params.branches * suffix / (pairs.prefix_length + suffix)

    def _measure_inexact(self, context: AuditContext, pairs: Pairs, model: int, sample: Ints) -> None:
        """Measure the probabilities of inexact suffixes of the sequences in `sample` after their whole prefixes."""
        from harness.audits.leakage.inexact import inexact_probabilities  # loads torch

        errors = min(MAX_ERRORS, pairs.suffixes.shape[1])
        stage, weight = _inexact_stage(model), self._inexact_weight(pairs)
        calls = [0.05 if scheme is Scheme.GREEDY else 1.0 for scheme in self.params.schemes]
        for batch in context.batches(stage, len(sample), size=_INEXACT_SEQUENCES, weight=weight, calls=calls):
            sequences = sample[batch.items]
            for scheme in self.params.schemes:
                inexact = inexact_probabilities(
                    context.target(model),
                    pairs.prefixes[sequences],
                    pairs.suffixes[sequences],
                    self.params.policies[scheme],
                    errors=errors,
                    branches=self.params.branches,
                    min_probability=self.params.least,
                    best=MAX_MATCHES,  # all matches that are shown may be of one sequence
                )
                key = {"model": model, "scheme": SCHEMES.index(scheme)}
                for number in range(1, errors + 1):
                    context.emit(
                        INEXACT.name,
                        **key,
                        sequence=sequences,
                        errors=number,
                        probability=inexact.probability[:, number],
                        bound=inexact.bound[:, number],
                    )
                matched = sequences[inexact.row]
                matches = {
                    "sequence": matched,
                    "errors": (inexact.matches != pairs.suffixes[matched]).sum(axis=1),
                    "logprob": inexact.logprob,
                    "tokens": inexact.matches.astype(float),
                }
                likeliest = likeliest_matches(matches)
                context.emit(MATCHES.name, **key, **{name: values[likeliest] for name, values in matches.items()})


def _lengths(pairs: Pairs, params: LeakageParams) -> list[int]:
    """Return the requested prefix lengths that the prefixes have, ascending, and always the whole one."""
    whole = pairs.prefix_length
    return sorted({length for length in params.prefix_lengths if length <= whole} | {whole})


def _inexact_stage(model: int) -> str:
    return f"model {model + 1}, inexact"
