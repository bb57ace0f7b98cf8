"""The book audit: the probability that a model returns each window of a text, and what can be extracted."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from harness.audits.book.coverage import COUNTS, TABLES, WINDOWS
from harness.audits.book.findings import book_findings
from harness.audits.book.inputs import (
    LEAST,
    THRESHOLDS,
    BookParams,
    Texts,
    Windows,
    coarse_to_fine,
    cut_windows,
    join_windows,
)
from harness.audits.book.results import CONTROL, COVERAGE, MEASURES, TEXT
from harness.audits.likelihoods import Likelihoods, Stage, likelihoods
from harness.audits.models import Model, load_text_tokenizer
from harness.audits.near_results import NEAR, NEAR_BATCH, NEAR_WEIGHT
from harness.audits.probabilities import SCHEMES, log_esp
from harness.audits.report import report_live
from harness.core.arrays import Floats, Ints, Tokens
from harness.core.audit import Audit, AuditContext, AuditInputs, RowsOf
from harness.core.errors import HarnessError
from harness.core.findings import Findings
from harness.core.measures import Estimate, MeasureRow
from harness.corpora.text_files import read_text

if TYPE_CHECKING:
    from tokenizers import Tokenizer

WINDOWS_PER_BATCH = 128
_MOST_FIGURES = 20


class BookAudit(Audit[BookParams]):
    """Probability that each passage of long texts is returned."""

    name = "book"
    title = "Extractable passages"
    reference = (
        "Cooper et al., Extracting memorized pieces of (copyrighted) books from open-weight language models, 2025"
    )
    tables = TABLES
    measures = MEASURES

    def run(self, context: AuditContext) -> None:
        texts = Texts.from_inputs(context.inputs)
        models = self._cut(context, texts)
        if not any(len(model.windows) for model in models):
            raise HarnessError("no text has as many tokens as a window. Name a longer text.")
        for number, model in enumerate(models):
            context.announce(_stage(number), len(model.windows))
            context.announce(_near_stage(number), len(self._near_windows(model)), weight=NEAR_WEIGHT)
        with likelihoods(self.params, context) as source:
            for number, model in enumerate(models):
                self._measure(context, source, texts, model, number)
                self._measure_near(context, model, number)

    def findings(self, inputs: AuditInputs, rows: RowsOf, models: tuple[str, ...]) -> Findings:
        return book_findings(self.params, Texts.from_inputs(inputs), rows, self.params.model_names(models))

    def _cut(self, context: AuditContext, texts: Texts) -> list["_TokenizedTexts"]:
        """Return the windows of all texts in the tokens of each model. Models of equal tokenizers share them."""
        by_tokenizer: dict[str, _TokenizedTexts] = {}
        models = []
        for config in context.models:
            content = read_text(config.path / "tokenizer.json")
            if content not in by_tokenizer:
                tokenizer = load_text_tokenizer(Model(str(config.path), config.path))
                parts = [cut_windows(text, tokenizer, self.params) for text in texts.texts]
                by_tokenizer[content] = _TokenizedTexts(tokenizer, *join_windows(parts))
            models.append(by_tokenizer[content])
        return models

    def _measure(
        self, context: AuditContext, source: Likelihoods, texts: Texts, model: "_TokenizedTexts", number: int
    ) -> None:
        """Measure the windows of all texts, first every 16th one of the whole and then those between."""
        windows = model.windows
        order = coarse_to_fine(len(windows))
        policies = [self.params.policies[scheme] for scheme in self.params.schemes]
        live = _LiveCoverage(context, self.params, texts, number)
        has_counts = number in context.rows(COUNTS.name)["model"]
        stage = Stage(
            _stage(number),
            len(order),
            lambda places: self._pairs(windows, np.sort(order[places])),
            size=WINDOWS_PER_BATCH,
            done=_measured_places(context, model, number, order),
        )
        for places, logprobs in source.exact_logprobs(number, stage, policies, least=LEAST):
            if not has_counts:
                has_counts = True
                if self.params.endpoint is None:
                    _check_vocabulary(context, number, windows.tokens, context.target(number).vocabulary)
                counts, near = (
                    np.bincount(numbers, minlength=len(texts.texts))
                    for numbers in (model.text, model.text[self._near_windows(model)])
                )
                numbers = np.arange(len(counts))
                of_model = np.full(len(counts), number)
                context.emit(COUNTS.name, model=of_model, text=numbers, windows=counts, near=near)
            chosen = np.sort(order[places])
            # A window has a probability under all schemes or under none.
            logprobs[:, np.isnan(logprobs).any(axis=(0, 2))] = np.nan
            logs = {scheme: log_esp(part) for scheme, part in zip(self.params.schemes, logprobs, strict=True)}
            unmeasured = np.full(len(chosen), np.nan)
            context.emit(
                WINDOWS.name,
                model=np.full(len(chosen), number),
                text=model.text[chosen],
                window=model.numbers[chosen],
                start=windows.start[chosen],
                cut=windows.cut[chosen],
                end=windows.end[chosen],
                **{scheme.value: logs.get(scheme, unmeasured) for scheme in SCHEMES},
            )
            live.add(model.text[chosen], windows.cut[chosen], windows.end[chosen], logs[self.params.main_scheme])

    def _measure_near(self, context: AuditContext, model: "_TokenizedTexts", number: int) -> None:
        """Bound the near-verbatim probability of windows that are spread over all texts."""
        from harness.audits.near_verbatim import near_probabilities  # loads torch

        near = self._near_windows(model)
        policy = self.params.policies[self.params.main_scheme]
        for batch in context.batches(_near_stage(number), len(near), size=NEAR_BATCH, weight=NEAR_WEIGHT):
            chosen = near[batch.items]
            prefixes, suffixes = self._pairs(model.windows, chosen)
            tokens, characters = near_probabilities(
                context.target(number), prefixes, suffixes, policy, self.params, model.tokenizer
            )
            context.emit(
                NEAR.name,
                model=np.full(len(chosen), number),
                text=model.text[chosen],
                sequence=model.numbers[chosen],
                tokens=tokens,
                characters=characters,
            )

    def _near_windows(self, model: "_TokenizedTexts") -> Ints:
        """Return the windows whose near-verbatim probability is measured: evenly spaced, without much overlap."""
        windows = model.windows
        length = max(1.0, float((windows.end - windows.start).mean())) if len(windows) else 1.0
        texts = np.unique(model.text, return_index=True)[1]
        last = np.append(texts[1:], len(windows)) - 1
        spans = windows.end[last] - windows.start[texts]
        number = min(self.params.near, len(windows), int(np.maximum(1, spans // length).sum()))
        return np.arange(number) * len(model.windows) // max(1, number)

    def _pairs(self, windows: Windows, chosen: Ints) -> tuple[Ints, Ints]:
        """Return the prefixes and the suffixes of some windows, [windows, tokens] each."""
        tokens = windows.tokens[chosen].astype(np.int64)
        return tokens[:, : self.params.prefix_tokens], tokens[:, self.params.prefix_tokens :]


class _TokenizedTexts(NamedTuple):
    """All texts in the tokens of a tokenizer. text: [windows], the number of the text of each window."""

    tokenizer: "Tokenizer"
    text: Ints
    windows: Windows

    @property
    def numbers(self) -> Ints:
        """The number of each window within its text, [windows]."""
        return np.arange(len(self.text)) - np.searchsorted(self.text, self.text)


def _measured_places(context: AuditContext, model: "_TokenizedTexts", number: int, order: Ints) -> Ints:
    """Return the places in `order` of the windows that have rows, [measured]."""
    rows = context.rows(WINDOWS.name)
    is_of_model = np.asarray(rows["model"]) == number
    text, window = (np.asarray(rows[name], np.int64)[is_of_model] for name in ("text", "window"))
    return np.asarray(np.argsort(order)[np.searchsorted(model.text, text) + window])


def _check_vocabulary(context: AuditContext, model: int, tokens: Tokens, vocabulary: int) -> None:
    largest = int(tokens.max())
    if largest >= vocabulary:
        raise HarnessError(
            f"the tokenizer of {context.models[model].path} gives token {largest:,}, and the model has {vocabulary:,} "
            "tokens. Name a directory with the model's own tokenizer."
        )


class _LiveCoverage:
    """The coverage so far, that of earlier executions included: of all texts, the control, and each of a few texts."""

    def __init__(self, context: AuditContext, params: BookParams, texts: Texts, model: int) -> None:
        self._context, self._texts = context, texts
        self._model = context.model_names[model] if len(context.models) > 1 else ""
        self._threshold = float(np.log(THRESHOLDS[0]))
        # 0: in no measured suffix, 1: in one, 2: in one that reaches the threshold.
        self._levels = [np.zeros(len(text), np.int8) for text in texts.texts]
        self._known, self._covered = (np.zeros(len(texts.texts), np.int64) for _ in range(2))
        rows = context.rows(WINDOWS.name)
        is_of_model = np.asarray(rows["model"]) == model
        text, cut, end = (np.asarray(rows[name], np.int64)[is_of_model] for name in ("text", "cut", "end"))
        self._count(text, cut, end, np.asarray(rows[params.main_scheme.value], np.float64)[is_of_model])

    def add(self, text: Ints, cut: Ints, end: Ints, logs: Floats) -> None:
        """Count the windows of a batch, [n] each, and report."""
        self._count(text, cut, end, logs)
        is_control = self._texts.is_control
        groups = [(TEXT, ~is_control), (CONTROL, is_control)]
        if len(self._texts.texts) <= _MOST_FIGURES:
            everything = np.arange(len(is_control))
            groups += [(self._texts.names[number], everything == number) for number in np.unique(text).tolist()]
        for name, chosen in groups:
            if known := int(self._known[chosen].sum()):
                covered = Estimate(float(self._covered[chosen].sum() / known), of=known)
                report_live(self._context, MeasureRow(COVERAGE, covered, self._model, name, at=THRESHOLDS[0]))

    def _count(self, text: Ints, cut: Ints, end: Ints, logs: Floats) -> None:
        known = ~np.isnan(logs)
        text, cut, end, logs = text[known], cut[known], end[known], logs[known]
        for number, first, stop, log in zip(text.tolist(), cut.tolist(), end.tolist(), logs.tolist(), strict=True):
            part = self._levels[number][first:stop]
            np.maximum(part, 2 if log >= self._threshold else 1, out=part)
        for number in np.unique(text).tolist():
            self._known[number] = np.count_nonzero(self._levels[number])
            self._covered[number] = np.count_nonzero(self._levels[number] == 2)


def _stage(model: int) -> str:
    return f"model {model + 1}"


def _near_stage(model: int) -> str:
    return f"model {model + 1}, near-verbatim"
