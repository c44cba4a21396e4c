"""Kubernetes' vocabulary on plain dicts: YAML and JSON as Go reads and writes them, types, merging, patches, reviews.

- ``admission``: AdmissionReviews, in and out.
- ``typed``: what Go's typed structs leave, add and refuse of an object; ``quantity``: its resource quantities.
- ``yaml``: YAML in and out. ``overlay``: rendered YAML, read and laid over an object by ``strategicpatch``.
- ``jsonpatch``: the operations from one object to another.
- ``pods``, ``lists``, ``selectors``: workloads and their pods, lists of objects, and label selectors. ``conditions``: CEL of webhooks.
- ``podvalidation``, ``podsecurity``: what the API server refuses of a pod. ``images``: what the kubelet refuses of an image.
- ``escaping``: control characters in texts for people.

Pure: no I/O but the packaged table of types, no clock. It knows nothing of Istio and nothing of templates, and no
function here changes what it is given.
"""
