"""The documentation is true: commands run, files are valid, links and alerts lead to sections, flags and metrics exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import Context
from prometheus_client import CollectorRegistry

from injector.cli import main
from injector.cluster.client import REASONS as WATCH_REASONS
from injector.injection.policy import REMEDIES
from injector.kube.yaml import load_yaml
from injector.metrics import RELOAD_FAILURES, Metrics
from injector.revisions.directory import EMBEDDED, read_directory
from injector.revisions.registry import Registry
from injector.revisions.reload import Loader
from injector.revisions.source import build
from injector.revisions.tags import parse_tags
from injector.upgrade.document import read_upgrade as read_document
from injector.upgrade.state import PHASES, RUNNING, STEPS
from injector.webhook.handler import FAILURE_REASONS, InjectHandler
from injector.webhook.lifecycle import Lifecycle, Supervisor
from injector.webhook.operations import Operations
from tests.architecture.documents import GUIDES, PAGES, ROOT, Block, all_blocks, anchors, blocks, links, prose
from tests.architecture.reference_pages import commands, exposed
from tests.architecture.running import Reader
from tests.deploy import rendering

README = ROOT / "README.md"
DOCS = ROOT / "docs"
RUNBOOK = DOCS / "troubleshooting.md"
RUN_BY_CI = ("scripts/demo", "scripts/test")
"""Commands that install packages, or run these tests."""
LANGUAGES = {"sh", "python", "yaml", "json", "text", "promql", "dockerfile", "mermaid"}
FOREIGN_FLAGS = {
    *("--all-namespaces", "--field-selector", "--for", "--label-columns", "--image", "--replicas", "--type"),  # kubectl
    *("--edit-last", "--create-if-none", "--body-file"),  # gh
    *("--concurrency", "--proxyLogLevel", "--write", "--binaries"),  # the proxy, and what writes docs/compatibility.md
    "--unseen",  # scripts/reliability
    *("--enable-alpha-plugins", "--enable-exec", "--exec"),  # kustomize and kpt
    *("--from", "--no-cache-dir", "--no-deps", "--require-hashes"),  # a Dockerfile and pip
    "--log_output_level",  # sidecar-injector
    *(
        "--create-namespace",
        "--set",
        "--version",
        "--istioNamespace",
        "--no-hooks",
        "--reuse-values",
    ),  # helm and istioctl
    *("--annotation-cooldown", "--compare-hub", "--restart-delay", "--skip-namespaces"),  # fortsa
    *(
        "--against",
        "--all",
        "--chart",
        "--executions",
        "--extra",
        "--istioctl",
        "--istiod",
        "--jobs",
        "--minutes",
        "--only",
        "--charts",
        "--pods",
        "--rounds",
        "--seed",
        "--workloads",
        "--shared-cores",
        "--record",
        "--restarts",
    ),  # scripts/test, scripts/bench, scripts/fuzz, scripts/audit and scripts/reliability
}
"""Flags in pages that belong to other commands."""
UPGRADE_STATES = ("commands", "events", "run", "state", "status", "step")
"""The modules of `injector/upgrade` whose words in camel case are reasons of conditions and Events."""
MAX_NOT_RUN = 12
"""Maximum number of blocks that no test runs. Each has its reason on the fence."""


def followed() -> list[Path]:
    """Return the pages with commands that need no cluster."""
    return [page for page in GUIDES if any(block.runs for block in blocks(page))]


@pytest.mark.parametrize("page", followed(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_run_in_order(commands_folder: Path, page: Path, tmp_path: Path) -> None:
    runnable = [block for block in blocks(page) if block.runs]
    lacks = shutil.which("kubectl") is None and any("kubectl" in block.text for block in runnable)

    reader = Reader(tmp_path, [commands_folder])
    with reader.follows([block for block in runnable if not (lacks and "kubectl" in block.text)]):
        pass

    assert reader.changed_files() == [], "the page works on a copy"
    new = reader.new_files()
    command = ["git", "check-ignore", "--no-index", "--stdin"]
    done = subprocess.run(command, cwd=ROOT, input="\n".join(new), capture_output=True, text=True, check=False)
    ignored = done.stdout.splitlines()
    assert sorted({*new} - {*ignored}) == [], "add them to .gitignore, so that a reader commits none of them"
    if lacks:
        pytest.skip("kubectl is not installed: the rest of the page was followed")


def test_the_readme_has_its_two_commands_before_all_others() -> None:
    assert [block.text.strip() for block in blocks(README)][:2] == list(RUN_BY_CI)


@pytest.mark.parametrize("command", RUN_BY_CI)
def test_commands_that_tests_cannot_run_are_run_by_ci(command: str) -> None:
    assert command in (ROOT / ".ci" / "run").read_text()


def test_pages_write_their_revisions_into_folders_of_their_own() -> None:
    """A reader follows one page after the other in the same clone."""
    pattern = re.compile(r"\b(?:revision init|mkdir -p) ([\w-]+-revisions)\b")
    folders = {(block.page, folder) for block in all_blocks() for folder in pattern.findall(block.text)}
    names = [folder for _, folder in folders]

    assert "my-revisions" in names
    assert len(names) == len(set(names))


def test_every_block_is_run_or_read_or_has_a_reason() -> None:
    unknown = [
        str(block)
        for block in all_blocks()
        if block.language not in LANGUAGES
        or (block.language == "sh" and not (block.runs or block.runs_on_a_cluster or block.why_not_run))
        or (block.language in ("yaml", "json") and f"{block.language} {block.mark}" not in READERS)
    ]

    assert unknown == []


def test_few_blocks_are_not_run() -> None:
    idle = [f"{block}: {block.why_not_run}" for block in all_blocks() if block.why_not_run]

    assert len(idle) <= MAX_NOT_RUN, idle


@pytest.mark.parametrize("block", [block for block in all_blocks() if block.language in ("yaml", "json")], ids=str)
def test_the_files_of_a_page_are_valid(block: Block, tmp_path: Path) -> None:
    READERS[f"{block.language} {block.mark}"](block.text, tmp_path)


def named(pattern: str, pages: Iterable[Path] = GUIDES) -> set[tuple[str, str]]:
    """Return the pages with the names in them."""
    return {(str(page.relative_to(ROOT)), name) for page in pages for name in re.findall(pattern, page.read_text())}


def test_every_flag_of_a_page_exists() -> None:
    known = {
        flag
        for _, command in commands(main)
        for option in command.get_params(Context(command, parent=Context(main, **main.context_settings)))
        for flag in (*option.opts, *option.secondary_opts)
    }
    flags = named(r"(?<![\w-])--[A-Za-z][\w-]*")

    assert len(flags) > len(GUIDES)
    assert sorted(flag for flag in flags if flag[1] not in known | FOREIGN_FLAGS) == []


def test_every_metric_of_a_page_exists() -> None:
    samples = {f"{name}{part}" for name in exposed() for part in ("", "_bucket")}
    metrics = named(r"\b(?:injector|sidecar_injection)_[a-z_]*[a-z]\b(?!\*)")

    assert len(metrics) > len(GUIDES)
    assert sorted(metric for metric in metrics if metric[1] not in samples) == []


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target.name}#{anchor}"
        for page in PAGES
        for target, anchor in links(page)
        if not target.exists() or (anchor and anchor not in anchors(target))
    ]

    assert broken == []
    assert sum(1 for page in PAGES for _ in links(page)) > len(PAGES)


def test_every_module_of_a_page_exists() -> None:
    modules = named(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", PAGES)

    assert modules
    assert [page for page, name in modules if not any((ROOT / top / name).exists() for top in ("", "injector"))] == []


def test_the_index_lists_every_page() -> None:
    listed = {target.resolve() for target, _ in links(DOCS / "README.md")}

    assert [
        str(page) for page in GUIDES if page.is_relative_to(DOCS) and page not in listed | {DOCS / "README.md"}
    ] == []


def test_every_alert_has_a_section_of_the_runbook() -> None:
    alerts = (ROOT / "deploy" / "chart" / "files" / "alerts.yaml").read_text()
    wanted = set(re.findall(r"runbook: docs/troubleshooting\.md#(\S+)", alerts))

    assert wanted
    assert wanted - anchors(RUNBOOK) == set()


def test_every_failure_reason_is_in_the_runbook() -> None:
    source = "".join(path.read_text() for path in sorted((ROOT / "injector" / "webhook").glob("*.py")))
    refused = set(re.findall(r'Refusal\(\s*\d+, "(\w+)"', source)) | set(
        re.findall(r'_REASON: Final = "(\w+)"', source)
    )
    reasons = {reason for _, reason in FAILURE_REASONS} | refused

    assert refused
    assert sorted(reason for reason in reasons if f"`{reason}`" not in prose(RUNBOOK)) == []


def test_every_skip_reload_and_watch_reason_is_in_the_runbook() -> None:
    reasons = {*REMEDIES, *RELOAD_FAILURES, *WATCH_REASONS}

    assert sorted(reason for reason in reasons if f"`{reason}`" not in prose(RUNBOOK)) == []


def test_every_reason_and_event_of_an_upgrade_is_in_the_runbook() -> None:
    source = "".join((ROOT / "injector" / "upgrade" / f"{name}.py").read_text() for name in UPGRADE_STATES)
    reasons = {*re.findall(r'"((?:[A-Z][a-z]+){2,})"', source), *PHASES}
    events = {f"Upgrade{word}" for word in (*STEPS, *PHASES) if word != RUNNING}
    section = re.split(r"^## ", RUNBOOK.read_text(), flags=re.MULTILINE)
    (page,) = (text for text in section if text.startswith("An upgrade stalls\n"))

    assert {"GateFailed", "NotStarted", "ByUser", "UpgradeRunnerLost"} <= reasons
    assert sorted(word for word in reasons | events if f"`{word}`" not in page) == []


def test_the_quickstart_builds_the_image_that_the_manifests_name() -> None:
    manifests = (ROOT / "deploy" / "kustomize" / "demo" / "manifests.yaml").read_text()
    (image,) = set(re.findall(r"image: (\S+)", manifests))

    assert f"docker build --tag {image} ." in (DOCS / "quickstart.md").read_text()


def test_operations_lists_every_route() -> None:
    table = "\n".join(re.findall(r"^\| `--(?:ops-)?port`.*", (DOCS / "operations.md").read_text(), re.MULTILINE))
    documented = set(re.findall(r"`(?:POST )?(/[^`<]*)`", table))

    assert documented == {*operations().routes, "/inject", "/unserved/"}


def test_the_changelog_has_the_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

    assert f"## {version} " in (ROOT / "CHANGELOG.md").read_text()


def test_every_line_of_the_changelog_is_below_a_heading_of_its_version() -> None:
    versions = re.split(r"^## .*$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]

    assert versions
    assert [text for text in versions if not text.strip().startswith("### ")] == []


def operations() -> Operations:
    registry, metrics, lifecycle = Registry(), Metrics(CollectorRegistry()), Lifecycle()
    return Operations(
        InjectHandler(registry, metrics, lifecycle),
        Loader(partial(read_directory, EMBEDDED), registry),
        "",
        Supervisor(metrics),
    )


def read_tags(text: str, _folder: Path) -> None:
    assert parse_tags(text)


def read_proxyconfigs(text: str, folder: Path) -> None:
    (folder / "proxyconfigs.yaml").write_text(text)
    assert read_directory(folder).facts.proxy_configs.by_namespace


def read_revision(text: str, folder: Path) -> None:
    """Check a ``revision.yaml`` by building a revision with it."""
    home = folder / "1-30"
    shutil.copytree(ROOT / "revisions" / "stable", home)
    (home / "revision.yaml").write_text(text + ("" if "engine:" in text else "engine: jinja2\n"))
    state = read_directory(folder)
    assert state.failures == {}
    assert build(state.revisions[0])


def read_values(text: str, _folder: Path) -> None:
    """Check values of the chart against its schema, and render it with them."""
    values = yaml.safe_load(text)
    schema = json.loads((rendering.CHART / "values.schema.json").read_text())
    assert values.keys() <= schema["properties"].keys()
    assert rendering.rendered(values)


def read_manifests(text: str, _folder: Path) -> None:
    for document in yaml.safe_load_all(text):
        assert {"apiVersion", "kind", "metadata"} <= document.keys()


def read_istiod_values(text: str, folder: Path) -> None:
    """Values of Istio's chart istiod."""
    del folder
    assert yaml.safe_load(text).keys() <= {"configMap", "global", "istiodRemote", "pilot", "revision", "revisionTags"}


