"""The batches of a loop, their measured size, and the reported progress of a batch."""

from pathlib import Path
from typing import Any

import pytest

from harness.core.protocol import JobRequest
from harness.core.spec import TargetConfig
from harness.worker import batches
from harness.worker.batches import BatchLog, batch_size_for, is_slow


class Sent:
    """A channel that keeps what is sent, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.frames: list[tuple[str, dict[str, Any]]] = []
        self.now = 100.0
        monkeypatch.setattr(batches.time, "monotonic", lambda: self.now)

    def send(self, table: str, **fields: Any) -> None:
        self.frames.append((table, fields))

    def fields(self, table: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.frames if name == table]

    def log(self, **sizes: int) -> BatchLog:
        request = JobRequest(kind="attack", params={}, seed=0, done=[], batch_sizes=sizes)
        return BatchLog(self, request)  # type: ignore[arg-type]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    return Sent(monkeypatch)


def run_loop(sent: Sent, log: BatchLog, loop: str, items: int, *, seconds: float, **options: Any) -> list[int]:
    """Run a loop whose items take `seconds` each, and return the sizes of its batches."""
    sizes = []
    for part in log.parts(loop, items, **options):
        key = f"{loop}/{part.start}"
        with log.batch(key, 1.0):
            sent.now += seconds * (part.stop - part.start)
        sizes.append(part.stop - part.start)
    return sizes


def test_slow_batches_take_half_a_minute_and_are_the_same_when_they_run_again(sent: Sent) -> None:
    log = sent.log()
    sizes = run_loop(sent, log, "guess/0", 60, seconds=1.5, max_size=128, is_measured=True)
    assert sizes == [8, 13, 13, 13, 13]
    # The size is stored before the batch is, so that no execution sees the one without the other.
    names = [table for table, _ in sent.frames]
    assert names[:3] == ["begin", "event", "done"] and names.count("event") == 1
    (event,) = sent.fields("event")
    assert event == {"name": "batch_size", "loop": "guess/0", "size": 16}
    # A slower or a faster machine repeats them.
    again = run_loop(sent, sent.log(**{"guess/0": 16}), "guess/0", 60, seconds=9.0, max_size=128, is_measured=True)
    assert again == sizes


def test_a_batch_has_at_most_the_usual_size_and_ends_where_it_must(sent: Sent) -> None:
    assert run_loop(sent, sent.log(), "a/0", 300, seconds=0.001, max_size=128, is_measured=True) == [8, 98, 97, 97]
    assert run_loop(sent, sent.log(), "a/0", 300, seconds=9.0, max_size=128) == [128, 128, 44]
    assert run_loop(sent, sent.log(), "a/0", 10, seconds=9.0, max_size=4, ends=[3, 10]) == [3, 4, 3]
    assert run_loop(sent, sent.log(), "a/0", 4, seconds=99.0, max_size=128, is_measured=True, ends=[2, 3, 4]) == [
        2,
        1,
        1,
    ]


def test_the_first_batch_of_prompts_that_are_decoded_together_is_larger(sent: Sent) -> None:
    sizes = run_loop(sent, sent.log(), "a/0", 110, seconds=0.5, max_size=64, is_measured=True, ends=[24, 110])
    assert sizes == [24, 29, 29, 28]
    assert run_loop(sent, sent.log(), "a/0", 50, seconds=0.5, max_size=64, is_measured=True, ends=[50]) == [32, 18]


def test_a_batch_size_is_a_power_of_two() -> None:
    assert [batch_size_for(seconds) for seconds in (100.0, 30.0, 16.0, 15.0, 4.0)] == [1, 1, 1, 2, 4]


def test_steps_are_reported_once_a_second_and_never_go_back(sent: Sent) -> None:
    log = sent.log()
    log.record_step(0.5, "outside any batch")
    keys = ("guess/0/0", "guess/0/8")
    for key in keys:
        with log.batch(key, 8.0):
            for _ in range(2):
                for share in (0.25, 0.5, 1.0):
                    sent.now += 0.6
                    log.record_step(share, f"{share}")
                log.record_call()
    shares = {
        key: [one["share"] for one in sent.fields("step") if one["key"] == key] for key in ("guess/0/0", "guess/0/8")
    }
    assert all(values == sorted(values) for values in shares.values())
    # The second batch is expected to pass like the first, which made two calls.
    assert shares["guess/0/8"] == pytest.approx([1 / 6, 1 / 2, 5 / 6])


def test_the_share_of_a_first_batch_is_that_of_its_time(sent: Sent) -> None:
    """The pass over the prefixes takes as long as ten tokens, and the second call is half the work of the first."""
    log, shares = sent.log(), []
    with log.loading():
        sent.now += 100.0
    with log.batch("guess/0/0", 8.0, calls=(2.0, 1.0)):
        for tokens in (20, 10):
            sent.now += 10.0
            for token in range(tokens + 1):
                sent.now += min(1, token)
                log.record_step(token / tokens, f"token {token}")
            log.record_call()
    shares = [step["share"] for step in sent.fields("step")]
    assert shares == sorted(shares)
    # 20 of 40 seconds after ten tokens. The preparation of the second call is not known before it is over.
    assert shares[10] == pytest.approx(20 / 40) and shares[-1] >= 0.98


def test_step_0_is_the_begin_of_a_later_batch_too(sent: Sent) -> None:
    """It is reported before and after the pass over the prefixes, which is half of the batch."""
    log = sent.log()
    for key in ("guess/0/0", "guess/0/8"):
        with log.batch(key, 8.0):
            log.record_step(0.0, "before")
            sent.now += 10.0
            for token in range(11):
                log.record_step(token / 10, f"token {token}")
                sent.now += 1.0
            log.record_call()
    shares = [step["share"] for step in sent.fields("step") if step["key"] == "guess/0/8"]
    assert shares[0] < 0.01 and shares[2] == pytest.approx(11 / 21, abs=0.02)


def test_the_time_of_loading_is_not_that_of_a_batch(sent: Sent) -> None:
    log = sent.log()
    for part in log.parts("guess/0", 40, max_size=128, is_measured=True):
        with log.batch(f"guess/0/{part.start}", 1.0):
            if part.start == 0:
                with log.loading():
                    sent.now += 100.0
            sent.now += 1.5 * (part.stop - part.start)
    loaded, size = [event for event in sent.fields("event") if event["name"] != "loading"]
    assert loaded == {"name": "loaded", "key": "guess/0/0", "seconds": 100.0} and size["size"] == 16


def test_a_loop_whose_size_is_recorded_has_the_same_batches_however_it_is_asked_for(sent: Sent) -> None:
    """A resumed job that would measure nothing must not take the first, small batch for a large one."""
    sizes = run_loop(sent, sent.log(), "again/0", 40, seconds=1.5, max_size=64, is_measured=True)
    assert run_loop(sent, sent.log(**{"again/0": 16}), "again/0", 40, seconds=0.0, max_size=64) == sizes == [8, 16, 16]


def test_only_large_models_on_a_cpu_are_slow(tmp_path: Path) -> None:
    with (tmp_path / "model.safetensors").open("wb") as weights:
        weights.truncate(200_000_000)
    options = {"shards": (), "dtype": "float32", "threads": 1}
    assert is_slow(TargetConfig(path=tmp_path, device="cpu", **options))
    assert not is_slow(TargetConfig(path=tmp_path, device="cuda:0", **options))
    assert not is_slow(TargetConfig(path=tmp_path / "tokenizer only", device="cpu", **options))
