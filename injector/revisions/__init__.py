"""The configuration: where revisions come from, and which of them are served.

A source (``directory``, ``clustersource``) returns the texts of revisions and the tags; ``source`` has their types, and builds a revision
from its texts. ``configmaps`` reads them from Istio's ConfigMaps, and ``tags`` has the rules for tags. ``verify`` renders pods with a
revision, and ``registry`` has what is served, as one immutable snapshot, and how names lead to it. ``reload`` does all of this once, and
``following`` does it after each change. ``tagstore`` and ``clustertags`` change tags, for commands. ``unservednames`` counts the names in a
cluster that lead to no revision, and ``driftwatch`` the workloads with another revision than they would get. Only ``files`` reads files,
and only ``injector.cluster`` talks to the API server.
"""
