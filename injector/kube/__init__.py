"""Kubernetes' vocabulary on plain dicts: YAML and JSON as Go reads and writes them, types, merging, patches, reviews.

- ``admission``: AdmissionReviews, in and out.
- ``typed``: what Go's typed structs leave, add and refuse of an object; ``quantity``: its resource quantities.
- ``yaml``: YAML in and out. ``overlay``: rendered YAML, read and laid over an object by ``strategicpatch``.
- ``jsonpatch``: the operations from one object to another.
- ``objects``, ``lists``: values at a path of an object, and lists of objects.
- ``podtemplates``, ``pods``: where a workload describes its pods, and which workload a pod belongs to.
- ``selectors``, ``conditions``: label selectors, and the CEL expressions of webhooks.
- ``podvalidation``, ``podsecurity``: what the API server refuses of a pod. ``images``: what the kubelet refuses of an image.
- ``escaping``: control characters in texts for people.

Pure: no I/O but the packaged table of types, no clock. It knows nothing of Istio and nothing of templates, and no
function here changes what it is given.
"""
