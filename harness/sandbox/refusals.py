"""What a confined process can be refused, in words."""

from collections.abc import Mapping
from enum import StrEnum


class Refusal(StrEnum):
    """What a confined process was refused; the words go with "refused it"."""

    NETWORK = "network"
    TRACING = "tracing"
    NAMESPACES = "namespaces"
    CLOCK = "clock"
    KERNEL = "kernel"
    MEMORY = "memory"
    PROCESSES = "processes"

    @property
    def words(self) -> str:
        """The refusal as an object of "the sandbox refused it"."""
        return _WORDS[self]


_WORDS = {
    Refusal.NETWORK: "a network socket",
    Refusal.TRACING: "a look into another process",
    Refusal.NAMESPACES: "a mount or a namespace",
    Refusal.CLOCK: "a change of the clock",
    Refusal.KERNEL: "a system call for administrators",
    Refusal.MEMORY: "more memory than its limit",
    Refusal.PROCESSES: "more processes than its limit",
}


def in_words(refusals: Mapping[Refusal, int]) -> str:
    """What was refused how often, as one clause: `a network socket (3 times) and a change of the clock (once)`."""
    parts = [f"{kind.words} ({_times(refusals[kind])})" for kind in Refusal if refusals.get(kind)]
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")
