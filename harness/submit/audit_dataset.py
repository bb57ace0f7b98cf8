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
from harness.submit.audit_page import AuditHeader, short_name
from harness.submit.audit_tables import whole_text
from harness.submit.html_page import terms_of
from harness.submit.markdown_escape import markdown_text, yaml_string

SPLIT = "audit"
"""The name of the only split of each table. The usual name, `train`, would suggest rows of training data."""
_TEMPLATE = "dataset_card.md.j2"
_TEXT_TYPE = "text"
_TYPES = {"string": _TEXT_TYPE, "int64": "whole number", "double": "number", "bool": "true or false"}


@dataclass(frozen=True)
class DatasetColumn:
    """A column of a table as it is stored. `arrow_type` is its type in Parquet, `meaning` is '' if it is unknown."""

    name: str
    arrow_type: str
    meaning: str

    @property
    def type(self) -> str:
        """The type in words."""
        return "list of numbers" if self.is_list else _TYPES.get(self.arrow_type, self.arrow_type)

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
    *,
    is_redacted: bool,
) -> list[DatasetTable]:
    """Return the tables that were written to `folder`, with the types that their Parquet files have.

    `files` are the tables with their CSV and Parquet files.
    """
    import pyarrow.parquet

    tables = []
    for table, csv, parquet in files:
        schema = pyarrow.parquet.read_schema(folder / parquet)
        rows = pyarrow.parquet.read_metadata(folder / parquet).num_rows
        texts = set(map(whole_text, table.text_columns))
        columns = [
            DatasetColumn(
                field.name,
                str(field.type),
                _meaning(field.name, findings.definitions, is_text=field.name in texts, is_redacted=is_redacted),
            )
            for field in schema
        ]
        tables.append(DatasetTable(table.name, table.title, rows, columns, parquet, csv))
    return tables


def dataset_card(findings: Findings, header: AuditHeader, tables: Sequence[DatasetTable], *, is_redacted: bool) -> str:
    """Return the content of README.md. Equal findings give equal cards, without dates and absolute paths."""
    environment = Environment(
        loader=FileSystemLoader(paths.PACKAGE / "submit" / "templates"),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701
        finalize=lambda value: markdown_text(_without_directories(value, header)) if isinstance(value, str) else value,
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
        models=[(short_name(model), model) for model in spec.models],
        inputs=[(name, record.path.name, record.sha256) for name, record in spec.paths.items()],
        is_complete=header.status is Status.FINISHED,
        sentences=findings.sentences,
        tables=tables,
        # `datasets` cannot load a table without rows, and a configuration that fails helps nobody.
        loadable=[table for table in tables if table.rows and table.columns],
        split=SPLIT,
        is_redacted=is_redacted,
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


def _without_directories(text: str, header: AuditHeader) -> str:
    """Return `text` with each model that is named by its directory named as on the page. Markup stays unchanged."""
    if isinstance(text, Markup):
        return text
    for model in header.spec.models:
        # The directory `.` is in every sentence.
        if "/" in model.id:
            text = text.replace(model.id, short_name(model))
    return text


def _meaning(name: str, definitions: Mapping[str, str], *, is_text: bool, is_redacted: bool) -> str:
    """Return what is known of a column: the definitions of the terms in its name, and whether it holds a text."""
    known = [f"{term}: {definitions[term]}" for term in terms_of([name.replace("_", " ")], definitions)]
    if is_text:
        known.append(
            "length and hash of a text of the corpus or of the model"
            if is_redacted
            else "text of the corpus or of the model"
        )
    return "; ".join(known)
