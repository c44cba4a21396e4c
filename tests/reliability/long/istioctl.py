"""Istio's own ``istioctl`` beside ``injector`` on the tags of one cluster: ``scripts/reliability istioctl --binaries DIR``.

DIR has programs ``istioctl-VERSION``, such as ``istioctl-1.30.3``, as Istio publishes them. On a real API server,
each gets two revisions, as the charts within it render them. One tool then does an operation on a tag, and the other one does
another: every pair, in both directions, for a tag and for the tag ``default``, with revisions whose webhooks lead to istiod, to the
injector's Service, and to the injector's URL.

After each pair, both tools must list the same tags, all objects of the tag must name the revision that was asked for, and operations that
only read must change nothing. Other observations must be in ``NOTES``. ``--write`` keeps what was seen in ``istioctl.json``, instead of
what an earlier run saw with the same versions, and writes the table of all versions to docs/istioctl.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Final

import yaml
from click.testing import CliRunner

from injector.cli import main as injector
from injector.istio.labels import REVISION_LABEL, TAG_LABEL
from injector.istio.webhooks.configurations import sidecar_webhooks
from tests.e2e.cluster import Cluster, running
from tests.e2e.controlplane import UNAVAILABLE, missing
from tests.istio.goldens import LAST_APPLIED, OWNERS
from tests.manifests import make_object, namespace_of
from tests.reliability.long.istioctlpage import NOTES, Cell, page

PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "istioctl.md"
RECORDED: Final = Path(__file__).with_name("istioctl.json")
HOME: Final = "istio-system"
OLD, NEW = "blue", "green"
"""The two revisions of each installation."""
TAGS: Final = ("prod", "default")
ISTIOCTL, INJECTOR = TOOLS = ("istioctl", "injector")
SERVICE: Final = "injector"
URL: Final = "https://injector.example:443"
CONFIGURATIONS: Final = "mutatingwebhookconfigurations"
KINDS: Final = (CONFIGURATIONS, "validatingwebhookconfigurations", "services")
LEADS: Final[dict[str, tuple[str, ...]]] = {
    "istiod": (),
    "Service": ("--force-conflicts",),
    "URL": ("--force-conflicts", "--url", URL),
}
"""Where the webhooks of the revisions lead, with the flags of the ``injector webhook apply`` that makes them lead there."""
STEPS: Final = {"set": ("set",), "move": ("set", "move"), "generate": ("generate",), "remove": ("set", "remove")}
"""The first operations, each with what must be done for it."""
READS: Final = ("list", "generate", "set")
"""The second operations that change nothing. A tag that exists is not set without ``--overwrite``."""
WRITES: Final = ("move", "remove")
"""The second operations that change something."""


@dataclass(frozen=True)
class Done:
    """The exit status and the texts of a command."""

    code: int
    text: str
    errors: str


@dataclass
class TaggedCluster:
    """An API server, and both tools on it.

    Args:
        cluster: the API server.
        istioctl: the program.
        version: its version.
        installed: the objects of the two revisions.
    """

    cluster: Cluster
    istioctl: Path
    version: str
    installed: list[dict[str, Any]] = field(default_factory=list)

    def install(self) -> None:
        """Create both revisions, as the charts of the istioctl's release render them."""
        for revision in (OLD, NEW):
            flags = ("profile=minimal", f"revision={revision}", f"tag={self.version}")
            command = [
                str(self.istioctl),
                "manifest",
                "generate",
                *(text for flag in flags for text in ("--set", flag)),
            ]
            printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            self.installed += [
                document for document in yaml.safe_load_all(printed) if document and _is_needed(document, revision)
            ]
        service = make_object("Service", SERVICE, "injector-system", spec={"ports": [{"port": 443}]})
        self.cluster.apply(namespace_of(HOME), namespace_of("injector-system"), service)

    def restore(self, leads: str) -> None:
        """Leave both revisions, as Helm writes them, and no tag; then let the webhooks of the revisions lead somewhere."""
        self._kubectl("delete", ",".join(KINDS[:2]), "--all")
        self._kubectl("delete", "services", "-n", HOME, "-l", TAG_LABEL)
        helm = ("--server-side", "--force-conflicts", "--field-manager=helm")
        self._kubectl("apply", *helm, "-f", "-", objects=self.installed)
        for revision in (OLD, NEW) if LEADS[leads] else ():
            done = self._run(INJECTOR, "webhook", "apply", "--revision", revision, *LEADS[leads])
            assert done.code == 0, done

    def operate(self, tool: str, operation: str, tag: str) -> Done:
        """Let a tool do an operation on a tag."""
        match operation:
            case "list":
                return self._run(tool, "tag", "list", "-o", "json")
            case "remove":
                return self._run(tool, "tag", "remove", tag, "-y")
            case "generate":
                return self._run(tool, "tag", "generate", tag, "--revision", NEW, "--overwrite", "-y")
        target = ("--revision", NEW, "--overwrite") if operation == "move" else ("--revision", OLD)
        return self._run(tool, "tag", "set", tag, *target, "-y")

    def prepare(self, tool: str, operation: str, tag: str) -> str:
        """Let a tool do a first operation; return the revision that the tag then leads to, empty if it is gone."""
        for step in STEPS[operation]:
            done = self.operate(tool, step, tag)
            assert done.code == 0, (tool, step, done)
            if step == "generate":
                self._kubectl(
                    "apply", "-f", "-", objects=[document for document in yaml.safe_load_all(done.text) if document]
                )
        return {"set": OLD, "remove": ""}.get(operation, NEW)

    def objects(self, tag: str) -> dict[str, dict[str, Any]]:
        """Return every object of a tag by its kind."""
        printed = self.cluster.kubectl("get", ",".join(KINDS), "-A", "-l", f"{TAG_LABEL}={tag}", "-o", "json").stdout
        return {item["kind"]: item for item in json.loads(printed)["items"]}

    def _kubectl(self, *arguments: str, objects: Sequence[dict[str, Any]] = ()) -> None:
        items = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        done = self.cluster.kubectl(*arguments, stdin=items)
        assert done.returncode == 0, done.stderr

    def _run(self, tool: str, *arguments: str) -> Done:
        where = ("--kubeconfig", str(self.cluster.kubeconfig))
        if tool == INJECTOR:
            result = CliRunner().invoke(injector, [*arguments, *where])
            return Done(result.exit_code, result.stdout, result.stderr)
        done = subprocess.run([self.istioctl, *arguments, *where], capture_output=True, text=True, check=False)
        return Done(done.returncode, done.stdout, done.stderr)


