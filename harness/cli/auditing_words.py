"""What an audit found, for a terminal: sentences, figures and tables in lines that fit, hostile text made visible."""

import shutil
import textwrap
from collections.abc import Sequence

from harness.cli.output import align_columns, pluralize, sanitize, shorten_middle
from harness.core.findings import Findings, FoundTable
from harness.submit.found import column_in_words, headline_figures, is_numeric, plain_value

_MOST_FIGURES, _MOST_ROWS = 24, 40
_CELL, _NARROWEST_CELL = 44, 8
_PAGE_WIDTH = 120


def findings_in_words(findings: Findings) -> str:
    """Headline figures, every table but the detailed ones, and sentences."""
    width = max(40, shutil.get_terminal_size((_PAGE_WIDTH, 24)).columns)
    sections = [_figures(findings)]
    sections += [_table(table, width) for table in findings.tables if not table.is_detail]
    sections.append(
        "\n".join(textwrap.fill(sanitize(sentence), min(width, _PAGE_WIDTH)) for sentence in findings.sentences)
    )
    return "\n\n".join(filter(None, sections))


def _figures(findings: Findings) -> str:
    told = headline_figures(findings.figures)
    rows = [(sanitize(name), shorten_middle(sanitize(value), _CELL)) for name, value in told[:_MOST_FIGURES]]
    rest = f"\n… {pluralize(len(told) - _MOST_FIGURES, 'further figure')}: --json" if len(told) > _MOST_FIGURES else ""
    return align_columns(rows) + rest if rows else ""


def _table(table: FoundTable, width: int) -> str:
    """A title and lines of cells, numbers flush right; as narrow cells as the terminal asks for."""
    columns = [[plain_value(cell) for cell in cells[:_MOST_ROWS]] for cells in table.columns.values()]
    rows = len(next(iter(table.columns.values()), ()))
    title = sanitize(table.title)
    if not rows:
        return f"{title}\nno rows"
    names = [sanitize(name.replace("_", " ")) for name in table.columns]
    cells = [list(map(sanitize, column_in_words(column))) for column in columns]
    heads = _heads(names, cells, width)
    most = _widest_cell([[*head, *column] for head, column in zip(heads, cells, strict=True)], width)
    set_ = [
        _set([shorten_middle(word, most) for word in [*head, *words]], is_right=is_numeric(column))
        for head, words, column in zip(heads, cells, columns, strict=True)
    ]
    rest = f"\n… {pluralize(rows - _MOST_ROWS, 'further row')}: --out writes them" if rows > _MOST_ROWS else ""
    return f"{title}\n{align_columns(list(zip(*set_, strict=True)))}{rest}"


def _heads(names: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """Each column's name in equally many lines: in one where all that fits, else broken to what stands below it."""
    widest = [max(map(len, column)) for column in cells]
    if sum(max(len(name), most) + 2 for name, most in zip(names, widest, strict=True)) - 2 <= width:
        return [[name] for name in names]
    broken = [
        textwrap.wrap(name, max(most, _NARROWEST_CELL), break_long_words=False) or [""]
        for name, most in zip(names, widest, strict=True)
    ]
    lines = max(map(len, broken))
    return [[""] * (lines - len(head)) + head for head in broken]


def _set(cells: Sequence[str], *, is_right: bool) -> list[str]:
    width = max(map(len, cells))
    return [cell.rjust(width) if is_right else cell for cell in cells]


def _widest_cell(columns: Sequence[Sequence[str]], width: int) -> int:
    """How wide a cell may be at most so that a line fits into `width`, within reason."""
    for most in range(_CELL, _NARROWEST_CELL, -1):
        if sum(min(most, max(map(len, cells))) + 2 for cells in columns) - 2 <= width:
            return most
    return _NARROWEST_CELL
