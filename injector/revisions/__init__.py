"""The config flow: where revisions come from, and which of them are served.

``source`` reads texts (``directory``, ``single``, ``embedded``), ``build`` compiles them, ``verify`` renders built-in
pods with the result, ``registry`` holds what is served as one immutable snapshot, and ``reload`` drives a source
through all of it: what fails at any step keeps the last good revision. This package reads files; it never answers a
request and never talks to the API server.
"""
