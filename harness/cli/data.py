"""`harness data`: bring the public files, see what of a round is there, cut arrays from The Pile, measure overlap."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.output import print_json, sanitize, say
from harness.cli.progress import ProgressLines
from harness.cli.rounds import JsonOption, RoundArgument, files_as_json, print_files, state_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from harness.data.fetch import Outcome

app = typer.Typer(
    help="Fetch public data sets, see what a round has, build arrays from The Pile, measure overlap.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

DataSetArgument = Annotated[str, typer.Argument(metavar="DATA_SET", help="satml: the SaTML 2023 challenge.")]


class SplitName(StrEnum):
    """The splits that have pointers into The Pile."""

    TRAIN = "train"
    VAL = "val"


@app.command("fetch")
def fetch_data(
    data_set: DataSetArgument,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="DIR|URL", help="A folder or base address with the files right below it."),
    ] = None,
) -> None:
    """Fetch the public files of a data set and check each of them. Files that are already there stay."""
    from harness.core.errors import HarnessError
    from harness.data.catalog import SATML
    from harness.data.fetch import Arrival, fetch_files

    folder = _folder_of(data_set)
    outcomes: list[Outcome] = []
    names = max(len(file.name) for file in SATML)
    try:
        with ProgressLines(counts_bytes=True) as progress:
            outcomes += fetch_files(SATML, folder, source, lambda file, done: progress.tell(file.name, done, file.size))
    except KeyboardInterrupt:
        say("stopped: complete files are kept, and the same command fetches the others.")
        raise typer.Exit(130) from None
    for outcome in outcomes:
        print(f"{outcome.file.name:{names}}  {outcome.arrival}")
    if all(outcome.arrival is Arrival.LACKING for outcome in outcomes):
        raise HarnessError(f"{source or 'the server'} has none of the {len(SATML)} files of {data_set}.")
    _say_what_is_there(outcomes, source, folder)
    if any(outcome.arrival is Arrival.FAILED for outcome in outcomes):
        raise typer.Exit(1)


def _say_what_is_there(outcomes: "list[Outcome]", source: str | None, folder: Path) -> None:
    from harness.core.rounds import load_round, shipped_rounds
    from harness.data.fetch import Arrival
    from harness.data.status import round_status

    for outcome in outcomes:
        if outcome.fault:
            say(f"harness: {sanitize(outcome.fault)}")
    if lacking := [outcome.file.name for outcome in outcomes if outcome.arrival is Arrival.LACKING]:
        say(f"{source or 'The publisher'} lacks {', '.join(lacking)}.")
    rounds = [load_round(name) for name in shipped_rounds()]
    for status in map(round_status, (round_ for round_ in rounds if any(p.parent == folder for p in round_.files))):
        if status.is_complete:
            blind = " (blind: no answers)" if status.round.is_blind else ""
            say(f"{status.round.name}: complete{blind}.")
        else:
            unready = ", ".join(file.path.name for file in status.files if file.state != "present")
            say(f"{status.round.name}: not complete, it needs {unready}.")
    say(f"Files are in {folder}.")


@app.command("status")
def show_status(name: RoundArgument, as_json: JsonOption = False) -> None:
    """What of a round's files is there, whether it is the official data, and the command that gets the rest.

    Exit code 1 when a file contradicts the round or the official md5.
    """
    from harness.core.rounds import load_round
    from harness.data.status import round_status

    status = round_status(load_round(name))
    if as_json:
        print_json(
            {
                "round": status.round.name,
                "examples": status.examples,
                "is_blind": status.round.is_blind,
                "is_complete": status.is_complete,
                "is_sound": status.is_sound,
                "files": files_as_json(status),
                "joined": [vars(rows) for rows in status.joined],
                "commands": status.commands,
            }
        )
    else:
        print(f"{sanitize(status.round.name)}: {state_of(status)}")
        print_files(status)
        for rows in status.joined:
            if rows.lacking:
                print(f"  joined {rows.split} rows: md5 not checked without {', '.join(rows.lacking)}")
            elif rows.checksum == "wrong":
                print(f"  joined {rows.split} rows: md5 wrong: expected {rows.expected}, found {sanitize(rows.found)}")
            else:
                print(f"  joined {rows.split} rows: md5 {rows.checksum} ({rows.expected})")
        for command in status.commands:
            print(f"  to get what is missing: {command}")
        if status.missing and not status.commands:
            print("  no command gets what is missing: put the files where they are named above")
    if not status.is_sound:
        raise typer.Exit(1)


@app.command("build")
def build_arrays(
    data_set: DataSetArgument,
    pile: Annotated[
        Path, typer.Option("--pile", metavar="DIR", help="The Pile's training files, unpacked: 00.jsonl to 29.jsonl.")
    ],
    split: Annotated[SplitName, typer.Option("--split", help="Which rows to cut.")],
    tokenizer: Annotated[
        Path | None,
        typer.Option("--tokenizer", metavar="FILE", help="GPT-2's tokenizer.json. Default: the Hugging Face cache's."),
    ] = None,
    pointers: Annotated[
        Path | None, typer.Option("--pointers", metavar="CSV", help="Pointers. Default: the fetched ones.")
    ] = None,
) -> None:
    """Cut a split's arrays out of a copy of The Pile and write them if they have the official md5."""
    from harness.core.errors import HarnessError
    from harness.data.catalog import SPLITS
    from harness.data.pile import cut_rows, load_tokenizer, write_split
    from harness.data.pointers import read_pointers

    folder, chosen = _folder_of(data_set), SPLITS[split]
    if not pile.is_dir():
        raise HarnessError(f"{pile}: no such folder; --pile wants one with 00.jsonl to 29.jsonl.")
    places = read_pointers(pointers if pointers is not None else folder / chosen.pointer_file)
    encoder = load_tokenizer(tokenizer)
    with ProgressLines(counts_bytes=False) as progress:
        rows = cut_rows(pile, places, encoder, lambda done: progress.tell(f"{split} rows", done, len(places)))
    for path in write_split(chosen, rows, folder):
        print(path)


