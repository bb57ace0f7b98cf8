"""The sequence audit: a model completes paragraphs of a corpus, and its completions are compared with the originals."""

import contextlib
from collections.abc import Iterator

import numpy as np

from harness.audits.endpoint.params import REFUSAL
from harness.audits.sequence.comparison import COMPARISONS, COMPLETIONS, TITLES, compare, read_results
from harness.audits.sequence.completion import Completer, Completion, State
from harness.audits.sequence.dataset import Control, Dataset, SequenceParams, permuted_partners
from harness.audits.sequence.findings import sequence_findings
from harness.audits.sequence.results import CORPUS, MEASURES, SIDES, passed_share, sides_of
from harness.core.arrays import Ints
from harness.core.audit import Audit, AuditContext, AuditInputs, RowsOf
from harness.core.findings import Findings

_WARNED_FAULTS = 3
_PARAGRAPHS_PER_REPORT = 8


class SequenceAudit(Audit[SequenceParams]):
    """Sequence extraction: was this corpus in the training data?"""

    name = "sequence"
    title = "Sequence extraction"
    reference = (
        "Black-box sequence extraction: four word-level thresholds on completions of prompts of 35 words (by default)"
    )
    tables = (COMPLETIONS, COMPARISONS)
    measures = MEASURES

    def run(self, context: AuditContext) -> None:
        dataset = Dataset.from_inputs(context.inputs)
        partner = permuted_partners(dataset, context.seed)
        with self._completer(dataset, context) as completer:
            context.announce("complete", len(completer.order))
            context.announce("again", 0)

            def run_stage(stage: str, paragraphs: Ints, done: Ints) -> None:
                completer.begin(paragraphs, done)
                since_report = 0
                batches = context.batches(stage, len(paragraphs), size=completer.batch_size, ends=completer.ends)
                for batch in batches:
                    self._emit(context, dataset, partner, *completer.complete(batch.items, batch.seed))
                    since_report += len(batch.items)
                    if since_report >= _PARAGRAPHS_PER_REPORT:
                        since_report = 0
                        _report_rates(context, dataset)
                        if stage == "complete":
                            context.announce("again", len(_unanswered_at_first(context.rows)))

            run_stage("complete", completer.order, _requested(context.rows, times=1))
            run_stage("again", _unanswered_at_first(context.rows), _requested(context.rows, times=2))
        _report_rates(context, dataset)

    def findings(self, inputs: AuditInputs, rows: RowsOf, models: tuple[str, ...]) -> Findings:
        model = self.params.endpoint_model or (models[0] if models else "the target")
        return sequence_findings(self.params, Dataset.from_inputs(inputs), rows, model)

    @contextlib.contextmanager
    def _completer(self, dataset: Dataset, context: AuditContext) -> Iterator[Completer]:
        # Imported here: an endpoint needs no model, and a local model no HTTP client.
        if self.params.endpoint is None:
            from harness.audits.sequence.completion import LocalCompleter

            yield LocalCompleter(context.target(), dataset, self.params, seed=context.seed)
            return
        from harness.audits.endpoint.client import open_endpoint
        from harness.audits.sequence.remote import RemoteCompleter

        with open_endpoint(self.params, context) as endpoint:
            yield RemoteCompleter(endpoint, dataset, self.params, seed=context.seed)

    def _emit(
        self, context: AuditContext, dataset: Dataset, partner: Ints, requested: Ints, completions: list[Completion]
    ) -> None:
        """Emit the completions of the paragraphs `requested`, and their comparisons with the suffixes of paragraphs."""
        compared: list[dict[str, float]] = []
        for paragraph, completion in zip(requested.tolist(), completions, strict=True):
            if completion.state is not State.COMPLETED:
                continue
            partners = [int(partner[paragraph])] if dataset.control is Control.PERMUTED else []
            for against in (paragraph, *(number for number in partners if number >= 0)):
                numbers = compare(completion.text, dataset.suffixes[against])
                compared.append({"paragraph": paragraph, "against": against, **numbers})
        context.emit(
            COMPLETIONS.name,
            paragraph=requested,
            state=[completion.state.value for completion in completions],
            text=[completion.text for completion in completions],
            fault=[completion.fault for completion in completions],
        )
        if compared:
            context.emit(COMPARISONS.name, **{name: [row[name] for row in compared] for name in compared[0]})
        _warn_of_faults(context, requested, completions)


def _requested(rows: RowsOf, *, times: int) -> Ints:
    """Return the paragraphs that were requested at least so often."""
    paragraphs, counts = np.unique(np.asarray(rows(COMPLETIONS.name)["paragraph"], np.int64), return_counts=True)
    return paragraphs[counts >= times]


def _unanswered_at_first(rows: RowsOf) -> Ints:
    """Return the paragraphs that got no answer in the first stage: the same list after every resume.

    Refused prompts are excluded: they would be refused again, and so many failures in a row would end the audit.
    """
    completions = rows(COMPLETIONS.name)
    first: dict[int, bool] = {}
    columns = (completions["paragraph"].tolist(), completions["state"], completions["fault"])
    for paragraph, state, fault in zip(*columns, strict=True):
        first.setdefault(int(paragraph), state == State.UNANSWERED and not fault.startswith(REFUSAL))
    return np.array(sorted(paragraph for paragraph, is_unanswered in first.items() if is_unanswered), np.int64)


def _warn_of_faults(context: AuditContext, requested: Ints, completions: list[Completion]) -> None:
    """Warn of the first paragraphs that got no answer. The findings count all of them."""
    pairs = zip(requested.tolist(), completions, strict=True)
    faulty = [(paragraph, completion.fault) for paragraph, completion in pairs if completion.fault]
    if faulty:
        so_far = sum(state == State.UNANSWERED for state in context.rows(COMPLETIONS.name)["state"])
        for paragraph, fault in faulty[: max(0, _WARNED_FAULTS - so_far + len(faulty))]:
            context.warn(f"Paragraph {paragraph + 1} got no answer: the endpoint {fault}.")


def _report_rates(context: AuditContext, dataset: Dataset) -> None:
    """Report the rate of each threshold so far, on the corpus and on the control."""
    results = read_results(context.rows, len(dataset))
    sides = sides_of(dataset, results)
    for threshold, title in TITLES.items():
        for side, ending in ((CORPUS, ""), (SIDES[dataset.control], ", control")):
            measured, chosen = sides[side]
            value, low, high, of = passed_share(measured[threshold][chosen])
            if of:
                context.figure(f"{title}{ending}", value, low=low, high=high, of=of)
