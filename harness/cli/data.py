"""`harness data`: fetch public files, write example data, check a round's files, measure overlap."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from typer import Option

from harness.cli.catalog import files_as_json, print_files, round_as_json, state_of
from harness.cli.completion import name_argument, round_names
from harness.cli.options import Force, Json, RoundArgument, make_directory
from harness.cli.output import print_json, sanitize, say
from harness.cli.progress import ProgressBars
from harness.cli.typer_classes import CommandLine
from harness.core.errors import HarnessError, unknown_name
from harness.core.examples import overlap
from harness.core.files import file_errors, read_start, write_export
from harness.core.paths import data_home
from harness.core.rounds import built_in_rounds, load_round
from harness.core.text import align_columns
from harness.data.fetch import Arrival, FetchProgress, Outcome, fetch_files
from harness.data.files import FOLDER, SATML, PublicFile, RoundStatus, round_status
from harness.submit.judging import load_judging_data

app = CommandLine(name="data", help="Fetch data sets, write example texts, check rounds.", no_args_is_help=True)

DataSetArgument = Annotated[str, typer.Argument(metavar="DATA_SET", help="satml, the SaTML 2023 challenge.")]


@app.command("fetch")
def fetch_data(
    data_set: DataSetArgument,
    source: str | None = Option(None, "--from", metavar="DIR|URL", help="Directory or base URL of the files."),
    json: Json = False,
) -> None:
    """Fetch the public files of a data set.

    Each file is checked. Files that exist are kept. If stderr is not a terminal, the progress of the
    whole data set is printed every second: size, share and ETA.
    Exit code 1: a file could not be fetched.

    Keys:
        data_set (string): Name of the data set.
        directory (string): Directory of the files.
        files (object[]): Files of the data set.
            file (string): Name of the file.
            state (Arrival): Result of fetching the file.
            fault (string?): Error of fetching the file. Null without an error.
    """
    folder = _folder_of(data_set)
    outcomes: list[Outcome] = []
    names = max(len(file.name) for file in SATML)
    try:
        with ProgressBars("bytes", seconds_between_lines=1) as bars:
            progress = FetchProgress(data_set, SATML)

            def on_progress(file: PublicFile, done: int) -> None:
                bars.update(file.name, done, file.size, line=progress.line(file, done))

            for outcome in fetch_files(SATML, folder, source, on_progress):
                outcomes.append(outcome)
    except KeyboardInterrupt:
        say("interrupted. Complete files are kept, and the same command fetches the others.")
        raise typer.Exit(130) from None
    if json:
        files = [
            {"file": outcome.file.name, "state": outcome.arrival, "fault": outcome.fault or None}
            for outcome in outcomes
        ]
        print_json({"data_set": data_set, "directory": str(folder), "files": files})
    else:
        for outcome in outcomes:
            print(f"{outcome.file.name:{names}}  {outcome.arrival}")
    if all(outcome.arrival is Arrival.LACKING for outcome in outcomes):
        raise HarnessError(f"{source or 'the server'} has none of the files of {data_set}. Use another --from.")
    _say_what_is_there(outcomes, source, folder)
    if any(outcome.arrival is Arrival.FAILED for outcome in outcomes):
        raise typer.Exit(1)


def _say_what_is_there(outcomes: list[Outcome], source: str | None, folder: Path) -> None:
    for outcome in outcomes:
        if outcome.fault:
            say(f"harness: {sanitize(outcome.fault)}")
    if lacking := [outcome.file.name for outcome in outcomes if outcome.arrival is Arrival.LACKING]:
        say(f"{source or 'The publisher'} lacks {', '.join(lacking)}.")
    rounds = [load_round(name) for name in built_in_rounds()]
    for status in map(round_status, (round_ for round_ in rounds if any(p.parent == folder for p in round_.files))):
        if status.is_complete:
            blind = " (blind: no answers)" if status.round.is_blind else ""
            say(f"{status.round.name}: complete{blind}.")
        else:
            unready = ", ".join(file.path.name for file in status.files if file.state != "present")
            say(f"{status.round.name}: not complete, it needs {unready}.")
    say(f"Files are in {folder}.")


@app.command("example")
def write_example_data(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Directory for the files.")],
    force: Force = False,
    json: Json = False,
) -> None:
    """Write the example data of the tutorials.

    The texts on which the bundled target was trained, with their numbers of copies, texts that it has not seen, and a
    target that has unlearned some of them. A file that has the same content already is kept.
    Exit code 1: a file with other content exists.

    Keys:
        directory (string): Directory of the files.
        files (object[]): Written files.
            file (string): Path in the directory.
            content (string): Description of the content.
    """
    from harness.data.example import FILES, example_files

    for name, content_bytes in example_files():
        path = folder / name
        make_directory(path.parent)
        with file_errors(path):
            is_same = path.exists() and read_start(path, len(content_bytes) + 1) == content_bytes
        if path.exists() and not is_same and not force:
            raise HarnessError(f"{path} exists with other content. Choose another directory, or use --force.")
        if not is_same:
            write_export(path, content_bytes)
    if json:
        files = [{"file": name, "content": content} for name, content in FILES.items()]
        print_json({"directory": str(folder), "files": files})
    else:
        print(align_columns([[f"{sanitize(str(folder))}/{name}", text] for name, text in FILES.items()]))


@app.command("status")
def show_status(
    round_: Annotated[
        str | None,
        name_argument(
            "ROUND", "Name of a built-in round, or a TOML file.  [default: all built-in rounds]", round_names
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Check the files of a round, or of all built-in rounds.

    Prints which files are missing or wrong, whether they are the official data, and the command that fetches them.
    Exit code 1: a file contradicts the round or the official MD5.
    """
    statuses = [round_status(load_round(name)) for name in (built_in_rounds() if round_ is None else [round_])]
    if not json:
        for status in statuses:
            _print_status(status)
    elif round_ is None:
        print_json({"rounds": [_status_as_json(status) for status in statuses]})
    else:
        print_json(_status_as_json(statuses[0]))
    if not all(status.is_sound for status in statuses):
        raise typer.Exit(1)


