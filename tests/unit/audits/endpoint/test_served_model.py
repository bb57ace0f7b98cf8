"""Audits of a model behind an endpoint have the figures of the local model, and ask for nothing twice."""

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from harness.audits.book.audit import BookAudit
from harness.audits.book.inputs import BookParams, read_texts
from harness.audits.compare.inputs import StoredTarget, common_sequences
from harness.audits.endpoint.client import Endpoint
from harness.audits.endpoint.probe import Probe
from harness.audits.endpoint.scoring import ScoringParams
from harness.audits.leakage.audit import LeakageAudit
from harness.audits.leakage.inputs import PairSize, read_pairs
from harness.audits.leakage.measures import MEAN_ESP
from harness.audits.leakage.pairs import LeakageParams, Pairs
from harness.audits.membership.audit import MembershipAudit
from harness.audits.membership.findings import AUC
from harness.audits.membership.inputs import MembershipParams, read_documents
from harness.audits.membership.scores import LABELS, Score
from harness.audits.models import Model, load_text_tokenizer, require_context
from harness.audits.probabilities import Scheme
from harness.audits.sources import CorpusFiles
from harness.core.audit import Audit, Inputs
from harness.core.errors import HarnessError, Interruption
from harness.core.rounds import load_round
from harness.demo import SIZES
from tests.tools.completions_server import CompletionsServer, Reply, completions_server
from tests.tools.demo_server import Body, DemoModel, Refused, serve
from tests.tools.demo_texts import trained_text, unseen_text
from tests.unit.audits.in_memory import InMemory, target_configs

TINY = Model(SIZES[-1].name, SIZES[-1].weights)
DEMO_MODEL = DemoModel(TINY.path)
FORMS: list[dict[str, Any]] = [
    {},
    {"has_vllm_field": False},
    {"has_vllm_field": False, "takes_tokens": False},
]


@pytest.fixture(scope="module", params=FORMS, ids=["vllm", "echo", "text"])
def model(request: pytest.FixtureRequest) -> DemoModel:
    return DemoModel(TINY.path, most_logprobs=50, **request.param)


def probed(
    params: ScoringParams, served: CompletionsServer, *, top_k: int, concurrency: int = 4, model: Model = TINY
) -> Any:
    fields = {"endpoint": served.url, "endpoint_model": "tiny", "requests_per_minute": 60_000, "retries": 0}
    whole = params.model_copy(update=fields | {"concurrency": concurrency})
    with closing(Endpoint(whole, key=None, seed=0)) as endpoint:
        form, _ = Probe(endpoint, load_text_tokenizer(model), top_k=top_k).run()
    return whole.model_copy(update={"form": form})


def run(audit: Audit[Any], inputs: Inputs, batches: int | None = None) -> InMemory:
    return InMemory(audit, inputs, target_configs(TINY.path), batches=batches)


def leakage_inputs(limit: int = 30) -> Pairs:
    return read_pairs(load_round("demo"), [TINY], PairSize(), limit=limit, seed=0)


LEAKAGE = LeakageParams(schemes=(Scheme.TOP_K,), inexact=0, near=0)


def test_a_leakage_audit_has_the_local_figures(model: DemoModel) -> None:
    local = run(LeakageAudit(LEAKAGE), leakage_inputs()).run()
    with serve(model.answer) as served:
        remote = run(LeakageAudit(probed(LEAKAGE, served, top_k=10)), leakage_inputs()).run()
    ours, theirs = ({int(row["sequence"]): row for row in rows_of(each)} for each in (local, remote))
    measured = [number for number, row in theirs.items() if not np.isnan(row["plain"]).any()]
    # Text does not always have the tokens of a window that was cut from the middle of a document.
    assert len(measured) >= (24 if not model.takes_tokens else 26 if not model.has_vllm_field else 30)
    for number in measured:
        for scheme in ("greedy", "plain", "top_k"):
            assert ours[number][scheme] == pytest.approx(theirs[number][scheme], abs=1e-4), scheme
        assert np.isnan(theirs[number]["typical_p"]).all()
    figures = remote.findings("demo-tiny").figures
    assert figures["model"] == "tiny"
    assert figures["is_complete"]
    assert figures["sequences"] == len(measured)
    assert figures["unmeasured"] == 30 - len(measured)
    rates = remote.findings("demo-tiny").measures.select(MEAN_ESP)
    assert [row.case for row in rates] == ["greedy", "plain", "top-k 10"]


