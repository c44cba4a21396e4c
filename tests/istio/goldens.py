"""The MutatingWebhookConfigurations that istioctl printed, and how ours are held against them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "webhooks"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

REVISIONS = ("default", "1-24", "1-30")
OWNERS = ("app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart")
"""The labels by which Helm and Argo CD recognise their own objects: ours do not have them."""
TAGS = {
    "tag-prod": ("prod", "1-24", {}, {}),
    "tag-canary": ("canary", "1-30", {}, {}),
    "tag-default": ("default", "1-24", {}, {}),
    "tag-default-auto": ("default", "1-30", {"auto_inject": True}, {}),
    "tag-odd-webhook-name": ("odd", "1-24", {}, {"webhook_name": "my-hook"}),
}
"""File, tag, revision, options, and the further arguments: what istioctl was told, as the corpus's README has it."""


def golden(name: str, kind: str = "MutatingWebhookConfiguration") -> dict[str, Any]:
    """The object of this kind in a file of the corpus, without the labels of its owner; a tag has several."""
    found = _recorded(name, kind)
    for label in OWNERS:
        del found["metadata"]["labels"][label]
    return found


def _recorded(name: str, kind: str) -> dict[str, Any]:
    if not CORPUS.is_dir():
        pytest.skip("../shared/corpus is not beside the project")
    documents = [document for document in yaml.safe_load_all((CORPUS / f"{name}.yaml").read_text()) if document]
    found: dict[str, Any] = next(item for item in documents if item["kind"] == kind)
    return found


def service_of(revision: str) -> str:
    """The Service that Istio's own webhooks name."""
    return "istiod" if revision == "default" else f"istiod-{revision}"


def on_istios_path(configuration: dict[str, Any], name: str) -> dict[str, Any]:
    """The configuration with the one thing changed that is ours: ``/inject/<name>`` is ``/inject``."""
    for webhook in configuration["webhooks"]:
        assert webhook["clientConfig"]["service"]["path"] == f"/inject/{name}"
        webhook["clientConfig"]["service"]["path"] = "/inject"
    return configuration


def copied_annotations(revision: str) -> dict[str, str]:
    """What istioctl copied to a tag: the revision's configuration was applied by kubectl when this was recorded."""
    applied = _recorded(f"revision-{revision}", "MutatingWebhookConfiguration")
    applied["metadata"]["annotations"] = {}
    return {LAST_APPLIED: f"{json.dumps(applied, separators=(',', ':'), sort_keys=True)}\n"}
