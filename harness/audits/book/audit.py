"""The book audit: the probability that a model returns each window of a text, and what can be extracted."""

import numpy as np

from harness.audits.book.coverage import COUNTS, COVERAGE, MEASURES, TABLES, WINDOWS
from harness.audits.book.findings import book_findings
from harness.audits.book.inputs import MIN_PROBABILITY, THRESHOLDS, BookParams, Texts
from harness.audits.book.windows import Windows, coarse_to_fine, cut_windows, join_windows
from harness.audits.likelihoods import Likelihoods, likelihoods
from harness.audits.models import Model, load_text_tokenizer
from harness.audits.near_results import measure_near, near_stage
from harness.audits.probabilities import SCHEMES, log_esp
from harness.audits.stage import Stage
from harness.core.arrays import Ints, Tokens
from harness.core.audit import Audit, AuditContext, RowsOf, last_rows
from harness.core.errors import HarnessError
from harness.core.findings import Findings
from harness.core.tokenizers import Tokenizer
from harness.corpora.text_files import read_text

WINDOWS_PER_BATCH = 128


class BookAudit(Audit[BookParams]):
    """Probability that each passage of long texts is returned."""

    name = "book"
    title = "Extractable passages"
    reference = (
        "Cooper et al., Extracting memorized pieces of (copyrighted) books from open-weight language models, 2025"
    )
    tables = TABLES
    measures = MEASURES
    live = ((COVERAGE, THRESHOLDS[0]),)
    inputs_type = Texts

    def run(self, context: AuditContext) -> None:
        texts: Texts = context.inputs
        models = self._cut(context, texts)
        if not any(len(windows) for _, windows in models):
            raise HarnessError("no text has as many tokens as a window. Name a longer text.")
        for number, (_, windows) in enumerate(models):
            context.announce(_stage(number), len(windows))
            near_windows = len(self._near_windows(windows))
            context.announce(near_stage(number), near_windows, weight=self.params.near_weight(near_windows))
        policy = self.params.policies[self.params.main_scheme]
        with likelihoods(self.params, context) as source:
            for number, (tokenizer, windows) in enumerate(models):
                self._measure(context, source, texts, windows, number)
                near = self._near_windows(windows)
                keys = (windows.text[near], windows.number[near])
                measure_near(context, self.params, policy, number, tokenizer, self._pairs(windows, near), keys)

    def findings(self, inputs: Texts, rows: RowsOf, models: tuple[str, ...]) -> Findings:
        return book_findings(self.params, inputs, rows, self.params.model_names(models))

    def _cut(self, context: AuditContext, texts: Texts) -> list[tuple[Tokenizer, Windows]]:
        """Return each model's tokenizer and the windows of all texts. Models of equal tokenizers share them."""
        by_tokenizer: dict[str, tuple[Tokenizer, Windows]] = {}
        models = []
        for config in context.models:
            content = read_text(config.path / "tokenizer.json")
            if content not in by_tokenizer:
                tokenizer = load_text_tokenizer(Model(str(config.path), config.path))
                parts = [cut_windows(text, tokenizer, self.params) for text in texts.texts]
                by_tokenizer[content] = tokenizer, join_windows(parts)
            models.append(by_tokenizer[content])
        return models

    def _measure(self, context: AuditContext, source: Likelihoods, texts: Texts, windows: Windows, number: int) -> None:
        """Measure the windows of all texts, first every 16th one of the whole and then those between."""
        order = coarse_to_fine(len(windows))
        policies = [self.params.policies[scheme] for scheme in self.params.schemes]
        has_counts = number in context.rows(COUNTS.name)["model"]
        stage = Stage(
            _stage(number),
            len(order),
            lambda places: self._pairs(windows, np.sort(order[places])),
            size=WINDOWS_PER_BATCH,
            done=_measured_places(context, windows, number, order),
        )
        for places, logprobs in source.exact_logprobs(number, stage, policies, min_probability=MIN_PROBABILITY):
            if not has_counts:
                has_counts = True
                if self.params.endpoint is None:
                    _check_vocabulary(context, number, windows.tokens, context.target(number).vocabulary)
                counts, near = (
                    np.bincount(numbers, minlength=len(texts.texts))
                    for numbers in (windows.text, windows.text[self._near_windows(windows)])
                )
                context.emit(COUNTS.name, model=number, text=np.arange(len(counts)), windows=counts, near=near)
            # A window has a probability under all schemes or under none.
            logprobs[:, np.isnan(logprobs).any(axis=(0, 2))] = np.nan
            logs = dict.fromkeys(SCHEMES, np.nan) | dict(zip(self.params.schemes, log_esp(logprobs), strict=True))
            keys = {"text": windows.text, "window": windows.number, "start": windows.start}
            keys |= {"cut": windows.cut, "end": windows.end}
            items = np.sort(order[places])
            context.emit(
                WINDOWS.name,
                model=number,
                **{name: column[items] for name, column in keys.items()},
                **{scheme.value: column for scheme, column in logs.items()},
            )

    def _near_windows(self, windows: Windows) -> Ints:
        """Return the windows whose near-verbatim probability is measured: evenly spaced, without much overlap."""
        length = max(1.0, float((windows.end - windows.start).mean())) if len(windows) else 1.0
        texts = np.unique(windows.text, return_index=True)[1]
        last = np.append(texts[1:], len(windows)) - 1
        spans = windows.end[last] - windows.start[texts]
        number = min(self.params.near, len(windows), int(np.maximum(1, spans // length).sum()))
        return np.arange(number) * len(windows) // max(1, number)

    def _pairs(self, windows: Windows, places: Ints) -> tuple[Ints, Ints]:
        """Return the prefixes and the suffixes of some windows, [windows, tokens] each."""
        tokens = windows.tokens[places].astype(np.int64)
        return tokens[:, : self.params.prefix_tokens], tokens[:, self.params.prefix_tokens :]


def _measured_places(context: AuditContext, windows: Windows, number: int, order: Ints) -> Ints:
    """Return the places in `order` of the windows that have rows, [measured]."""
    rows = last_rows(context.rows(WINDOWS.name), model=number)
    return np.asarray(np.argsort(order)[np.searchsorted(windows.text, rows["text"]) + rows["window"]])


def _check_vocabulary(context: AuditContext, model: int, tokens: Tokens, vocabulary: int) -> None:
    largest = int(tokens.max())
    if largest >= vocabulary:
        raise HarnessError(
            f"the tokenizer of {context.models[model].path} gives token {largest:,}, and the model has {vocabulary:,} "
            "tokens. Name a directory with the model's own tokenizer."
        )


def _stage(model: int) -> str:
    return f"model {model + 1}"
