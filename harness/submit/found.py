"""What an audit found, in words: cells as they are read, figures by name, and all of it without the corpus's text."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from harness.core.findings import BarChart, Chart, Findings, FoundTable, HeatMap, LineChart, Passage, Stretch
from harness.core.redaction import redact_text

_DIGITS = 4
_INTERVAL = ("value", "low", "high")
_TELLING_WORDS, _TELLING_CHARACTERS = 3, 16
_NUMBER = re.compile(r"[\s\d.,:%×+\-−–±/()\[\]]*")


def plain_value(value: Any) -> Any:
    """A cell without NumPy: text, bool, int, float, a list of these, or None, which not-a-number is too."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float) and value != value:
        return None
    if isinstance(value, list | tuple):
        return [plain_value(each) for each in value]
    return value


def in_words(value: Any) -> str:
    """A cell as it is read: 1,234 and 0.1235, a dash where there is nothing."""
    value = plain_value(value)
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.{_DIGITS}g}" if abs(value) < 10_000 else f"{value:,.0f}"
    if isinstance(value, list):
        return ", ".join(map(in_words, value))
    return str(value)


def column_in_words(cells: Sequence[Any]) -> list[str]:
    """Cells of one column, its fractions with as many decimals as one another where they are of one size."""
    plain = [plain_value(cell) for cell in cells]
    fractions = [abs(cell) for cell in plain if isinstance(cell, float) and cell]
    if fractions and max(fractions) < 1_000 and min(fractions) >= 0.0001:
        decimals = 3 if min(fractions) >= 0.001 else 4
        return [f"{cell:.{decimals}f}" if isinstance(cell, float) else in_words(cell) for cell in plain]
    return list(map(in_words, plain))


def is_numeric(cells: Sequence[Any]) -> bool:
    """A column that is set flush right: of numbers alone."""
    known = [cell for cell in map(plain_value, cells) if cell is not None]
    return bool(known) and all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in known)


def headline_figures(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and value of each figure that stands at the top, and of each that has an interval, `rates trigram` for one
    that lies within: a mapping with `value`, `low` and `high`, and of how many with `of`.
    """
    return list(_told(figures, ()))


def _told(figures: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if path and all(name in figures for name in _INTERVAL):
        value, low, high = (in_words(figures[name]) for name in _INTERVAL)
        of = f", of {in_words(figures['of'])}" if "of" in figures else ""
        yield " ".join(path), (value if low == "–" else f"{value} [{low}, {high}]") + of
        return
    for name, value in figures.items():
        here = (*path, str(name).replace("_", " "))
        if isinstance(value, Mapping):
            yield from _told(value, here)
        elif not path and not isinstance(value, list | tuple):
            yield here[0], in_words(value)


def without_text(findings: Findings) -> Findings:
    """The same, with the text of text columns and passages told by its length and hash alone.

    Charts lose words in cells, and every name in which such a text can be read; figures the texts that are one of
    them, sentences those that they quote.
    """
    secrets = _Secrets(findings)
    return replace(
        findings,
        figures=_figures_without_text(findings.figures, secrets),
        sentences=[secrets.struck_from(sentence) for sentence in findings.sentences],
        tables=[_table_without_text(table) for table in findings.tables],
        charts=[_chart_without_text(chart, secrets) for chart in findings.charts],
        passages=[_passage_without_text(passage, secrets) for passage in findings.passages],
    )


def _figures_without_text(value: Any, secrets: "_Secrets") -> Any:
    if isinstance(value, Mapping):
        return {name: _figures_without_text(of_name, secrets) for name, of_name in value.items()}
    if isinstance(value, list | tuple):
        return [_figures_without_text(each, secrets) for each in value]
    return secrets.kept_from(value) if isinstance(value, str) else value


def _table_without_text(table: FoundTable) -> FoundTable:
    columns = {
        name: [_cell_without_text(cell) for cell in cells] if name in table.text_columns else cells
        for name, cells in table.columns.items()
    }
    return replace(table, columns=columns)


def _cell_without_text(cell: Any) -> Any:
    cell = plain_value(cell)
    if isinstance(cell, list):
        return [_cell_without_text(each) for each in cell]
    return redact_text(cell) if isinstance(cell, str) else cell


def _passage_without_text(passage: Passage, secrets: "_Secrets") -> Passage:
    texts = [(label, (Stretch(redact_text(_whole(stretches))),)) for label, stretches in passage.texts]
    return Passage(secrets.kept_from(passage.title), texts)


def _chart_without_text(chart: Chart, secrets: "_Secrets") -> Chart:
    kept = secrets.kept_from
    match chart:
        case LineChart():
            return replace(chart, series=[one._replace(name=kept(one.name)) for one in chart.series])
        case BarChart():
            return replace(chart, labels=[*map(kept, chart.labels)], groups=[*map(kept, chart.groups)])
        case HeatMap():
            # Words in cells stand side by side as in their text, where each alone gives nothing away.
            are_numbers = all(_NUMBER.fullmatch(word) for row in chart.words or () for word in row)
            rows, columns = [*map(kept, chart.row_labels)], [*map(kept, chart.column_labels)]
            return replace(chart, words=chart.words if are_numbers else None, row_labels=rows, column_labels=columns)


def _whole(stretches: Sequence[Stretch]) -> str:
    return "".join(stretch.text for stretch in stretches)


class _Secrets:
    """The texts that are kept from a reader, and whether a label gives one away."""

    def __init__(self, findings: Findings) -> None:
        cells = {
            text
            for table in findings.tables
            for name in table.text_columns
            for cell in table.columns.get(name, ())
            for text in _texts_in(plain_value(cell))
        }
        passages = {_whole(stretches) for passage in findings.passages for _, stretches in passage.texts}
        self._texts = {folded for text in cells | passages if (folded := _folded(text))}
        self._quotable = [text for text in sorted(cells | passages, key=len, reverse=True) if _is_telling(text)]

    def struck_from(self, sentence: str) -> str:
        """`sentence` with every such text that it quotes told by length and hash."""
        for text in self._quotable:
            if text in sentence:
                sentence = sentence.replace(text, redact_text(text))
        return sentence

    def kept_from(self, label: str) -> str:
        """`label`, or its length and hash where it is such a text, quotes one, or is several words out of one."""
        folded = _folded(label)
        if not folded or _NUMBER.fullmatch(folded):
            return label
        if folded in self._texts or any(_is_telling(text) and text in folded for text in self._texts):
            return redact_text(label)
        beginning = folded.removesuffix("…").removesuffix("...").strip()
        if _is_telling(beginning) and any(beginning in text for text in self._texts):
            return redact_text(label)
        return label


def _texts_in(cell: Any) -> Iterator[str]:
    if isinstance(cell, str):
        yield cell
    elif isinstance(cell, list):
        for each in cell:
            yield from _texts_in(each)


def _is_telling(text: str) -> bool:
    """Long enough that it is no word that anybody would have used."""
    return len(text) >= _TELLING_CHARACTERS or len(text.split()) >= _TELLING_WORDS


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()
