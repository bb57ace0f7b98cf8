"""Names of persons from files that nobody vouches for: lists, CoNLL-2003 corpora, results of a Wikidata query."""

import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harness.audits.entities.prompt import lines_of, text_of
from harness.core.errors import HarnessError
from harness.core.text import shorten

_TAG = re.compile(r"O|[BIESLU]-\S+")
_PERSONS = ("PER", "PERSON")
_NAME_COLUMNS = ("personlabel", "itemlabel", "name", "names", "label")
_UNNAMED = re.compile(r"Q\d+")
"""What Wikidata's label service gives where an entity has no label."""


class NameLists(NamedTuple):
    """Names that the model was trained on, names that it was not, and sentences on what was left out."""

    inside: list[str]
    outside: list[str]
    notes: list[str]


def read_names(file: Path) -> tuple[list[str], list[str]]:
    """Distinct names and what to say about it, from a text (one a line) or a TSV (its `name` column, else the first).

    Raises HarnessError when there is none.
    """
    lines = [line for line in lines_of(file) if line.strip()]
    column = 0
    if lines and "\t" in lines[0]:
        head = [cell.strip().casefold() for cell in lines[0].split("\t")]
        titled = [place for place, cell in enumerate(head) if cell in _NAME_COLUMNS]
        if titled:
            column = titled[0]
            lines = lines[1:]
    elif lines and lines[0].strip().casefold() in _NAME_COLUMNS:
        lines = lines[1:]
    rows = [line.split("\t") for line in lines]
    found = [_plain(cells[column]) for cells in rows if len(cells) > column]
    names = _distinct(found)
    if not names:
        raise HarnessError(f"{file}: no name in it; write one a line.")
    notes = []
    if len(names) < len(rows):
        notes.append(f"{file.name}: {len(rows) - len(names)} of {len(rows)} lines are repeated or hold no name.")
    return names, notes


def conll_names(files: Sequence[Path]) -> list[str]:
    """Distinct person names of two words or more in CoNLL-2003 files, in order: word first, tag last on a line.

    Both IOB1 (B- only between neighbours) and IOB2 (B- at each beginning) are read: a name begins at B-, and at I-
    where no name of that kind goes on. Raises HarnessError for a line without a tag, and where no name is found.
    """
    found: list[str] = []
    for file in files:
        words: list[str] = []
        kind_before = ""
        for number, line in enumerate([*lines_of(file), ""], 1):
            cells = [] if line.startswith("-DOCSTART-") else line.split()
            tag = cells[-1] if len(cells) > 1 else "O"
            if len(cells) == 1 or not _TAG.fullmatch(tag):
                raise HarnessError(
                    f"{file}, line {number}: {shorten(line.strip(), 40)!r} is no line of a CoNLL-2003 file, "
                    "a word first and a tag such as B-PER or O last."
                )
            prefix, _, kind = tag.partition("-")
            if prefix in ("B", "S", "U") or kind != kind_before:
                found.append(" ".join(words))
                words = []
            if kind.upper() in _PERSONS:
                words.append(cells[0])
            kind_before = kind if cells else ""
        found.append(" ".join(words))
    names = _distinct(name for name in found if " " in name)
    if not names:
        raise HarnessError(f"{files[0]}: no person of two words or more is marked in it (B-PER, I-PER).")
    return names


def wikidata_names(file: Path) -> list[str]:
    """Distinct names of two words or more in the result of a SPARQL query, as JSON or CSV, in order.

    The column is the one called `personLabel`, `itemLabel` or `name`, else the first `…Label`, else the only one.
    Raises HarnessError when there is none.
    """
    text = text_of(file)
    rows = _json_rows(file, text) if text.lstrip().startswith(("{", "[")) else _csv_rows(file, text)
    columns = list(dict.fromkeys(column for row in rows for column in row))
    named = [column for column in columns if column.casefold() in _NAME_COLUMNS or column.endswith("Label")]
    if not named and len(columns) != 1:
        raise HarnessError(
            f"{file}: none of its columns ({shorten(', '.join(columns), 80) or 'none'}) is called name or …Label."
        )
    # A query may ask for other labels too: countryLabel.
    column = min(named or columns, key=_rank)
    cells = (_plain(row[column]) for row in rows if isinstance(row.get(column), str))
    names = _distinct(name for name in cells if " " in name and not _UNNAMED.fullmatch(name))
    if not names:
        raise HarnessError(f"{file}: no name of two words or more in its column {shorten(column)!r}.")
    return names


def from_one_source(trained: Sequence[str], source: Sequence[str], seed: int) -> NameLists:
    """Names of `source` that are among `trained`, and as many that are not, so that both come from one source.

    A name that `trained` holds in other letters, as headlines do, is neither. Raises HarnessError when none is left.
    """
    exact, alike = set(trained), {name.casefold() for name in trained}
    inside = [name for name in source if name in exact]
    outside = [name for name in source if name.casefold() not in alike]
    if not inside or not outside:
        raise HarnessError(
            f"of {len(source)} Wikidata names {len(inside)} are among the corpus's and {len(outside)} are not: "
            "some of both are needed."
        )
    chosen = np.random.default_rng([seed, 0]).permutation(len(outside))[: len(inside)]
    notes = []
    if len(outside) < len(inside):
        notes.append(
            f"Only {len(outside)} Wikidata names are not in the corpus, fewer than the {len(inside)} that are."
        )
    return NameLists(inside, [outside[place] for place in np.sort(chosen)], notes)


def apart(inside: Sequence[str], outside: Sequence[str]) -> NameLists:
    """Both lists without the names that stand in both."""
    both = set(inside) & set(outside)
    notes = [f"Names in both lists, and left out of both: {len(both)}."] if both else []
    return NameLists(
        [name for name in inside if name not in both], [name for name in outside if name not in both], notes
    )


def halves(names: Sequence[str], seed: int, part: int) -> tuple[list[str], list[str]]:
    """Dev and test halves of a list, a pure function of list, seed and `part`, its number."""
    order = np.random.default_rng([seed, part]).permutation(len(names))
    half = len(names) // 2
    return [names[place] for place in order[:half]], [names[place] for place in order[half:]]


def _rank(column: str) -> int:
    """The lower, the likelier is it a column of persons' names."""
    folded = column.casefold()
    return _NAME_COLUMNS.index(folded) if folded in _NAME_COLUMNS else len(_NAME_COLUMNS)


def _plain(cell: str) -> str:
    return " ".join(cell.split())


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name))


def _json_rows(file: Path, text: str) -> list[dict[str, Any]]:
    """Rows of the SPARQL 1.1 JSON format, and of the plain list that Wikidata's page offers for download."""
    try:
        content = json.loads(text)
        if isinstance(content, list):
            return [row for row in content if isinstance(row, dict)]
        bindings = content["results"]["bindings"]
        return [{name: cell["value"] for name, cell in row.items()} for row in bindings]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise HarnessError(f"{file}: not the JSON of a SPARQL result (results, bindings, value).") from None


def _csv_rows(file: Path, text: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    reader = csv.DictReader(io.StringIO(text))
    try:
        for row in reader:
            # Where the reader puts cells beyond the last column.
            if None in row:
                raise HarnessError(
                    f"{file}, line {reader.line_num}: more cells than columns; write a name with a comma in quotes."
                )
            rows.append(row)
        return rows
    except csv.Error as error:
        raise HarnessError(f"{file}: not the CSV of a SPARQL result ({error}).") from None
