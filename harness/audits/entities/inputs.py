"""Read the inputs of an entities audit: prompts, and names from lists, CoNLL-2003 corpora and Wikidata results.

A prompt is a sentence with one MASK in the place of a name.
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harness.audits.models import Model, first_token_notes
from harness.audits.options import AuditParams, Preparation, Reading, Subject
from harness.audits.sources import target_option
from harness.core.audit import Inputs
from harness.core.errors import HarnessError, UsageError
from harness.core.options import option
from harness.core.text import composed, shorten
from harness.corpora.text_files import Notes, parse_json, read_text

MASK = "MASK"
BUILT_IN = Path(__file__).parent / "prompts"
"""One file per sentence type, one prompt per line; written for this project."""
KINDS = ("declarative", "exclamatory", "imperative", "interrogative")
OWN_KIND = "own"
"""The type of prompts from a user's file that gives none."""
HAND_WRITTEN = ("My name is MASK.", "I am MASK.", "I am named MASK.", "Here is my name: MASK.", "Call me MASK.")
"""The prompts of the baselines (Ali et al. 2022, quoted by Xia et al. 2024, Section 4.1)."""
_MASKS = re.compile(rf"(?<!\w){MASK}(?!\w)")
_WORDS = re.compile(rf"{_MASKS.pattern}|['’]s\b|\w+(?:(?!['’]s\b|['’-]{MASK}\b)['’-]\w+)*|[^\w\s]")
_SPACE_BEFORE_PUNCTUATION = re.compile(r" ([.,;:!?])")


class Word(NamedTuple):
    """A word or a punctuation mark of a prompt, and its characters."""

    text: str
    start: int
    end: int


class Prompt:
    """A sentence with one MASK. kind: its sentence type."""

    def __init__(self, text: str, kind: str) -> None:
        self.text = text
        self.kind = kind

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """Words and punctuation marks, independent of any model's tokenizer. The name and 's are words of their own."""
        return tuple(Word(word.group(), word.start(), word.end()) for word in _WORDS.finditer(self.text))

    @property
    def length(self) -> int:
        """The number of words and punctuation marks. The name counts as one."""
        return len(self.words)

    @cached_property
    def position(self) -> int:
        """The number of words and punctuation marks before the name."""
        return sum(word.end <= self.name_start for word in self.words)

    @cached_property
    def name_start(self) -> int:
        """The index of the name's first character."""
        mask = _MASKS.search(self.text)
        assert mask is not None
        return mask.start()

    def fill(self, name: str) -> str:
        """Return the sentence with `name`, which begins at `name_start`."""
        return self.text[: self.name_start] + name + self.text[self.name_start + len(MASK) :]

    def without(self, word: int) -> "Prompt":
        """Return the prompt without its `word`-th word, which must be one of `droppable`."""
        dropped = self.words[word]
        rest = " ".join((self.text[: dropped.start] + " " + self.text[dropped.end :]).split())
        return Prompt(_SPACE_BEFORE_PUNCTUATION.sub(r"\1", rest), self.kind)

    @property
    def droppable(self) -> list[int]:
        """The indices of the words other than the name."""
        return [place for place in range(self.length) if place != self.position]


def read_prompts(source: Path | None) -> tuple[list[Prompt], list[str]]:
    """Read distinct prompts from a file or a directory of files; None reads the built-in ones.

    A line is a prompt, or its type, a tab and a prompt; in a directory the file name is the type. Also returns notes on
    skipped lines, which do not quote them. Raises HarnessError if no prompt is left.
    """
    where = BUILT_IN if source is None else source
    files = sorted(where.glob("*.txt")) if where.is_dir() else [where]
    prompts: dict[str, Prompt] = {}
    notes = Notes()
    for file in files:
        default_kind = file.stem if where.is_dir() else OWN_KIND
        for number, line in enumerate(lines_of(file), 1):
            kind, tab, rest = line.partition("\t")
            text, kind = (rest.strip(), kind.strip() or default_kind) if tab else (line.strip(), default_kind)
            if not text:
                continue
            masks = len(_MASKS.findall(text))
            if masks == 1:
                prompts.setdefault(text, Prompt(text, kind))
            else:
                fault = f"Skipped {file.name}, line {number}: the prompt contains {MASK} {masks} times, not once."
                notes.add(f"prompts without exactly one {MASK}", fault)
    if not prompts:
        raise HarnessError(f"{where} contains no prompt with exactly one {MASK}. Expected one prompt per line.")
    return list(prompts.values()), notes.sentences


