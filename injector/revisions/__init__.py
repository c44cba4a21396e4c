"""The configuration: where revisions come from, and which of them are served.

A source (``directory``, ``clustersource``) returns the texts of revisions and the tags; ``source`` has their types, ``configmaps`` reads
them from Istio's ConfigMaps, ``names`` has the rules for names, and ``tags`` those for tags. ``build`` compiles a revision, ``verify``
renders pods with it, and ``registry`` has what is served, as one immutable snapshot. ``reload`` does all of this once, and ``following``
does it after each change. ``tagstore`` and ``clustertags`` change tags, for commands. ``unservednames`` counts the names in a cluster that
lead to no revision, and ``driftwatch`` the workloads with another revision than they would get. Only ``files`` reads files, and only
``injector.cluster`` talks to the API server.
"""
