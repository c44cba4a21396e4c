"""The view of a cluster, read from files or from the API server, with equal results for equal objects.

- ``sources``, ``view``: the revisions and tags; with them the webhooks and namespaces, which decide about each pod.
- ``manifests``, ``files``: manifests as texts to change, and as objects in place of a cluster.
- ``workloads``, ``processes``: every workload with the pod that it would create, divided among processes.
- ``routing``, ``explain``, ``dryrun``: which webhook is called, which revision answers, and what the API server says about the result.
"""
