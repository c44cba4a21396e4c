"""Istio sidecars for many control-plane revisions at once.

Two flows meet in one immutable object, ``istio/revision.py`` Revision.

A request, ``webhook/inject.py``: a connection of ``webhook/listener.py`` -> bytes by ``webhook/reading.py`` ->
``kube/admission.py`` decode, which brings the pod into its canonical form -> ``webhook/cache.py``, which has the answers to equal
requests -> ``webhook/path.py`` parse_path -> ``revisions/registry.py`` Snapshot.resolve (tag, weights, revision) -> a turn of
``webhook/queue.py``, or the worker thread of ``webhook/slow.py`` -> ``injection/pipeline.py`` inject_pod -> ``kube/admission.py``
Response.encode -> bytes, and the counters of ``metrics.py``. Inside inject_pod: ``injection/policy.py`` -> ``injection/data.py`` ->
``injection/render.py`` (guarded by ``injection/guard.py``; the text is read by ``kube/overlay.py``) -> ``injection/steps/overrides.py`` ->
``injection/postprocess.py`` -> ``kube/jsonpatch.py``. Templates of Istio up to 1.8 take ``injection/append.py`` instead. After the answer
``webhook/shadow.py`` may try a candidate.

A reload, ``revisions/reload.py``: ``revisions/following.py`` is woken by ``revisions/watching.py``, by ``revisions/clustersource.py``, by
the clock or by a signal -> Loader.prepare: ``revisions/source.py`` read -> ``revisions/build.py`` -> ``revisions/verify.py`` ->
Loader.adopt: one Registry.swap. If a step fails, what is served stays.

``cli/server.py`` puts both together; ``webhook/server.py`` runs them, with background tasks under ``webhook/lifecycle.py``.
``cli/kube_inject.py`` goes to ``injection/tools/manifest.py`` and from there the same way. TLS is put together in ``cli/server.py``, too:
``webhook/tls/``. Below: ``istio/behaviours.py`` has all that minors differ in
outside their templates, ``gotemplate/compiler.py`` turns Go's templates into Python, ``kube/schema.py`` has Kubernetes' types, and
``golang/strconv.py`` and its neighbours Go's own behaviour.
"""
