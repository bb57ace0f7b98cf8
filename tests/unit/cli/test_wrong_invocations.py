"""Wrong invocations: messages say what is wrong, where, and what to do; exit codes are those of command-line.md."""

import json
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.functional.machine import PLUGINS
from tests.records import recorded_run
from tests.unit.cli.command_line import CommandLine


class Wrong(NamedTuple):
    """A wrong command, its exit code, and words of its message."""

    command: str
    code: int
    words: tuple[str, ...]


WRONG = (
    # Names of commands and options.
    Wrong(
        "runn",
        2,
        (
            "unknown command 'runn'",
            "did you mean run",
        ),
    ),
    Wrong(
        "list rnus",
        2,
        (
            "unknown command 'rnus'",
            "did you mean runs",
        ),
    ),
    Wrong(
        "run greedy --rond demo",
        2,
        (
            "unknown option '--rond'",
            "did you mean --round",
        ),
    ),
    Wrong(
        "run greedy --seed",
        2,
        (
            "'--seed' requires an argument",
            "`harness run --help`",
        ),
    ),
    Wrong(
        "run",
        2,
        (
            "ATTACK: name an attack",
            "--like RUN",
        ),
    ),
    Wrong(
        "score",
        2,
        (
            "CSV|RUN: is required",
            "`harness score --help`",
        ),
    ),
    Wrong(
        "compare demo",
        2,
        (
            "unknown run 'demo'",
            "`harness list runs`",
        ),
    ),
    Wrong(
        "--attacks . run greedy",
        2,
        (
            "--attacks: ",
            "`harness run ATTACK --attacks DIR`",
        ),
    ),
    # Names of closed lists.
    Wrong(
        "run greedyy",
        2,
        (
            "unknown attack 'greedyy'",
            "did you mean greedy?",
        ),
    ),
    Wrong(
        "run greedy --round dmo",
        2,
        (
            "unknown round 'dmo'",
            "did you mean demo?",
        ),
    ),
    Wrong(
        "list runs --round dmo",
        2,
        (
            "unknown round 'dmo'",
            "did you mean demo?",
        ),
    ),
    Wrong(
        "list runs --attack greedyy",
        2,
        (
            "unknown attack 'greedyy'",
            "did you mean greedy?",
        ),
    ),
    Wrong(
        "list runs --status finishd",
        2,
        (
            "unknown status 'finishd'",
            "did you mean finished",
        ),
    ),
    Wrong(
        "run baseline --set trails=5",
        2,
        (
            "--set: unknown parameter 'trails'",
            "did you mean trials?",
        ),
    ),
    Wrong(
        "run greedy --target dem",
        1,
        (
            "target 'dem'",
            "Did you mean demo",
        ),
    ),
    Wrong(
        "show nosuch",
        2,
        (
            "unknown name 'nosuch'",
            "`harness list KIND`",
        ),
    ),
    Wrong(
        "show abce",
        2,
        (
            "unknown name 'abce'",
            "did you mean abcd-a?",
        ),
    ),
    Wrong(
        "report abce",
        2,
        (
            "unknown run 'abce'",
            "did you mean abcd-a?",
        ),
    ),
    Wrong(
        "bundle create abcd-a --accept teem",
        2,
        (
            "unknown check 'teem'",
            "did you mean team?",
        ),
    ),
    Wrong(
        "audit leakage pairs.jsonl --target demo --schemes greedyy",
        2,
        (
            "--schemes: must be 'greedy', ",
            "got 'greedyy'",
            "did you mean greedy?",
        ),
    ),
    Wrong(
        "audit leakag pairs.jsonl",
        2,
        (
            "unknown command 'leakag'",
            "did you mean leakage?",
        ),
    ),
    Wrong(
        "data fetch satlm",
        2,
        (
            "unknown data set 'satlm'",
            "did you mean satml?",
        ),
    ),
    Wrong(
        "data status dmo",
        2,
        (
            "unknown round 'dmo'",
            "did you mean demo?",
        ),
    ),
    Wrong(
        "tune greedy --vary tempratur=0..1",
        2,
        (
            "--vary: unknown parameter 'tempratur'",
            "`harness show ATTACK`",
        ),
    ),
    Wrong(
        "runs restore abce",
        2,
        (
            "unknown deleted run 'abce'",
            "`harness list deleted`",
        ),
    ),
    Wrong(
        "run sampling --round demo --set ranker=mean_los",
        2,
        (
            "--set: ranker: must be ",
            "got 'mean_los'",
            "did you mean mean_loss",
        ),
    ),
    # Values.
    Wrong("run greedy --seed -1", 2, ("--seed: must be at least 0, got -1",)),
    Wrong("run greedy --limit 0", 2, ("--limit: must be at least 1, got 0",)),
    Wrong("run greedy --limit many", 2, ("--limit: must be a whole number, got 'many'",)),
    Wrong(
        "run greedy --budget soon",
        2,
        (
            "--budget: 'soon' is not a duration",
            "write 24h",
        ),
    ),
    Wrong(
        "run greedy --device gpu",
        2,
        (
            "--device: unknown device 'gpu'",
            "Use auto, cpu, cuda or cuda:N",
        ),
    ),
    Wrong("run baseline --set trials=many", 2, ("--set: trials: must be a whole number, got 'many'",)),
    Wrong("run baseline --set trials", 2, ("--set: expected NAME=VALUE, got 'trials'",)),
    Wrong(
        "audit sequence texts --target demo --prompt-length ten",
        2,
        ("--prompt-length: must be a whole number, got 'ten'",),
    ),
    Wrong("list runs --limit 0", 2, ("--limit: must be at least 1, got '0'",)),
    Wrong("doctor --device gpu", 2, ("--device: needs --bench. Add it",)),
    Wrong(
        "score good.csv --round demo --plot curve.pdf",
        2,
        (
            "curve.pdf: unknown figure format",
            "Use .svg or .png",
        ),
    ),
    # Options that do not fit together.
    Wrong(
        "bundle verify bundle.zip",
        2,
        (
            "nothing to compare the bundle with",
            "--round ROUND",
        ),
    ),
    Wrong(
        "bundle verify bundle.zip --round demo --prefixes p.npy", 2, ("--prefixes: use either --prefixes or --round",)
    ),
    Wrong("runs queue abcd-a --first --up", 2, ("--first: give one of --first, --up",)),
    Wrong(
        "export abcd-a --mlflow http://127.0.0.1:5000 --out a.csv",
        2,
        (
            "--mlflow: it writes no file",
            "Remove --out",
        ),
    ),
    Wrong(
        "audit compare --target demo",
        2,
        (
            "missing pairs",
            "Give PAIRS, --round or --run",
        ),
    ),
    Wrong(
        "run draws --attacks plugins --target demo",
        2,
        (
            "--target: draws does not use a target",
            "Remove --target",
        ),
    ),
    Wrong("show abcd-a --probabilities", 2, ("--probabilities: name an example with --example",)),
    # Missing files and directories.
    Wrong(
        "run greedy --round missing.toml",
        1,
        (
            "no such file: ",
            "missing.toml",
            "Check the path",
        ),
    ),
    Wrong(
        "score good.cvs --round demo",
        1,
        (
            "no such file: good.cvs",
            "Did you mean good.csv?",
        ),
    ),
    Wrong(
        "run greedy --target ./nomodel",
        1,
        (
            "no such directory or GGUF file: ./nomodel",
            "Name a directory with config.json",
        ),
    ),
    Wrong(
        "run greedy --target empty",
        1,
        (
            "no config.json in ",
            "empty",
            "Name the directory of a model",
        ),
    ),
    Wrong(
        "run greedy --attacks nowhere",
        1,
        (
            "no such directory of --attacks: nowhere",
            "Check the path",
        ),
    ),
    Wrong(
        "sweep missing.toml",
        1,
        (
            "no such file: missing.toml",
            "Check the path",
        ),
    ),
    Wrong(
        "bundle rank nowhere --round demo",
        1,
        (
            "no such directory: nowhere",
            "`harness bundle create`",
        ),
    ),
    Wrong(
        "bundle create abcd-a --team nowhere.toml",
        1,
        (
            "ended: ",
            "resume abcd-a",
            "4 more: sandbox, inputs, team",
        ),
    ),
    Wrong(
        "export abcd-a --out nowhere/a.csv",
        1,
        (
            "no such directory: nowhere",
            "Check the path",
        ),
    ),
    Wrong(
        "audit sequence nowhere --target demo",
        1,
        (
            "no such file or directory: nowhere",
            "Check the path",
        ),
    ),
    Wrong(
        "--home nowhere list runs",
        1,
        (
            "no such directory of --home or HARNESS_HOME: ",
            "nowhere",
            "Check the path",
        ),
    ),
    Wrong(
        "--home nowhere show latest",
        1,
        (
            "no such directory of --home or HARNESS_HOME: ",
            "nowhere",
            "Check the path",
        ),
    ),
    Wrong(
        "HARNESS_HOME=nowhere list tunings",
        1,
        (
            "no such directory of --home or HARNESS_HOME: ",
            "nowhere",
            "Check the path",
        ),
    ),
    # Files with faults.
    Wrong(
        "run greedy --round bad.toml",
        1,
        (
            "bad.toml: nam: unknown field",
            "did you mean name?",
        ),
    ),
    Wrong(
        "run greedy --round broken.toml",
        1,
        (
            "broken.toml: not a TOML file",
            "line 1, column 8",
            "Correct that line",
        ),
    ),
    Wrong(
        "score bad.csv --round demo", 1, ("line 1: expected the header 'Example ID,Suffix Guess', found 'id, suffix'",)
    ),
    Wrong("score binary.csv --round demo", 1, ("line 1: expected CSV text, found binary data",)),
    Wrong(
        "sweep sweep.toml",
        1,
        (
            "sweep.toml: ",
            "unknown field",
            "did you mean rounds?",
        ),
    ),
    Wrong(
        "audit leakage pairs.jsonl --target demo",
        1,
        (
            "pairs.jsonl, line 1: no text in the field 'text'",
            "the field of --field",
        ),
    ),
    Wrong(
        "audit sequence empty --target demo",
        1,
        (
            "empty contains no paragraph",
            "Name a file or directory with text",
        ),
    ),
    Wrong(
        "bundle verify damaged.zip --round demo --own-environment",
        1,
        (
            "damaged.zip: not a valid zip file",
            "Copy the file again",
        ),
    ),
    Wrong(
        "bundle rank empty --round demo",
        1,
        (
            "empty contains no bundles",
            "`harness bundle create`",
        ),
    ),
    Wrong(
        "new round empty --target demo --out made",
        1,
        (
            "empty contains no text",
            "Name a file or directory with text",
        ),
    ),
    Wrong(
        "HARNESS_CONFIG=. run greedy",
        1,
        (
            "config.toml, line 1: thme: unknown field",
            "did you mean theme?",
        ),
    ),
    Wrong("run greedy --round text.toml", 1, ("text.toml: row_cap: must be a whole number, got 'many'",)),
    Wrong("run greedy --round ./empty", 1, ("empty: not a regular file. Name a file",)),
    Wrong("sweep empty", 1, ("empty: not a regular file. Name a file",)),
)


