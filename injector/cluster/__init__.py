"""The API server: the only package that talks to it.

``client`` sends requests and is alone in knowing the library that does; ``resources`` is the table of what is asked
for, ``watchstate`` decides what comes next (list, watch or wait) and keeps what
was seen, ``listwatch`` runs it, and ``configmaps`` and ``tagwebhooks`` read Istio's objects; ``secrets`` and ``webhooks``
are the two things that ``serve`` writes: one Secret, and ``caBundle``. For commands, which end, ``kubeconfig`` finds the
server, ``objects`` and ``reader`` list once, and ``webhookapply`` writes to objects that others write to as well. Nothing here knows
what becomes of a revision, and no text that leaves here holds a credential.
"""
