"""Read names from lists, CoNLL-2003 corpora and Wikidata results."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harness.audits.entities.prompts import lines_of
from harness.core.errors import HarnessError
from harness.core.text import composed, shorten
from harness.corpora.text_files import parse_json, read_text

_TAG = re.compile(r"O|[BIESLU]-\S+")
PERSONS = ("PER", "PERSON")
"""The names of a person in label schemes, after any prefix."""
_NAME_COLUMNS = ("personlabel", "itemlabel", "name", "names", "label")
"""Columns that contain names, best first, in lower case."""
_UNNAMED = re.compile(r"Q\d+")
"""The result of Wikidata's label service for an entity without a label."""
_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"(?:@[\w-]+|\^\^.*)?')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r"}


class NameLists(NamedTuple):
    """Names that the model was trained on, names that it was not trained on, and notes on skipped names."""

    inside: list[str]
    outside: list[str]
    notes: list[str]


def read_names(file: Path) -> tuple[list[str], list[str]]:
    """Return distinct names and notes, from text (one name per line), CSV or TSV.

    A table has a header, with a column such as `name` or `personLabel`; without one, a file of one column is a list.
    Raises HarnessError if there is no name, or if the column is not clear.
    """
    cells = _name_cells(file)
    names = _distinct(cells)
    if not names:
        raise HarnessError(f"{file} contains no names. Expected one name per line.")
    skipped = len(cells) - len(names)
    return names, [f"Skipped {skipped} of {len(cells)} lines of {file.name}: repeated or empty."] if skipped else []


def wikidata_names(file: Path) -> list[str]:
    """Return distinct names of two words or more in the result of a SPARQL query, as JSON, CSV or TSV, in order.

    The column is `personLabel`, `itemLabel` or `name`, else the first `…Label`, else the only one. Raises HarnessError
    if there is none.
    """
    names = _distinct(name for name in _name_cells(file, is_query=True) if " " in name and not _UNNAMED.fullmatch(name))
    if not names:
        raise HarnessError(f"{file} contains no name of two words or more. Expected a column such as personLabel.")
    return names


def _name_cells(file: Path, *, is_query: bool = False) -> list[str]:
    """Return the name in each record of a list or a table, empty if it has none.

    is_query: the file is the result of a SPARQL query, which has a header. Raises HarnessError if the column of the
    names is not clear.
    """
    titles, *records = _records(file, is_query=is_query) or [[]]
    columns = [title.strip().removeprefix("?") for title in titles]  # TSV of a query has variables
    ranks = {
        place: _NAME_COLUMNS.index(title.casefold()) if title.casefold() in _NAME_COLUMNS else len(_NAME_COLUMNS)
        for place, title in enumerate(columns)
        if title.casefold() in _NAME_COLUMNS or (is_query and title.endswith("Label"))
    }
    if not ranks and len(columns) != 1 and (is_query or file.suffix.lower() == ".csv"):
        listing = shorten(", ".join(columns), 80) or "none"
        raise HarnessError(f"no column of {file} is called name or …Label. Its columns: {listing}.")
    if not ranks and not is_query:
        records = [titles, *records]
    # A query may return other labels too, such as countryLabel.
    column = min(ranks, key=lambda place: ranks[place], default=0)
    return [" ".join(_literal(cells[column]).split()) if len(cells) > column else "" for cells in records]


def _records(file: Path, *, is_query: bool) -> list[list[str]]:
    """Return the cells of each record, the header first if there is one."""
    text = read_text(file)
    if is_query and text.lstrip().startswith(("{", "[")):
        rows = _json_rows(file, text)
        columns = list(dict.fromkeys(column for row in rows for column in row))
        values = [[row.get(column) for column in columns] for row in rows]
        return [columns, *([value if isinstance(value, str) else "" for value in row] for row in values)]
    lines = [line for line in lines_of(file) if line.strip()]
    # A spreadsheet whose numbers have decimal commas separates cells by semicolons.
    delimiter = ";" if lines and ";" in lines[0] and "," not in lines[0] else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    records: list[list[str]] = []
    try:
        titles = next(csv.reader(lines[:1], delimiter=delimiter), [])
        # A name in a list may contain a comma, so only the header shows that a text file is a table.
        is_table = len(titles) > 1 and any(title.strip().casefold() in _NAME_COLUMNS for title in titles)
        if not (is_table or file.suffix.lower() == ".csv" or (is_query and "\t" not in "".join(lines[:1]))):
            return [line.split("\t") for line in lines]
        for cells in reader:
            if records and len(cells) > len(records[0]):
                raise HarnessError(
                    f"more cells than columns: {file}, line {reader.line_num}. Put a name with a comma in quotes."
                )
            if any(map(str.strip, cells)):
                records.append(cells)
    except csv.Error as error:
        raise HarnessError(f"not valid CSV: {file} ({error}).") from None
    return records


