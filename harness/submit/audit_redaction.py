"""Redact the findings of an audit: replace the text of the corpus and of the model with its length and hash."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.core.exports import redact_text
from harness.core.findings import (
    BarChart,
    Chart,
    Conclusion,
    Findings,
    FoundTable,
    HeatMap,
    KeyFigure,
    LineChart,
    Passage,
    Series,
    Stretch,
)
from harness.core.text import plain_value

_REVEALING_WORDS, _REVEALING_CHARACTERS = 3, 16
_NUMBER = re.compile(r"[\s\d.,:%×+\-−–±/()\[\]]*")


def redact_findings(findings: Findings) -> Findings:
    """Return the findings with every text column and passage replaced by length and hash.

    The same texts are also replaced in figures, in labels of charts, and where a sentence quotes them. Heat maps lose
    the words in their cells. Whole texts are left out.
    """
    redactor = _Redactor(findings)
    redact = redactor.redact_quotes
    return replace(
        findings,
        figures=_redact_figures(findings.figures, redactor),
        sentences=[*map(redact, findings.sentences)],
        definitions={redact(term): redact(text) for term, text in findings.definitions.items()},
        tables=[_redact_table(table, redactor) for table in findings.tables],
        charts=[_redact_chart(chart, redactor) for chart in findings.charts],
        passages=[_redact_passage(passage, redactor) for passage in findings.passages],
        texts=(),
        is_redacted=True,
        conclusion=findings.conclusion and _redact_conclusion(findings.conclusion, redactor),
    )


def _redact_figures(value: Any, redactor: "_Redactor") -> Any:
    if isinstance(value, Mapping):
        return {name: _redact_figures(item, redactor) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redact_figures(item, redactor) for item in value]
    return redactor.redact_label(value) if isinstance(value, str) else value


def _redact_table(table: FoundTable, redactor: "_Redactor") -> FoundTable:
    columns = {
        name: [_redact_cell(plain_value(cell)) for cell in cells] if name in table.text_columns else cells
        for name, cells in table.columns.items()
    }
    return replace(table, title=redactor.redact_quotes(table.title), columns=columns)


def _redact_cell(cell: Any) -> Any:
    if isinstance(cell, list):
        return [_redact_cell(item) for item in cell]
    return redact_text(cell) if isinstance(cell, str) else cell


def _redact_passage(passage: Passage, redactor: "_Redactor") -> Passage:
    texts = [(label, (Stretch(redact_text(_joined(stretches))),)) for label, stretches in passage.texts]
    return passage._replace(title=redactor.redact_label(passage.title), texts=texts)


def _redact_conclusion(conclusion: Conclusion, redactor: "_Redactor") -> Conclusion:
    redact = redactor.redact_quotes
    return Conclusion(
        question=redact(conclusion.question),
        answer=redact(conclusion.answer),
        evidence=redact(conclusion.evidence),
        caveat=redact(conclusion.caveat),
        key_figures=[KeyFigure(*(map(redact, figure))) for figure in conclusion.key_figures],
    )


def _redact_chart(chart: Chart, redactor: "_Redactor") -> Chart:
    redact = redactor.redact_label
    chart = replace(chart, title=redactor.redact_quotes(chart.title))
    match chart:
        case LineChart():
            series = [_redact_series(series, redact) for series in chart.series]
            return replace(chart, x_label=redact(chart.x_label), y_label=redact(chart.y_label), series=series)
        case BarChart():
            return replace(
                chart,
                y_label=redact(chart.y_label),
                labels=[*map(redact, chart.labels)],
                groups=[*map(redact, chart.groups)],
                controls=(*map(redact, chart.controls),),
            )
        case HeatMap():
            # The words in cells are a text in its order, although each word alone reveals nothing.
            are_numbers = all(_NUMBER.fullmatch(word) for row in chart.words or () for word in row)
            rows, columns = [*map(redact, chart.row_labels)], [*map(redact, chart.column_labels)]
            return replace(chart, words=chart.words if are_numbers else None, row_labels=rows, column_labels=columns)


def _redact_series(series: Series, redact: Callable[[str], str]) -> Series:
    return series._replace(name=redact(series.name), key=redact(series.key))


def _joined(stretches: Sequence[Stretch]) -> str:
    return "".join(stretch.text for stretch in stretches)


class _Redactor:
    """Recognizes the secret texts of an audit in labels and sentences."""

    def __init__(self, findings: Findings) -> None:
        cells = {
            text
            for table in findings.tables
            for name in table.text_columns
            for cell in table.columns.get(name, ())
            for text in _texts_in(plain_value(cell))
        }
        secrets = cells | {_joined(stretches) for passage in findings.passages for _, stretches in passage.texts}
        self._normalized = {normalized for text in secrets if (normalized := _normalize(text))}
        self._quotable = [text for text in sorted(secrets, key=len, reverse=True) if _is_revealing(text)]

    def redact_quotes(self, sentence: str) -> str:
        """Return `sentence` with every secret text that it quotes replaced."""
        for text in self._quotable:
            if text in sentence:
                sentence = sentence.replace(text, redact_text(text))
        return sentence

    def redact_label(self, label: str) -> str:
        """Return `label`, or its length and hash if it is a secret text, quotes one, or quotes several words of one."""
        normalized = _normalize(label)
        if not normalized or _NUMBER.fullmatch(normalized):
            return label
        is_or_quotes = normalized in self._normalized or any(
            _is_revealing(text) and text in normalized for text in self._normalized
        )
        part = normalized.removesuffix("…").removesuffix("...").strip()
        is_part = _is_revealing(part) and any(part in text for text in self._normalized)
        return redact_text(label) if is_or_quotes or is_part else label


def _texts_in(cell: Any) -> Iterator[str]:
    if isinstance(cell, str):
        yield cell
    elif isinstance(cell, list):
        for item in cell:
            yield from _texts_in(item)


def _is_revealing(text: str) -> bool:
    """Return True if the text is too long to be an ordinary word that occurs anywhere."""
    return len(text) >= _REVEALING_CHARACTERS or len(text.split()) >= _REVEALING_WORDS


def _normalize(text: str) -> str:
    return " ".join(text.split()).casefold()
