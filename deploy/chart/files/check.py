"""Check a release from inside the cluster: it is ready, and injects for every revision and tag that a webhook names."""

import json
import ssl
import sys
import urllib.request

operations, webhook, *names = sys.argv[1:]
# The API server checks the certificate with the caBundle, which this pod has no permission to read.
unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
unchecked.check_hostname = False
unchecked.verify_mode = ssl.CERT_NONE


def injects(name: str) -> bool:
    """Tell whether a pod that is sent to this revision or tag gets a patch."""
    pod = {"metadata": {"name": "check"}, "spec": {"containers": [{"name": "app", "image": "app"}]}}
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    request = {"uid": "check", "kind": kind, "namespace": "check", "operation": "CREATE", "dryRun": True, "object": pod}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    headers = {"Content-Type": "application/json"}
    asked = urllib.request.Request(f"{webhook}/inject/{name}", json.dumps(review).encode(), headers)
    with urllib.request.urlopen(asked, timeout=10, context=unchecked) as answer:
        response = json.load(answer)["response"]
    if not response["allowed"]:
        print(response["status"]["message"])
    return "patch" in response


with urllib.request.urlopen(f"{operations}/readyz", timeout=10):
    print("ready")
missing = [name for name in names if not injects(name)]
for name in names:
    print(f"{name}: {'not ' if name in missing else ''}injected")
sys.exit(1 if missing else 0)