@pytest.mark.parametrize(
    "fields", [{}, {"has_vllm_field": False, "takes_tokens": False, "adds_bos": True}], ids=["tokens", "text"]
)
def test_pairs_that_begin_with_the_first_token_have_it_once(tmp_path: Path, fields: dict[str, Any]) -> None:
    folder = Path(shutil.copytree(TINY.path, tmp_path / "model"))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.post_processor = TemplateProcessing(single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)])
    tokenizer.save(str(folder / "tokenizer.json"))
    model = Model("m", folder)
    ids = np.array(tokenizer.encode(trained_text(2), add_special_tokens=False).ids[:120])
    prefixes, suffixes = np.stack([ids[:30], ids[60:90]]), np.stack([ids[30:40], ids[90:100]])
    prefixes[0, 0] = 0
    np.savez(tmp_path / "pairs.npz", prefixes=prefixes, suffixes=suffixes)
    inputs = read_pairs(CorpusFiles(tmp_path / "pairs.npz"), [model], PairSize(), limit=9, seed=0)
    local = InMemory(LeakageAudit(LEAKAGE), inputs, target_configs(folder)).run()
    with serve(DemoModel(folder, most_logprobs=50, **fields).answer) as served:
        served_params = probed(LEAKAGE, served, top_k=10, model=model)
        remote = InMemory(LeakageAudit(served_params), inputs, target_configs(folder)).run()
    ours, theirs = ({int(row["sequence"]): row["plain"] for row in rows_of(each)} for each in (local, remote))
    assert ours[0] == pytest.approx(theirs[0], abs=1e-4) and ours[1] == pytest.approx(theirs[1], abs=1e-4)


def rows_of(context: InMemory) -> list[dict[str, Any]]:
    rows = context.rows("token")
    return [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]


def test_a_book_audit_has_the_local_coverage(model: DemoModel, tmp_path: Path) -> None:
    known = tmp_path / "known.txt"
    known.write_text(f"{trained_text(2)}\n\n{unseen_text(1)}", encoding="utf-8")
    params = BookParams(near=0, stride=60, top_k=20)
    inputs = read_texts([CorpusFiles(known)], None, [TINY], params)
    local = run(BookAudit(params), inputs).run().findings("tiny")
    with serve(model.answer) as served:
        remote = run(BookAudit(probed(params, served, top_k=20)), inputs).run().findings("demo-tiny")
    assert remote.figures["is_complete"] and local.figures["is_complete"]
    windows = [findings.figures["measured_windows"] for findings in (local, remote)]
    if model.has_vllm_field:
        assert windows[0] == windows[1]
        for figure in ("coverage", "extractable_windows"):
            ours, theirs = (
                [row.estimate for row in findings.measures if row.measure.name == figure]
                for findings in (local, remote)
            )
            assert ours == theirs and len(ours) == 12
    else:
        assert 0.8 * windows[0] <= windows[1] <= windows[0]


