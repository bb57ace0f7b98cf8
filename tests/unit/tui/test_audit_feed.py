"""The feed of an audit: figures over time, without void ones."""

import os
from pathlib import Path

import numpy as np
import pytest

from harness.core.errors import HarnessError
from harness.runs.folder import RunFolder
from harness.tui.audit_feed import AuditFeed
from tests.records import RecordedAudit, recorded_audit, recorded_run

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def audit() -> RecordedAudit:
    return recorded_audit(pid=os.getpid())


def test_figures_have_their_newest_value(audit: RecordedAudit) -> None:
    batch = audit.batch("complete/0/0")
    feed = AuditFeed(audit.folder)
    for second, value in enumerate((0.5, 0.25), 1):
        audit.spent(10.0 * second)
        audit.figure(batch, "trigram", value, low=value - 0.1, high=value + 0.1, of=8 * second)
        audit.figure(batch, "odd", np.nan)
        audit.spent(10.0 * second)
        seen = feed.poll()
    (first, second) = seen.figures
    assert (first.name, first.value, first.of) == ("trigram", 0.25, 16)
    assert second.name == "odd" and second.value is None


def test_a_repeated_batch_voids_its_earlier_figures(audit: RecordedAudit) -> None:
    feed = AuditFeed(audit.folder)
    batch = audit.batch("complete/0/0")
    audit.figure(batch, "trigram", 1.0)
    assert [figure.value for figure in feed.poll().figures] == [1.0]
    again = audit.batch("complete/0/0")
    assert feed.poll().figures == ()
    audit.figure(again, "trigram", 0.5)
    assert [figure.value for figure in feed.poll().figures] == [0.5]


def test_thousands_of_batches_are_read_in_one_poll(audit: RecordedAudit) -> None:
    names = [f"figure {number}" for number in range(8)]
    columns = {"name": names, "of": np.arange(8)} | {name: np.arange(8.0) for name in ("value", "low", "high")}
    with audit.store.transaction():
        for first in range(8_000):
            audit.store.add_rows(*audit.store.begin_batch(f"complete/0/{first}", 1.0), "audit_figure", columns)
    seen = AuditFeed(audit.folder).poll()
    assert [figure.name for figure in seen.figures] == names
    assert list(seen.summary.figures) == names


def test_stages_and_warnings_are_in_the_snapshot(audit: RecordedAudit) -> None:
    audit.plan("complete", 16.0)
    audit.end(audit.batch("complete/0/0", 8.0))
    audit.event("worker_warning", sentence="A file was empty.")
    seen = AuditFeed(audit.folder).poll()
    assert seen.warnings == ("A file was empty.",)
    assert [(work.stage, work.announced, work.done) for work in seen.summary.stages] == [("complete", 16.0, 8.0)]
    assert seen.summary.progress == 0.5


def test_an_audit_without_a_store_has_a_summary(audit: RecordedAudit) -> None:
    audit.store.close()
    audit.folder.store.unlink()
    seen = AuditFeed(audit.folder).poll()
    assert seen.figures == () and seen.summary.attack == "audit sequence"


def test_a_damaged_store_adds_a_fault_to_the_last_values(audit: RecordedAudit) -> None:
    audit.figure(audit.batch("complete/0/0"), "trigram", 0.5)
    feed = AuditFeed(audit.folder)
    assert feed.poll().fault is None
    audit.store.close()
    audit.folder.store.write_bytes(b"no database at all" * 99)
    seen = feed.poll()
    assert seen.fault is not None and seen.figures[0].value == 0.5


def test_a_run_of_an_attack_is_rejected(tmp_path: Path) -> None:
    folder: RunFolder = recorded_run(tmp_path, id_="efgh-other").folder
    with pytest.raises(HarnessError, match="expected a run of kind audit"):
        AuditFeed(folder)
