"""URLs in parts (sprig's url.go, Go's net/url), and slash-separated paths (Go's path and path/filepath on Unix)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

from injector.golang.strconv import quote as go_quote
from injector.gotemplate import costs
from injector.gotemplate.errors import FuncError
from injector.gotemplate.functions import FuncMap
from injector.gotemplate.sprig.strings import strval

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


_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.\-]*", re.ASCII)
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2}).{0,2}", re.ASCII | re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x20\x7f]")
_PATH_SAFE: Final = "/$&+,:;=@!~*'()"


@FUNCTIONS.define("func(string) map[string]interface {}", "urlParse", cost=costs.BY_CHARACTER)
def parse_url(text: str) -> dict[str, Any]:
    """Return a URL's parts: scheme, host, hostname, path, query, opaque, fragment, userinfo."""
    rest, _, fragment = text.partition("#")
    if _CONTROL.search(text.replace(" ", "")):
        raise FuncError(f"unable to parse url: parse {go_quote(text)}: net/url: invalid control character in URL")
    scheme, rest = _scheme(text, rest)
    rest, _, query = rest.partition("?")
    opaque = authority = ""
    if not scheme and not rest.startswith("/") and ":" in rest.partition("/")[0]:
        raise FuncError(f"unable to parse url: parse {go_quote(text)}: first path segment in URL cannot contain colon")
    if scheme and not rest.startswith("/"):
        opaque, rest = rest, ""
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
    userinfo, _, host = authority.rpartition("@")
    # The colons inside the brackets of an IPv6 address do not start a port.
    name, colon, port = (host.rpartition("]")[2] if host.startswith("[") else host).partition(":")
    for part in (rest, fragment, host):
        bad = _BAD_ESCAPE.search(part)
        if bad is not None:
            raise FuncError(f'unable to parse url: parse {go_quote(text)}: invalid URL escape "{bad[0]}"')
    if colon and port and not (port.isascii() and port.isdigit()):
        raise FuncError(f'unable to parse url: parse {go_quote(text)}: invalid port ":{port}" after host')
    return {
        "scheme": scheme,
        "host": host,
        "hostname": host[1:].partition("]")[0] if host.startswith("[") else name,
        "path": unquote(rest),
        "query": query,
        "opaque": opaque,
        "fragment": unquote(fragment),
        "userinfo": userinfo,
    }


def _scheme(text: str, rest: str) -> tuple[str, str]:
    head, colon, after = rest.partition(":")
    if not colon or any(mark in head for mark in "/?"):
        return "", rest
    if not head:
        raise FuncError(f"unable to parse url: parse {go_quote(text)}: missing protocol scheme")
    if _SCHEME.fullmatch(head):
        return head.lower(), after
    return "", rest


@FUNCTIONS.define("func(map[string]interface {}) string", "urlJoin", cost=costs.BY_CHARACTER)
def join_url(parts: Mapping[str, Any]) -> str:
    """Return the URL of parts as ``parse_url`` gives them."""
    get = {
        name: strval(parts.get(name, ""))
        for name in ("scheme", "host", "path", "query", "opaque", "fragment", "userinfo")
    }
    out = f"{get['scheme']}:" if get["scheme"] else ""
    if get["opaque"]:
        out += get["opaque"]
    else:
        if get["scheme"] or get["host"] or get["userinfo"]:
            credentials = f"{get['userinfo']}@" if get["userinfo"] else ""
            slashes = "//" if get["host"] or get["path"] or get["userinfo"] else ""
            out += f"{slashes}{credentials}{get['host']}"
        path = quote(get["path"], safe=_PATH_SAFE)
        if path and not path.startswith("/") and get["host"]:
            out += "/"
        if not out and ":" in path.partition("/")[0]:
            out = "./"  # else the colon would end a scheme
        out += path
    out += f"?{get['query']}" if get["query"] else ""
    return out + (f"#{quote(get['fragment'], safe=_PATH_SAFE + '?')}" if get["fragment"] else "")
