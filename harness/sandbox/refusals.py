"""The kinds of operations that the sandbox refuses, and their description."""

from collections.abc import Mapping
from enum import StrEnum


class Refusal(StrEnum):
    """A kind of operation that the sandbox refused; the value is the key in records."""

    NETWORK = "network"
    TRACING = "tracing"
    NAMESPACES = "namespaces"
    CLOCK = "clock"
    KERNEL = "kernel"
    MEMORY = "memory"
    PROCESSES = "processes"

    @property
    def words(self) -> str:
        """The object of a sentence such as "The sandbox refused it a network socket"."""
        return _WORDS[self]


_WORDS = {
    Refusal.NETWORK: "a network socket",
    Refusal.TRACING: "access to another process",
    Refusal.NAMESPACES: "a mount or a namespace",
    Refusal.CLOCK: "a change of the clock",
    Refusal.KERNEL: "a privileged system call",
    Refusal.MEMORY: "more memory than its limit",
    Refusal.PROCESSES: "more processes than its limit",
}


def describe_refusals(refusals: Mapping[Refusal, int]) -> str:
    """Return one clause, such as `a network socket (3 times) and a change of the clock (once)`."""
    parts = [f"{kind.words} ({_times(refusals[kind])})" for kind in Refusal if refusals.get(kind)]
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")
