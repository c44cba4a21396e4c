"""Pods as clusters have them: annotations of other tools, and values with quotes, backslashes and line breaks that are meant."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from tests.cases import read_cases
from tests.property.subjects import replica

PEM = "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQ+/abc=\nZz09\n-----END CERTIFICATE-----\n"
VALUES = (
    "C:\\Program Files\\shop\\bin\\app.exe",
    "\\\\server\\share\\new\\table",
    "postgres://shop:p%40ss%22w%23rd@db:5432/shop?options=-c%20search_path%3Dshop&sslmode=disable",
    "amqp://user:a%2Fb@mq:5672/%2F",
    "mysql://root:50%25@tcp(db:3306)/shop?charset=utf8mb4",
    "^/api/v[0-9]+/(users|orders)/\\d+$",
    ".*\\.outlier_detection\\..*",
    "it's 5 o'clock",
    'say "hello" # twice',
    "key: value, other: [1, 2]",
    "%{[@timestamp]} %-5level {%thread} - %msg%n",
    "a\nb\n\nc\n",
    "first line\r\nsecond line\r\n",
    "\tindented\n\t\ttwice\n",
    PEM,
    "snowman \u2603, pile \U0001f4a9 and 日本語: ありがとう",
    "🚀 deployed by 'ci'",
    "$(HOST_IP):8126",
    "${jndi}: {a}",
    "{{ .Values.notOurs }}",
    "* * * * *",
    "*/5 * * * *",
    "@daily",
    "`uname -a`",
    "!important",
    "&anchor",
    "> greater",
    "| pipe | table |",
    "- item",
    "[INFO] started",
    '<a href="https://example.com/?a=1&b=2">',
    "arn:aws:iam::123456789012:role/shop",
    "yes",
    "0x1F",
    "1e3",
    "null",
    "~",
    "",
    "a" * 70 + "'",
    "x" * 300 + ": end",
)
_DATA = read_cases(Path(__file__).with_suffix(".yaml"))
TOOLS: dict[str, str] = _DATA["tools"]
ISTIO: dict[str, list[str]] = _DATA["istio"]
SCRIPTS: list[list[str]] = _DATA["scripts"]


def pod(dice: Random) -> dict[str, Any]:
    """A pod with a few of all that."""
    result = replica(dice.choice(("shop", "web-frontend", "api")))
    annotations = result["metadata"]["annotations"]
    for name in dice.sample(sorted(TOOLS), dice.randrange(8)):
        annotations[name] = TOOLS[name]
    for name in dice.sample(sorted(ISTIO), dice.randrange(6)):
        annotations[name] = dice.choice(ISTIO[name])
    for number in range(dice.randrange(4)):
        annotations[f"example.com/note-{number}"] = dice.choice(VALUES)
    if dice.random() < 0.1:
        annotations |= many(dice.randrange(2, 60))
    container = result["spec"]["containers"][0]
    container["env"] += [{"name": f"V{number}", "value": dice.choice(VALUES)} for number in range(dice.randrange(4))]
    if dice.random() < 0.4:
        container["command"] = dice.choice(SCRIPTS)
    if dice.random() < 0.1:
        result["metadata"]["labels"]["app.kubernetes.io/version"] = dice.choice(("1.2.3", "v1", "2024-05-06", "1.10"))
    return result


def many(count: int) -> dict[str, str]:
    """So many small annotations in JSON."""
    return {
        f"example.com/item-{number}": json.dumps({"id": number, "tags": ["a b", "it's"]}) for number in range(count)
    }
