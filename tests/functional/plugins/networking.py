"""An attack that opens a network socket before it guesses."""

import contextlib
import socket
from collections.abc import Iterator

from harness import Attack, Context, Field, Guesses, Params


class NetworkingParams(Params):
    is_caught: bool = Field(True, description="Ignore the error of a refused socket.")


class Networking(Attack[NetworkingParams]):
    name = "networking"
    uses_target = False

    def run(self, context: Context) -> Iterator[Guesses]:
        with contextlib.suppress(OSError) if self.params.is_caught else contextlib.nullcontext():
            socket.socket(socket.AF_INET, socket.SOCK_STREAM).close()
        yield Guesses(context.ids, context.prefixes[:, : context.suffix_length], context.ids)
