"""The plan of an upgrade."""

from __future__ import annotations

from collections import Counter
from functools import partial
from textwrap import indent
from typing import Any

import pytest

from injector.errors import TagError
from injector.istio.revision import Revision
from injector.kube.podsecurity import enforced_level
from injector.kube.podtemplates import Created
from injector.revisions.source import build
from injector.revisions.tags import Tag, TagWorkload
from injector.upgrade.document import Upgrade
from injector.upgrade.plan import (
    Entry,
    Plan,
    Restart,
    Workload,
    change_of,
    make_plan,
    pins_of,
    prepare_tag,
    restart_of,
    tag_in_wave,
    unknown_restart,
)
from tests import controlplanes
from tests.cases import cases
from tests.factories import make_pod
from tests.revisions.fakes import CONFIG, VALUES, make_raw
from tests.upgrade.fleets import NEW, OLD, PROD, SOURCE, fleet, upgrade, workload


def planned(document: Upgrade, *workloads: Workload, tag: Tag | None = PROD) -> Plan:
    return make_plan(document, tag, fleet(workloads, tag))


def only(document: Upgrade, item: Workload, tag: Tag | None = PROD) -> Entry:
    (entry,) = planned(document, item, tag=tag).entries
    return entry


def test_every_workload_of_the_tag_has_a_wave_and_a_class_of_change() -> None:
    entry = only(upgrade(), workload("web"))

    assert (entry.wave, entry.action, entry.change, entry.kinds) == (0, "restart", "image only", ("image",))


def test_only_the_waves_that_are_asked_for_are_compared() -> None:
    document = upgrade({"name": "dev", "namespaces": ["dev"]}, {"name": "rest"})
    plan = make_plan(document, PROD, fleet([workload("a", "dev"), workload("b")], PROD), (1,))

    assert [(entry.wave, entry.action, entry.change) for entry in plan.entries] == [
        (0, "restart", "identical"), (1, "restart", "image only"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "action", "note"),
    [
        ({"has": NEW}, "done", "its pods have the new revision"),
        ({"has": None}, "blocked", "a pod has no sidecar, and a new one would get one: restart it yourself"),
        ({"pods": Counter()}, "done", "no pod with a sidecar"),
        ({"pods": Counter({OLD: 1, NEW: 1})}, "restart", ""),
        ({"has": "1-26"}, "restart", ""),
        ({"restart": Restart("a reason")}, "blocked", "a reason"),
        ({"pin": OLD}, "stays", "its pods are pinned to 1-28"),
        (
            {"restart": Restart("", 4)},
            "blocked",
            "limits.unavailablePodsPerNamespace is 3: raise it, or use the strategy RollingUpdate",
        ),
        ({"restart": Restart("", 11)}, "blocked", "takes away 11 pods at once, and limits.unavailablePods is 10"),
        (
            {"restart": Restart("", 11)},
            "blocked",
            "raise it, or use the strategy RollingUpdate with a lower maxUnavailable",
        ),
    ],
)
def test_a_workload_is_restarted_unless_there_is_a_reason(fields: dict[str, Any], action: str, note: str) -> None:
    tag = Tag("prod", ((OLD, 1), (NEW, 0))) if "pin" in fields else PROD
    document = upgrade({"weight": 50}) if "pin" in fields else upgrade()
    entry = only(document, workload("web", **fields), tag)

    assert entry.action == action
    assert note in entry.note
    assert bool(entry.note) == bool(note)


def test_workloads_of_other_tags_are_not_in_the_plan_those_of_the_revision_noted() -> None:
    plan = planned(
        upgrade(), workload("a", requested="other"), workload("b", requested=OLD), workload("c", requested=None)
    )

    assert plan.entries == ()
    assert plan.notes == ("workloads with revision 1-28 by the label of their namespace, not by the tag: 1",)


@pytest.mark.parametrize("waves", [[], [{"weight": 50}, {"weight": 100}], [{"namespaces": ["shop"]}, {"name": "rest"}]])
def test_a_workload_that_is_pinned_to_the_old_revision_stays_however_the_tag_moves(waves: list[dict[str, Any]]) -> None:
    document, pinned = upgrade(*waves), workload("hold", pin=OLD)
    plan = planned(document, pinned, workload("web"))
    pins = pins_of(document, PROD, [pinned])
    last = tag_in_wave(document, PROD, len(document.waves) - 1, pins)

    notes = {entry.key.name: (entry.action, entry.note) for entry in plan.entries}
    assert notes["hold"] == ("stays", "its pods are pinned to 1-28")
    assert notes["web"][0] == "restart"
    assert (last.destination, last.sole, last.weight_notes) == ("1-30=100,1-28=0", True, ())
    key = ("shop", "Deployment", "hold")
    assert last.choice_for(lambda: TagWorkload(key, OLD)).revision == OLD
    assert last.choice_for(lambda: TagWorkload(key)).revision == NEW


