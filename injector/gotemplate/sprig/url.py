"""URLs in parts (sprig's url.go, Go's net/url), and slash-separated paths (Go's path and path/filepath on Unix)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

from injector.golang.netip import parse_address
from injector.golang.strconv import from_bytes, to_bytes
from injector.golang.strconv import quote as go_quote
from injector.gotemplate import costs
from injector.gotemplate.errors import FuncError
from injector.gotemplate.functions import FuncMap
from injector.gotemplate.values import kind_of

FUNCTIONS: Final = FuncMap()


@FUNCTIONS.define("func(string) string", "clean", "osClean", cost=costs.PARTS)
def clean(path: str) -> str:
    """Return the shortest path that means the same."""
    if not path:
        return "."
    rooted = path.startswith("/")
    parts: list[str] = []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part != "..":
            parts.append(part)
        elif parts and parts[-1] != "..":
            parts.pop()
        elif not rooted:
            parts.append(part)
    return ("/" if rooted else "") + "/".join(parts) or "."


def _ext(path: str) -> str:
    """Return the suffix of a path from its last dot on."""
    _, dot, suffix = path.rpartition("/")[2].rpartition(".")
    return dot + suffix if dot else ""


for _name, _signature, _call, _cost in (
    ("base", "func(string) string", lambda path: path.rstrip("/").rpartition("/")[2] or path[:1] or ".", costs.SCAN),
    ("dir", "func(string) string", lambda path: clean(path[: path.rfind("/") + 1]), costs.PARTS),
    ("ext", "func(string) string", _ext, costs.SCAN),
    ("isAbs", "func(string) bool", lambda path: path.startswith("/"), costs.NOTHING),
):
    FUNCTIONS.define(_signature, _name, f"os{_name[0].upper()}{_name[1:]}", cost=_cost)(_call)


_SCHEME = re.compile(r"(?P<name>[a-zA-Z][a-zA-Z0-9+.\-]*):", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_USERINFO = re.compile(r"[-A-Za-z0-9._:~!$&'*+(),;=%@]*", re.ASCII)
_PATH = re.compile("[/?#]")
"""Ends the user and the host of a URL."""
_PORT = re.compile(r"(?::[0-9]*)?", re.ASCII)
_ESCAPE_OR_BAD = re.compile(rb"%(?P<code>[0-9a-fA-F]{2})?|(?P<bad>[^-A-Za-z0-9_.~!\"$&'*+(),:;<=>\[\]\x80-\xff])")
"""An escape, or a character that must be one in a host."""
_HOST_SAFE: Final = "!\"$&'*+(),:;<=>[]"
_USER_SAFE: Final = "$&+,;="
_PATH_SAFE: Final = "$&+,/:;=@"
_FRAGMENT_SAFE: Final = "!$&*+(),/:;=?@"
_IPV4_BITS: Final = 32


@FUNCTIONS.define("func(string) map[string]interface {}", "urlParse", cost=costs.BY_CHARACTER)
def parse_url(text: str) -> dict[str, Any]:
    """Return a URL's parts: scheme, host, hostname, path, query, opaque, fragment, userinfo."""
    try:
        return _parse(text)
    except ValueError as error:
        raise FuncError(f"unable to parse url: {error}") from error


def _parse(text: str) -> dict[str, Any]:
    """Return the parts of a URL (url.Parse). Raises ValueError with Go's text."""
    whole, _, fragment = text.partition("#")
    address = whole
    try:
        parts = _without_fragment(whole)
        address = text
        return {**parts, "fragment": _unescape(fragment)}
    except ValueError as error:
        raise ValueError(f"parse {go_quote(address)}: {error}") from error


def _without_fragment(text: str) -> dict[str, Any]:
    parts = dict.fromkeys(("scheme", "host", "hostname", "path", "query", "opaque", "userinfo"), "")
    if _CONTROL.search(text):
        raise ValueError("net/url: invalid control character in URL")
    if text.startswith(":"):
        raise ValueError("missing protocol scheme")
    match = _SCHEME.match(text)
    scheme = parts["scheme"] = match["name"].lower() if match else ""
    rest, _, parts["query"] = text[match.end() if match else 0 :].partition("?")
    if scheme and not rest.startswith("/"):
        return {**parts, "opaque": rest}
    if ":" in rest.partition("/")[0]:
        raise ValueError("first path segment in URL cannot contain colon")
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        userinfo, _, host = authority.rpartition("@")
        parts["host"] = _host(scheme, host)
        parts["userinfo"] = _userinfo(userinfo)
    name, colon, port = parts["host"].rpartition(":")
    name = name if colon and _PORT.fullmatch(colon + port) else parts["host"]
    parts["hostname"] = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    return {**parts, "path": _unescape(rest)}


