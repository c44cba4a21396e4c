"""Istio's vocabulary: what its ConfigMaps, annotations, mesh config and templates mean, minor by minor.

Pure: values in, values out. It knows Kubernetes objects and Go templates, and nothing of HTTP, files, clocks or the API server.
Everything that differs between Istio's minors outside a template is a row of ``behaviours`` or of a table that says its minors.
"""
