"""The Croissant metadata of an audit: croissant.json, with the hash of each file and the type of each column."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.core.files import file_sha256
from harness.core.text import sanitize
from harness.core.times import utc_date
from harness.submit.audit_dataset import DatasetColumn, DatasetTable, dataset_summary, dataset_title
from harness.submit.audit_page import AuditHeader
from harness.submit.audit_tables import whole_text

_CONFORMS_TO = "http://mlcommons.org/croissant/1.0"
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
"""The context that version 1.0 of the specification asks for."""
_DATA_TYPES = {"string": "sc:Text", "int64": "sc:Integer", "double": "sc:Float", "bool": "sc:Boolean"}


def croissant_metadata(folder: Path, header: AuditHeader, tables: Sequence[DatasetTable]) -> str:
    """Return the content of croissant.json for the tables in `folder`. Equal findings give equal metadata.

    The date is that of the audit, in UTC, because the specification requires one.
    """
    version = header.spec.versions.get("harness", "unknown")
    reference = {"citeAs": _shown(header.reference)} if header.reference else {}
    metadata = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": _shown(dataset_title(header)),
        "description": _shown(dataset_summary(header)),
        "conformsTo": _CONFORMS_TO,
        **reference,
        # The specification requires a creator. The record does not name the person.
        "creator": {"@type": "sc:Person", "name": f"a user of harness {version}"},
        "datePublished": utc_date(header.spec.created_at),
        "keywords": ["memorization", "training-data-extraction", _shown(header.spec.audit)],
        "license": "other: the terms of the corpus and of the model apply",
        "url": "index.html",
        "version": "1.0.0",
        "distribution": [_file_object(folder, table) for table in tables],
        # A table without columns has no fields, and a record set needs some.
        "recordSet": [_record_set(table) for table in tables if any(column.name for column in table.columns)],
    }
    return json.dumps(metadata, indent=1, allow_nan=False) + "\n"


def _file_object(folder: Path, table: DatasetTable) -> dict[str, Any]:
    file = folder / table.parquet
    return {
        "@type": "cr:FileObject",
        "@id": _id(str(table.parquet)),
        "name": table.parquet.name,
        "description": _shown(table.title),
        "contentUrl": str(table.parquet),
        "contentSize": f"{file.stat().st_size} B",
        "encodingFormat": "application/x-parquet",
        "sha256": file_sha256(file),
    }


def _record_set(table: DatasetTable) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": _id(table.name),
        "name": table.name,
        "description": _shown(table.title),
        # Croissant cannot name a column whose name is empty.
        "field": [_field(table, column) for column in table.columns if column.name],
    }


def _field(table: DatasetTable, column: DatasetColumn) -> dict[str, Any]:
    element_type = "double" if column.is_list else column.arrow_type
    return {
        "@type": "cr:Field",
        "@id": f"{_id(table.name)}/{_id(column.name)}",
        "name": _shown(column.name),
        "description": _shown(column.meaning or column.type),
        "dataType": _DATA_TYPES.get(element_type, "sc:Text"),
        **({"repeated": True} if column.is_list else {}),
        "source": {"fileObject": {"@id": _id(str(table.parquet))}, "extract": {"column": column.name}},
    }


def _id(name: str) -> str:
    """Return `name` as an identifier: those of JSON-LD are parts of a URL."""
    return quote(name, safe="/" if name.startswith("tables/") else "")


def _shown(text: str) -> str:
    return sanitize(whole_text(text))
