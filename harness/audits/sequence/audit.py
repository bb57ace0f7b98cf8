"""The sequence audit: a model completes paragraphs of a corpus, and its completions are compared with the originals."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from harness.audits.endpoint.params import REFUSAL
from harness.audits.sequence.answers import AnswerFacts
from harness.audits.sequence.comparison import COMPARISONS, COMPLETIONS, REPETITIONS, compare, rows_of_setting
from harness.audits.sequence.completion import Completer, Completion, GivenCompleter, LocalCompleter, State
from harness.audits.sequence.dataset import Control, Dataset, SequenceParams, permuted_partners
from harness.audits.sequence.findings import sequence_findings
from harness.audits.sequence.results import MEASURES, PASSED
from harness.core.arrays import Ints
from harness.core.audit import Audit, AuditContext, RowsOf
from harness.core.findings import Findings
from harness.core.paths import model_names

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
        rows = rows_of_setting(context.rows, model, dataset.prompt_length)
        with self._completer(dataset, context, model) as completer:
            normalized = replace(dataset, suffixes=list(map(completer.form, dataset.suffixes)))

            def run_stage(stage: str, paragraphs: Ints, done: Ints) -> None:
                completer.begin(paragraphs, done)
                batches = context.batches(
                    _stage(stage, number), len(paragraphs), size=completer.batch_size, ends=completer.ends
                )
                for batch in batches:
                    self._emit(context, model, normalized, partner, completer.complete(batch.items, batch.seed))

            run_stage("complete", completer.order, _requested(rows, times=1))
            context.announce(_stage("again", number), len(_unanswered_at_first(rows)))
            run_stage("again", _unanswered_at_first(rows), _requested(rows, times=2))
            if repeated:
                self._repeat(context, model, dataset, completer, _completed(rows)[:repeated])

    def _repeat(
        self, context: AuditContext, model: int, dataset: Dataset, completer: Completer, paragraphs: Ints
    ) -> None:
        """Complete paragraphs again, and store the texts."""
        context.announce(_REPEAT, len(paragraphs))
        completer.begin(paragraphs, np.asarray(context.rows(REPETITIONS.name)["paragraph"], np.int64))
        for batch in context.batches(_REPEAT, len(paragraphs), size=completer.batch_size):
            requested, completions = completer.complete(batch.items, batch.seed)
            context.emit(
                REPETITIONS.name,
                model=np.full(len(requested), model),
                prompt_length=np.full(len(requested), dataset.prompt_length or 0),
                paragraph=requested,
                text=[completion.text for completion in completions],
            )

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

    def _emit(
        self, context: AuditContext, model: int, dataset: Dataset, partner: Ints, batch: tuple[Ints, list[Completion]]
    ) -> None:
        """Emit the completions of a batch of paragraphs, and their comparisons with the suffixes of paragraphs."""
        requested, completions = batch
        setting = {"model": model, "prompt_length": dataset.prompt_length or 0}
        comparisons: list[dict[str, float]] = []
        for paragraph, completion in zip(requested.tolist(), completions, strict=True):
            if completion.state is not State.COMPLETED:
                continue
            partners = [int(partner[paragraph])] if dataset.control is Control.PERMUTED else []
            for against in (paragraph, *(number for number in partners if number >= 0)):
                numbers = compare(completion.text, dataset.suffixes[against], self.params.word_form)
                comparisons.append({**setting, "paragraph": paragraph, "against": against, **numbers})
        context.emit(
            COMPLETIONS.name,
            **{column: np.full(len(requested), value) for column, value in setting.items()},
            paragraph=requested,
            state=[completion.state.value for completion in completions],
            text=[completion.text for completion in completions],
            fault=[completion.fault for completion in completions],
            cut_words=[completion.cut_words for completion in completions],
            **{name: [getattr(completion.facts, name) for completion in completions] for name in AnswerFacts._fields},
        )
        if comparisons:
            context.emit(COMPARISONS.name, **{name: [row[name] for row in comparisons] for name in comparisons[0]})
        _warn_of_faults(context, requested, completions)


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


def _warn_of_faults(context: AuditContext, requested: Ints, completions: list[Completion]) -> None:
    """Warn of the first paragraphs that got no answer. The findings count all of them."""
    pairs = zip(requested.tolist(), completions, strict=True)
    faulty = [(paragraph, completion.fault) for paragraph, completion in pairs if completion.state is State.UNANSWERED]
    if faulty:
        so_far = sum(state == State.UNANSWERED for state in context.rows(COMPLETIONS.name)["state"])
        for paragraph, fault in faulty[: max(0, _WARNED_FAULTS - so_far + len(faulty))]:
            context.warn(f"Paragraph {paragraph + 1} got no answer: the endpoint {fault}.")
