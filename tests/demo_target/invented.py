"""Invented names, places and addresses, composed of syllables.

This module does not depend on documents. Every choice comes from the caller's seeded `Random`.
"""

# ruff: noqa: SIM905  lists of words read better as running text

from random import Random
from typing import NamedTuple

ONSETS = "b d f g k l m n p r s t v z".split()
VOWELS = "a e i o u".split()
CODAS = ["", "", "l", "n", "r", "s"]
ENDINGS = "or ika ell umo arn ish ovex ula".split()


class Person(NamedTuple):
    """A person who does not exist."""

    given: str
    family: str
    email: str
    phone: str


def word(rng: Random) -> str:
    """Return a lower-case word. It may be a real word by accident."""
    stem = rng.choice(ONSETS) + rng.choice(VOWELS) + rng.choice(CODAS)
    return stem + rng.choice(ONSETS) + rng.choice(ENDINGS)


def name(rng: Random) -> str:
    """Return a capitalized invented word."""
    return word(rng).capitalize()


def digits(rng: Random, count: int) -> str:
    """Return `count` decimal digits, the first of which is not 0."""
    return str(rng.randrange(10 ** (count - 1), 10**count))


def code(rng: Random) -> str:
    """Return a part or file number such as `QF-41`."""
    return "".join(rng.choice("ABCDEFGHKLMNPQRTVXZ") for _ in range(2)) + "-" + digits(rng, 2)


def person(rng: Random, family: str) -> Person:
    """Return a member of `family` with an address under example.* (RFC 2606) and an unassigned number under +999."""
    given = name(rng)
    domain = rng.choice(("example.org", "example.com", "example.net"))
    return Person(given, family, f"{given}.{family}@{domain}".lower(), f"+999 {digits(rng, 2)} {digits(rng, 3)}")