def test_pins_of_an_earlier_upgrade_are_kept_and_others_do_not_count() -> None:
    document, tag = upgrade(), Tag("prod", ((OLD, 100), ("1-26", 0)))
    workloads = [workload("a", pin="1-26"), workload("b", pin="1-24"), workload("c", pin=OLD, requested="other")]

    assert pins_of(document, tag, workloads) == ("1-26",)
    plan = planned(document, *workloads, tag=tag)
    assert [(entry.key.name, entry.action) for entry in plan.entries] == [("b", "restart"), ("a", "stays")]


@pytest.mark.parametrize(
    ("requested", "leads"), [(OLD, "leads to 1-28"), ("stage", "leads to stage"), (None, "leads nowhere")]
)
def test_a_workload_whose_pods_have_their_own_label_is_listed_and_stays(requested: str | None, leads: str) -> None:
    plan = planned(upgrade(), workload("web", requested=requested, has_own_label=True))

    (entry,) = plan.entries
    assert (entry.action, entry.note) == ("stays", f"its pods have their own label istio.io/rev, which {leads}")
    assert plan.notes == ()


def test_without_a_tag_workloads_that_get_the_new_revision_are_in_the_plan() -> None:
    plan = planned(upgrade(tag=None), workload("a", requested=NEW), workload("b", requested=OLD), tag=None)

    assert [(entry.key.name, entry.action) for entry in plan.entries] == [("a", "restart")]


def test_a_workload_that_a_restart_would_leave_without_sidecars_is_blocked() -> None:
    named: dict[str, Any] = {"requested": NEW, "is_called": False}
    workloads = workload("a", **named), workload("b", has=NEW, **named), workload("c", has=None, **named)

    plan = planned(upgrade(tag=None), *workloads, tag=None)

    assert [(entry.key.name, entry.action) for entry in plan.entries] == [
        ("a", "blocked"),
        ("b", "done"),
        ("c", "done"),
    ]
    assert plan.entries[0].note.startswith("no webhook is called for its new pods")


def test_the_first_wave_whose_filters_match_has_the_workload() -> None:
    document = upgrade(
        {"name": "dev", "namespaces": ["dev"]},
        {"name": "low", "importance": "low"},
        {"name": "web", "selector": {"matchLabels": {"app": "web"}}},
    )
    low, web = {"revision-injector.dev/importance": "low"}, {"app": "web"}
    plan = planned(
        document,
        workload("a", "dev", labels=low),
        workload("b", labels={**low, **web}),
        workload("c", labels=web),
        workload("d"),
    )

    assert [(entry.key.name, entry.wave) for entry in plan.entries] == [("a", 0), ("b", 1), ("c", 2), ("d", None)]
    assert plan.entries[-1].note == "no wave has it: add a last wave without filters"


def test_a_workload_moves_in_the_first_wave_whose_weight_includes_it() -> None:
    document = upgrade({"weight": 10}, {"weight": 50}, {"weight": 100})
    plan = planned(document, *(workload(f"w{number}") for number in range(200)))

    for entry in plan.entries:
        revisions = [
            tag_in_wave(document, PROD, index, ()).choice_for(partial(TagWorkload, entry.key)).revision
            for index in range(3)
        ]
        assert revisions.index(NEW) == entry.wave
    sizes = [len(plan.of_wave(index)) for index in range(3)]
    assert sum(sizes) == 200
    assert all(sizes)
    assert sizes[0] < sizes[1] < sizes[2]


def test_a_namespace_with_its_own_weights_does_not_move_unless_a_wave_names_it() -> None:
    tag = Tag("prod", ((OLD, 1),), namespaces={"pay": ((OLD, 1),)})

    stays = only(upgrade(), workload("web", "pay"), tag)
    assert (stays.action, stays.note) == ("stays", "its namespace has its own weights in the tag")
    assert only(upgrade({"namespaces": ["pay"]}), workload("web", "pay"), tag).wave == 0


def test_the_tag_moves_by_namespaces_and_then_as_a_whole() -> None:
    tag = Tag("prod", ((OLD, 1),), namespaces={"pay": ((OLD, 1),)})
    document = upgrade({"namespaces": ["dev"]}, {"namespaces": ["test"]}, {"name": "rest"})
    whole = ((NEW, 1),)

    first, second, last = (tag_in_wave(document, tag, index, ()) for index in range(3))
    assert (first.weights, first.namespaces) == (((OLD, 1),), {"pay": ((OLD, 1),), "dev": whole})
    assert (second.weights, second.namespaces) == (((OLD, 1),), {"pay": ((OLD, 1),), "dev": whole, "test": whole})
    assert (last.weights, last.namespaces) == (whole, {"pay": ((OLD, 1),)})


def test_the_tag_moves_by_weights_or_before_the_first_wave() -> None:
    by_weight = upgrade({"weight": 10}, {"weight": 100})

    assert [tag_in_wave(by_weight, PROD, index, ()).destination for index in range(2)] == ["1-28=90,1-30=10", "1-30"]
    assert tag_in_wave(upgrade({"importance": "low"}, {"name": "rest"}), PROD, 0, ()).destination == "1-30"


