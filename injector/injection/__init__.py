"""The pure core: (Revision, pod, request facts) in, a patch or the reason for none out.

- ``pipeline``: the table of contents of one injection, which calls the others in this order:
- ``policy``: whether the pod is injected.
- ``data``: the parameters of the injection, which ``pipeline`` gathers, and the data that its templates get.
- ``render``: the templates of the pod, rendered and merged over it. Up to Istio 1.8 ``append`` does it, by lists.
- ``guard``: whether a value of the pod breaks out of a template.
- ``steps``: what follows the templates: overrides, probes, metrics, status.
- ``result``: the facts of a request, and the result. ``containers`` finds and moves containers, for all of them.
- ``tools``: what is built on an injection: kube-inject, explain, differences, drift, uninject.

Nothing in this package does I/O, waits, or remembers anything between calls.
"""