def test_a_membership_audit_has_the_local_scores(model: DemoModel, tmp_path: Path) -> None:
    for number, text in enumerate(unseen_text(10).split("\n\n")):
        (tmp_path / f"{number}.txt").write_text(text, encoding="utf-8")
    params = MembershipParams(shots=2)
    inputs = read_documents(load_round("demo"), CorpusFiles(tmp_path), [TINY], params, limit=10, seed=0)
    local = run(MembershipAudit(params), inputs).run()
    with serve(model.answer) as served:
        remote = run(MembershipAudit(probed(params, served, top_k=1)), inputs).run()
    ours, theirs = (context.rows("score") for context in (local, remote))
    order = np.argsort(np.asarray(theirs["document"]))
    measured = ~np.isnan(np.asarray(theirs["loss"])[order])
    assert measured.mean() >= (0.7 if not model.takes_tokens else 1)
    for name in ("loss", "zlib", "min_k", "recall"):
        one, other_one = np.asarray(ours[name])[measured], np.asarray(theirs[name])[order][measured]
        known = ~np.isnan(other_one)
        assert known.any()
        assert one[known] == pytest.approx(other_one[known], rel=1e-4), name
    assert np.isnan(np.asarray(theirs["min_k_plus"])).all()
    findings = remote.findings("demo-tiny")
    assert findings.figures["is_complete"]
    assert not findings.measures.select(AUC, case=LABELS[Score.MIN_K_PLUS])


@contextlib.contextmanager
def served_audit(
    server: AbstractContextManager[CompletionsServer],
    limit: int = 30,
    *,
    model: DemoModel = DEMO_MODEL,
    concurrency: int = 4,
    **fields: Any,
) -> Iterator[InMemory]:
    """Yield a leakage audit of `limit` sequences that was probed with `model`, and whose endpoint is now `server`."""
    with serve(model.answer) as probe_server:
        params = probed(LEAKAGE, probe_server, top_k=10, concurrency=concurrency)
    with server as served:
        params = params.model_copy(update={"endpoint": served.url, **fields})
        yield run(LeakageAudit(params), leakage_inputs(limit))


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_resumed_audit_asks_for_nothing_that_is_done(concurrency: int) -> None:
    with serve(DEMO_MODEL.answer) as served:
        params = probed(LEAKAGE, served, top_k=10, concurrency=concurrency)
        killed = run(LeakageAudit(params), leakage_inputs(8), batches=2).run_until_killed()
        served.bodies.clear()
        resumed = killed.resumed().run()
        # Two requests, before and after, show that the model is still the same.
        assert len(served.bodies) == 2 + 8 - 2
        whole = run(LeakageAudit(params), leakage_inputs(8)).run()
    assert resumed.findings("x").figures == whole.findings("x").figures


def status(code: int) -> Callable[[Body], Body]:
    def refuse(body: Body) -> Body:
        raise Refused(code)

    return refuse


def moved(body: Body) -> Body:
    """Return an answer whose positions are moved by one."""
    positions = body["choices"][0]["prompt_logprobs"]
    body["choices"][0]["prompt_logprobs"] = [None, *positions[2:], positions[1]]
    return body


@pytest.mark.parametrize(
    ("then", "says"),
    [
        (status(500), r"answers with status 500\. The answers so far are kept; resume the audit"),
        (moved, r"tokenizes the prompt differently.*\. The answers so far are kept"),
        (status(400), r"refuses the request \(status 400\)\. The answers so far are kept"),
    ],
)
def test_a_server_that_fails_in_the_middle_ends_the_audit_and_keeps_the_rest(
    then: Callable[[Body], Body], says: str
) -> None:
    asked = iter(range(1_000_000))

    def answer(body: Body) -> Body:
        return DEMO_MODEL.answer(body) if next(asked) < 6 else then(DEMO_MODEL.answer(body))

    with served_audit(serve(answer), concurrency=1) as context, pytest.raises(HarnessError, match=says):
        context.run()
    assert len(rows_of(context)) == 5
    assert context.findings("x").figures["sequences"] == 5


def test_another_model_behind_the_endpoint_is_noticed() -> None:
    with (
        served_audit(serve(DemoModel(SIZES[0].weights).answer)) as context,
        pytest.raises(HarnessError, match="serves another model or precision"),
    ):
        context.run()