def _is_needed(item: dict[str, Any], revision: str) -> bool:
    """Tell whether an object of an installation is one that tags are made from, or that the injector reads."""
    labels = item["metadata"].get("labels") or {}
    kinds = ("ConfigMap", "Service", "MutatingWebhookConfiguration")
    return item["kind"] in kinds and labels.get(REVISION_LABEL) == revision and TAG_LABEL not in labels


def observe(cluster: TaggedCluster, first: str, second: str, pair: tuple[str, str], tag: str) -> Iterator[str]:
    """Yield what is not as one expects after an operation of the first tool and one of the second."""
    revision, (_, operation) = cluster.prepare(first, pair[0], tag), pair
    before = cluster.objects(tag)
    done = cluster.operate(second, operation, tag)
    after = cluster.objects(tag)
    must_fail = bool(revision) if operation == "set" else operation == "remove" and not revision
    if must_fail != (done.code != 0):
        yield f"{operation} fails: {done.errors.strip()}" if done.code else f"{operation} succeeds"
    elif must_fail or operation in ("list", "generate"):
        if _essence(after) != _essence(before):
            yield f"{operation} changes something"
    elif operation == "remove":
        yield from (f"{kind} stays" for kind in after)
    else:
        target = OLD if operation == "set" else NEW
        yield from (
            f"{kind} leads to another revision"
            for kind, revision_of in _revisions(after).items()
            if revision_of != target
        )
        yield from led(after["MutatingWebhookConfiguration"])
    if operation == "generate" and done.code == 0:
        yield from generated(cluster, second, tag, done)
    if len({_listed(cluster, tool) for tool in TOOLS}) > 1:
        yield "the lists of both tools differ"


def generated(cluster: TaggedCluster, tool: str, tag: str, done: Done) -> Iterator[str]:
    """Yield what a tool generates and the other one does not, or otherwise."""
    other = cluster.operate(next(name for name in TOOLS if name != tool), "generate", tag)
    mine, theirs = (
        {document["kind"]: document for document in yaml.safe_load_all(text) if document}
        for text in (done.text, other.text)
    )
    yield from (f"only one tool generates {kind}" for kind in mine.keys() ^ theirs.keys())
    for kind in mine.keys() & theirs.keys():
        if _essence({kind: mine[kind]}) != _essence({kind: theirs[kind]}):
            yield f"generate: {kind} differs"


def led(webhook: dict[str, Any]) -> Iterator[str]:
    """Yield where the webhooks of a tag lead, if not to the injector."""
    ends = sorted({_end(sidecar_webhook["clientConfig"]) for sidecar_webhook in sidecar_webhooks(webhook)})
    if ends != [INJECTOR]:
        yield f"leads to {' and '.join(ends)}"


def _end(client: dict[str, Any]) -> str:
    service = client.get("service")
    if service is None:
        return INJECTOR if client["url"].startswith(URL) else str(client["url"])
    if service["namespace"] == "injector-system" and service["name"] == SERVICE:
        return INJECTOR
    is_istiods = service["namespace"] == HOME and service["name"].startswith("istiod")
    return "istiod" if is_istiods else "a Service that does not exist"


