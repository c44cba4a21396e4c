"""Plans of Jinja2 templates that look at a pod in every way: each answers as the pipeline does, and those that can be foreseen are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from injector.injection.planner import plans_of
from injector.revisions.build import build
from tests.factories import make_container, make_pod
from tests.injection.planmaking import plans_made
from tests.revisions.fakes import make_raw

if TYPE_CHECKING:
    from injector.istio.revision import Revision

CPU = "sidecar.istio.io/proxyCPU"
NAMES = ("web", "shop-1", "cart", "ab", "cd", "istio-proxy", "w" * 63, "true", "Odd", "web")


def revision_of(expression: str, before: str = "") -> Revision:
    """A revision whose template prints what an expression gives, as JSON."""
    overlay = (
        f"{before}spec:\n  containers:\n  - name: istio-proxy\n    resources: {{{{ resources({{}}) | tojson }}}}\n"
    )
    overlay += f"    args: [{{{{ ({expression}) | string | tojson }}}}]"
    indented = "".join(f"    {line}\n" for line in overlay.splitlines())
    config = f"policy: enabled\ndefaultTemplates: [sidecar]\ntemplates:\n  sidecar: |\n{indented}"
    return build(make_raw("rev", config=config, settings={"istioVersion": "1.30", "engine": "jinja2"}))


def pod_of(name: str, cpu: str = "100m", **spec: Any) -> dict[str, Any]:
    """A pod whose workload, label, container and service account have one name."""
    containers = [make_container(name, env=[{"name": "A", "value": name}])]
    labels, annotations = {"app": name, "tier": "x"}, {CPU: cpu, "note": name}
    return make_pod(
        name, labels=labels, annotations=annotations, containers=containers, serviceAccountName=name, **spec
    )


@pytest.mark.parametrize(
    "expression",
    [
        "workload.name",
        "workload['name']",
        "label('app') or 'none'",
        "labels.app | default('none') | truncated(63) | rstripped('-') | lower | trim",
        "labels['app'] | quote",
        "containers[0].name",
        "containers | map(attribute='name') | list | first",
        "containers | rejectattr('name', 'equalto', 'istio-proxy') | map(attribute='name') | join(',')",
        "(containers | list | length) ~ '-' ~ workload.name",
        "'a-' + workload.namespace + '/' + workload.name",
        "([{'name': 'A', 'value': workload.name}] + [{'name': label('app')}]) | tojson",
        "[{'name': 'A', 'value': workload.name}] | tojson",
        "pod.spec.serviceAccountName",
        "'yes' if 'app' in labels and 'absent' not in annotations else 'no'",
        "'yes' if workload.name and not label('other') else 'no'",
        "'same' if label('app') is equalto 'zero' else 'other'",
        "annotation('sidecar.istio.io/proxyCPU')",
        "pod_ports()",
        "namespaced(workload.name)",
        "set_block",
        "'constant'",
    ],
)
def test_pods_that_differ_in_what_is_only_printed_share_one_plan(expression: str) -> None:
    macro = "{% macro namespaced(name) %}{{ name }}.shop{% endmacro %}\n"
    block = "{% set set_block %}{% for item in containers %}{{ item.name }},{% endfor %}{% endset %}\n"
    revision = revision_of(expression, before=macro + block)

    pods = [pod_of(name, cpu) for name, cpu in (("web", "100m"), ("shop-1", "5m"), ("cart", "999m"), ("ab", "250m"))]
    assert plans_made(revision, pods) >= 6
    assert len(plans_of(revision)) == 1


LOOKED_INTO = [
    "workload.name | upper",
    "workload.name | length",
    "workload.name[0]",
    "workload.name[:2]",
    "workload.name | first",
    "workload.name | truncated(2)",
    "workload.name | rstripped('b')",
    "workload.name | trim('w')",
    "workload.name | replace('a', 'b')",
    "workload.name | reverse",
    "workload.name | split('-') | length",
    "workload.name * 2",
    "workload.name is lower",
    "workload.name is in ['cart']",
    "workload.name is equalto label('app')",
    "workload.name == 'cart'",
    "workload.name == label('app')",
    "workload.name in ['cart', 'ab']",
    "'a' in workload.name",
    "'a' < workload.name < 'n'",
    "{workload.name: 1}['cart'] | default(0)",
    "{'cart': 1, 'ab': 2}[workload.name] | default(0)",
    "labels[workload.name] | default('none')",
    "[workload.name, 'm'] | sort | first",
    "[workload.name, 'web'] | unique | list | length",
    "[workload.name]",
    "[workload.name] | map('upper') | list",
    "[workload.name] | select('in', ['cart']) | list",
    "containers | selectattr('name', 'equalto', 'cart') | list | length",
    "containers | selectattr('name', 'in', ['cart']) | list | length",
    "containers | map(attribute='env.0.value') | list",
    "containers | sum(attribute='name.x', start=0) if false else containers | length",
    "containers | rejectattr('name', 'equalto', 'cart') | list | length",
    "containers[0].env[0].value",
    "containers[0].env",
    "pod.spec | tojson",
    "pod.metadata.labels | dictsort",
    "labels | items | list",
    "labels | length",
    "labels == {'app': 'cart', 'tier': 'x'}",
    "'some' if labels else 'none'",
    "annotation('note') | length",
    "named_entries('absent') | length",
    "annotation('sidecar.istio.io/proxyCPU') == '250m'",
    "annotation('sidecar.istio.io/proxyCPU')[0]",
    "annotation('sidecar.istio.io/proxyCPU') | rstripped('m')",
    "annotation('sidecar.istio.io/proxyCPU') | rstripped('m') | int + 1",
    "exclude_inbound_port('1', annotation('sidecar.istio.io/proxyCPU')) if false else 1",
    "unpacked",
    "looped",
    "counted(workload.name)",
    "through_macro",
    "changed",
]


# What an expression above needs before it.
BLOCKS = {
    "counted": "{% macro counted(text) %}{{ text | length }}{% endmacro %}\n",
    "through_macro": (
        "{% macro same(text) %}{{ text }}{% endmacro %}\n{% set through_macro = same(workload.name) | length %}\n"
    ),
    "unpacked": "{% set unpacked %}{% for a, b in ['xy', workload.name] %}{{ b }}{% endfor %}{% endset %}\n",
    "looped": "{% set looped %}{% for letter in label('app') %}{{ letter }}-{% endfor %}{% endset %}\n",
    "changed": (
        "{% set changed %}{% for n in [workload.name, 'cart'] %}{{ loop.changed(n) }}{% endfor %}{% endset %}\n"
    ),
}


@pytest.mark.parametrize("expression", LOOKED_INTO)
def test_whatever_a_template_looks_at_pods_get_what_the_pipeline_gives(expression: str) -> None:
    before = "".join(text for name, text in BLOCKS.items() if name in expression)
    names = ("ab", "cd") if expression == "unpacked" else NAMES
    pods = [pod_of(name, cpu) for name in names for cpu in ("100m", "250m", "1") for _ in range(2)]

    plans_made(revision_of(expression, before), pods)
