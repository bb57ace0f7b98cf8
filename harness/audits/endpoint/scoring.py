"""The parameters of an audit that computes probabilities of given text, and the probe of an endpoint before it."""

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Self

from harness.audits.endpoint.params import EndpointForm, EndpointParams
from harness.audits.models import Model, load_text_tokenizer
from harness.audits.probabilities import Scheme
from harness.core.errors import UsageError
from harness.core.options import option
from harness.core.protocol import ENDPOINT_KEYS

ENDPOINT_SCHEMES = (Scheme.GREEDY, Scheme.PLAIN, Scheme.TOP_K)
"""The decoding schemes whose probabilities follow from the tokens that an endpoint returns."""
_PROBE_RETRIES = 2


class ScoringParams(EndpointParams):
    """The parameters of an audit that computes probabilities of given text, locally or with an endpoint."""

    form: EndpointForm | None = option(None, is_hidden=True, description="What the probe of the endpoint found.")

    def for_targets(self, targets: Sequence[str], say: Callable[[str], None]) -> Self:
        """Return the parameters without what an endpoint cannot measure, and say so; unchanged without an endpoint.

        Raises UsageError if several targets are named, or a scheme that needs more than an endpoint returns.
        """
        if self.endpoint is None:
            return self
        if len(set(targets)) != 1:
            raise UsageError(
                "an endpoint serves one model. Give one --target with its tokenizer: a hub id or a directory."
            )
        schemes = getattr(self, "schemes", ())
        if missing := [scheme.value for scheme in schemes if scheme not in ENDPOINT_SCHEMES]:
            needs = "need" if len(missing) > 1 else "needs"
            choices = ", ".join(scheme.value for scheme in ENDPOINT_SCHEMES)
            raise UsageError(
                f"--schemes: {', '.join(missing)} {needs} the whole distribution, which an endpoint does not return. "
                f"Choose from {choices}."
            )
        # Searches for likely suffixes take thousands of steps in the model.
        searches = [name for name in ("inexact", "near") if getattr(self, name, 0)]
        if searches:
            names = {"inexact": "inexact", "near": "near-verbatim"}
            left_out = " and ".join(names[name] for name in searches)
            say(f"not measured, because an endpoint does not give the model itself: {left_out} matches")
        return self.model_copy(update=dict.fromkeys(searches, 0))

    def probed(self, tokenizer: Model, say: Callable[[str], None]) -> Self:
        """Return the parameters with what a probe of their endpoint found; unchanged without an endpoint.

        tokenizer: the model whose tokenizer the endpoint uses. Raises HarnessError in one sentence if the endpoint
        cannot be used.
        """
        if self.endpoint is None:
            return self
        schemes = getattr(self, "schemes", ())
        top_k = int(getattr(self, "top_k", 1)) if Scheme.TOP_K in schemes else 1
        from harness.audits.endpoint.client import Endpoint  # loads an HTTP client
        from harness.audits.endpoint.probe import Probe

        key = next((os.environ[name] for name in ENDPOINT_KEYS if os.environ.get(name)), None)
        brief = self.model_copy(update={"retries": min(self.retries, _PROBE_RETRIES)})
        with closing(Endpoint(brief, key=key, seed=0)) as endpoint:
            form, warnings = Probe(endpoint, load_text_tokenizer(tokenizer), top_k=top_k).run()
        say(f"probed {self.endpoint}: prompts as {form.prompt}, log-probabilities by {form.field}")
        for warning in warnings:
            say(f"warning: {warning}")
        return self.model_copy(update={"form": form})