def _listed(cluster: TaggedCluster, tool: str) -> frozenset[tuple[str, str]]:
    """Return the tags and their revisions that a tool lists."""
    done = cluster.operate(tool, "list", "")
    rows = json.loads(done.text) if done.text.startswith("[") else []
    return frozenset((row["tag"], row["revision"]) for row in rows if row["tag"])


def _revisions(objects: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Return the revision that each object leads to."""
    revisions = {kind: obj["metadata"]["labels"].get(REVISION_LABEL, "") for kind, obj in objects.items()}
    if "Service" in objects and objects["Service"]["spec"]["selector"].get(REVISION_LABEL) != revisions["Service"]:
        revisions["Service"] = "selects another"
    for webhook in objects.get("ValidatingWebhookConfiguration", {}).get("webhooks", ()):
        service = webhook["clientConfig"].get("service")
        if service and service["name"] != f"istiod-{revisions['ValidatingWebhookConfiguration']}":
            revisions["ValidatingWebhookConfiguration"] = service["name"]
    return revisions


def _essence(objects: dict[str, dict[str, Any]]) -> str:
    """Return the parts that both tools must agree on: no address or caBundle of a webhook, no labels of an owner, no defaults."""
    copies = json.loads(json.dumps(objects))
    for obj in copies.values():
        metadata = obj["metadata"]
        labels = {key: text for key, text in metadata["labels"].items() if key not in OWNERS}
        annotations = {key: text for key, text in (metadata.get("annotations") or {}).items() if key != LAST_APPLIED}
        obj["metadata"] = {"name": metadata["name"], "labels": labels, "annotations": annotations}
        obj.pop("status", None)
        for port in obj.get("spec", {}).get("ports", ()):
            port["targetPort"] = port["targetPort"] or port["port"]
        for webhook in obj.get("webhooks", ()):
            client = webhook.pop("clientConfig")
            webhook.setdefault("timeoutSeconds", 10)
            if obj["kind"] == "ValidatingWebhookConfiguration":
                webhook["to"] = (client.get("service") or {}).get("name", client.get("url"))
    return json.dumps(copies, sort_keys=True)


def cells(cluster: TaggedCluster, leads: Sequence[str]) -> Iterator[Cell]:
    """Try every pair."""
    cluster.install()
    tools = ((ISTIOCTL, INJECTOR), (INJECTOR, ISTIOCTL))
    for where, tag, (first, second), operation in product(leads, TAGS, tools, STEPS):
        for other in (*READS, *WRITES):
            cluster.restore(where)
            observations = tuple(sorted(set(observe(cluster, first, second, (operation, other), tag))))
            yield Cell(cluster.version, first, operation, other, tag, where, observations)


def keep(tried: Sequence[Cell]) -> list[Cell]:
    """Keep what was seen, instead of what an earlier run saw with the same versions; return what is kept."""
    rows = json.loads(RECORDED.read_text()) if RECORDED.exists() else []
    versions = {cell.version for cell in tried}
    earlier = (Cell(**{**row, "observations": tuple(row["observations"])}) for row in rows)
    cells = [*(cell for cell in earlier if cell.version not in versions), *tried]
    RECORDED.write_text("[\n" + ",\n".join(json.dumps(asdict(cell)) for cell in cells) + "\n]\n")
    return cells


def main() -> int:
    """Try all pairs; the exit status tells whether all that was seen is in ``NOTES``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=Path, required=True, help="the folder with the programs istioctl-VERSION")
    parser.add_argument("--only", action="append", metavar="VERSION", help="only this version; repeatable")
    parser.add_argument("--leads", action="append", choices=LEADS, help="only revisions that lead there; repeatable")
    parser.add_argument("--write", action="store_true", help="keep what was seen, and write docs/istioctl.md")
    options = parser.parse_args()
    programs = {path.name.removeprefix("istioctl-"): path.resolve() for path in options.binaries.glob("istioctl-*")}
    wanted = {
        version: program for version, program in sorted(programs.items()) if version in (options.only or programs)
    }
    if not wanted:
        print(f"error: {options.binaries} has no istioctl-VERSION", file=sys.stderr)
        return 1
    if reason := missing():
        print(f"error: {reason}", file=sys.stderr)
        return UNAVAILABLE
    tried: list[Cell] = []
    for version, program in wanted.items():
        with tempfile.TemporaryDirectory() as folder, running(Cluster(Path(folder) / "cluster")) as cluster:
            for cell in cells(TaggedCluster(cluster, program, version), options.leads or tuple(LEADS)):
                tried.append(cell)
                print(cell, flush=True)
    unknown = sorted({text for cell in tried for text in cell.observations} - NOTES.keys())
    print(f"{len(tried)} pairs, {len(unknown)} observations that are not in the notes", *unknown, sep="\n  ")
    if options.write:
        PAGE.write_text(page(keep(tried)))
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
