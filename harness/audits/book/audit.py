"""The book audit: the probability that a model returns each window of a text, and what can be extracted."""

from collections.abc import Sequence

import numpy as np

from harness.audits.book.findings import book_findings
from harness.audits.book.inputs import Texts
from harness.audits.book.params import LEAST, THRESHOLDS, BookParams
from harness.audits.book.rows import COUNTS, TABLES, WINDOWS
from harness.audits.book.windows import Windows, coarse_to_fine, cut_windows
from harness.audits.probabilities import log_esp
from harness.audits.schemes import SCHEMES
from harness.core.arrays import Floats, Ints
from harness.core.audit import Audit, AuditContext, AuditInputs, RowsOf
from harness.core.errors import HarnessError
from harness.core.findings import Findings
from harness.core.text import format_bound
from harness.corpora.text_files import parse_tokenizer, read_text

WINDOWS_PER_BATCH = 128


class BookAudit(Audit[BookParams]):
    """Probability that each passage of long texts is returned."""

    name = "book"
    title = "Extractable passages"
    reference = (
        "Cooper et al., Extracting memorized pieces of (copyrighted) books from open-weight language models, 2025"
    )
    tables = TABLES

    def run(self, context: AuditContext) -> None:
        texts = Texts.from_inputs(context.inputs)
        windows = self._cut(context, texts)
        for model, of_model in enumerate(windows):
            context.announce(_stage(model), sum(map(len, of_model)))
        for model, of_model in enumerate(windows):
            self._measure(context, texts, of_model, model)

    def findings(self, inputs: AuditInputs, rows: RowsOf, models: tuple[str, ...]) -> Findings:
        return book_findings(self.params, Texts.from_inputs(inputs), rows, models)

    def _cut(self, context: AuditContext, texts: Texts) -> list[list[Windows]]:
        """Return the windows of each text in the tokens of each model. Models of equal tokenizers share them."""
        by_tokenizer: dict[str, list[Windows]] = {}
        found = []
        for config in context.models:
            content = read_text(config.path / "tokenizer.json")
            if content not in by_tokenizer:
                tokenizer = parse_tokenizer(content, str(config.path))
                tokenizer.no_truncation()
                tokenizer.no_padding()
                by_tokenizer[content] = [cut_windows(text, tokenizer, self.params) for text in texts.texts]
            found.append(by_tokenizer[content])
        return found

    def _measure(self, context: AuditContext, texts: Texts, windows: Sequence[Windows], model: int) -> None:
        """Measure the windows of all texts, first every 16th one of the whole and then those between."""
        from harness.audits.exact import exact_logprobs  # loads torch

        of_text = np.repeat(np.arange(len(windows)), [len(each) for each in windows])
        tokens, start, cut, end = (
            np.concatenate([getattr(each, name) for each in windows]) for name in ("tokens", "start", "cut", "end")
        )
        order = coarse_to_fine(len(of_text))
        prefix, policies = self.params.prefix_tokens, self.params.policies
        live = _LiveCoverage(context, self.params, texts, model)
        for batch in context.batches(_stage(model), len(order), size=WINDOWS_PER_BATCH):
            target = context.target(model)
            if batch.items[0] == 0:
                largest = int(tokens.max())
                if largest >= target.vocabulary:
                    raise HarnessError(
                        f"the tokenizer of {context.models[model].path} gives token {largest:,}, and the model has "
                        f"{target.vocabulary:,} tokens. Name a directory with the model's own tokenizer."
                    )
                numbers = np.arange(len(windows))
                context.emit(
                    COUNTS.name,
                    model=np.full(len(numbers), model),
                    text=numbers,
                    windows=[len(each) for each in windows],
                )
            chosen = np.sort(order[batch.items])
            some = tokens[chosen].astype(np.int64)
            logprobs = exact_logprobs(
                target,
                some[:, :prefix],
                some[:, prefix:],
                [policies[scheme] for scheme in self.params.schemes],
                least=LEAST,
            )
            logs = {scheme: log_esp(each) for scheme, each in zip(self.params.schemes, logprobs, strict=True)}
            unmeasured = np.full(len(chosen), np.nan)
            context.emit(
                WINDOWS.name,
                model=np.full(len(chosen), model),
                text=of_text[chosen],
                start=start[chosen],
                cut=cut[chosen],
                end=end[chosen],
                **{scheme.value: logs.get(scheme, unmeasured) for scheme in SCHEMES},
            )
            live.add(of_text[chosen], cut[chosen], end[chosen], logs[self.params.main_scheme])


class _LiveCoverage:
    """The coverage of each text so far, those of earlier executions included."""

    def __init__(self, context: AuditContext, params: BookParams, texts: Texts, model: int) -> None:
        self._context, self._texts = context, texts
        self._label = f"model {model + 1}, " if len(context.models) > 1 else ""
        self._threshold = float(np.log(THRESHOLDS[0]))
        # 0: in no measured suffix, 1: in one, 2: in one that reaches the threshold.
        self._levels = [np.zeros(len(text), np.int8) for text in texts.texts]
        rows = context.rows(WINDOWS.name)
        mine = np.flatnonzero(np.asarray(rows["model"]) == model)
        text, cut, end = (np.asarray(rows[name], np.int64)[mine] for name in ("text", "cut", "end"))
        self._count(text, cut, end, np.asarray(rows[params.main_scheme.value], np.float64)[mine])

    def add(self, text: Ints, cut: Ints, end: Ints, logs: Floats) -> None:
        """Count the windows of a batch, [n] each, and report the coverage of their texts."""
        self._count(text, cut, end, logs)
        for number in np.unique(text):
            level = self._levels[number]
            known = int((level > 0).sum())
            name = f"{self._label}{self._texts.names[number]}: coverage at p ≥ {format_bound(THRESHOLDS[0])}"
            self._context.figure(name, float((level == 2).sum() / max(1, known)), of=known)

    def _count(self, text: Ints, cut: Ints, end: Ints, logs: Floats) -> None:
        for number, first, stop, log in zip(text, cut, end, logs, strict=True):
            part = self._levels[number][first:stop]
            np.maximum(part, 2 if log >= self._threshold else 1, out=part)


def _stage(model: int) -> str:
    return f"model {model + 1}"
