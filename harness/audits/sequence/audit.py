"""The sequence audit: a model completes paragraphs of a corpus, and its completions are compared with the originals."""

import contextlib
from collections import Counter
from collections.abc import Iterator

import numpy as np

from harness.audits.report import share_of
from harness.audits.sequence.completion import REFUSAL, Completer, Completion, State
from harness.audits.sequence.dataset import Control, Dataset, permuted_partners
from harness.audits.sequence.findings import sequence_findings
from harness.audits.sequence.measures import COMPARISONS, COMPLETIONS, TOO_SHORT, Comparison, compare
from harness.audits.sequence.params import SequenceParams
from harness.audits.sequence.thresholds import Threshold
from harness.core.arrays import Ints
from harness.core.audit import Audit, AuditContext, AuditInputs, RowsOf
from harness.core.findings import Findings

_WARNED_FAULTS = 3
_COMPARISONS_PER_REPORT = 16
Compared = list[tuple[int, int, Comparison]]
"""A paragraph, the paragraph whose suffix its completion was compared with, and the measures."""


class SequenceAudit(Audit[SequenceParams]):
    """Sequence extraction: was this corpus in the training data?"""

    name = "sequence"
    title = "Sequence extraction"
    reference = "Black-box sequence extraction: four word-level thresholds on completions of 35-word prompts"
    tables = (COMPLETIONS, COMPARISONS)

    @property
    def needs_network(self) -> bool:
        return self.params.endpoint is not None

    def run(self, context: AuditContext) -> None:
        dataset = Dataset.from_inputs(context.inputs)
        partner = permuted_partners(dataset, context.seed)
        live = _LiveRates(dataset, context)
        with self._completer(dataset, context) as completer:

            def run_stage(stage: str, paragraphs: Ints, done: Ints) -> None:
                completer.begin(paragraphs, done)
                for batch in context.batches(stage, len(paragraphs), size=completer.batch_size):
                    asked, completions = completer.complete(batch.items, batch.seed)
                    live.add(self._emit(context, dataset, partner, asked, completions))

            run_stage("complete", completer.order, _requested(context.rows, times=1))
            run_stage("again", _unanswered_at_first(context.rows), _requested(context.rows, times=2))
        live.report()

    def findings(self, inputs: AuditInputs, rows: RowsOf, models: tuple[str, ...]) -> Findings:
        model = self.params.endpoint_model or (models[0] if models else "the target")
        return sequence_findings(self.params, Dataset.from_inputs(inputs), rows, model)

    @contextlib.contextmanager
    def _completer(self, dataset: Dataset, context: AuditContext) -> Iterator[Completer]:
        # Imported here: an endpoint needs no model, and a local model no HTTP client.
        if self.params.endpoint is None:
            from harness.audits.sequence.local import LocalCompleter

            yield LocalCompleter(context.target(), dataset, self.params, seed=context.seed)
            return
        from harness.audits.sequence.endpoint import Endpoint
        from harness.audits.sequence.remote import RemoteCompleter

        with Endpoint(self.params, key=context.api_key, seed=context.seed) as endpoint:
            if endpoint.is_unencrypted:
                context.warn("The endpoint's URL begins with http: the API key and the corpus are sent unencrypted.")
            with RemoteCompleter(endpoint, dataset, self.params, seed=context.seed) as completer:
                yield completer

    def _emit(
        self, context: AuditContext, dataset: Dataset, partner: Ints, asked: Ints, completions: list[Completion]
    ) -> Compared:
        """Emit the completions of the paragraphs `asked` and their comparisons, and return the comparisons."""
        compared: Compared = []
        for paragraph, completion in zip(asked.tolist(), completions, strict=True):
            if completion.state is not State.COMPLETED:
                continue
            others = [paragraph]
            if dataset.control is Control.PERMUTED and partner[paragraph] >= 0:
                others.append(int(partner[paragraph]))
            for other in others:
                compared.append(
                    (paragraph, other, compare(completion.text, dataset.suffixes[other], self.params.overlap))
                )
        context.emit(
            COMPLETIONS.name,
            paragraph=asked,
            state=[completion.state.value for completion in completions],
            text=[completion.text for completion in completions],
            fault=[completion.fault for completion in completions],
        )
        if compared:
            context.emit(
                COMPARISONS.name,
                paragraph=[paragraph for paragraph, *_ in compared],
                against=[other for _, other, _ in compared],
                **{name: [getattr(one, name) for *_, one in compared] for name in Comparison._fields},
            )
        _warn_of_faults(context, asked, completions)
        return compared


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


def _warn_of_faults(context: AuditContext, asked: Ints, completions: list[Completion]) -> None:
    """Warn of the first paragraphs that got no answer. The findings count all of them."""
    faulty = [(paragraph, one) for paragraph, one in zip(asked.tolist(), completions, strict=True) if one.fault]
    if not faulty:
        return
    so_far = sum(state == State.UNANSWERED for state in context.rows(COMPLETIONS.name)["state"])
    for place, (paragraph, completion) in enumerate(faulty, start=so_far - len(faulty)):
        if place < _WARNED_FAULTS:
            context.warn(f"Paragraph {paragraph + 1} got no answer: the endpoint {completion.fault}.")


class _LiveRates:
    """The rates so far, those of earlier executions included."""

    def __init__(self, dataset: Dataset, context: AuditContext) -> None:
        self._dataset = dataset
        self._context = context
        self._passed: Counter[tuple[Threshold, bool]] = Counter()
        self._judged: Counter[tuple[Threshold, bool]] = Counter()
        self._since_report = 0
        rows = context.rows(COMPARISONS.name)
        columns = [rows[name].tolist() for name in ("paragraph", "against", *Threshold)]
        for paragraph, against, *verdicts in zip(*columns, strict=True):
            self._count(int(paragraph), against != paragraph, verdicts)

    def add(self, compared: Compared) -> None:
        """Count a batch, and report after every few comparisons."""
        for paragraph, other, one in compared:
            self._count(paragraph, other != paragraph, [getattr(one, threshold) for threshold in Threshold])
        self._since_report += len(compared)
        if self._since_report >= _COMPARISONS_PER_REPORT:
            self.report()

    def report(self) -> None:
        """Report the rate of each threshold on the corpus and on the control."""
        self._since_report = 0
        for threshold in Threshold:
            for is_control, prefix in ((False, ""), (True, "control_")):
                if judged := self._judged[threshold, is_control]:
                    share = share_of(self._passed[threshold, is_control], judged)
                    name = f"{prefix}{threshold.value}"
                    self._context.figure(name, share.value, low=share.low, high=share.high, of=judged)

    def _count(self, paragraph: int, is_chance: bool, verdicts: list[int]) -> None:
        is_control = is_chance or bool(self._dataset.is_control[paragraph])
        if is_control and self._dataset.is_shared[paragraph]:
            return
        for threshold, verdict in zip(Threshold, verdicts, strict=True):
            if verdict != TOO_SHORT:
                self._judged[threshold, is_control] += 1
                self._passed[threshold, is_control] += verdict
