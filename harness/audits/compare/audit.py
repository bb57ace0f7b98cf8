"""The comparison of targets: token probabilities and greedy completions of the same sequences under each."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.audits.compare.findings import compare_findings
from harness.audits.compare.inputs import COMPLETIONS, SCHEMES, TABLES, TOKENS, CompareParams, Sequences
from harness.audits.compare.results import ESP, MEASURES
from harness.audits.probabilities import log_esp
from harness.audits.report import report_live
from harness.core.arrays import Floats, Ints
from harness.core.audit import Audit, AuditContext, AuditInputs, RowsOf
from harness.core.findings import Findings
from harness.core.measures import Estimate, MeasureRow
from harness.core.policy import Policy

_SEQUENCES = 64  # per batch
_COMPLETION_WEIGHT = 4.0
"""Work for a greedy completion, relative to the probabilities of a sequence."""


class CompareAudit(Audit[CompareParams]):
    """Change in memorization from the first target to the others."""

    name = "compare"
    title = "Memorization before and after"
    reference = (
        "Tirumala et al., Memorization without overfitting, 2022; Carlini et al., Extracting training data from large "
        "language models, 2021; Tiwari & Suh, 2024"
    )
    tables = TABLES
    measures = MEASURES

    def run(self, context: AuditContext) -> None:
        sequences = Sequences.from_inputs(context.inputs)
        number = len(sequences.pairs)
        context.announce("stored audits", len(sequences.stored), weight=0.01)
        for model in range(len(context.models)):
            context.announce(_stage(model), number)
            context.announce(_completion_stage(model), number, weight=_COMPLETION_WEIGHT)
        for batch in context.batches("stored audits", len(sequences.stored), size=1, weight=0.01):
            (target,) = batch.items.tolist()
            logprobs = sequences.stored[target].logprobs
            _emit(context, target, np.arange(number), logprobs)
            self._report(context, target, np.exp(log_esp(logprobs[SCHEMES.index(self.params.main)])))
        for model in range(len(context.models)):
            self._measure(context, sequences, model)

    def findings(self, inputs: AuditInputs, rows: RowsOf, models: tuple[str, ...]) -> Findings:
        return compare_findings(self.params, Sequences.from_inputs(inputs), rows, models)

    def _report(self, context: AuditContext, target: int, esp: Sequence[float] | Floats) -> None:
        """Report the mean probability of the sequences so far."""
        mean = Estimate(float(np.mean(esp)), of=len(esp))
        report_live(context, MeasureRow(ESP, mean, f"target {target + 1}", case=self.params.label))

    def _measure(self, context: AuditContext, sequences: Sequences, model: int) -> None:
        from harness.audits.exact import exact_logprobs  # loads torch

        pairs, target = sequences.pairs, len(sequences.stored) + model
        before = context.rows(TOKENS.name)
        is_target = np.asarray(before["target"]) == target
        main = SCHEMES.index(self.params.main)
        live: list[float] = np.exp(log_esp(np.asarray(before[self.params.main.value])[is_target])).tolist()
        for batch in context.batches(_stage(model), len(pairs), size=_SEQUENCES):
            prefixes, suffixes = pairs.prefixes[batch.rows], pairs.suffixes[batch.rows]
            logprobs = exact_logprobs(context.target(model), prefixes, suffixes, self.params.policies)
            _emit(context, target, batch.items, logprobs)
            live += np.exp(log_esp(logprobs[main])).tolist()
            self._report(context, target, live)
        stage = _completion_stage(model)
        for batch in context.batches(stage, len(pairs), size=_SEQUENCES, weight=_COMPLETION_WEIGHT):
            prefixes, length = pairs.prefixes[batch.rows], pairs.suffixes.shape[1]
            samples = context.target(model).sample(prefixes, Policy(top_k=1), trials=1, length=length)
            context.emit(
                COMPLETIONS.name,
                target=np.full(len(batch.items), target),
                sequence=batch.items,
                tokens=samples.suffixes[np.argsort(samples.row, kind="stable")].astype(float),
            )


def _emit(context: AuditContext, target: int, sequences: Ints, logprobs: Floats) -> None:
    columns: dict[str, Any] = {scheme.value: values for scheme, values in zip(SCHEMES, logprobs, strict=True)}
    context.emit(TOKENS.name, target=np.full(len(sequences), target), sequence=sequences, **columns)


def _stage(model: int) -> str:
    return f"model {model + 1}"


def _completion_stage(model: int) -> str:
    return f"model {model + 1}, completions"