@pytest.fixture
def files(home: Path) -> Path:
    """A working directory with the files that the commands name."""
    recorded_run(home, id_="abcd-a")
    (home / "plugins").symlink_to(PLUGINS)
    for name in ("empty", "texts"):
        (home / name).mkdir()
    (home / "texts" / "one.txt").write_text("A short text.\n")
    (home / "good.csv").write_text("Example ID,Suffix Guess\n")
    (home / "config.toml").write_text('thme = "nord"\n')
    (home / "bad.csv").write_text("id, suffix\n1, 2\n")
    (home / "binary.csv").write_bytes(bytes(range(256)))
    (home / "bad.toml").write_text('nam = "bad"\nprefix_file = "p.npy"\n')
    (home / "text.toml").write_text('base = "demo"\nrow_cap = "many"\n')
    (home / "broken.toml").write_text("name = = 5\n")
    (home / "sweep.toml").write_text('round = "demo"\nattack = "greedy"\n')
    (home / "pairs.jsonl").write_text(json.dumps({"txt": "no text"}) + "\n")
    (home / "damaged.zip").write_bytes(b"PK\x03\x04 not an archive")
    with zipfile.ZipFile(home / "bundle.zip", "w") as bundle:
        bundle.writestr("readme.md", "no bundle")
    return home


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.command)
def test_a_wrong_invocation_says_what_where_and_how(
    harness: CommandLine, monkeypatch: pytest.MonkeyPatch, wrong: Wrong
) -> None:
    words = wrong.command.split()
    while words and "=" in words[0]:
        monkeypatch.setenv(*words.pop(0).split("="))
    done = harness(*words)
    message = done.out + done.err
    assert done.code == wrong.code
    assert [text for text in wrong.words if text not in message] == []
    assert "Traceback" not in message and "internal error" not in message
