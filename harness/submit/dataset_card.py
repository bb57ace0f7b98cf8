"""The data set card of an audit's folder: README.md, with which `datasets` and the Hugging Face Hub load its tables."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from harness.core.findings import Findings, FoundTable
from harness.core.text import sanitize
from harness.submit.audit_page import AuditHeader
from harness.submit.audit_tables import row_count, whole_text

SPLIT = "audit"
"""The name of the only split of each table. The usual name, `train`, would suggest rows of training data."""
# What Markdown, HTML inside Markdown and formulas give a meaning to. `://` and `www.` would become a link.
_SPECIAL = re.compile(r"[\\`*_\[\]<>&|~$@]|(?<=:)/(?=/)|(?<=www)\.", re.IGNORECASE)
_BLOCK_START = re.compile(r"^(?:(?=[#+=-])|(\d+)(?=[.)](?:\s|$)))")
_BODY = """
# {title}

Results of the audit “{audit}” (`harness audit {name}`), which measures what a model has memorized. Target: {models}.
Source: {subject}. {redaction}

The license depends on the corpus and on the model: replace `license: other` before you publish this folder.

`index.html` shows what was measured, with notes, limitations and definitions. `findings.json` has the parameters, all
figures and all passages. Each table with rows is a configuration with one split, `{split}`.
"""


def dataset_card(findings: Findings, header: AuditHeader, tables: Sequence[tuple[FoundTable, PurePosixPath]]) -> str:
    """Return the content of README.md. Equal findings give equal cards, without dates and absolute paths.

    `tables` are the tables with their Parquet files, relative to the folder.
    """
    spec = header.spec
    title = f"{header.title}: {spec.subject}"
    # `datasets` cannot load a table without rows or columns, and a configuration that fails helps nobody.
    loadable = [(table.name, str(file)) for table, file in tables if row_count(table)]
    front_matter = [f"pretty_name: {yaml_string(title)}", "license: other"]
    front_matter.append("tags: [memorization, training-data-extraction, extraction-harness]")
    if loadable:
        front_matter.append("configs:")
    for place, (name, file) in enumerate(loadable):
        front_matter.append(f"- config_name: {yaml_string(name)}")
        if place == 0:
            front_matter.append("  default: true")
        front_matter.append(f"  data_files: [{{split: {SPLIT}, path: {yaml_string(file)}}}]")
    body = _BODY.format(
        title=markdown_text(title),
        audit=markdown_text(header.title),
        name=spec.audit,
        models=markdown_text(header.model if header.endpoint or spec.models else "stored results"),
        subject=markdown_text(spec.subject),
        redaction=_REDACTED if findings.is_redacted else _NOT_REDACTED,
        split=SPLIT,
    )
    return "\n".join(["---", *front_matter, "---", body])


_REDACTED = "Texts of the corpus and of the model are replaced with their length and hash."
_NOT_REDACTED = "The tables can quote the corpus and text that the model has memorized; `--redact` replaces both."


def markdown_text(text: str) -> str:
    """Return `text` on one line of Markdown in which nothing is formatting, a link or HTML."""
    line = " ".join(sanitize(whole_text(text)).split())
    return _BLOCK_START.sub(r"\1\\", _SPECIAL.sub(r"\\\g<0>", line))


def yaml_string(text: str) -> str:
    """Return `text` as a double-quoted YAML scalar on one line. Control characters become visible marks."""
    # JSON writes a character beyond U+FFFF as two surrogates, which YAML does not join.
    escaped = (
        character if character.isprintable() and character not in '"\\' else f"\\U{ord(character):08X}"
        for character in sanitize(whole_text(text))
    )
    return f'"{"".join(escaped)}"'
