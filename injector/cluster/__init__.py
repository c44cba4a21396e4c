"""The API server: the only package that talks to it.

``client`` sends requests and is alone in knowing the library that does; ``resources`` is the table of what is asked
for, ``lines`` cuts a watch into its lines, ``watchstate`` decides what comes next (list, watch or wait) and keeps what
was seen, ``listwatch`` runs it, ``reader`` reads whole lists once, and ``configmaps`` and ``tagwebhooks`` read Istio's
objects. Nothing here knows what becomes of a revision, and no text that leaves here holds a credential.
"""
