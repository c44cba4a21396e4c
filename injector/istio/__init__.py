"""Istio's vocabulary: its ConfigMaps, annotations, mesh config and templates, minor by minor.

- ``revision``: a control plane's configuration, built from its texts, compiled and ``frozen``; injection needs nothing else.
- ``config``, ``mesh``, ``proxyconfig``: what it is built from: inject config and values, mesh config, ProxyConfigs.
- ``behaviours``: the table of the differences between Istio's minors.
- ``template``: the templates of both engines. ``functions``, ``goview``: the functions and objects that Go templates see. ``jinja``:
  the other engine.
- ``proto``: messages of istio.io/api, read and written as JSON, and seen by templates.
- ``annotations``, ``labels``: names with a meaning, and the validation of annotations.
- ``webhooks``: webhook configurations, and which of them the API server calls for a pod.
- ``ownership``: the revisions that own a Gateway of the Gateway API.
- ``analysis``: messages of Istio's analyzer about injection. ``nearmisses``: labels and annotations that are meant for it, misspelt.
- ``minorchanges``: what breaks between two minors, and the defaults that change.
- ``chartvalues``: the values that the chart of each minor knows.

All functions are pure. The package uses Kubernetes objects and Go templates, but no HTTP, files or clocks, and not the API server.
Every difference between Istio's minors outside the templates is a row of ``behaviours``, or of a table with minors.
"""
