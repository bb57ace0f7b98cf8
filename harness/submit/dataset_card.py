"""The README.md of an audit's folder, by which it is a Hugging Face data set."""

import json
import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from harness.core.findings import Findings, FoundTable
from harness.core.templates import filled_in
from harness.core.text import sanitize
from harness.submit.audit_page import AuditHeader
from harness.submit.finding_tables import row_count, whole_text

SPLIT = "audit"
"""The name of the only split of each table. The usual name, `train`, would suggest rows of training data."""
# What Markdown, HTML inside Markdown and formulas give a meaning to. `://` and `www.` would become a link.
_SPECIAL = re.compile(r"[\\`*_\[\]<>&|~$@]|(?<=:)/(?=/)|(?<=www)\.", re.IGNORECASE)
_BLOCK_START = re.compile(r"^(?:(?=[#+=-])|(\d+)(?=[.)](?:\s|$)))")


def dataset_card(findings: Findings, header: AuditHeader, tables: Sequence[tuple[FoundTable, PurePosixPath]]) -> str:
    """Return the content of README.md. Equal findings give equal cards, without dates and absolute paths.

    `tables` are the tables with their Parquet files, relative to the folder.
    """
    # `datasets` cannot load a table without rows or columns, and a configuration that fails helps nobody.
    loadable = [(table.name, str(file)) for table, file in tables if row_count(table)]
    return filled_in(
        "harness.submit",
        "dataset_card.md",
        title=f"{header.title}: {header.spec.subject}",
        header=header,
        tables=loadable,
        split=SPLIT,
        is_redacted=findings.is_redacted,
        markdown=markdown_text,
        yaml=yaml_string,
    )


def markdown_text(text: str) -> str:
    """Return `text` on one line of Markdown in which nothing is formatting, a link or HTML."""
    line = " ".join(sanitize(whole_text(text)).split())
    return _BLOCK_START.sub(r"\1\\", _SPECIAL.sub(r"\\\g<0>", line))


def yaml_string(text: str) -> str:
    """Return `text` as a double-quoted YAML scalar on one line. Control characters become visible marks."""
    # YAML does not join the two surrogates that JSON writes for a character beyond U+FFFF unless it is left as it is.
    return json.dumps(sanitize(whole_text(text)), ensure_ascii=False)
