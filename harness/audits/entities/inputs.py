"""Read the inputs of an entities audit: prompts, and names from lists, CoNLL-2003 corpora and Wikidata results.

A prompt is a sentence with one MASK in the place of a name.
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harness.audits.entities.prompt import lines_of, read_prompts
from harness.audits.options import AuditParams, Preparation, Reading, Subject, option
from harness.audits.sources import target_option
from harness.core.audit import AuditInputs
from harness.core.errors import HarnessError, UsageError
from harness.core.text import shorten
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
PARTS = ("in_dev", "in_test", "out_dev", "out_test")
"""The lists of names, in the order of a row of confidences."""
_FEWEST_NAMES = 4
"""An interval needs two names of each list in each half."""


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
    rows = _name_rows(file)
    column = 0
    titles = [place for place, cell in enumerate(rows[0] if rows else []) if _title(cell) in _NAME_COLUMNS]
    if titles:
        column = titles[0]
        rows = rows[1:]
    elif file.suffix.lower() == ".csv" and max(map(len, rows), default=1) > 1:
        raise HarnessError(f"no column of {file} is called name or …Label. Name the column in the first line.")
    names = _distinct(_normalized(_literal(cells[column])) for cells in rows if len(cells) > column)
    if not names:
        raise HarnessError(f"{file} contains no names. Expected one name per line.")
    skipped = len(rows) - len(names)
    return names, [f"Skipped {skipped} of {len(rows)} lines of {file.name}: repeated or empty."] if skipped else []


def _name_rows(file: Path) -> list[list[str]]:
    """Return the cells of each line that is not empty."""
    lines = [line for line in lines_of(file) if line.strip()]
    # A spreadsheet whose numbers have decimal commas separates cells by semicolons.
    delimiter = ";" if lines and ";" in lines[0] and "," not in lines[0] else ","
    titles = next(csv.reader(lines[:1], delimiter=delimiter), [])
    # A name in a list may contain a comma, so only the header shows that a text file is a table.
    if file.suffix.lower() == ".csv" or (len(titles) > 1 and any(_title(cell) in _NAME_COLUMNS for cell in titles)):
        try:
            table = csv.reader(io.StringIO(read_text(file), newline=""), delimiter=delimiter)
            return [row for row in table if any(map(str.strip, row))]
        except csv.Error as error:
            raise HarnessError(f"not valid CSV: {file} ({error}).") from None
    return [line.split("\t") for line in lines]


def conll_names(files: Sequence[Path]) -> list[str]:
    """Return distinct person names of two words or more in CoNLL-2003 files (word first, tag last), in order.

    Both IOB1 (B- only between neighbours) and IOB2 (B- at each beginning) are read: a name begins at B-, and at I-
    without a name of that kind before. Raises HarnessError for a line without a tag, and if no name is found.
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
                    f"not a line of a CoNLL-2003 file: {file}, line {number}, {shorten(line.strip(), 40)!r}. Expected "
                    "a word first and a tag such as B-PER or O last."
                )
            prefix, _, kind = tag.partition("-")
            if prefix in ("B", "S", "U") or kind != kind_before:
                found.append(" ".join(words))
                words = []
            if kind.upper() in PERSONS:
                words.append(cells[0])
            kind_before = kind if cells else ""
        found.append(" ".join(words))
    names = _distinct(name for name in found if " " in name)
    if not names:
        raise HarnessError(f"{files[0]} marks no person of two words or more. Expected tags B-PER and I-PER.")
    return names