def _host(scheme: str, host: str) -> str:
    """Return the host and port of a URL without escapes (parseHost)."""
    if "[" in host:
        address, bracket, port = host[1:].rpartition("]")
        if host.rindex("["):
            raise ValueError("invalid IP-literal")
        if not bracket:
            raise ValueError("missing ']' in host")
        _check_port(port)
        address, percent, zone = address.partition("%25")
        address = _unescape(address, "host") + _unescape(percent + zone, "zone")
        try:
            is_ipv4 = parse_address(address)[0] == _IPV4_BITS
        except ValueError as error:
            raise ValueError(f"invalid host: {error}") from error
        if is_ipv4:
            raise ValueError("invalid IP-literal")
        return f"[{address}]{port}"
    colon = host.find(":") if scheme in ("http", "https") else host.rfind(":")
    _check_port(host[colon:] if colon >= 0 else "")
    return _unescape(host, "host")


def _check_port(port: str) -> None:
    if not _PORT.fullmatch(port):
        raise ValueError(f"invalid port {go_quote(port)} after host")


def _userinfo(text: str) -> str:
    """Return a user, and a password if there is one, escaped as Go does it."""
    if not _USERINFO.fullmatch(text):
        raise ValueError("net/url: invalid userinfo")
    name, colon, password = text.partition(":")
    return colon.join(_escape(_unescape(part), _USER_SAFE) for part in (name, password))


def _escape(text: str, safe: str) -> str:
    return quote_from_bytes(to_bytes(text), safe)


def _unescape(text: str, place: str = "") -> str:
    """Return a part of a URL without escapes (unescape); ``place`` is ``host`` or ``zone`` where only some characters are allowed."""
    raw = to_bytes(text)
    for match in _ESCAPE_OR_BAD.finditer(raw):
        if match["bad"]:
            if place:
                raise ValueError(f"invalid character {go_quote(from_bytes(match[0]))} in host name")
        elif not _may_escape(match["code"], place):
            raise ValueError(f"invalid URL escape {go_quote(from_bytes(raw[match.start() :][:3]))}")
    return from_bytes(unquote_to_bytes(raw))


def _may_escape(code: bytes | None, place: str) -> bool:
    """Return whether an escape is allowed; ``code`` is None if it is not hexadecimal."""
    if code is None or not place or code == b"25":
        return code is not None
    char = chr(int(code, 16))
    return (
        not char.isascii()
        if place == "host"
        else char == " " or (char.isascii() and not _ESCAPE_OR_BAD.match(char.encode()))
    )


@FUNCTIONS.define("func(map[string]interface {}) string", "urlJoin", cost=costs.BY_CHARACTER)
def join_url(parts: Mapping[str, Any]) -> str:
    """Return the URL of parts as ``parse_url`` gives them (url.URL.String)."""
    names = ("scheme", "host", "path", "query", "opaque", "fragment", "userinfo")
    scheme, host, path, query, opaque, fragment, userinfo = (_text(parts, name) for name in names)
    user = ""
    if userinfo:
        try:
            user = _parse(f"proto://{userinfo}@host")["userinfo"] + "@"
        except ValueError as error:
            raise FuncError(f"unable to parse userinfo in dict: {error}") from error
        if "@" not in _PATH.split(f"{userinfo}@", maxsplit=1)[0]:
            user = ""
    out = f"{scheme}:" if scheme else ""
    if opaque:
        out += opaque
    else:
        if host or user or (scheme and path):
            out += "//"
        out += user + _escape(host, _HOST_SAFE)
        path = path if path == "*" else _escape(path, _PATH_SAFE)
        if path and not path.startswith("/") and host:
            out += "/"
        if not out and ":" in path.partition("/")[0]:
            out = "./"  # else the colon would end a scheme
        out += path
    out += f"?{query}" if query else ""
    return out + (f"#{_escape(fragment, _FRAGMENT_SAFE)}" if fragment else "")


def _text(parts: Mapping[str, Any], name: str) -> str:
    """Return a part, empty if it is missing (dictGetOrEmpty)."""
    value = parts.get(name, "")
    if value is None:
        raise FuncError("runtime error: invalid memory address or nil pointer dereference")
    if not isinstance(value, str):
        raise FuncError(f"unable to parse {name} key, must be of type string, but {kind_of(value)} found")
    return value
