from __future__ import annotations

from typing import Any

import pytest

from injector.errors import TagError
from injector.revisions.users import Users, followers, refuse_used, users


def test_users_are_named_by_kind_twenty_at_most() -> None:
    some = users("namespace", [f"n-{number}" for number in range(15)])
    more = users("pod", [f"n/p-{number}" for number in range(10)], total=100)

    assert str(some + users("pod", ["n/p"])) == ", ".join([*(f"namespace n-{each}" for each in range(15)), "pod n/p"])
    text = str(some + more)
    assert text.count("namespace ") == 15
    assert text.count("pod ") == 5
    assert text.endswith("pod n/p-4 and 95 more")


def test_who_is_not_used_is_not_refused() -> None:
    refuse_used(Users(), doing="cannot remove it")

    with pytest.raises(
        TagError,
        match=r"^cannot remove it: it is in use by tag prod; move or label them otherwise first, or add --force",
    ):
        refuse_used(users("tag", ["prod"]), doing="cannot remove it")


def test_namespaces_follow_what_their_labels_name() -> None:
    labelled: list[tuple[str, dict[str, Any]]] = [
        ("shop", {"istio.io/rev": "prod"}),
        ("bank", {"istio.io/rev": "prod", "istio-injection": "disabled"}),
        ("old", {"istio-injection": "enabled"}),
        ("both", {"istio-injection": "enabled", "istio.io/rev": "prod"}),
        ("odd", {"istio.io/rev": 5}),
        ("none", {}),
        ("shop", {"istio.io/rev": "prod"}),
    ]

    assert followers(labelled) == {"prod": ("bank", "both", "shop"), "default": ("both", "old")}