def read_kustomization(text: str, _folder: Path) -> None:
    """A file that ``tests/cli/test_krm.py`` builds."""
    assert yaml.safe_load(text).keys() <= {"resources", "transformers"}


def read_upgrade(text: str, _folder: Path) -> None:
    assert read_document(load_yaml(text), where="the page").waves


def read_argocd(text: str, _folder: Path) -> None:
    """A health check of Argo CD, which ``tests/upgrade/test_argocd.py`` runs."""
    assert all(key.startswith("resource.customizations.health.") for key in yaml.safe_load(text))


def read_json(text: str, _folder: Path) -> None:
    value: Any = json.loads(text)
    assert value


def read_workflow(text: str, _: Path) -> None:
    """Check the inputs of each step that uses the action."""
    action = load_yaml((ROOT / "deploy" / "action" / "action.yml").read_text())
    steps = [step for job in load_yaml(text)["jobs"].values() for step in job["steps"]]
    used = [step["with"] for step in steps if "/deploy/action@" in step.get("uses", "")]
    required = {name for name, declaration in action["inputs"].items() if declaration.get("required")}
    assert used
    assert all(required <= set(keys) <= set(action["inputs"]) for keys in used)
    outputs = set(re.findall(r"steps\.sidecars\.outputs\.(\w+)", text))
    assert outputs <= set(action["outputs"])


def read_pre_commit(text: str, _: Path) -> None:
    """Check the names of the hooks."""
    known = {hook["id"] for hook in load_yaml((ROOT / ".pre-commit-hooks.yaml").read_text())}
    assert {hook["id"] for repository in load_yaml(text)["repos"] for hook in repository["hooks"]} == known


READERS: dict[str, Callable[[str, Path], None]] = {
    "yaml tags.yaml": read_tags,
    "yaml proxyconfigs.yaml": read_proxyconfigs,
    "yaml revision.yaml": read_revision,
    "yaml values": read_values,
    "yaml manifests": read_manifests,
    "yaml istiod-values": read_istiod_values,
    "yaml kustomization": read_kustomization,
    "yaml upgrade": read_upgrade,
    "yaml argocd": read_argocd,
    "yaml workflow": read_workflow,
    "yaml pre-commit": read_pre_commit,
    "json ": read_json,
}
"""The check for the files of the pages, by the language and the mark of the block."""
