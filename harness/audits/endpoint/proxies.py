"""Proxies of the environment: which one a request goes through, and which addresses are reached directly."""

import ipaddress
from typing import NamedTuple
from urllib.request import getproxies, proxy_bypass

import httpx

_UNREADABLE = "[not a URL]"


class Proxy(NamedTuple):
    """The address of a proxy without its user information, and the environment variable that names it."""

    address: str
    variable: str


def is_loopback(host: str) -> bool:
    """Return True if `host` is this machine, which no proxy reaches."""
    name = host.strip("[]").rstrip(".").lower()
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")
    mapped = getattr(address, "ipv4_mapped", None) or address
    return bool(mapped.is_loopback or mapped.is_unspecified)


def proxy_of(url: httpx.URL) -> Proxy | None:
    """Return the proxy for `url`, None if it is reached directly."""
    if is_loopback(url.host) or proxy_bypass(url.host):
        return None
    proxies = getproxies()
    scheme = next((scheme for scheme in (url.scheme, "all") if proxies.get(scheme)), None)
    if scheme is None:
        return None
    address = proxies[scheme]
    try:
        proxy = httpx.URL(address if "://" in address else f"http://{address}")
        shown = str(proxy.copy_with(userinfo=b"***")) if proxy.userinfo else str(proxy)
    except httpx.InvalidURL:
        shown = _UNREADABLE
    return Proxy(shown, f"{scheme}_proxy")