@app.command("overlap")
def show_overlap(name: RoundArgument, as_json: JsonOption = False) -> None:
    """Which answers the training rows give away without a model, and how the examples cluster.

    Known prefix: the prefix is a training row's. Stitched: windows of training rows, as long as a prefix, lead to the
    end of a suffix; reachable: of the right one. Clustered: a chain of shared 32-token windows leads to a training row.
    """
    import numpy as np

    from harness.core.overlap import overlap
    from harness.core.rounds import load_round

    round_ = load_round(name)
    found = overlap(round_)
    examples = len(found.is_stitched)
    sizes = None if found.clusters is None else np.unique(found.clusters, return_counts=True)[1]
    if as_json:
        print_json(
            {
                "round": round_.name,
                "examples": examples,
                "training_rows": found.training_rows,
                "is_blind": found.is_reachable is None,
                "known_prefix": int(found.has_known_prefix.sum()),
                "known_prefix_right": _count(found.known_prefix_is_right),
                "stitched": int(found.is_stitched.sum()),
                "reachable": _count(found.is_reachable),
                "clusters": None if sizes is None else len(sizes),
                "largest_cluster": None if sizes is None else int(sizes.max()),
                "clustered": _count(found.is_clustered),
                "known_prefix_ids": _ids(found.has_known_prefix),
                "stitched_ids": _ids(found.is_stitched),
                "reachable_ids": _ids(found.is_reachable),
                "clustered_ids": _ids(found.is_clustered),
            }
        )
        return
    print(f"{sanitize(round_.name)}: {examples:,} examples beside {found.training_rows:,} training rows")
    known, walked = int(found.has_known_prefix.sum()), int(found.is_stitched.sum())
    if found.is_reachable is None or found.known_prefix_is_right is None:
        print(f"  known prefix  {known:6,}  (blind: whether their suffixes are right cannot be said)")
        print(f"  stitched      {walked:6,}")
    else:
        right, reached = int(found.known_prefix_is_right.sum()), int(found.is_reachable.sum())
        print(f"  known prefix  {known:6,}  {right:,} with the right suffix")
        print(f"  stitched      {walked:6,}  {walked - reached:,} of them wrong")
        print(f"  reachable     {reached:6,}  {examples - reached:,} are not")
    if sizes is not None:
        print(f"  clustered     {_count(found.is_clustered):6,}  their cluster has a training row")
        print(f"  clusters      {len(sizes):6,}  the largest of {int(sizes.max()):,} examples")


def _count(claims: "NDArray[np.bool_] | None") -> int | None:
    return None if claims is None else int(claims.sum())


def _ids(claims: "NDArray[np.bool_] | None") -> Any:
    return None if claims is None else claims.nonzero()[0].tolist()


def _folder_of(data_set: str) -> Path:
    from harness.core.errors import unknown_name
    from harness.core.paths import data_home
    from harness.data.catalog import FOLDER

    if data_set != FOLDER:
        raise unknown_name("data set", data_set, [FOLDER], see="harness data fetch --help")
    return data_home() / FOLDER
