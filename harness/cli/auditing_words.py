"""Findings of an audit on a terminal: figures, tables and sentences in lines that fit, with hostile text sanitized."""

import io
import shutil
import textwrap

from harness.cli.output import align_columns, pluralize, sanitize, shorten_middle
from harness.core.findings import Findings, FoundTable
from harness.submit.audit_tables import format_column, is_numeric_column, named_figures, plain_value

_MOST_FIGURES, _MOST_ROWS = 24, 40
_MOST_CHARACTERS = 44  # in a cell
_PAGE_WIDTH = 120


def findings_in_words(findings: Findings) -> str:
    """Return the headline figures, the tables without details, and the sentences."""
    width = max(40, shutil.get_terminal_size((_PAGE_WIDTH, 24)).columns)
    sections = [_figures(findings)]
    sections += [_table(table, width) for table in findings.tables if not table.is_detail]
    sections.append(
        "\n".join(textwrap.fill(sanitize(sentence), min(width, _PAGE_WIDTH)) for sentence in findings.sentences)
    )
    return "\n\n".join(filter(None, sections))


def _figures(findings: Findings) -> str:
    figures = named_figures(findings.figures)
    rows = [(sanitize(name), shorten_middle(sanitize(value), _MOST_CHARACTERS)) for name, value in figures]
    further = len(rows) - _MOST_FIGURES
    rest = f"\n… {pluralize(further, 'further figure')}: --json" if further > 0 else ""
    return align_columns(rows[:_MOST_FIGURES]) + rest if rows else ""


def _table(table: FoundTable, width: int) -> str:
    """Return the title and the rows, numbers right-aligned; headers wrap and cells are cut where the width requires."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    title = sanitize(table.title)
    rows = len(next(iter(table.columns.values()), ()))
    if not rows:
        return f"{title}\nno rows"
    lines = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    columns = []
    for name, values in table.columns.items():
        cells = [plain_value(cell) for cell in values[:_MOST_ROWS]]
        header = Text(sanitize(name.replace("_", " ")))
        lines.add_column(header, justify="right" if is_numeric_column(cells) else "left", vertical="bottom")
        columns.append([shorten_middle(sanitize(word), _MOST_CHARACTERS) for word in format_column(cells)])
    for row in zip(*columns, strict=True):
        lines.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in row))
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(lines)
    assert isinstance(console.file, io.StringIO)
    text = "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())
    rest = f"\n… {pluralize(rows - _MOST_ROWS, 'further row')}: --out writes them" if rows > _MOST_ROWS else ""
    return f"{title}\n{text}{rest}"
