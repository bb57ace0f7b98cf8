"""Every page opened in Chromium: no error, no overflow, at the width of a phone and of a screen, light and dark."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from harness.audits.entities.audit import EntitiesAudit, EntitiesParams
from harness.audits.entities.inputs import read_inputs as read_names
from harness.audits.leakage.audit import LeakageAudit
from harness.audits.leakage.inputs import PairSize
from harness.audits.leakage.pairs import LeakageParams
from harness.audits.models import Model
from harness.audits.sequence.audit import SequenceAudit
from harness.audits.sequence.dataset import SequenceParams
from harness.audits.sequence.inputs import read_inputs as read_round
from harness.core.findings import Findings
from harness.core.rounds import load_round
from harness.demo import SIZES, WEIGHTS
from harness.submit.audit_export import write_audit
from harness.submit.html_page import page
from harness.submit.leaderboard import Entry
from harness.submit.report import report_page
from harness.submit.verdict import Finding, Outcome, Verdict
from tests.conftest import require_chromium
from tests.demo_target.classifiers import Family, fine_tune, invented_names, write_names
from tests.demo_target.names import demo_name_pairs
from tests.tools.browser import Browser, open_browser
from tests.unit.audits.in_memory import InMemory, target_configs
from tests.unit.submit.audit_header import HEADER
from tests.unit.submit.ended import ended_run, make_hostile

pytestmark = pytest.mark.slow

WIDTHS = (390, 1440)
LONG = "a_very_long_name_without_any_space_" * 6


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    require_chromium()
    with open_browser() as started:
        yield started


def sequence_findings(_: Path) -> Findings:
    params = SequenceParams(limit=6)
    inputs = read_round(load_round("demo"), None, params, seed=0, tokenizer_file=WEIGHTS / "tokenizer.json")
    return InMemory(SequenceAudit(params), inputs, target_configs(WEIGHTS)).run().findings("demo")


def leakage_findings(_: Path) -> Findings:
    models = [Model(size.name, size.weights) for size in SIZES[1:]]
    pairs = demo_name_pairs(models, PairSize(), limit=6, seed=1)
    audit = LeakageAudit(LeakageParams(prefix_lengths=(10, 30), inexact=4))
    run = InMemory(audit, pairs, target_configs(*(model.path for model in models))).run()
    return run.findings(*(model.id for model in models))


def entities_findings(folder: Path) -> Findings:
    names = invented_names(8)
    fine_tune(Family.BERT, names, folder / "bert", steps=2)
    write_names(names, folder)
    (folder / "prompts.txt").write_text("declarative\tMASK came home.\ninterrogative\tWho on earth is MASK?\n")
    inputs = read_names(
        in_train=folder / "in-train.txt", out_train=folder / "out-train.txt", prompts=folder / "prompts.txt"
    )
    audit = EntitiesAudit(EntitiesParams(attention_prompts=1))
    return InMemory(audit, inputs, target_configs(folder / "bert")).run().findings("bert")


def audit_page(measured: Callable[[Path], Findings]) -> Callable[[Path], Path]:
    def written(folder: Path) -> Path:
        write_audit(folder / "out", measured(folder), replace(HEADER, warnings=[LONG]))
        return folder / "out" / "index.html"

    return written


def three_runs(folder: Path) -> Path:
    runs = [ended_run(folder, solved=solved, id_=f"{solved:04}-run-with-a-long-name") for solved in (4, 9, 12)]
    return write(folder, report_page(runs, redact=False))


def hostile_run(folder: Path) -> Path:
    run = ended_run(folder)
    make_hostile(run)
    return write(folder, report_page([run, ended_run(folder, id_="efgh-other")], redact=False))


def leaderboard(folder: Path) -> Path:
    entry = Entry(
        bundle="one.zip",
        team="Team",
        attack="baseline",
        place=1,
        recall_at_cap=0.4,
        recall_interval=(0.37, 0.43),
        recall_interval_unit="cluster",
        elapsed_s=1234.5,
        hardware="AMD EPYC 7B13, 16 cores, NVIDIA H200",
        verified="reproduced",
        marks=(LONG,),
    )
    second = replace(
        entry, place=2, recall_at_cap=0.3, difference=-0.1, difference_interval=(-0.12, -0.08), time_of_leader=0.5
    )
    judging = SimpleNamespace(
        round=SimpleNamespace(name="satml-val", title="Validation", error_cap=100),
        prefixes=np.zeros(1000),
        answers=np.zeros(1000),
    )
    absent = Entry(f"{LONG}.zip", unranked="verification refused it")
    return write(folder, page("leaderboard.html.j2", entries=[entry, second, absent], judging=judging, pages={}))


def verdict(folder: Path) -> Path:
    score = {"error_cap": 100, "recall_at_cap": 0.4, "recall_interval": [0.37, 0.43], "recall_interval_unit": "cluster"}
    score |= {"precision_at_cap": 0.8, "solved": 400, "examples": 1000, "rows_read": 500, "rows": 1000}
    found = Verdict(
        bundle="one.zip",
        bundle_sha256="ab" * 32,
        kind="full",
        attack="baseline",
        round="satml-val",
        outcome=Outcome.MEASURED,
        sentence="The result differs from the submission.",
        findings=(Finding("code", True, LONG), Finding("submission", False, "It differs."), Finding("note", None, "x")),
        scores={"submitted": score, "produced": score},
        elapsed_s=12.5,
        budget_s=600.0,
        sandbox="bwrap",
        code_changes={"attack.py": f"- {LONG}\n+ {LONG}"},
        hardware={"processor": "AMD EPYC", "cores": 16, "gpus": []},
        versions={"harness": "0.1"},
    )
    return write(folder, page("verdict.html.j2", verdict=found))


def write(folder: Path, text: str) -> Path:
    (folder / "page.html").write_text(text, encoding="utf-8")
    return folder / "page.html"


PAGES: dict[str, Callable[[Path], Path]] = {
    "one run": lambda folder: write(folder, report_page([ended_run(folder)], redact=False)),
    "three runs": three_runs,
    "hostile run": hostile_run,
    "blind run": lambda folder: write(folder, report_page([ended_run(folder, is_blind=True)], redact=False)),
    "sequence audit": audit_page(sequence_findings),
    "leakage audit": audit_page(leakage_findings),
    "entities audit": audit_page(entities_findings),
    "leaderboard": leaderboard,
    "verdict": verdict,
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_the_window_and_has_no_errors(browser: Browser, home: Path, name: str) -> None:
    file = PAGES[name](home)
    backgrounds = set()
    for width in WIDTHS:
        for is_dark in (False, True):
            seen = browser.look(file, width=width, is_dark=is_dark)
            assert seen.errors == [] and seen.overflow <= 0, (width, is_dark, seen)
            backgrounds.add(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert browser.evaluate(TABLES_WITHOUT_A_CUE) == []
    assert len(backgrounds) == 2
    assert browser.evaluate("[...document.querySelectorAll('nav a')].every(one => document.querySelector(one.hash))")


TABLES_WITHOUT_A_CUE = """[...document.querySelectorAll('.wide, .across, pre')]
    .filter(one => one.scrollWidth > one.clientWidth)
    .filter(one => one.tabIndex !== 0 || !getComputedStyle(one).backgroundImage.includes('gradient'))
    .map(one => one.textContent.trim().slice(0, 40))"""


def test_a_wide_table_scrolls_under_a_shadow_that_goes_at_its_end(browser: Browser, home: Path) -> None:
    browser.look(three_runs(home), width=390)
    table = "[...document.querySelectorAll('.wide')].find(one => one.scrollWidth > one.clientWidth)"
    assert browser.evaluate(f"{table} !== undefined")
    start = browser.darkness_of_right_edge(table)
    browser.evaluate(f"{table}.scrollLeft = 10000")
    assert start > 0.1 > browser.darkness_of_right_edge(table)


def test_the_browser_notices_errors_and_overflow(browser: Browser, tmp_path: Path) -> None:
    broken = write(tmp_path, '<p style="width: 2000px">wide</p><img src="absent.png"><script>throw 1</script>')
    seen = browser.look(broken, width=390)
    assert len(seen.errors) >= 2 and seen.overflow > 1000 and seen.too_wide
