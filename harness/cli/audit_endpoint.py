"""The options of an endpoint as the target of an audit, and its probe before the clock starts."""

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Annotated, TypeVar

import typer

from harness.audits.endpoint.params import ScoringParams
from harness.audits.models import Model, load_text_tokenizer
from harness.audits.schemes import Scheme, SchemeParams
from harness.cli.output import say
from harness.core.errors import UsageError
from harness.core.protocol import ENDPOINT_KEYS

ScoringParamsType = TypeVar("ScoringParamsType", bound=ScoringParams)
ENDPOINT_SCHEMES = (Scheme.GREEDY, Scheme.PLAIN, Scheme.TOP_K)
"""The decoding schemes whose probabilities follow from the tokens that an endpoint returns."""
_PROBE_RETRIES = 2


@dataclass(frozen=True)
class EndpointOptions:
    """The options of an endpoint. They are the fields of EndpointParams, which checks them later."""

    endpoint: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Base URL of an OpenAI-compatible completions API; API key: HARNESS_ENDPOINT_KEY or OPENAI_API_KEY.",
        ),
    ] = None
    endpoint_model: Annotated[str | None, typer.Option(metavar="MODEL", help="Name of the model at the endpoint.")] = (
        None
    )
    requests_per_minute: Annotated[float, typer.Option(help="Maximum requests per minute to an endpoint.")] = 60.0
    concurrency: Annotated[int, typer.Option(help="Maximum concurrent requests to an endpoint.")] = 1
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="Seconds until a request times out.")] = 60.0
    retries: Annotated[int, typer.Option(help="Maximum retries of a failed request.")] = 6


def for_endpoint(params: ScoringParamsType, targets: Sequence[str]) -> ScoringParamsType:
    """Return the parameters without what an endpoint cannot measure, and say so; unchanged without an endpoint.

    Raises UsageError if several targets are named, or a scheme that needs more than an endpoint returns.
    """
    if params.endpoint is None:
        return params
    if len(set(targets)) != 1:
        raise UsageError("an endpoint serves one model. Give one --target with its tokenizer: a hub id or a directory.")
    schemes = getattr(params, "schemes", ())
    if missing := [scheme.value for scheme in schemes if scheme not in ENDPOINT_SCHEMES]:
        needs = "need" if len(missing) > 1 else "needs"
        choices = ", ".join(scheme.value for scheme in ENDPOINT_SCHEMES)
        raise UsageError(
            f"--schemes: {', '.join(missing)} {needs} the whole distribution, which an endpoint does not return. "
            f"Choose from {choices}."
        )
    # Searches for likely suffixes take thousands of steps in the model.
    searches = [name for name in ("inexact", "near") if getattr(params, name, 0)]
    if searches:
        names = {"inexact": "inexact", "near": "near-verbatim"}
        left_out = " and ".join(names[name] for name in searches)
        say(f"not measured, because an endpoint does not give the model itself: {left_out} matches")
    return params.model_copy(update=dict.fromkeys(searches, 0))


def with_probed_form(params: ScoringParamsType, tokenizer: Model) -> ScoringParamsType:
    """Return the parameters with what a probe of their endpoint found; unchanged without an endpoint.

    tokenizer: the model whose tokenizer the endpoint uses. Raises HarnessError in one sentence if the endpoint cannot
    be used.
    """
    if params.endpoint is None:
        return params
    top_k = params.top_k if isinstance(params, SchemeParams) and Scheme.TOP_K in params.schemes else 1
    from harness.audits.endpoint.client import Endpoint  # loads an HTTP client
    from harness.audits.endpoint.probe import Probe

    key = next((os.environ[name] for name in ENDPOINT_KEYS if os.environ.get(name)), None)
    brief = params.model_copy(update={"retries": min(params.retries, _PROBE_RETRIES)})
    with closing(Endpoint(brief, key=key, seed=0)) as endpoint:
        form, warnings = Probe(endpoint, load_text_tokenizer(tokenizer), top_k=top_k).run()
    say(f"probed {params.endpoint}: prompts as {form.prompt}, log-probabilities by {form.field}")
    for warning in warnings:
        say(f"warning: {warning}")
    return params.model_copy(update={"form": form})
