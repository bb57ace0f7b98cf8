"""The comparison of targets: the leakage of the same sequences, and their greedy completions, under each."""

import numpy as np

from harness.audits.compare.findings import compare_findings
from harness.audits.compare.inputs import ComparedPairs, CompareParams
from harness.audits.compare.results import COMPLETIONS, ESP, MEASURES
from harness.audits.leakage.tokens import MODELS, TOKENS, emit_tokens, measure_tokens, stage_of_tokens
from harness.audits.likelihoods import LocalModels, exact_weight
from harness.core.audit import Audit, AuditContext, RowsOf
from harness.core.findings import Findings
from harness.core.policy import Policy

_SEQUENCES = 64  # per batch
_COMPLETION_WEIGHT = 2.0
"""Work for a greedy completion, relative to the probabilities of a sequence under one policy."""
_STORED, _STORED_WEIGHT = "stored audits", 0.01


class CompareAudit(Audit[CompareParams]):
    """Change in memorization from the first target to the others."""

    name = "compare"
    title = "Memorization before and after"
    reference = (
        "Tirumala et al., Memorization without overfitting, 2022; Carlini et al., Extracting training data from large "
        "language models, 2021; Tiwari & Suh, 2024"
    )
    tables = (MODELS, TOKENS, COMPLETIONS)
    measures = MEASURES
    live = (ESP,)
    inputs_type = ComparedPairs

    def run(self, context: AuditContext) -> None:
        pairs: ComparedPairs = context.inputs
        policies, length = self.params.policies, pairs.prefix_length
        context.announce(_STORED, len(pairs.targets), weight=_STORED_WEIGHT)
        for model in range(len(context.models)):
            context.announce(stage_of_tokens(model, length), len(pairs), weight=exact_weight(len(policies)))
            context.announce(_completion_stage(model), len(pairs), weight=_COMPLETION_WEIGHT)
        for batch in context.batches(_STORED, len(pairs.targets), size=1, weight=_STORED_WEIGHT):
            (target,) = batch.items.tolist()
            logprobs = dict(zip(policies, pairs.logprobs[target], strict=True))
            emit_tokens(context, logprobs, target, length, np.arange(len(pairs)))
        for model in range(len(context.models)):
            measure_tokens(context, LocalModels(context), pairs, policies, model, length)
            self._complete(context, pairs, model)

    def findings(self, inputs: ComparedPairs, rows: RowsOf, models: tuple[str, ...]) -> Findings:
        return compare_findings(self.params, inputs, rows, models)

    def _complete(self, context: AuditContext, pairs: ComparedPairs, model: int) -> None:
        """Emit the greedy completion of every prefix."""
        stage = _completion_stage(model)
        for batch in context.batches(stage, len(pairs), size=_SEQUENCES, weight=_COMPLETION_WEIGHT):
            prefixes, length = pairs.prefixes[batch.rows], pairs.suffixes.shape[1]
            samples = context.target(model).sample(prefixes, Policy(top_k=1), trials=1, length=length)
            tokens = samples.suffixes[np.argsort(samples.row, kind="stable")].astype(float)
            context.emit(COMPLETIONS.name, model=model, sequence=batch.items, tokens=tokens)


def _completion_stage(model: int) -> str:
    return f"model {model + 1}, completions"