def test_answers_of_another_model_are_left_out_and_named() -> None:
    fallback = leakage_inputs(12).suffixes[[3, 8]].tolist()

    def answer(body: Body) -> Body:
        return DEMO_MODEL.answer(body) | {"model": "\x1b[1mother" if body["prompt"][-50:] in fallback else "tiny-2026"}

    with serve(answer) as served:
        params = probed(LEAKAGE, served, top_k=10, concurrency=1)
        context = run(LeakageAudit(params), leakage_inputs(12)).run()
    figures = context.findings("x").figures
    assert params.form.model == "tiny-2026"
    assert (figures["sequences"], figures["unmeasured"], figures["is_complete"]) == (10, 2, True)
    assert all("answers with another model (\ufffd[1mother) than tiny-2026" in warning for warning in context.warnings)
    assert len(context.warnings) == 2


def test_a_server_that_drifts_or_refuses_neutral_parameters_is_named() -> None:
    prompts: list[Any] = []

    def reply(body: Body, number: int) -> Reply:
        if "min_p" in body:
            return Reply(400, b'{"error": {"message": "extra inputs are not permitted", "param": "min_p"}}')
        prompts.append(body["prompt"])
        answer = DEMO_MODEL.answer(body)
        if len(prompts) == 14:
            # The text of the probe, which is sent before the first sequence, is sent again after the last one.
            assert prompts[-1] == prompts[0]
            for position in answer["choices"][0]["prompt_logprobs"][1:]:
                for entry in position.values():
                    entry["logprob"] -= 0.05
        return Reply(body=json.dumps(answer).encode())

    with completions_server(reply) as served:
        params = probed(LEAKAGE, served, top_k=10, concurrency=1)
        prompts.clear()
        context = run(LeakageAudit(params), leakage_inputs(12)).run()
    refusal, drifting = context.warnings
    assert refusal == "The endpoint refuses min_p, so its own defaults of them may apply."
    assert "The server is not repeatable: at the end" in drifting and "differ by 0.05 nats" in drifting


@pytest.mark.parametrize("code", [400, 500])
def test_texts_that_a_working_server_cannot_answer_are_left_out_and_counted(code: int) -> None:
    poison = leakage_inputs(12).suffixes[[3, 8]].tolist()

    def answer(body: Body) -> Body:
        if body["prompt"][-50:] in poison:
            raise Refused(code)
        return DEMO_MODEL.answer(body)

    with served_audit(serve(answer), 12, concurrency=1) as context:
        findings = context.run().findings("x")
    figures = findings.figures
    assert (figures["sequences"], figures["unmeasured"], figures["is_complete"]) == (10, 2, True)
    assert len(context.warnings) == 2
    assert any("Left out 2 sequences" in sentence for sentence in findings.sentences)


def test_a_served_audit_can_be_compared_without_what_was_left_out() -> None:
    logprobs = np.log(np.full((3, 4, 5), 0.5))
    partial = logprobs.copy()
    partial[:, 2] = np.nan
    pairs = read_pairs(load_round("demo"), [TINY], PairSize(), limit=4, seed=0)
    audits = [(name, pairs, [StoredTarget(name, each, 10)]) for name, each in (("a", logprobs), ("b", partial))]
    shared = common_sequences(audits)
    assert len(shared) == 3
    assert shared.rows.tolist() == [0, 1, 3]
    assert any("Left out 1 sequence" in note for note in shared.notes)


