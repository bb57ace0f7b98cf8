"""`harness occurrences`: which guesses, completions or other generations a corpus contains word for word."""

import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import typer

from harness.cli.completion import run_names
from harness.cli.occurrence_sources import SourceOptions, read_generations
from harness.cli.options import Force, Json, TextOptions, check_output_file, round_option, write_output
from harness.cli.output import ProgressBars, align_columns, pluralize, print_json, sanitize, say
from harness.core.errors import HarnessError, UsageError
from harness.core.findings import FoundTable
from harness.core.redaction import redact_suffix
from harness.core.text import NO_VALUE, format_number, format_percent, shorten
from harness.core.times import format_duration
from harness.corpora.generations import Generations, Lookup, Share, Tally, look_up, notable_rows, tallies
from harness.corpora.index_client import InfiniGramIndex, require_infini_gram
from harness.corpora.index_files import IndexFiles, index_files

_DEFAULT_MIN_TOKENS = 50
_MOST_SHOWN = 10
_MOST_CHARACTERS = 60
_FEW_TOKENS = 4
"""A longest span that text shares with any corpus of its vocabulary."""
_OUT_SUFFIXES = (".csv", ".parquet")


def occurrences(
    source: Annotated[
        str,
        typer.Argument(
            metavar="RUN|FILE",
            help="A run or a sequence audit by its id, a submission (.csv), texts (.jsonl, .txt, .parquet) or token "
            "rows (.npy).",
            autocompletion=run_names,
            show_default=False,
        ),
    ],
    index: Annotated[
        Path, typer.Option("--index", metavar="DIR", help="Infini-gram index of the corpus.", show_default=False)
    ],
    reading: TextOptions,
    round_: Annotated[str | None, round_option("Round of a submission.")] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Tokenizer of the index: hub id, directory or tokenizer.json.  [default: the run's or round's]",
        ),
    ] = None,
    min_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Tokens in a row that make a generation verbatim.  [default: 50; less for shorter guesses]",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Write one row per generation to a .csv or .parquet file."),
    ] = None,
    redact: Annotated[bool, typer.Option("--redact", help="Replace text with its length and hash.")] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Find which generations a corpus contains word for word.

    Counts each generation in the index, alone and after its prefix, and finds its longest span in the corpus. The
    guesses of a round are split into right and wrong ones: a wrong guess may still be text of the corpus.
    """
    require_infini_gram()
    if out is not None:
        if out.suffix not in _OUT_SUFFIXES:
            raise UsageError(f"{out}: unknown format. --out writes {' and '.join(_OUT_SUFFIXES)}.")
        check_output_file(out, force=force)
    files = index_files(index)
    generations = read_generations(source, SourceOptions(files, round_, tokenizer, reading))
    _require_one_vocabulary(generations, files)
    min_tokens = _checked_length(min_tokens, generations)
    lookups = _look_up(files, generations, min_tokens)
    whole, groups = tallies(generations, lookups)
    if max(whole.longest) <= _FEW_TOKENS and generations.unit == "token":
        say(
            f"no generation shares more than {_FEW_TOKENS} tokens in a row with the index. Check that --tokenizer is "
            "the tokenizer of the index, and that its documents are not reversed."
        )
    if out is not None:
        _write_rows(out, generations, lookups, redact=redact)
    notable = notable_rows(generations, lookups)
    shown = _rows_as_json(generations, lookups, notable[:_MOST_SHOWN], redact=redact)
    if json:
        print_json(
            {
                "source": source,
                "index": str(index.absolute()),
                "index_documents": files.documents,
                "index_tokens": files.tokens,
                "kind": generations.noun,
                "unit": generations.unit,
                "min_tokens": min_tokens,
                "all": whole.as_json(),
                "groups": {name: tally.as_json() for name, tally in groups.items()},
                "notable": shown,
                "notable_rows": len(notable),
                "path": None if out is None else str(out.absolute()),
            }
        )
        return
    print(_header(source, generations, files), _table(whole, groups, generations, min_tokens), sep="\n\n")
    if shown:
        print(_notable(shown, len(notable), generations, is_wrong="wrong" in groups), sep="\n")
    if out is not None:
        say(f"wrote {pluralize(len(generations), 'row')} to {sanitize(str(out))}")


def _require_one_vocabulary(generations: Generations, files: IndexFiles) -> None:
    """Raise HarnessError if the sizes of the vocabularies show that the index has another tokenizer."""
    advice = "Name the tokenizer of the index with --tokenizer."
    if generations.vocabulary > files.separator + 1:
        raise HarnessError(
            f"the tokenizer has {generations.vocabulary:,} tokens, but the index stores ids below "
            f"{files.separator:,}: {files.folder}. {advice}"
        )
    largest = files.largest_token()
    if largest >= generations.vocabulary:
        raise HarnessError(
            f"the index contains token {largest:,}, but the tokenizer has {generations.vocabulary:,} tokens: "
            f"{files.folder}. {advice}"
        )


def _plural(noun: str) -> str:
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"


def _checked_length(min_tokens: int | None, generations: Generations) -> int:
    """Return the length of a window. Raises HarnessError if no generation has so many tokens."""
    lengths = [len(tokens) for tokens in generations.tokens]
    if min_tokens is None:
        typical = max(1, int(np.median(lengths))) if generations.noun == "guess" else _DEFAULT_MIN_TOKENS
        min_tokens = min(_DEFAULT_MIN_TOKENS, typical)
    if max(lengths) < min_tokens:
        raise HarnessError(
            f"every {generations.noun} is shorter than {pluralize(min_tokens, generations.unit)}: the longest has "
            f"{max(lengths)}. Lower --min-tokens."
        )
    return min_tokens


def _look_up(files: IndexFiles, generations: Generations, min_tokens: int) -> list[Lookup]:
    total, start, found = len(generations), time.monotonic(), []
    what = f"look up {_plural(generations.noun)}"
    with InfiniGramIndex(files) as index, ProgressBars("items") as bars:
        for done, lookup in enumerate(look_up(index, generations, min_tokens=min_tokens), start=1):
            found.append(lookup)
            left = (time.monotonic() - start) / done * (total - done)
            bars.update(what, done, total, line=f"{what}: {done:,} of {total:,}, ETA {format_duration(left)}")
    return found


def _header(source: str, generations: Generations, files: IndexFiles) -> str:
    unit = "byte" if files.width == 1 else "token"
    return (
        f"{_count(len(generations), generations.noun)} of {sanitize(source)}, looked up in "
        f"{sanitize(str(files.folder))} ({pluralize(files.documents, 'document')}, {pluralize(files.tokens, unit)})"
    )


def _count(number: int, noun: str) -> str:
    """Return a number with the noun of the generations."""
    return f"{number:,} guesses" if noun == "guess" and number != 1 else pluralize(number, noun)


def _table(whole: Tally, groups: dict[str, Tally], generations: Generations, min_tokens: int) -> str:
    """Return one row per group, and what its columns mean."""
    named = [*groups.items(), ("all", whole)]
    header = ["", "number", "whole", "after the prefix", "verbatim", "distinct windows", "longest"]
    rows = [
        [
            name,
            f"{tally.generations:,}",
            *(_share_text(share, tally.generations) for share in tally.shares.values()),
            f"{len(tally.windows):,}",
            f"{format_number(tally.median_longest)} (maximum {max(tally.longest, default=0):,})",
        ]
        for name, tally in named
    ]
    unit = pluralize(min_tokens, generations.unit)
    notes = [
        f"whole: the corpus contains the {generations.noun} from its first to its last {generations.unit}.",
        f"verbatim: the corpus contains at least {unit} of it in a row.",
        f"distinct windows: number of different sequences of {unit} that it contains.",
        f"longest: {generations.unit}s of the longest span that the corpus contains, as a median. [ ]: 95 % interval.",
    ]
    if short := whole.generations - whole.long_enough:
        notes.append(f"Left out of the column verbatim: {_count(short, generations.noun)} of less than {unit}.")
    shown = [row if whole.prefixed else row[:3] + row[4:] for row in (header, *rows)]
    return "\n".join([align_columns(shown), "", *notes])


def _share_text(share: Share | None, of_all: int) -> str:
    """Return a share with its interval, and the number that it is of unless that is `of_all`."""
    if share is None or not share.of:
        return NO_VALUE
    low, high = share.interval
    of = "" if share.of == of_all else f" of {share.of:,}"
    percent = format_percent(share.number / share.of)
    return f"{share.number:,}{of}, {percent} [{format_percent(low)}, {format_percent(high)}]"


def _notable(shown: Sequence[dict[str, Any]], number: int, generations: Generations, *, is_wrong: bool) -> str:
    """Return a table of the rows that a reader wants to see first."""
    title = f"{_plural(generations.noun).capitalize()} with the longest spans"
    if is_wrong:
        title = "Wrong guesses that the corpus contains"
    rest = f" ({len(shown)} of {number:,}; --out writes all rows)" if number > len(shown) else ""
    name = "example" if generations.noun == "guess" else generations.noun
    header = (name, "count", "longest", "shard:document:position", "text of the longest span")
    rows = [
        (
            sanitize(shorten(row["name"], 40)),
            f"{row['count']:,}",
            f"{row['longest']:,}",
            row["places"][0] if row["places"] else NO_VALUE,
            shorten(sanitize(row["longest_text"]), _MOST_CHARACTERS),
        )
        for row in shown
    ]
    return f"\n{title}{rest}\n{align_columns([header, *rows])}"


def _rows_as_json(
    generations: Generations, lookups: Sequence[Lookup], rows: Sequence[int], *, redact: bool
) -> list[dict[str, Any]]:
    """Return what was found for each of the `rows`. redact: lengths and hashes instead of text."""
    tokens = [generations.tokens[row] for row in rows]
    spans = [lookups[row].occurrences.longest for row in rows]
    longest = [one[span.start : span.end] for one, span in zip(tokens, spans, strict=True)]
    texts, longest_texts = (
        [redact_suffix(one, generations.vocabulary) for one in some] if redact else generations.texts(some)
        for some in (tokens, longest)
    )
    return [
        {
            "row": row,
            "name": generations.names[row],
            "group": None if generations.groups is None else generations.groups[row],
            "tokens": len(tokens[place]),
            "count": lookups[row].occurrences.count,
            "count_with_prefix": lookups[row].count_with_prefix,
            "is_verbatim": bool(lookups[row].occurrences.runs),
            "windows": len(lookups[row].occurrences.windows),
            "longest": spans[place].length,
            "longest_start": spans[place].start,
            "places": [one.label for one in lookups[row].places],
            "text": texts[place],
            "longest_text": longest_texts[place],
        }
        for place, row in enumerate(rows)
    ]


def _write_rows(path: Path, generations: Generations, lookups: Sequence[Lookup], *, redact: bool) -> None:
    """Write one row per generation. A column that has no value in any row is left out."""
    from harness.submit.audit_tables import write_csv, write_parquet

    rows = _rows_as_json(generations, lookups, range(len(generations)), redact=redact)
    for row in rows:
        row["places"] = " ".join(row["places"])
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    columns = {name: cells for name, cells in columns.items() if any(cell is not None for cell in cells)}
    table = FoundTable("occurrences", "", columns)
    with TemporaryDirectory() as folder:
        written = Path(folder) / path.name
        (write_csv if path.suffix == ".csv" else write_parquet)(table, written)
        write_output(path, written.read_bytes())