def test_a_prepared_tag_moves_nothing_and_can_be_pinned_to_the_new_revision() -> None:
    prepared = prepare_tag(upgrade(), PROD)

    key = ("shop", "Deployment", "web")
    assert prepared.choice_for(lambda: TagWorkload(key)).revision == OLD
    assert prepared.choice_for(lambda: TagWorkload(key, NEW)).revision == NEW
    assert prepare_tag(upgrade(), prepared) == prepared


def test_a_tag_of_another_revision_is_refused() -> None:
    with pytest.raises(TagError, match=r'tag "prod" leads to 1-26, and the upgrade is from 1-28 to 1-30'):
        planned(upgrade(), tag=Tag("prod", (("1-26", 1),)))


@cases("template", "change", "kinds")
def test_the_class_of_change_is_the_one_that_needs_most_review(
    template: str, change: str, kinds: tuple[str, ...]
) -> None:
    head, sidecar, _ = CONFIG.partition("  sidecar: |\n    spec:\n      containers:\n      - name: istio-proxy\n")
    config = head + sidecar + indent(template, " " * 8)
    target = build(make_raw(NEW, config=config, values=VALUES.replace("1.24.6", "1.30.1")))

    levels = ("baseline", "privileged") if "podsecurity" in kinds else ()
    assert change_of(workload("web"), SOURCE, target) == (change, tuple(kinds), levels, ())


LIMITS_OF_PROXY = "variables with the limits of the proxy"


def test_a_known_harmless_change_of_a_minor_is_no_part_of_the_class() -> None:
    def revision(name: str, version: str, divisor: str) -> Revision:
        head, sidecar, _ = CONFIG.partition("  sidecar: |\n    spec:\n      containers:\n      - name: istio-proxy\n")
        variable = f"{{name: GOMAXPROCS, valueFrom: {{resourceFieldRef: {{resource: limits.cpu{divisor}}}}}}}"
        template = indent(f"image: proxy:{version}\nenv: [{variable}]", " " * 8)
        return build(make_raw(name, config=head + sidecar + template, values=VALUES.replace("1.24.6", version)))

    before, after = revision(OLD, "1.28.0", ""), revision(NEW, "1.30.1", ', divisor: "1"')
    assert change_of(workload("web"), before, after) == ("image only", ("image",), (), (LIMITS_OF_PROXY,))


@pytest.mark.parametrize("name", controlplanes.parameters(("1.28",)))
def test_from_1_28_to_1_30_only_images_differ_besides_harmless_changes(name: str) -> None:
    source, target = (controlplanes.revision_of(name.replace("1.28", minor)) for minor in ("1.28", "1.30"))

    change = change_of(workload("web"), source, target)
    expected = ("image only", ("image",), (), (LIMITS_OF_PROXY,)) if "istio" in name else ("identical", (), (), ())
    assert change == expected


def test_a_pod_that_the_new_revision_refuses_is_blocked_and_the_reason_hides_values() -> None:
    config = CONFIG.replace("        image:", "        {{ fail (index .Spec.Containers 0).Name }}\n        image:")
    target = build(make_raw(NEW, config=config))
    (entry,) = make_plan(upgrade(), PROD, fleet((workload("web"),), PROD, target=target)).entries

    assert (entry.action, entry.change, entry.note) == ("blocked", "refused", "1-30 refuses its pods")
    assert "app" in entry.kinds[0]


def test_a_pod_that_its_namespace_does_not_allow_is_blocked() -> None:
    policy = enforced_level({"pod-security.kubernetes.io/enforce": "restricted"})
    (entry,) = make_plan(upgrade(), PROD, fleet((workload("web", policy=policy),), PROD)).entries

    assert (entry.action, entry.change) == ("blocked", "refused")
    assert entry.kinds[0].startswith(
        'violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (app, '
    )


@cases("obj", "obstacle", "disrupts")
def test_what_a_restart_means_follows_from_the_workload(obj: dict[str, Any], obstacle: str, disrupts: int) -> None:
    restart = restart_of({"metadata": {"name": "x", "namespace": "y"}, **obj})

    assert obstacle in restart.obstacle
    assert bool(restart.obstacle) == bool(obstacle)
    assert restart.disrupts == disrupts


@cases("kind", "owner", "obstacle")
def test_a_workload_that_is_only_known_by_its_pods_is_blocked_with_its_owner(
    kind: str, owner: dict[str, Any] | None, obstacle: str
) -> None:
    pod = make_pod("x-1")
    pod["metadata"]["ownerReferences"] = [owner] if owner else []

    actual = unknown_restart(Created(kind, "shop", "x", pod)).obstacle

    assert obstacle in actual
    assert bool(obstacle) == bool(actual)
