"""Checks a release from inside the cluster: it is ready, serves every revision and tag that a webhook names, and injects."""

import json
import ssl
import sys
import urllib.request

operations, webhook, *names = sys.argv[1:]


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read()


def injected(name: str) -> bool:
    """Whether a pod that is sent to this revision or tag gets a patch."""
    pod = {"metadata": {"name": "check"}, "spec": {"containers": [{"name": "app", "image": "app"}]}}
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    request = {"uid": "check", "kind": kind, "namespace": "check", "operation": "CREATE", "dryRun": True, "object": pod}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    asked = urllib.request.Request(
        f"{webhook}/inject/{name}", json.dumps(review).encode(), {"Content-Type": "application/json"}
    )
    # Whether the API server trusts the certificate is its caBundle's affair, which this pod has no right to read.
    unchecked = ssl._create_unverified_context()
    with urllib.request.urlopen(asked, timeout=10, context=unchecked) as answer:
        response = json.load(answer)["response"]
    if not response["allowed"]:
        print(f"{name}: {response['status']['message']}")
    return bool(response["allowed"] and response.get("patch"))


get(f"{operations}/readyz")
print("ready")
missing = [name for name in names if not injected(name)]
print(f"injects: {', '.join(name for name in names if name not in missing) or 'none'}")
sys.exit(f"does not inject: {', '.join(missing)}" if missing else 0)