def wikidata_names(file: Path) -> list[str]:
    """Return distinct names of two words or more in the result of a SPARQL query, as JSON, CSV or TSV, in order.

    The column is `personLabel`, `itemLabel` or `name`, else the first `…Label`, else the only one. Raises HarnessError
    if there is none.
    """
    text = read_text(file)
    if text.lstrip().startswith(("{", "[")):
        rows = _json_rows(file, text)
    else:
        rows = _tsv_rows(text) if "\t" in text.partition("\n")[0] else _csv_rows(file, text)
    columns = list(dict.fromkeys(column for row in rows for column in row))
    labelled = [column for column in columns if column.casefold() in _NAME_COLUMNS or column.endswith("Label")]
    if not labelled and len(columns) != 1:
        shown = shorten(", ".join(columns), 80) or "none"
        raise HarnessError(f"no column of {file} is called name or …Label. Its columns: {shown}.")
    # A query may return other labels too, such as countryLabel.
    column = min(labelled or columns, key=_rank)
    cells = (_normalized(row[column]) for row in rows if isinstance(row.get(column), str))
    names = _distinct(name for name in cells if " " in name and not _UNNAMED.fullmatch(name))
    if not names:
        raise HarnessError(f"the column {shorten(column)!r} of {file} contains no name of two words or more.")
    return names


def select_from_source(trained: Sequence[str], source: Sequence[str], seed: int) -> NameLists:
    """Return the names of `source` in `trained`, and equally many that are not, so that both have the same origin.

    A name that `trained` spells in other letter case, as headlines do, is in neither list. Raises HarnessError if a
    list is empty.
    """
    exact, folded = set(trained), {name.casefold() for name in trained}
    inside = [name for name in source if name in exact]
    outside = [name for name in source if name.casefold() not in folded]
    if not inside or not outside:
        raise HarnessError(
            f"{len(inside)} of {len(source)} Wikidata names are in the corpus and {len(outside)} are not. Both lists "
            "need names."
        )
    chosen = np.random.default_rng([seed, 0]).permutation(len(outside))[: len(inside)]
    notes = []
    if len(outside) < len(inside):
        notes.append(
            f"Only {len(outside)} Wikidata names are not in the corpus, fewer than the {len(inside)} that are."
        )
    return NameLists(inside, [outside[place] for place in np.sort(chosen)], notes)


def drop_common(inside: Sequence[str], outside: Sequence[str]) -> NameLists:
    """Return both lists without the names that are in both."""
    both = set(inside) & set(outside)
    first, second = ([name for name in names if name not in both] for names in (inside, outside))
    return NameLists(first, second, [f"Skipped {len(both)} names that are in both lists."] if both else [])


def split_halves(names: Sequence[str], seed: int, part: int) -> tuple[list[str], list[str]]:
    """Return dev and test halves of a list, a pure function of the list, the seed and the list's number `part`."""
    order = np.random.default_rng([seed, part]).permutation(len(names))
    half = len(names) // 2
    return [names[place] for place in order[:half]], [names[place] for place in order[half:]]


def _title(cell: str) -> str:
    """Return the name of a column in lower case. The TSV of a SPARQL result has variables, such as `?personLabel`."""
    return cell.strip().removeprefix("?").casefold()


def _literal(cell: str) -> str:
    """Return the text of a cell, which in the TSV of a SPARQL result is a literal such as `"Anna Bell"@en`."""
    found = _LITERAL.fullmatch(cell.strip())
    return _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[1]), found[1]) if found else cell


def _rank(column: str) -> int:
    folded = column.casefold()
    return _NAME_COLUMNS.index(folded) if folded in _NAME_COLUMNS else len(_NAME_COLUMNS)


def _normalized(cell: str) -> str:
    return " ".join(cell.split())


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


def _tsv_rows(text: str) -> list[dict[str, Any]]:
    """Return the rows of the SPARQL 1.1 TSV format, whose cells contain neither tabs nor line ends."""
    header, *lines = [line.split("\t") for line in text.split("\n") if line.strip()]
    columns = [cell.strip().removeprefix("?") for cell in header]
    return [dict(zip(columns, map(_literal, line), strict=False)) for line in lines]


