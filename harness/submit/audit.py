"""What an audit leaves on disk: a folder of tables, charts, figures and a page, written whole or not at all."""

import json
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from harness.core.errors import HarnessError
from harness.core.files import sync_folder
from harness.core.findings import Findings, Passage
from harness.figures.charts import draw_chart
from harness.submit.audit_page import AuditHeader, ShownChart, audit_page
from harness.submit.audit_tables import write_csv, write_parquet
from harness.submit.found import without_text

__all__ = ["AuditHeader", "require_room_for_audit", "write_audit"]

_FORMAT = "harness audit, 1"
_RECORD, _PAGE = "findings.json", "index.html"
_TABLES, _FIGURES = PurePosixPath("tables"), PurePosixPath("figures")
_LONGEST_NAME = 80


def require_room_for_audit(out: Path) -> None:
    """Raise HarnessError unless `out` is absent, empty, or an earlier audit's output that nobody added to."""
    beside = out.resolve().parent
    if not beside.is_dir():
        raise HarnessError(f"{beside}: no such folder.")
    if not os.access(beside, os.W_OK | os.X_OK):
        raise HarnessError(f"{beside}: cannot be written to; name another folder with --out.")
    if not out.exists():
        return
    if not out.is_dir():
        raise HarnessError(f"{out}: a file; an audit writes a folder, name another with --out.")
    there = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_symlink() or not path.is_dir()}
    if not there:
        return
    written = _written_earlier(out / _RECORD)
    if written is None:
        raise HarnessError(f"{out}: a folder with files, and no audit wrote them; name another with --out.")
    if added := sorted(there - written):
        raise HarnessError(f"{out}: an audit's folder, which {added[0]} was added to; move that away, or name another.")


def write_audit(out: Path, findings: Findings, header: AuditHeader, *, redact: bool) -> list[Path]:
    """The files written to the folder `out`, replacing what an earlier audit wrote there; equal findings, equal bytes.

    With `redact`, text columns and passages are told by their length and hash in all of them. Raises HarnessError as
    `require_room_for_audit` does, or when the folder cannot be written.
    """
    require_room_for_audit(out)
    if redact:
        findings = without_text(findings)
    try:
        place = out.resolve()
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}.") as beside:
            new = Path(beside) / "new"
            new.mkdir()
            files = _written(new, findings, header, is_redacted=redact)
            _put_in_place(new, place, Path(beside) / "earlier")
    except OSError as error:
        raise HarnessError(f"{out}: cannot be written ({error.strerror}).") from None
    return [out / file for file in files]


def _written(folder: Path, findings: Findings, header: AuditHeader, *, is_redacted: bool) -> list[PurePosixPath]:
    """Lay everything into `folder`, synced to disk; where it lies in there."""
    (folder / _TABLES).mkdir()
    (folder / _FIGURES).mkdir()
    tables = []
    for table, name in zip(findings.tables, _file_names(table.name for table in findings.tables), strict=True):
        tables.append((table, _TABLES / f"{name}.csv", _TABLES / f"{name}.parquet"))
        write_csv(table, folder / tables[-1][1])
        write_parquet(table, folder / tables[-1][2])
    charts = []
    for chart, name in zip(findings.charts, _file_names(chart.name for chart in findings.charts), strict=True):
        file = _FIGURES / f"{name}.svg"
        (folder / file).write_text(draw_chart(chart, is_titled=True).svg, encoding="utf-8")
        charts.append(ShownChart(chart.title, *draw_chart(chart, is_titled=False), file))
    page = audit_page(findings, header, charts=charts, files=tables, is_redacted=is_redacted)
    (folder / _PAGE).write_text(page, encoding="utf-8")
    files = [PurePosixPath(_PAGE), PurePosixPath(_RECORD), *(chart.file for chart in charts)]
    files += [file for _, csv, parquet in tables for file in (csv, parquet)]
    record = {
        "format": _FORMAT,
        "audit": _header_as_json(header),
        "is_redacted": is_redacted,
        "figures": dict(findings.figures),
        "sentences": list(findings.sentences),
        "warnings": list(header.warnings),
        "tables": [
            {"name": table.name, "title": table.title, "csv": str(csv), "parquet": str(parquet)}
            for table, csv, parquet in tables
        ],
        "charts": [{"title": chart.title, "svg": str(chart.file)} for chart in charts],
        "passages": [_passage_as_json(passage) for passage in findings.passages],
        "files": sorted(map(str, files)),
    }
    (folder / _RECORD).write_text(json.dumps(record, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    for path in (folder / file for file in files):
        _sync(path)
    return files


def _put_in_place(new: Path, out: Path, earlier: Path) -> None:
    """`new` where `out` was, which goes to `earlier`, and comes back if that fails."""
    if not out.exists() or not any(out.iterdir()):
        new.replace(out)
    else:
        out.replace(earlier)
        try:
            new.replace(out)
        except OSError:
            earlier.replace(out)
            raise
    sync_folder(out.parent)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _written_earlier(record: Path) -> set[str] | None:
    """The files that an earlier audit wrote beside its record; None where that is none."""
    try:
        found = json.loads(record.read_bytes())
        return set(map(str, found["files"])) if found["format"] == _FORMAT else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _file_names(names: Iterable[str]) -> list[str]:
    """A file name for each name, all of them different on any file system."""
    made: list[str] = []
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")[:_LONGEST_NAME] or "unnamed"
        number, free = 1, plain
        while free.casefold() in map(str.casefold, made):
            number += 1
            free = f"{plain}-{number}"
        made.append(free)
    return made


def _header_as_json(header: AuditHeader) -> dict[str, Any]:
    return {
        "run": header.run,
        "audit": header.audit,
        "reference": header.reference,
        "status": header.status,
        "reason": header.reason,
        "created_at": header.created_at,
        "elapsed_s": header.spent,
        "budget_s": header.budget,
        "models": [model.model_dump(mode="json", exclude={"path"}) for model in header.models],
        "endpoint": header.asked or None,
        "inputs": {name: {"name": record.path.name, "sha256": record.sha256} for name, record in header.inputs.items()},
        "params": json.loads(json.dumps(dict(header.params), default=str)),
        "seed": header.seed,
        "versions": dict(header.versions),
        "sandbox": header.sandbox,
    }


def _passage_as_json(passage: Passage) -> dict[str, Any]:
    texts = []
    for label, stretches in passage.texts:
        marked, at = [], 0
        for stretch in stretches:
            if stretch.is_marked and stretch.text:
                marked.append([at, at + len(stretch.text)])
            at += len(stretch.text)
        texts.append({"label": label, "text": "".join(stretch.text for stretch in stretches), "marked": marked})
    return {"title": passage.title, "texts": texts}
