"""A revision whose template is a bomb for some pods: it says where, and the server goes on for everybody else."""

from __future__ import annotations

import json
from pathlib import Path

from tests.factories import make_pod, make_review
from tests.reliability.apiserver import ApiServer
from tests.reliability.conftest import ReplicaFactory

SIDECAR = "spec:\n  containers:\n  - name: istio-proxy\n    image: proxy\n"
TEMPLATES = {
    "go": '{{ if eq (index .ObjectMeta.Labels "app") "bomb" }}\n{{ range 1000000000 }}{{ end }}\n{{ end }}\n' + SIDECAR,
    "jinja2": "{% if label('app') == 'bomb' %}\n{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}\n"
    "{% endif %}\n" + SIDECAR,
}
PLACES = {"go": "template: sidecar:2:", "jinja2": "template sidecar, line 2:"}


def review(app: str) -> bytes:
    """A pod with a label."""
    return json.dumps(make_review(make_pod(labels={"app": app}))).encode()


async def test_a_bomb_is_refused_with_its_place_and_the_others_are_served(
    start_replica: ReplicaFactory, tmp_path: Path
) -> None:
    for engine, text in TEMPLATES.items():
        folder = tmp_path / "revisions" / engine
        folder.mkdir(parents=True)
        (folder / "config").write_text(json.dumps({"policy": "enabled", "templates": {"sidecar": text}}))
        (folder / "revision.yaml").write_text(json.dumps({"istioVersion": "1.30", "engine": engine}))
    folder_flag = ("--revisions-dir", str(tmp_path / "revisions"))
    replica = start_replica("--insecure-http", "--log-decisions", "none", *folder_flag)
    await replica.until_ready()
    client = ApiServer(lambda: [replica.port])

    for engine, place in PLACES.items():
        for _ in range(2):
            refused = (await client.post(f"/inject/{engine}", review("bomb"), timeout=60)).response
            assert not refused["allowed"]
            assert place in refused["status"]["message"]
            assert "the template's budget is spent" in refused["status"]["message"]
        assert (await client.post(f"/inject/{engine}", review("web"), timeout=60)).response["patch"]
    await client.close()
