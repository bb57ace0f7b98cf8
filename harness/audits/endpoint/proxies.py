"""Proxies of the environment: which one a request goes through, and which addresses are reached directly."""

import ipaddress
from urllib.request import getproxies, proxy_bypass

import httpx


def is_loopback(host: str) -> bool:
    """Return True if `host` is this machine, which no proxy reaches."""
    name = host.strip("[]").rstrip(".").lower()
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")
    mapped = getattr(address, "ipv4_mapped", None) or address
    return bool(mapped.is_loopback or mapped.is_unspecified)


def through_proxy(url: httpx.URL) -> str:
    """Return " through the proxy … of …" with the address and the variable of the proxy for `url`; empty without one.

    Its user name and password are masked.
    """
    proxies = getproxies()
    scheme = next((scheme for scheme in (url.scheme, "all") if proxies.get(scheme)), None)
    if scheme is None or is_loopback(url.host) or proxy_bypass(url.host):
        return ""
    address = proxies[scheme]
    try:
        proxy = httpx.URL(address if "://" in address else f"http://{address}")
        name = str(proxy.copy_with(userinfo=b"***")) if proxy.userinfo else str(proxy)
    except httpx.InvalidURL:
        name = "[not a URL]"
    return f" through the proxy {name} of {scheme}_proxy"