def _csv_rows(file: Path, text: str) -> list[dict[str, Any]]:
    reader = csv.DictReader(io.StringIO(text))
    rows: list[dict[str, Any]] = []
    try:
        for row in reader:
            # DictReader collects cells beyond the last column under None.
            if None in row:
                raise HarnessError(
                    f"more cells than columns: {file}, line {reader.line_num}. Put a name with a comma in quotes."
                )
            rows.append(row)
    except csv.Error as error:
        raise HarnessError(f"not the CSV of a SPARQL result: {file} ({error}).") from None
    return rows


def read_inputs(
    *,
    in_train: Path | None = None,
    out_train: Path | None = None,
    conll: Sequence[Path] = (),
    wikidata: Path | None = None,
    prompts: Path | None = None,
    seed: int = 0,
) -> AuditInputs:
    """Read two lists of names, or a corpus and a Wikidata result to select them from, and prompts.

    prompts: None for the built-in ones. Raises HarnessError if a file cannot be used or too few names are left.
    """
    if in_train is not None and out_train is not None and not conll and wikidata is None:
        (inside, inside_notes), (outside, outside_notes) = read_names(in_train), read_names(out_train)
        lists = drop_common(inside, outside)
        lists = lists._replace(notes=[*inside_notes, *outside_notes, *lists.notes])
    elif conll and wikidata is not None and in_train is None and out_train is None:
        lists = select_from_source(conll_names(conll), wikidata_names(wikidata), seed)
    else:
        raise HarnessError(
            "names need either two lists or a corpus and a query. Give --in-train and --out-train, or --conll and "
            "--wikidata."
        )
    for what, names in (("the model was trained on", lists.inside), ("the model was not trained on", lists.outside)):
        if len(names) < _FEWEST_NAMES:
            raise HarnessError(f"{len(names)} names that {what} are left. Each list needs at least {_FEWEST_NAMES}.")
    texts = dict(zip(PARTS, (*split_halves(lists.inside, seed, 1), *split_halves(lists.outside, seed, 2)), strict=True))
    read, notes = read_prompts(prompts)
    texts |= {
        "prompts": [prompt.text for prompt in read],
        "kinds": [prompt.kind for prompt in read],
        "notes": [*lists.notes, *notes],
    }
    return AuditInputs(texts, {"seed": np.array(seed), "has_own_prompts": np.array(prompts is not None)})


class EntitiesSubject(Subject):
    """Compare a NER model's confidence in trained and other names."""

    target: tuple[str, ...] = target_option()
    in_train: Path | None = option(None, metavar="FILE", description="Names in the training data, as text or TSV.")
    out_train: Path | None = option(None, metavar="FILE", description="Names outside the training data.")
    conll: tuple[Path, ...] = option(
        (), metavar="FILE", description="Training corpus in CoNLL-2003 format; repeatable."
    )
    wikidata: Path | None = option(None, metavar="FILE", description="SPARQL result of names, used with --conll.")
    prompts: Path | None = option(
        None, metavar="FILE", description="Sentences with one MASK; by default 400 built-in ones."
    )

    def read(self, params: AuditParams, preparation: Preparation) -> Reading:
        """Read names and prompts. Raises HarnessError if no model is named, or a file cannot be used."""
        if not self.target:
            raise UsageError("no token classification model is named. Give --target.")
        named = {
            "in-train": self.in_train,
            "out-train": self.out_train,
            "wikidata": self.wikidata,
            "prompts": self.prompts,
        }
        named |= {f"conll {number}": path for number, path in enumerate(self.conll, 1)}
        inputs = read_inputs(
            in_train=self.in_train,
            out_train=self.out_train,
            conll=self.conll,
            wikidata=self.wikidata,
            prompts=self.prompts,
            seed=preparation.seed,
        )
        files = {option: path for option, path in named.items() if path is not None}
        name = (self.in_train or self.wikidata or Path("names")).stem
        return Reading(params, inputs, name, files, preparation.find_models(self.target))