def lines_of(file: Path) -> list[str]:
    """Return the lines of a UTF-8 text file. Raises HarnessError if it cannot be read."""
    # str.splitlines would also split at U+2028 and U+0085, which a line may contain.
    return read_text(file).removesuffix("\n").split("\n")


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


@dataclass(frozen=True)
class Names(Inputs):
    """The names of an audit, and the prompts to ask about them."""

    in_dev: Sequence[str]
    in_test: Sequence[str]
    out_dev: Sequence[str]
    out_test: Sequence[str]
    prompts: Sequence[str]
    kinds: Sequence[str]
    """The sentence type of each prompt."""
    notes: Sequence[str]
    """Sentences about skipped input."""
    seed: int
    has_own_prompts: bool
    """True if the prompts are the user's."""

    @property
    def parts(self) -> dict[str, Sequence[str]]:
        """The lists of names, in the order of a row of confidences."""
        return {part: getattr(self, part) for part in PARTS}

    @property
    def all(self) -> list[str]:
        """The names in the order of a row of confidences."""
        return [name for names in self.parts.values() for name in names]

    @cached_property
    def measured_prompts(self) -> list[Prompt]:
        """Every prompt that is measured: those of the inputs, the hand-written ones, and the name alone."""
        prompts = map(Prompt, self.prompts, self.kinds)
        return [*prompts, *(Prompt(text, OWN_KIND) for text in (*HAND_WRITTEN, MASK))]


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
        shown = shorten(", ".join(columns), 80) or "none"
        raise HarnessError(f"no column of {file} is called name or …Label. Its columns: {shown}.")
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
    both = set(map(composed, inside)) & set(map(composed, outside))
    first, second = ([name for name in names if composed(name) not in both] for names in (inside, outside))
    return NameLists(first, second, [f"Skipped {len(both)} names that are in both lists."] if both else [])


def split_halves(names: Sequence[str], seed: int, part: int) -> tuple[list[str], list[str]]:
    """Return dev and test halves of a list, a pure function of the list, the seed and the list's number `part`.

    Dev is the larger half of an odd number, as in the source.
    """
    order = np.random.default_rng([seed, part]).permutation(len(names))
    half = (len(names) + 1) // 2
    return [names[place] for place in order[:half]], [names[place] for place in order[half:]]


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


def read_inputs(
    *,
    in_train: Path | None = None,
    out_train: Path | None = None,
    conll: Sequence[Path] = (),
    wikidata: Path | None = None,
    prompts: Path | None = None,
    seed: int = 0,
) -> Names:
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
    for was, names in (("was", lists.inside), ("was not", lists.outside)):
        if len(names) < _FEWEST_NAMES:
            raise HarnessError(
                f"{len(names)} names that the model {was} trained on are left. Each list needs at least "
                f"{_FEWEST_NAMES}."
            )
    read, notes = read_prompts(prompts)
    return Names(
        *split_halves(lists.inside, seed, 1),
        *split_halves(lists.outside, seed, 2),
        prompts=[prompt.text for prompt in read],
        kinds=[prompt.kind for prompt in read],
        notes=[*lists.notes, *notes],
        seed=seed,
        has_own_prompts=prompts is not None,
    )


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
        read = {
            "in_train": self.in_train,
            "out_train": self.out_train,
            "wikidata": self.wikidata,
            "prompts": self.prompts,
        }
        inputs = read_inputs(**read, conll=self.conll, seed=preparation.seed)
        named = read | {f"conll {number}": path for number, path in enumerate(self.conll, 1)}
        files = {option.replace("_", "-"): path for option, path in named.items() if path is not None}
        name = (self.in_train or self.wikidata or Path("names")).stem
        models = preparation.find_models(self.target)
        notes = [*inputs.notes, *first_token_notes([Model(record.id, record.path) for record in models])]
        return Reading(params, replace(inputs, notes=notes), name, files, models)
