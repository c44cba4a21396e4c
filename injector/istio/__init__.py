"""Istio's vocabulary: its ConfigMaps, annotations, mesh config and templates, minor by minor.

All functions are pure. The package uses Kubernetes objects and Go templates, but no HTTP, files or clocks, and not the API server.
Every difference between Istio's minors outside the templates is a row of ``behaviours``, or of a table with minors.
"""