def _status_as_json(status: RoundStatus) -> dict[str, Any]:
    """Return the state of the files of a round.

    Keys:
        round_as_json.round, round_as_json.examples, round_as_json.is_blind, round_as_json.is_complete, is_sound
        files (files_as_json[]): Files that the round names.
        joined (JoinedRows[]): Comparison of each official split with the published MD5 of its joined rows.
        commands (string[]): Commands that fetch what is missing.
    """
    facts = round_as_json(status)
    return {
        **{name: facts[name] for name in ("round", "examples", "is_blind", "is_complete")},
        "is_sound": status.is_sound,
        "files": files_as_json(status),
        "joined": [vars(rows) for rows in status.joined],
        "commands": status.commands,
    }


def _print_status(status: RoundStatus) -> None:
    print(f"{sanitize(status.round.name)}: {state_of(status)}")
    print_files(status)
    for rows in status.joined:
        if rows.lacking:
            print(f"  joined {rows.split} rows: md5 not checked without {', '.join(rows.lacking)}")
        elif rows.checksum == "wrong":
            print(f"  joined {rows.split} rows: md5 wrong: expected {rows.expected}, found {sanitize(rows.actual)}")
        else:
            print(f"  joined {rows.split} rows: md5 {rows.checksum} ({rows.expected})")
    for command in status.commands:
        print(f"  to fetch what is missing: {command}")
    if status.missing and not status.commands:
        print("  no command fetches what is missing: copy the files to the paths above")


@app.command("overlap")
def show_overlap(
    round_: RoundArgument,
    answers: Path | None = Option(None, metavar="NPY", help="Answers of a blind round."),
    json: Json = False,
) -> None:
    """Measure the overlap of a round with its training rows.

    Prints how many examples are of each kind. Known prefix: a training row has the same prefix. Stitched: a whole
    suffix can be put together from overlapping pieces of training rows. In train: this suffix is right. Clustered: the
    example shares 32 tokens with a training row, directly or through other examples.

    Keys:
        round (string): Name of the round.
        examples (number): Number of examples.
        training_rows (number): Number of training rows.
        is_blind (boolean): True if the round has no answers.
        known_prefix (number): Examples whose prefix equals the prefix of a training row.
        known_prefix_right (number?): Examples of `known_prefix` with the right suffix. Null in a blind round.
        stitched (number): Examples for which a suffix can be composed from training rows.
        in_train (number?): Examples of `stitched` with the right suffix. Null in a blind round.
        clusters (number?): Number of clusters. Null if the round has none, as in the next two counts.
        largest_cluster (number?): Examples of the largest cluster.
        clustered (number?): Examples whose cluster has a training row.
        known_prefix_ids (number[]): Ids of the examples that `known_prefix` counts.
        stitched_ids (number[]): Ids of the examples that `stitched` counts.
        in_train_ids (number[]?): Ids of the examples that `in_train` counts.
        clustered_ids (number[]?): Ids of the examples that `clustered` counts.
    """
    loaded = load_round(round_)
    overlaps = overlap(loaded, None if answers is None else load_judging_data(loaded, answers=answers).answers)
    sizes = None if overlaps.clusters is None else np.unique(overlaps.clusters, return_counts=True)[1]
    right = overlaps.known_prefix_is_right
    facts: dict[str, Any] = {
        "round": loaded.name,
        "examples": len(overlaps.is_stitched),
        "training_rows": overlaps.training_rows,
        "is_blind": overlaps.is_in_train is None,
        "known_prefix_right": None if right is None else int(right.sum()),
        "clusters": None if sizes is None else len(sizes),
        "largest_cluster": None if sizes is None else int(sizes.max()),
    }
    for name, claims in (
        ("known_prefix", overlaps.has_known_prefix),
        ("stitched", overlaps.is_stitched),
        ("in_train", overlaps.is_in_train),
        ("clustered", overlaps.is_clustered),
    ):
        facts[name] = None if claims is None else int(claims.sum())
        facts[f"{name}_ids"] = None if claims is None else claims.nonzero()[0].tolist()
    if json:
        print_json(facts)
        return
    known_prefixes, stitched, in_train = (facts[name] for name in ("known_prefix", "stitched", "in_train"))
    print(f"{sanitize(loaded.name)}: {facts['examples']:,} examples and {facts['training_rows']:,} training rows")
    if facts["is_blind"]:
        print(f"  known prefix  {known_prefixes:6,}  (blind round: --answers says whether their suffixes are right)")
        print(f"  stitched      {stitched:6,}")
    else:
        print(f"  known prefix  {known_prefixes:6,}  {facts['known_prefix_right']:,} with the right suffix")
        print(f"  stitched      {stitched:6,}  {stitched - in_train:,} of them wrong")
        print(f"  in train      {in_train:6,}  {facts['examples'] - in_train:,} are not")
    if sizes is not None:
        print(f"  clustered     {facts['clustered']:6,}  their cluster has a training row")
        print(f"  clusters      {facts['clusters']:6,}  the largest of {facts['largest_cluster']:,} examples")


def _folder_of(data_set: str) -> Path:
    if data_set != FOLDER:
        raise unknown_name("data set", data_set, [FOLDER], see="harness data fetch --help")
    return data_home() / FOLDER
