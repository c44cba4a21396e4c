"""The configuration: where revisions come from, and which of them are served.

- ``source``: a revision and a tag as a source has them, and how a revision is built. ``names``, ``tags``: their rules.
- ``directory``, ``clustersource``: the sources: folders (by ``files``), and a cluster (by ``configmaps``).
- ``following``: its ``Reloader`` waits for changes of a source and lets the ``Loader`` of ``reload`` load it: build, verify, swap, report
  (``reports``).
- ``verify``: renders pods with a revision before it is served; ``everypod`` tells whether a failure concerns every pod.
- ``remarks``: what is odd in the pods and in the config, although the API server accepts the pods.
- ``registry``: what is served, as one immutable snapshot, and how names lead to it.
- ``tagstore``, ``clustertags``: change tags, for commands.
- ``unservednames``, ``driftwatch``: watch a cluster for names that lead to no revision, and for sidecars of another revision.

Only ``files`` reads files, and limits the time of every read of a source. Only ``injector.cluster`` talks to the API server.
"""
