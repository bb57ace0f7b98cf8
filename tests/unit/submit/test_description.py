"""A description has two to five pages and is reproducible from its sources."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typst
from matplotlib.image import imread

from harness.core.errors import HarnessError
from harness.core.exports import redact_suffix
from harness.jobs.attack.results import submission_now
from harness.submit import run_tables
from harness.submit.description import write_description
from harness.submit.run_facts import run_facts
from harness.submit.team import Member, Team
from tests.conftest import require_tool
from tests.functional.machine import ROOT
from tests.tiers import first_is_fast
from tests.unit.submit.ended import HOSTILE, add_code, ended_run, make_hostile
from tests.unit.tui.recorded import recorded_run

METHOD = "# Idea\n\nSample, *then* rank.\n\n| a | b |\n|---|--:|\n| x | 1 |\n"
PARAGRAPH = "Every prefix is shown once, and what follows is kept in the order of its likelihood. " * 8 + "\n\n"


TEAM = Team(
    name="Team",
    contact="team@example.org",
    members=(Member(name="Ada", affiliation="Somewhere"), Member(name="Bo", affiliation="Elsewhere")),
)


def described(folder: Path, home: Path, **options: object) -> Path:
    folder.mkdir()
    write_description(run_facts(ended_run(home, **options)), TEAM, METHOD, folder, redact=False)
    return folder


def test_the_sources_compile_to_the_same_pdf(home: Path) -> None:
    folder = described(home / "out", home)
    pdf = (folder / "description.pdf").read_bytes()
    assert pdf.startswith(b"%PDF-")
    assert sorted(path.name for path in folder.iterdir()) == [
        *("description.pdf", "description.typ", "method.md", "method.typ", "recall.svg", "template.typ", "time.svg"),
    ]
    (folder / "description.pdf").unlink()
    assert typst.compile(folder / "description.typ", ignore_system_fonts=True) == pdf
    assert (folder / "method.md").read_text() == METHOD


def test_a_process_in_another_time_zone_writes_the_same_bytes(home: Path) -> None:
    run = ended_run(home)
    code = (
        "import sys, pathlib\n"
        "from harness.runs.folder import RunFolder\n"
        "from harness.submit.description import write_description\n"
        "from harness.submit.run_facts import run_facts\n"
        "folder = pathlib.Path(sys.argv[2]); folder.mkdir()\n"
        "write_description(run_facts(RunFolder(pathlib.Path(sys.argv[1]))), None, '# Idea', folder, redact=False)\n"
    )
    (home / "one").mkdir()
    write_description(run_facts(run), None, "# Idea", home / "one", redact=False)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "random"}
    subprocess.run([sys.executable, "-c", code, str(run.path), str(home / "two")], env=environment, check=True)
    files = sorted(path.name for path in (home / "one").iterdir())
    assert "description.pdf" in files
    for name in files:
        assert (home / "one" / name).read_bytes() == (home / "two" / name).read_bytes(), name


@pytest.mark.parametrize(
    "options",
    first_is_fast([{}, {"is_blind": True}, {"limit": 10}, {"phase": "crashed"}, {"solved": 0}, {"solved": 16}]),
    ids=str,
)
def test_a_description_without_markdown_has_two_pages(options: dict[str, object], home: Path) -> None:
    (home / "out").mkdir()
    assert write_description(run_facts(ended_run(home, **options)), None, "", home / "out", redact=False) == 2


def test_a_run_without_guesses_is_described(home: Path) -> None:
    recorded = recorded_run(home)
    recorded.store.close()
    (home / "out").mkdir()
    assert write_description(run_facts(recorded.folder), TEAM, "", home / "out", redact=False) == 2


def test_a_blind_run_has_no_recall(home: Path) -> None:
    folder = described(home / "out", home, is_blind=True)
    source = (folder / "description.typ").read_text()
    assert "The round is blind" in source and "recall" not in source.lower()
    assert not (folder / "recall.svg").exists()


def test_a_partial_run_is_marked(home: Path) -> None:
    source = (described(home / "out", home, limit=10) / "description.typ").read_text()
    assert "Only the first 10 of the round" in source and "not a result of the round" in source


def test_parameters_are_explained_with_their_defaults(home: Path) -> None:
    run = ended_run(home)
    add_code(run, trials=7, note="x")
    facts = run_facts(run)
    assert run_tables.parameters(facts) == [
        ("Parameter", "Value", "Default", "Meaning"),
        ("trials", "7", "100", "Suffixes sampled per prefix (at least 1)."),
        ("note", "x", "empty", "A remark."),
    ]
    (home / "out").mkdir()
    write_description(facts, None, "", home / "out", redact=False)
    assert "Suffixes sampled per prefix" in (home / "out" / "description.typ").read_text()


def test_parameters_of_code_that_cannot_be_imported_have_no_default(home: Path) -> None:
    run = ended_run(home)
    add_code(run, "raise ImportError", trials=7)
    assert run_tables.parameters(run_facts(run)) == [("Parameter", "Value"), ("trials", "7")]


@pytest.mark.parametrize("paragraphs", first_is_fast([0, 5, 12]))
def test_a_description_fills_its_pages(paragraphs: int, home: Path) -> None:
    require_tool("pdftoppm", package="poppler-utils")
    run = ended_run(home, examples=64, length=24, solved=30)
    add_code(run, trials=7, note="x")
    (home / "out").mkdir()
    pages = write_description(run_facts(run), TEAM, PARAGRAPH * paragraphs, home / "out", redact=False)
    filled = filled_heights(home / "out" / "description.pdf")
    assert len(filled) == pages and min(filled) > 0.8, filled


def filled_heights(pdf: Path) -> list[float]:
    """Render a PDF, and return how far down the text of each page reaches, as a share of the room above the footer."""
    subprocess.run(["pdftoppm", "-gray", "-r", "30", str(pdf), str(pdf.parent / "page")], check=True)
    heights = []
    for file in sorted(pdf.parent.glob("page*.pgm")):
        pixels = imread(file)
        room = pixels[: int(0.92 * len(pixels))]
        heights.append(float(np.flatnonzero((room < 200).any(axis=1)).max() / len(room)))
    return heights


def test_too_many_pages_are_refused(home: Path) -> None:
    facts = run_facts(ended_run(home))
    (home / "out").mkdir()
    assert write_description(facts, TEAM, PARAGRAPH * 15, home / "out", redact=False) <= 5
    with pytest.raises(HarnessError) as refused:
        write_description(facts, TEAM, PARAGRAPH * 40, home / "out", redact=False)
    assert "7 pages, a description has 2 to 5. Shorten the team's Markdown by about 2 pages." in str(refused.value)


def test_hostile_names_are_typeset_as_text(home: Path) -> None:
    run = ended_run(home)
    make_hostile(run)
    names = (HOSTILE, '"), read("/etc/passwd"), ("')
    members = tuple(Member.model_construct(name=name) for name in names)
    team = Team.model_construct(name=HOSTILE, contact=HOSTILE, members=members)
    (home / "out").mkdir()
    assert 2 <= write_description(run_facts(run), team, HOSTILE, home / "out", redact=False) <= 3
    source = (home / "out" / "description.typ").read_text()
    assert "\\#panic\\(\\)" in source
    assert not {"\u202e", "\x1b"} & set(source)


def test_redaction_replaces_suffixes_with_length_and_hash(home: Path) -> None:
    run = ended_run(home)
    texts = {}
    for redact in (False, True):
        folder = home / f"out-{redact}"
        folder.mkdir()
        write_description(run_facts(run), None, "", folder, redact=redact)
        texts[redact] = (folder / "description.typ").read_text()
    first = submission_now(run).suffixes[0]
    shown = " ".join(map(str, first.tolist()))
    hashed = redact_suffix(first, run.attack_spec().round.vocabulary).replace(",", "\\,")
    assert shown in texts[False] and hashed not in texts[False]
    assert shown not in texts[True] and hashed in texts[True]
