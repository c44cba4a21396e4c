"""Istio sidecars for many control-plane revisions at once.

Two flows meet in one frozen object, ``istio/revision.py`` Revision.

A request, ``webhook/inject.py``: a connection of ``webhook/listener.py`` -> bytes by ``webhook/reading.py`` -> ``kube/admission.py`` decode
-> ``webhook/cache.py``, which may have the answer -> ``webhook/path.py`` parse_path -> ``revisions/registry.py`` Snapshot.resolve (tag,
weights, revision) -> its turn in ``webhook/queue.py``, or the thread of ``webhook/slow.py`` if it is predicted to be slow ->
``injection/pipeline.py`` inject_pod -> ``kube/admission.py`` patched -> bytes, and the counters of ``metrics.py``. Inside inject_pod:
``injection/policy.py`` -> ``injection/data.py`` -> ``injection/data.py`` -> ``injection/render.py`` (guarded by
``injection/guard.py``) -> ``injection/overrides.py`` -> ``injection/postprocess.py`` -> ``kube/jsonpatch.py``; templates of Istio up to
1.8 take ``injection/append.py`` instead. Afterwards ``webhook/shadow.py`` may try a candidate. Timeouts are in ``webhook/timeouts.py``.

A reload, ``revisions/reload.py``: ``revisions/following.py`` is woken by ``revisions/watching.py``, by ``revisions/clustersource.py``, by
the clock or by a signal -> Loader.prepare: ``revisions/source.py`` read -> ``revisions/build.py`` -> ``revisions/verify.py`` ->
Loader.adopt: one Registry.swap. Whatever fails keeps what is served.

Tags are changed where ``revisions/tagstore.py`` or ``revisions/clustertags.py`` keeps them; for a cluster ``revisions/tagplan.py`` says
what is written, and ``cluster/webhooks.py`` how.

``cli/serve.py`` puts both together and ``webhook/server.py`` runs them, with background tasks in ``webhook/supervisor.py``;
``cli/kube_inject.py`` goes to ``injection/manifest.py`` and from there the same way. Beside both, ``revisions/unserved.py`` and
``webhook/unserved.py`` look for names that nobody serves, and ``cli/certificates.py`` puts TLS together: ``webhook/tls.py`` or
``webhook/selfsigned.py``, and ``webhook/cabundle.py``. Below: ``istio/behaviours.py`` is all that minors differ in outside their
templates, ``gotemplate/compiler.py`` turns Go's templates into Python, ``kube/schema.py`` has Kubernetes' types.
"""
