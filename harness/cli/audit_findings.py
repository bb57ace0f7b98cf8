"""Compute the findings of an audit from its record; write them, and print them in lines that fit the terminal."""

import io
import shutil
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.audits.registry import audit_named
from harness.cli.options import recorded_values
from harness.cli.output import align_columns, pluralize, sanitize, say, shorten_middle
from harness.core.errors import HarnessError
from harness.core.findings import Findings, FoundTable
from harness.core.inputs import as_harness_error
from harness.core.text import plain_value
from harness.runs.audit_reader import AuditReader
from harness.runs.facts import model_sentences, read_record
from harness.runs.folder import RunFolder
from harness.runs.specs import AuditSpec
from harness.submit.finding_tables import format_column, is_numeric_column, named_figures, redact_findings

if TYPE_CHECKING:
    from harness.submit.audit_page import AuditHeader

_MAX_FIGURES, _MAX_ROWS = 24, 40
_MAX_CHARACTERS = 44  # in a cell
_PAGE_WIDTH = 120


def findings_of(folder: RunFolder, *, redact: bool = False) -> Findings:
    """Compute the findings so far from the run's record. Raises HarnessError if it cannot be read."""
    spec = folder.audit_spec()
    with recorded_values(folder.id):
        audit_type = audit_named(spec.audit)
    tables = {table.name: table for table in spec.tables}
    audit = audit_type(audit_type.params_type().model_validate(spec.params))
    if not folder.store.exists():
        raise HarnessError(f"{folder.id} has no findings yet. Follow it with `harness watch {folder.id}`.")
    with as_harness_error(folder.path), AuditReader(folder.store) as reader:
        inputs = audit.inputs_type.read(folder.inputs)
        findings = audit.findings(
            inputs,
            lambda name: reader.audit_rows(tables[name]).columns,
            tuple(model.id for model in spec.models),
        )
    findings = replace(findings, sentences=[*findings.sentences, *model_sentences(read_record(folder))])
    return redact_findings(findings) if redact else findings


def findings_in_words(findings: Findings) -> str:
    """Return the conclusion, the definitions, the headline figures, the tables without details, and the sentences."""
    width = max(40, shutil.get_terminal_size((_PAGE_WIDTH, 24)).columns)
    wrapped = min(width, _PAGE_WIDTH)
    sections = [_conclusion(findings, wrapped), _figures(findings)]
    sections += [_table(table, width) for table in findings.tables if not table.is_detail]
    sections.append("\n".join(textwrap.fill(sanitize(sentence), wrapped) for sentence in findings.sentences))
    return "\n\n".join(filter(None, sections))


def _conclusion(findings: Findings, width: int) -> str:
    """Return the question with its answer as the first line, what it does not show, and the meaning of the terms."""
    conclusion = findings.conclusion
    if conclusion is None:
        return ""
    lines = [
        conclusion.sentence,
        conclusion.caveat,
        *(f"{term}: {text}" for term, text in findings.definitions.items()),
    ]
    return "\n".join(textwrap.fill(sanitize(line), width) for line in lines if line)


def _figures(findings: Findings) -> str:
    figures = named_figures(findings.figures)
    rows = [(sanitize(name), shorten_middle(sanitize(value), _MAX_CHARACTERS)) for name, value in figures]
    further = len(rows) - _MAX_FIGURES
    rest = f"\n… {pluralize(further, 'further figure')}: --json" if further > 0 else ""
    return align_columns(rows[:_MAX_FIGURES]) + rest if rows else ""


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
        cells = [plain_value(cell) for cell in values[:_MAX_ROWS]]
        header = Text(sanitize(name.replace("_", " ")))
        lines.add_column(header, justify="right" if is_numeric_column(cells) else "left", vertical="bottom")
        columns.append([shorten_middle(sanitize(word), _MAX_CHARACTERS) for word in format_column(cells)])
    for row in zip(*columns, strict=True):
        lines.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in row))
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(lines)
    assert isinstance(console.file, io.StringIO)
    text = "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())
    rest = f"\n… {pluralize(rows - _MAX_ROWS, 'further row')}: --out writes them" if rows > _MAX_ROWS else ""
    return f"{title}\n{text}{rest}"


def audit_header(folder: RunFolder) -> "AuditHeader":
    """Return the record of an audit as its files show it. Raises HarnessError if it cannot be read."""
    # It loads jinja2.
    from harness.submit.audit_page import AuditHeader

    record, spec = read_record(folder), folder.audit_spec()
    audit_type = audit_named(spec.audit)
    fields = vars(record) | {"spec": with_precision(spec, record.loaded)}
    return AuditHeader(**fields, title=audit_type.title, reference=audit_type.reference)


def with_precision(spec: AuditSpec, loaded: Mapping[int, Mapping[str, Any]]) -> AuditSpec:
    """Return `spec` with the precision of each model that was loaded; on a CPU, `auto` is float32."""
    models = []
    for number, model in enumerate(spec.models):
        planned = "float32" if model.device == "cpu" and model.dtype == "auto" else model.dtype
        models.append(model.model_copy(update={"dtype": loaded.get(number, {}).get("dtype", planned)}))
    return spec.model_copy(update={"models": tuple(models)})


def write_findings(out: Path, folder: RunFolder, findings: Findings) -> None:
    """Write tables, figures and a page to the directory `out`. Raises HarnessError as `write_audit` does."""
    # It loads matplotlib.
    from harness.submit.audit_export import write_audit

    files = write_audit(out, findings, audit_header(folder))
    say(f"wrote {pluralize(len(files), 'file')} to {out}; open {out / 'index.html'}")
