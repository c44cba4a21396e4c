"""The config flow: where revisions come from, and which of them are served.

``source`` reads texts (``directory``, ``single``, ``embedded``), ``build`` compiles them, ``verify`` renders built-in
pods with the result, ``registry`` holds what is served as one immutable snapshot, and ``reload`` drives a source
through all of it: what fails at any step keeps the last good revision. ``following`` does so again whenever the source
changes (``watching`` tells it, ``recent`` has the pods it tries a build on,
``changes`` says what came of it). Beside it ``unserved`` counts the names in a cluster that lead nowhere, and
``clusterlist`` is for commands that look at a cluster once. This package reads files; it never answers a request, and
talks to the API server by ``cluster`` alone.
"""
