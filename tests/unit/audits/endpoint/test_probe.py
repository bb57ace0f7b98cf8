"""The probe of an endpoint: what servers get wrong is found before the clock starts."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer as LibraryTokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from harness.audits.endpoint.client import Endpoint
from harness.audits.endpoint.params import EndpointForm, LogprobsField, PromptForm
from harness.audits.endpoint.probe import _ENDINGS, _TEXT, Probe
from harness.audits.endpoint.prompt_logprobs import PromptLogprobs
from harness.audits.endpoint.scoring import ScoringParams
from harness.audits.models import Model, load_text_tokenizer
from harness.core.errors import HarnessError
from harness.core.policy import Policy
from harness.core.tokenizers import Tokenizer, parse_tokenizer
from harness.demo import WEIGHTS
from tests.tools.completions_server import CompletionsServer, Reply, completions_server
from tests.tools.demo_server import DemoModel, serve


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return load_text_tokenizer(Model("demo", WEIGHTS))


def probe(url: str, tokenizer: Tokenizer, *, top_k: int = 5, **fields: Any) -> tuple[EndpointForm, list[str]]:
    settings = {"requests_per_minute": 60_000, "retries": 0, "timeout": 30.0} | fields
    params = ScoringParams.checked(endpoint=url, endpoint_model="demo", **settings)
    with closing(Endpoint(params, key=None, seed=0)) as endpoint:
        return Probe(endpoint, tokenizer, top_k=top_k).run()


@contextmanager
def demo(**fields: Any) -> Iterator[CompletionsServer]:
    with serve(DemoModel(**fields).answer) as served:
        yield served


@pytest.mark.parametrize(
    ("fields", "prompt", "field"),
    [
        ({}, PromptForm.TOKENS, LogprobsField.PROMPT_LOGPROBS),
        ({"has_vllm_field": False}, PromptForm.TOKENS, LogprobsField.ECHO),
        ({"has_vllm_field": False, "takes_tokens": False}, PromptForm.TEXT, LogprobsField.ECHO),
    ],
)
def test_the_most_exact_form_that_works_is_chosen(
    fields: dict[str, Any], prompt: PromptForm, field: LogprobsField, tokenizer: Tokenizer
) -> None:
    with demo(**fields) as served:
        form, warnings = probe(served.url, tokenizer)
    assert (form.prompt, form.field, form.bos_token, form.skip) == (prompt, field, None, 0)
    assert len(form.fingerprint) > 20
    assert warnings == []


@pytest.mark.parametrize("takes_tokens", [True, False])
@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("zeros", "returns 0 for the log-probabilities of all prompt tokens"),
        ("missing", "returns no log-probability for|positions for a prompt of"),
        ("shifted", "shifted positions: those of a token depend on the tokens after it"),
        ("late", "shifted positions: those of a token depend on fewer tokens"),
        ("few", "likeliest tokens. Set a smaller --top-k"),
        ("bos", "puts a special token before prompts"),
        ("other tokenizer", "tokenizes the prompt differently|tokens before prompts|a special token before prompts"),
    ],
)
@pytest.mark.parametrize("has_vllm_field", [True, False])
def test_a_server_that_lies_is_refused(
    fault: str, says: str, *, takes_tokens: bool, has_vllm_field: bool, tokenizer: Tokenizer
) -> None:
    with (
        demo(fault=fault, takes_tokens=takes_tokens, has_vllm_field=has_vllm_field) as served,
        pytest.raises(HarnessError, match=says) as caught,
    ):
        probe(served.url, tokenizer)
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def tokenizer_with_bos() -> Tokenizer:
    library = LibraryTokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
    name = library.id_to_token(0)
    library.post_processor = TemplateProcessing(single=f"{name} $A", special_tokens=[(name, 0)])
    return parse_tokenizer(library.to_str(), "the demo")


TEXT_ONLY = {"has_vllm_field": False, "takes_tokens": False}


@pytest.mark.parametrize(
    ("fields", "skip", "warning"),
    [
        ({"adds_bos": True}, 1, ""),
        ({"adds_bos": True, "has_usage": False}, 1, ""),
        ({"adds_bos": True, "shows_bos": False}, 0, ""),
        ({"adds_bos": True, "shows_bos": False, "has_usage": False}, 0, "do not show whether the server puts"),
        ({"has_usage": False}, 0, "do not show whether the server puts"),
    ],
)
def test_the_first_token_of_a_text_is_found_in_the_returned_tokens_or_in_their_number(
    fields: dict[str, Any], skip: int, warning: str, tokenizer_with_bos: Tokenizer
) -> None:
    with demo(**TEXT_ONLY, **fields) as served:
        form, warnings = probe(served.url, tokenizer_with_bos)
    assert (form.prompt, form.skip) == (PromptForm.TEXT, skip)
    assert len(warnings) == bool(warning)
    assert all(warning in each for each in warnings)


def test_a_missing_first_token_is_refused(tokenizer_with_bos: Tokenizer) -> None:
    with demo(**TEXT_ONLY) as served, pytest.raises(HarnessError, match=r"does not put .* before prompts"):
        probe(served.url, tokenizer_with_bos)


@pytest.mark.parametrize("has_usage", [True, False])
def test_a_first_token_that_the_tokenizer_lacks_is_refused(*, has_usage: bool, tokenizer: Tokenizer) -> None:
    with (
        demo(**TEXT_ONLY, adds_bos=True, has_usage=has_usage) as served,
        pytest.raises(HarnessError, match="puts a special token before prompts, which the tokenizer of --target"),
    ):
        probe(served.url, tokenizer)


def test_a_text_server_without_usage_or_first_token_needs_no_warning(tokenizer: Tokenizer) -> None:
    with demo(**TEXT_ONLY, has_usage=False) as served:
        form, warnings = probe(served.url, tokenizer)
    assert (form.skip, warnings) == (0, [])


def test_log_probabilities_after_temperature_are_a_warning(tokenizer: Tokenizer) -> None:
    with demo(fault="temperature") as served:
        _, warnings = probe(served.url, tokenizer)
    assert len(warnings) == 1
    assert "depend on the temperature" in warnings[0]


def test_a_limit_of_likeliest_tokens_is_named(tokenizer: Tokenizer) -> None:
    with demo(most_logprobs=20) as served:
        assert probe(served.url, tokenizer, top_k=20)[0].likeliest == 20
        with pytest.raises(
            HarnessError,
            match=r"the 4\d likeliest tokens\. Set a smaller --top-k.*--max-logprobs 4\d",
        ):
            probe(served.url, tokenizer, top_k=40)


def positions(value: str) -> Reply:
    """Return an answer with this log-probability for one of all tokens that the demo's tokenizer has."""
    entries = ", ".join(f'"{token}": {{"logprob": {value if token == 5 else -6.0}}}' for token in range(384))
    return Reply(200, f'{{"choices": [{{"prompt_logprobs": [{", ".join([f"{{{entries}}}"] * 160)}]}}]}}'.encode())


