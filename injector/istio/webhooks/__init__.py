"""Webhook configurations as Istio installs them.

- ``paths``: ``/inject/NAME``, the path of a revision or tag.
- ``configurations``, ``tagobjects``: the objects of a revision and of a tag, written.
- ``reading``: the objects of a cluster, checked and read.
- ``matching``: the webhooks of a name that labels select. ``calls``: those of a cluster that the API server calls for a pod.
- ``overlaps``: webhooks that select the pods of others. ``owners``: operators and other tools that write an object again.
"""
