"""The data set card of an audit's folder: README.md, with which `datasets` and the Hugging Face Hub load its tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.core import paths
from harness.core.findings import Findings, FoundTable
from harness.core.text import pluralize
from harness.runs.status import Status
from harness.submit.audit_page import AuditHeader
from harness.submit.audit_tables import whole_text
from harness.submit.html_page import terms_of
from harness.submit.markdown_escape import markdown_text, yaml_string

SPLIT = "audit"
"""The name of the only split of each table. The usual name, `train`, would suggest rows of training data."""
_TEMPLATE = "dataset_card.md.j2"
_QUOTED = "text of the corpus or of the model"
_REDACTED = f"length and hash of a {_QUOTED}"
_TYPES = {"string": "text", "int64": "whole number", "double": "number", "bool": "true or false"}


@dataclass(frozen=True)
class DatasetColumn:
    """A column of a table as it is stored.

    `arrow_type` is its type in Parquet, and `type` its type in words. `meaning` has the definitions of the terms in its
    name, '' if there are none.
    """

    name: str
    arrow_type: str
    type: str
    meaning: str

    @property
    def is_list(self) -> bool:
        return self.arrow_type.startswith("list")


@dataclass(frozen=True)
class DatasetTable:
    """A table of the data set. `parquet` and `csv` are its files, relative to the folder."""

    name: str
    title: str
    rows: int
    columns: Sequence[DatasetColumn]
    parquet: PurePosixPath
    csv: PurePosixPath


def stored_tables(
    folder: Path,
    findings: Findings,
    files: Sequence[tuple[FoundTable, PurePosixPath, PurePosixPath]],
) -> list[DatasetTable]:
    """Return the tables that were written to `folder`, with the types that their Parquet files have.

    `files` are the tables with their CSV and Parquet files.
    """
    import pyarrow.parquet

    tables = []
    for table, csv, parquet in files:
        schema = pyarrow.parquet.read_schema(folder / parquet)
        rows = pyarrow.parquet.read_metadata(folder / parquet).num_rows
        types = dict.fromkeys(map(whole_text, table.text_columns), _REDACTED if findings.is_redacted else _QUOTED)
        columns = [
            DatasetColumn(
                field.name,
                str(field.type),
                types.get(field.name, _TYPES.get(str(field.type), "list of numbers")),
                _meaning(field.name, findings.definitions),
            )
            for field in schema
        ]
        tables.append(DatasetTable(table.name, table.title, rows, columns, parquet, csv))
    return tables


def dataset_card(findings: Findings, header: AuditHeader, tables: Sequence[DatasetTable]) -> str:
    """Return the content of README.md. Equal findings give equal cards, without dates and absolute paths."""
    environment = Environment(
        loader=FileSystemLoader(paths.PACKAGE / "submit" / "templates"),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701
        finalize=lambda value: markdown_text(value) if isinstance(value, str) else value,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"yaml": lambda text: Markup(yaml_string(text))}  # noqa: S704
    spec = header.spec
    return environment.get_template(_TEMPLATE).render(
        title=dataset_title(header),
        summary=dataset_summary(header),
        conclusion=findings.conclusion,
        header=header,
        spec=spec,
        harness_version=spec.versions.get("harness", "unknown"),
        models=spec.models,
        inputs=[(name, record.path.name, record.sha256) for name, record in spec.paths.items()],
        is_complete=header.status is Status.FINISHED,
        sentences=findings.sentences,
        tables=tables,
        # `datasets` cannot load a table without rows, and a configuration that fails helps nobody.
        loadable=[table for table in tables if table.rows and table.columns],
        split=SPLIT,
        definitions=findings.definitions,
        is_redacted=findings.is_redacted,
        pluralize=pluralize,
    )


def dataset_title(header: AuditHeader) -> str:
    """Return the name of the data set."""
    return f"{header.title}: {header.spec.subject}"


def dataset_summary(header: AuditHeader) -> str:
    """Return one sentence about what was measured: the audit, the targets and the source."""
    models = header.model if header.endpoint or header.spec.models else "stored results"
    return (
        f"Results of the audit “{header.title}” (harness audit {header.spec.audit}), which measures what a model has "
        f"memorized. Target: {models}. Source: {header.spec.subject}."
    )


def _meaning(column: str, definitions: Mapping[str, str]) -> str:
    terms = terms_of([column.replace("_", " ")], definitions)
    return "; ".join(f"{term}: {definitions[term]}" for term in terms)