def texts(token: str) -> Reply:
    """Return an answer whose tokens are all this JSON value, with possible log-probabilities."""
    top = ", ".join(f'"{number}": -6.0' for number in range(40))
    lists = {"tokens": token, "token_logprobs": "-6.0", "top_logprobs": f"{{{top}}}"}
    fields = ", ".join(f'"{name}": [{", ".join([value] * 160)}]' for name, value in lists.items())
    return Reply(200, f'{{"choices": [{{"logprobs": {{{fields}}}}}]}}'.encode())


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Reply(500), "answers with status 500"),
        (Reply(200, b'{"choices": [{"text": "x"}]}'), "returns no log-probabilities of the prompt"),
        (Reply(400), r"refuses the request \(status 400\)\. It may not return log-probabilities of prompts"),
        (Reply(200, b"<html>"), "sends invalid JSON"),
        (Reply(200, b"[]"), "sends JSON without a completion"),
        (Reply(401), "rejects the API key"),
        (positions("-1" + "0" * 309), "sends JSON without a completion"),
        (positions("true"), "sends JSON without a completion"),
        (positions('"-1"'), "sends JSON without a completion"),
        (positions("NaN"), "returns no log-probability for|not numbers"),
        (positions("5.0"), "above 0"),
        (texts("5"), "sends JSON without a completion"),
        (texts("null"), "sends JSON without a completion"),
        (Reply(200, b'{"choices": [{"prompt_logprobs": 5, "logprobs": "x"}]}'), "sends JSON without a completion"),
    ],
)
def test_an_answer_without_log_probabilities_is_one_sentence(reply: Reply, says: str, tokenizer: Tokenizer) -> None:
    with completions_server(lambda body, number: reply) as server, pytest.raises(HarnessError, match=says):
        probe(server.url, tokenizer)


def test_a_server_that_is_not_there_is_one_sentence(tokenizer: Tokenizer) -> None:
    with completions_server(lambda body, number: Reply()) as server:
        pass
    with pytest.raises(HarnessError, match="cannot be reached"):
        probe(server.url, tokenizer)


def test_a_tokenizer_of_whole_words_can_be_probed(tmp_path: Path) -> None:
    words = sorted({word for ending in _ENDINGS for word in re.findall(r"\w+|[^\w\s]", _TEXT + ending)})
    whole = LibraryTokenizer(WordLevel({word: number for number, word in enumerate(["?", *words])}, unk_token="?"))
    whole.pre_tokenizer = Whitespace()

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        ids = body["prompt"]
        found: list[Any] = [None]
        for place in range(1, len(ids)):
            # A prediction depends on all tokens before it.
            scores = np.random.default_rng(ids[:place]).normal(size=len(words) + 1) * 3
            logprobs = scores - np.logaddexp.reduce(scores)
            found.append({str(token): {"logprob": float(value)} for token, value in enumerate(logprobs)})
        return {"choices": [{"prompt_logprobs": found}], "usage": {"prompt_tokens": len(ids)}}

    with serve(answer) as served:
        form, _ = probe(served.url, whole)
    assert form.field is LogprobsField.PROMPT_LOGPROBS


def test_ties_are_broken_by_id_as_in_the_engine() -> None:
    half = np.log(0.5)
    found = PromptLogprobs(np.array([half, half]), ["4", "9"], [{"4": half, "9": half}] * 2)
    assert found.under(Policy(top_k=1), exact_ids=True).tolist() == [0.0, -np.inf]
    assert np.isnan(found.under(Policy(top_k=1), exact_ids=False)).all()
    assert found.under(Policy(top_k=2), exact_ids=True) == pytest.approx([half, half])
