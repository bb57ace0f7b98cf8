"""Real runs, audits, a sweep, bundles and pages of the demo, which the pictures show."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np

from harness.demo import CONTROL_TEXT, CORPUS
from tests.demo_target.classifiers import Family, fine_tune, invented_names, write_names
from tests.tools.demo_texts import TOKENIZER, trained_text, unseen_text

_DOCUMENTS = 150
_SWEEP = """\
attacks = ["greedy", "sampling"]
rounds = ["demo"]
seeds = [0, 1, 2]
limit = 200
baseline = "greedy"

[params.sampling]
temperature = [0.5, 0.8, 1.0]
trials = [1, 4]
"""
_ENTERED = {"baseline": ("--preset",), "greedy": ()}
"""The attacks that enter the demo round, and the options of their runs."""
_DESCRIPTION = """\
# {attack} on the demo round

The attack `{attack}` of the harness. Guesses are ordered by their confidence.
"""
_VERIFIED = ("--round", "demo", "--own-environment")


def prepare(folder: Path) -> None:
    """Write the other records and pages into `folder`, which is the current directory. Takes some minutes."""
    _audits(folder)
    _harness("run", "baseline", "--round", "demo", "--set", "trials=1", "--seed", "7")
    varied = ("--vary", "temperature=0.3..1.5", "--vary", "top_p=0.5..1")
    fixed = ("trials=2", "ranker=mean_loss", "typical_p=1", "repetition_penalty=1")
    settings = (*varied, *(part for value in fixed for part in ("--set", value)))
    _harness("tune", "sampling", "--round", "demo", *settings, "--limit", "200", "--runs", "16")
    (folder / "sweep.toml").write_text(_SWEEP)
    _harness("sweep", "sweep.toml", "--ray", "none")
    _harness("report", "latest", "--out", "sweep.html")
    for attack, options in _ENTERED.items():
        (folder / "team.toml").write_text(f'name = "Team {attack}"\n\n[[members]]\nname = "Member"\n')
        (folder / "description.md").write_text(_DESCRIPTION.format(attack=attack))
        _harness("run", attack, "--round", "demo", *options)
        _harness("report", "latest", "--out", f"{attack}.html")
        _harness(
            "bundle",
            "create",
            "latest",
            "--team",
            "team.toml",
            "--description",
            "description.md",
            "--accept",
            "sandbox",
        )
    _harness("report", *_newest_runs(2), "--out", "runs.html")
    first = min((folder / "submissions").glob("*.zip"), key=lambda path: path.stat().st_mtime)
    with zipfile.ZipFile(first) as bundle:
        (folder / "description.pdf").write_bytes(bundle.read("description.pdf"))
    _harness("bundle", "verify", str(first.relative_to(folder)), *_VERIFIED)
    _harness("bundle", "rank", "submissions", "--round", "demo", "--html", "leaderboard.html")


def prepare_entities(folder: Path) -> None:
    """Train token classifiers and audit them; only the page of this audit needs them."""
    names = invented_names()
    for family in Family:
        fine_tune(family, names, folder / family)
    write_names(names, folder)
    lists = ("--in-train", "in-train.txt", "--out-train", "out-train.txt")
    _audit("entities", *(part for family in Family for part in ("--target", str(family))), *lists)


def _audits(folder: Path) -> None:
    """Run the other audits. The page of `audit NAME` is NAME/index.html. The last two are the first in the list."""
    arrays = np.load(CONTROL_TEXT)
    rows = np.concatenate([arrays["prefixes"], arrays["suffixes"]], axis=1)[:_DOCUMENTS].tolist()
    texts = {"members": json.loads(CORPUS.read_bytes())[:_DOCUMENTS], "others": [TOKENIZER.decode(row) for row in rows]}
    for name, some in texts.items():
        lines = (json.dumps({"text": text}) for text in some)
        (folder / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    sizes = ("--target", "demo-tiny", "--target", "demo-small", "--target", "demo")
    few = ("--limit", "100")
    _audit("membership", "members.jsonl", "--non-members", "others.jsonl", "--target", "demo")
    _audit("leakage", "--round", "demo", *few, *sizes, "--inexact", "20", "--near", "20")
    _audit("compare", "--round", "demo", *few, *sizes)
    _audit("sequence", "--round", "demo", *few)
    (folder / "book.txt").write_text(trained_text(40), encoding="utf-8")
    (folder / "unseen.txt").write_text(unseen_text(20), encoding="utf-8")
    _audit("book", "book.txt", "--control", "unseen.txt", "--target", "demo", "--target", "demo-tiny")


def _audit(name: str, *arguments: str) -> None:
    _harness("audit", name, *arguments, "--out", name)


def _harness(*arguments: str) -> str:
    command = [sys.executable, "-m", "harness", *arguments]
    print("harness", *arguments, file=sys.stderr)
    done = subprocess.run([*command, "--quiet"], check=True, stdout=subprocess.PIPE, text=True, env=os.environ)
    return done.stdout


def _newest_runs(count: int) -> list[str]:
    (line,) = _harness("list", "runs", "--limit", str(count), "--json").splitlines()
    return [run["id"] for run in json.loads(line)["runs"]]
