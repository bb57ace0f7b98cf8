"""`sequence`: paragraphs of a corpus are begun, a model goes on, and what it writes is held against what followed."""

import contextlib
from collections import Counter
from collections.abc import Iterator

import numpy as np

from harness.audits.sequence.completing import REFUSAL, Completer, Completion, State
from harness.audits.sequence.findings import sequence_findings
from harness.audits.sequence.material import Control, Material, partners
from harness.audits.sequence.measures import COMPARISONS, COMPLETIONS, TOO_SHORT, Compared, compared
from harness.audits.sequence.params import SequenceParams
from harness.audits.sequence.rates import rate_of
from harness.audits.sequence.thresholds import Threshold
from harness.core.arrays import Ints
from harness.core.audit import Audit, AuditContext, AuditInputs, RowsOf
from harness.core.findings import Findings

_TOLD_FAULTS = 3
_ANSWERS_BETWEEN_FIGURES = 16


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
        material = Material.of(context.inputs)
        partner = partners(material, context.seed)
        tally = _Tally(material, context)
        with self._completer(material, context) as completer:
            completer.begin(completer.order, _asked(context.rows, times=1))
            for batch in context.batches("complete", len(material), size=completer.batch_size):
                asked, made = completer.complete(batch.items, batch.seed)
                tally.take(self._measure(context, material, partner, asked, made))
            unanswered = _unanswered_at_first(context.rows)
            completer.begin(unanswered, _asked(context.rows, times=2))
            for batch in context.batches("again", len(unanswered), size=completer.batch_size):
                asked, made = completer.complete(batch.items, batch.seed)
                tally.take(self._measure(context, material, partner, asked, made))
        tally.report()

    def findings(self, inputs: AuditInputs, rows: RowsOf, models: tuple[str, ...]) -> Findings:
        model = self.params.endpoint_model or (models[0] if models else "the target")
        return sequence_findings(self.params, Material.of(inputs), rows, model)

    @contextlib.contextmanager
    def _completer(self, material: Material, context: AuditContext) -> Iterator[Completer]:
        # Each here: an endpoint needs no model, and a model no endpoint.
        if self.params.endpoint is None:
            from harness.audits.sequence.local import LocalCompleter

            yield LocalCompleter(context.target(), material, self.params, seed=context.seed)
            return
        from harness.audits.sequence.endpoint import Endpoint
        from harness.audits.sequence.remote import RemoteCompleter

        with Endpoint(self.params, key=context.api_key, seed=context.seed) as endpoint:
            if endpoint.is_overheard:
                context.warn("The endpoint's address begins with http: its key and the corpus travel unencrypted.")
            with RemoteCompleter(endpoint, material, self.params, seed=context.seed) as completer:
                yield completer

    def _measure(
        self, context: AuditContext, material: Material, partner: Ints, asked: Ints, made: list[Completion]
    ) -> list[tuple[int, bool, Compared]]:
        """Emit the completions of the paragraphs `asked`, and what they come to; (paragraph, by chance, measures)."""
        measures: list[tuple[int, int, Compared]] = []
        for paragraph, completion in zip(asked.tolist(), made, strict=True):
            if completion.state is not State.COMPLETED:
                continue
            against = [paragraph]
            if material.control is Control.PERMUTED and partner[paragraph] >= 0:
                against.append(int(partner[paragraph]))
            for other in against:
                found = compared(completion.text, material.suffixes[other], self.params.overlap)
                measures.append((paragraph, other, found))
        context.emit(
            COMPLETIONS.name,
            paragraph=asked,
            state=[completion.state.value for completion in made],
            text=[completion.text for completion in made],
            fault=[completion.fault for completion in made],
        )
        if measures:
            context.emit(
                COMPARISONS.name,
                paragraph=[paragraph for paragraph, *_ in measures],
                against=[other for _, other, _ in measures],
                **{name: [getattr(found, name) for *_, found in measures] for name in Compared._fields},
            )
        _tell_faults(context, asked, made)
        return [(paragraph, other != paragraph, found) for paragraph, other, found in measures]


def _asked(rows: RowsOf, *, times: int) -> Ints:
    """The paragraphs that were asked for so often, or more often."""
    paragraphs, counts = np.unique(np.asarray(rows(COMPLETIONS.name)["paragraph"], np.int64), return_counts=True)
    return paragraphs[counts >= times]


def _unanswered_at_first(rows: RowsOf) -> Ints:
    """The paragraphs whose first row, that of the first stage, has no answer: the same list after every resume.

    Without those that were refused: they would be again, and so many in a row would end the audit.
    """
    made = rows(COMPLETIONS.name)
    first: dict[int, bool] = {}
    for paragraph, state, fault in zip(made["paragraph"].tolist(), made["state"], made["fault"], strict=True):
        first.setdefault(int(paragraph), state == State.UNANSWERED and not fault.startswith(REFUSAL))
    return np.array(sorted(one for one, is_unanswered in first.items() if is_unanswered), np.int64)


def _tell_faults(context: AuditContext, asked: Ints, made: list[Completion]) -> None:
    """A warning for each of the first paragraphs that got no answer; the findings count them all."""
    faulty = [(paragraph, one) for paragraph, one in zip(asked.tolist(), made, strict=True) if one.fault]
    if not faulty:
        return
    told = sum(state == State.UNANSWERED for state in context.rows(COMPLETIONS.name)["state"])
    for place, (paragraph, completion) in enumerate(faulty, start=told - len(faulty)):
        if place < _TOLD_FAULTS:
            context.warn(f"The endpoint {completion.fault}: paragraph {paragraph + 1} is left without an answer.")


class _Tally:
    """The rates so far, for who watches: those of earlier executions included."""

    def __init__(self, material: Material, context: AuditContext) -> None:
        self._material = material
        self._context = context
        self._passed: Counter[tuple[Threshold, bool]] = Counter()
        self._judged: Counter[tuple[Threshold, bool]] = Counter()
        self._since_report = 0
        rows = context.rows(COMPARISONS.name)
        by_chance = rows["against"] != rows["paragraph"]
        columns = (
            rows["paragraph"].tolist(),
            by_chance.tolist(),
            *(rows[threshold].tolist() for threshold in Threshold),
        )
        for paragraph, is_chance, *verdicts in zip(*columns, strict=True):
            self._count(int(paragraph), is_chance, verdicts)

    def take(self, measures: list[tuple[int, bool, Compared]]) -> None:
        """Count a batch, and report when enough has come together."""
        for paragraph, is_chance, found in measures:
            self._count(paragraph, is_chance, [getattr(found, threshold) for threshold in Threshold])
        self._since_report += len(measures)
        if self._since_report >= _ANSWERS_BETWEEN_FIGURES:
            self.report()

    def report(self) -> None:
        """The rate of each threshold on the corpus, and on its control."""
        self._since_report = 0
        for threshold in Threshold:
            for is_control, prefix in ((False, ""), (True, "control_")):
                if judged := self._judged[threshold, is_control]:
                    so_far = rate_of(self._passed[threshold, is_control], judged)
                    name = f"{prefix}{threshold.value}"
                    self._context.figure(name, so_far.rate, low=so_far.low, high=so_far.high, of=judged)

    def _count(self, paragraph: int, is_chance: bool, verdicts: list[int]) -> None:
        is_control = is_chance or bool(self._material.is_control[paragraph])
        if is_control and self._material.is_shared[paragraph]:
            return
        for threshold, verdict in zip(Threshold, verdicts, strict=True):
            if verdict != TOO_SHORT:
                self._judged[threshold, is_control] += 1
                self._passed[threshold, is_control] += verdict