def test_a_scheme_that_an_answer_does_not_settle_leaves_the_others_their_row() -> None:
    inputs = leakage_inputs(12)
    poison = inputs.suffixes[[2, 7, 9]].tolist()

    def answer(body: Body) -> Body:
        found = DEMO_MODEL.answer(body)
        if body["prompt"][-50:] in poison:
            # One token fewer than the scheme needs, at one position of the suffix; the likeliest is still known.
            position = found["choices"][0]["prompt_logprobs"][-5]
            for token in sorted(position, key=lambda each: position[each]["logprob"])[:2]:
                if token != str(body["prompt"][-5]):
                    del position[token]
        return found

    with served_audit(serve(answer), 12) as context:
        findings = context.run().findings("x")
    figures = findings.figures
    measured = {row.case: row.estimate for row in findings.measures.select(MEAN_ESP)}
    assert {case: estimate.of for case, estimate in measured.items()} == {"greedy": 12, "plain": 12, "top-k 10": 9}
    assert (figures["sequences"], figures["unmeasured"], figures["is_complete"]) == (12, 0, True)
    local = run(LeakageAudit(LEAKAGE), inputs).run().findings("x").measures
    assert measured["plain"].value == pytest.approx(local.get(MEAN_ESP, case="plain").value, rel=1e-3)
    assert any("has results for 9 sequences. For 3 more" in sentence for sentence in findings.sentences)


def test_a_scheme_without_any_row_has_no_figures() -> None:
    model = DemoModel(TINY.path, has_vllm_field=False)

    def answer(body: Body) -> Body:
        found = model.answer(body)
        for top in found["choices"][0]["logprobs"]["top_logprobs"][1:]:
            for token in sorted(top, key=top.__getitem__)[:-3]:
                del top[token]
        return found

    with served_audit(serve(answer), 8, model=model) as context:
        findings = context.run().findings("x")
    rate = findings.measures.get(MEAN_ESP, case="top-k 10")
    assert rate.of == 0 and np.isnan(rate.value)
    assert findings.conclusion is not None and findings.conclusion.answer == "Not known"
    assert findings.measures.get(MEAN_ESP, case="plain").of > 0
    assert findings.figures["is_complete"]


def test_every_answer_is_kept_if_the_server_fails_while_several_are_in_flight() -> None:
    def reply(body: Body, number: int) -> Reply:
        # The answers that began before the failure come after it.
        delay = 0.3 * (number in (5, 6))
        return Reply(503) if number >= 7 else Reply(body=json.dumps(DEMO_MODEL.answer(body)).encode(), delay=delay)

    with served_audit(completions_server(reply), concurrency=3) as context:
        with pytest.raises(Interruption, match=r"answers with status 503\. The answers so far are kept"):
            context.run()
        # The first request is that of the probe's text.
        assert len(rows_of(context)) == 6
    with serve(DEMO_MODEL.answer) as served:
        resumed = context.resumed()
        resumed.audit.params = resumed.audit.params.model_copy(update={"endpoint": served.url})
        resumed.run()
        assert len(served.bodies) == 2 + 30 - 6
    assert resumed.findings("x").figures["is_complete"]


def test_a_failure_wakes_requests_that_wait_for_their_retry() -> None:
    def reply(body: Body, number: int) -> Reply:
        if number == 0:
            return Reply(body=json.dumps(DEMO_MODEL.answer(body)).encode())
        return Reply(401, delay=0.5) if number == 1 else Reply(503, headers=(("Retry-After", "599"),))

    start = time.monotonic()
    with (
        served_audit(completions_server(reply), concurrency=2, retries=1) as context,
        pytest.raises(Interruption, match="rejects the API key"),
    ):
        context.run()
    assert time.monotonic() - start < 300


@pytest.mark.parametrize(("prefix", "fits"), [(205, True), (206, False)])
def test_a_request_must_leave_room_for_a_generated_token(prefix: int, *, fits: bool, tmp_path: Path) -> None:
    for file in TINY.path.iterdir():
        (tmp_path / file.name).symlink_to(file)
    (tmp_path / "config.json").unlink()
    config = json.loads((TINY.path / "config.json").read_text()) | {"max_position_embeddings": 256}
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = Model("small", tmp_path)
    require_context([model], prefix + 50)
    with contextlib.nullcontext() if fits else pytest.raises(HarnessError, match="a request to the endpoint adds 1"):
        require_context([model], prefix + 50, is_served=True)
