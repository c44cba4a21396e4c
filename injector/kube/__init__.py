"""Kubernetes' vocabulary on plain dicts: YAML and JSON as Go reads and writes them, types, merging, patches, reviews.

Pure: no I/O but the packaged table of types, no clock. It knows nothing of Istio and nothing of templates, and no
function here changes what it is given.
"""
