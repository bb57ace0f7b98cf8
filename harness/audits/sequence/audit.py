"""The sequence audit: a model completes paragraphs of a corpus, and its completions are compared with the originals."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from harness.audits.endpoint.params import REFUSAL
from harness.audits.report import Row
from harness.audits.sequence.comparison import COMPARISONS, COMPLETIONS, REPETITIONS, compare, rows_of_setting
from harness.audits.sequence.completion import Completer, Completion, GivenCompleter, LocalCompleter, State
from harness.audits.sequence.dataset import Dataset, SequenceParams, permuted_partners
from harness.audits.sequence.findings import sequence_findings
from harness.audits.sequence.results import MEASURES, PASSED
from harness.core.arrays import Ints
from harness.core.audit import Audit, AuditContext, RowsOf
from harness.core.findings import Findings
from harness.core.paths import model_names
from harness.core.rows import Table

_WARNED_FAULTS = 3
_REPEAT = "repeat"
REPEATED = 5
"""Requests that are sent again at the end."""


class SequenceAudit(Audit[SequenceParams]):
    """Sequence extraction: was this corpus in the training data?"""

    name = "sequence"
    title = "Sequence extraction"
    reference = (
        "Black-box sequence extraction: four word-level thresholds on completions of prompts of 35 words (by default)"
    )
    tables = (COMPLETIONS, COMPARISONS, REPETITIONS)
    measures = MEASURES
    live = (PASSED,)
    inputs_type = Dataset

    def run(self, context: AuditContext) -> None:
        dataset: Dataset = context.inputs
        models = range(len(dataset.models) or max(1, len(context.models)))
        settings = [(model, part) for model in models for part in dataset.by_prompt_length(self.params)]
        for number in range(len(settings)):
            context.announce(_stage("complete", number), len(dataset))
            context.announce(_stage("again", number), 0)
        repeated = REPEATED if self.params.endpoint and self.params.temperature == 0 else 0
        context.announce(_REPEAT, min(repeated, len(dataset)))
        for number, (model, part) in enumerate(settings):
            self._measure(context, number, model, part, repeated if number == len(settings) - 1 else 0)

    def _measure(self, context: AuditContext, number: int, model: int, dataset: Dataset, repeated: int) -> None:
        """Complete and compare all paragraphs with one model and one prompt length, which are setting `number`.

        repeated: requests that are sent again at the end, to see whether the answers are the same.
        """
        partner = permuted_partners(dataset, context.seed)
        setting = {"model": model, "prompt_length": dataset.prompt_length or 0}
        rows = rows_of_setting(context.rows, model, dataset.prompt_length)
        with self._completer(dataset, context, model) as completer:
            suffixes = list(map(completer.form, dataset.suffixes))

            def completions_of(stage: str, paragraphs: Ints, done: Ints) -> Iterator[dict[int, Completion]]:
                completer.begin(paragraphs, done)
                size, ends = completer.batch_size, completer.ends
                for batch in context.batches(stage, len(paragraphs), size=size, ends=ends):
                    requested, completions = completer.complete(batch.items, batch.seed)
                    yield dict(zip(requested.tolist(), completions, strict=True))

            for stage in ("complete", "again"):
                is_first = stage == "complete"
                paragraphs = completer.order if is_first else _unanswered_at_first(rows)
                context.announce(_stage(stage, number), len(paragraphs))
                done = _requested(rows, times=1 if is_first else 2)
                for completions in completions_of(_stage(stage, number), paragraphs, done):
                    _emit(context, COMPLETIONS, [_row(setting, *item) for item in completions.items()])
                    _emit(context, COMPARISONS, self._comparisons(setting, completions, suffixes, partner))
                    _warn_of_faults(context, completions)
            if repeated:
                paragraphs = _completed(rows)[:repeated]
                context.announce(_REPEAT, len(paragraphs))
                done = np.asarray(context.rows(REPETITIONS.name)["paragraph"], np.int64)
                for completions in completions_of(_REPEAT, paragraphs, done):
                    texts = {paragraph: completion.text for paragraph, completion in completions.items()}
                    _emit(context, REPETITIONS, [setting | {"paragraph": at, "text": texts[at]} for at in texts])

    def _comparisons(
        self, setting: Row, completions: Mapping[int, Completion], suffixes: Sequence[str], partner: Ints
    ) -> Iterator[Row]:
        """Yield the comparisons of completions with their own suffixes, and with those of their partners."""
        for paragraph, completion in completions.items():
            if completion.state is State.COMPLETED:
                partners = [int(partner[paragraph])] if partner[paragraph] >= 0 else []
                for against in (paragraph, *partners):
                    numbers = compare(completion.text, suffixes[against], self.params.word_form)
                    yield {**setting, "paragraph": paragraph, "against": against, **numbers}

    def findings(self, inputs: Dataset, rows: RowsOf, models: tuple[str, ...]) -> Findings:
        names = inputs.models or model_names(self.params.model_names(models)) or ["the target"]
        return sequence_findings(self.params, inputs, rows, names)

    @contextlib.contextmanager
    def _completer(self, dataset: Dataset, context: AuditContext, model: int) -> Iterator[Completer]:
        if dataset.models:
            yield GivenCompleter(dataset, model, seed=context.seed)
            return
        if self.params.endpoint is None:
            yield LocalCompleter(context.target(model), dataset, self.params, seed=context.seed)
            return
        # Imported here: a local model needs no HTTP client.
        from harness.audits.endpoint.client import open_endpoint
        from harness.audits.sequence.remote import RemoteCompleter

        with open_endpoint(self.params, context) as endpoint:
            answered = len(context.rows(COMPLETIONS.name)["paragraph"])
            yield RemoteCompleter(endpoint, dataset, self.params, seed=context.seed, answered=answered)


def _emit(context: AuditContext, table: Table, rows: Iterable[Row]) -> None:
    """Emit rows, if there are any. Their keys are the columns of the table."""
    if emitted := list(rows):
        context.emit(table.name, **{name: [row[name] for row in emitted] for name in emitted[0]})


def _row(setting: Row, paragraph: int, completion: Completion) -> Row:
    fields = completion._asdict()
    return {**setting, "paragraph": paragraph, **fields.pop("facts")._asdict(), **fields}


def _stage(name: str, number: int) -> str:
    """Return the name of a stage of setting `number`."""
    return f"{name} {number + 1}" if number else name


def _requested(rows: RowsOf, *, times: int) -> Ints:
    """Return the paragraphs that were requested at least so often."""
    paragraphs, counts = np.unique(np.asarray(rows(COMPLETIONS.name)["paragraph"], np.int64), return_counts=True)
    return paragraphs[counts >= times]


def _completed(rows: RowsOf) -> Ints:
    """Return the paragraphs that have a completion."""
    completions = rows(COMPLETIONS.name)
    is_completed = [state == State.COMPLETED for state in completions["state"]]
    return np.unique(np.asarray(completions["paragraph"], np.int64)[is_completed])


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


def _warn_of_faults(context: AuditContext, completions: Mapping[int, Completion]) -> None:
    """Warn of the first paragraphs that got no answer. The findings count all of them."""
    faults = {at: completion.fault for at, completion in completions.items() if completion.state is State.UNANSWERED}
    if faults:
        so_far = sum(state == State.UNANSWERED for state in context.rows(COMPLETIONS.name)["state"])
        for paragraph, fault in islice(faults.items(), max(0, _WARNED_FAULTS - so_far + len(faults))):
            context.warn(f"Paragraph {paragraph + 1} got no answer: the endpoint {fault}.")