def conll_names(files: Sequence[Path]) -> list[str]:
    """Return distinct person names of two words or more in CoNLL-2003 files (word first, tag last), in order.

    Both IOB1 (B- only between neighbours) and IOB2 (B- at each beginning) are read: a name begins at B-, and at I-
    without a name of that kind before. Raises HarnessError for a line without a tag, and if no name is found.
    """
    marked: list[str] = []
    for file in files:
        words: list[str] = []
        kind_before = ""
        for number, line in enumerate([*lines_of(file), ""], 1):
            cells = [] if line.startswith("-DOCSTART-") else line.split()
            tag = cells[-1] if len(cells) > 1 else "O"
            if len(cells) == 1 or not _TAG.fullmatch(tag):
                raise HarnessError(
                    f"not a line of a CoNLL-2003 file: {file}, line {number}, {shorten(line.strip(), 40)!r}. Expected "
                    "a word first and a tag such as B-PER or O last."
                )
            prefix, _, kind = tag.partition("-")
            if prefix in ("B", "S", "U") or kind != kind_before:
                marked.append(" ".join(words))
                words = []
            if kind.upper() in PERSONS:
                words.append(cells[0])
            kind_before = kind if cells else ""
        marked.append(" ".join(words))
    names = _distinct(name for name in marked if " " in name)
    if not names:
        raise HarnessError(f"{files[0]} marks no person of two words or more. Expected tags B-PER and I-PER.")
    return names


def select_from_source(trained: Sequence[str], source: Sequence[str], seed: int) -> NameLists:
    """Return the names of `source` in `trained`, and equally many that are not, so that both have the same origin.

    A name that `trained` spells in other letter case, as headlines do, is in neither list. Raises HarnessError if a
    list is empty.
    """
    exact = set(map(composed, trained))
    folded = {name.casefold() for name in exact}
    inside = [name for name in source if composed(name) in exact]
    outside = [name for name in source if composed(name).casefold() not in folded]
    if not inside or not outside:
        raise HarnessError(
            f"{len(inside)} of {len(source)} Wikidata names are in the corpus and {len(outside)} are not. Both lists "
            "need names: query for more."
        )
    sample = np.random.default_rng([seed, 0]).permutation(len(outside))[: len(inside)]
    notes = []
    if len(outside) < len(inside):
        notes.append(
            f"Only {len(outside)} Wikidata names are not in the corpus, fewer than the {len(inside)} that are."
        )
    return NameLists(inside, [outside[place] for place in np.sort(sample)], notes)


def drop_common(inside: Sequence[str], outside: Sequence[str]) -> NameLists:
    """Return both lists without the names that are in both."""
    both = set(map(composed, inside)) & set(map(composed, outside))
    first, second = ([name for name in names if composed(name) not in both] for names in (inside, outside))
    return NameLists(first, second, [f"Skipped {len(both)} names that are in both lists."] if both else [])


def _literal(cell: str) -> str:
    """Return the text of a cell, which in the TSV of a SPARQL result is a literal such as `"Anna Bell"@en`."""
    literal = _LITERAL.fullmatch(cell.strip())
    return _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[1]), literal[1]) if literal else cell


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name))


def _json_rows(file: Path, text: str) -> list[dict[str, Any]]:
    """Return the rows of the SPARQL 1.1 JSON format, or of the list that Wikidata's page offers for download."""
    try:
        content = parse_json(text)
        if isinstance(content, list):
            return [row for row in content if isinstance(row, dict)]
        bindings = content["results"]["bindings"]
        return [{name: cell["value"] for name, cell in row.items()} for row in bindings]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise HarnessError(f"not the JSON of a SPARQL result: {file}. Expected results, bindings, value.") from None
