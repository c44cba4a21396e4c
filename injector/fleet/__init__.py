"""The view of a cluster, read from files or from the API server, with equal results for equal objects.

- ``sources``, ``view``: the revisions and tags; with them the webhooks and namespaces, which decide about each pod.
- ``clusterrevisions``: the revisions of a cluster, read and built once. ``offload``: where long work runs.
- ``manifests``, ``files``: manifests as texts to change, and as objects in place of a cluster.
- ``workloads``, ``processes``, ``progress``: every workload with the pod that it would create; how the work is divided and shown.
- ``routing``: which webhook is called, and which revision answers.
- ``krm``, ``goldens``, ``templates``, ``groups``: what commands do with manifests, golden files, templates and many changes.
- ``gateways``: the Gateways of the Gateway API that Istio serves, and the revisions that own them.
- ``replicas``: the revisions that the running injectors serve.
- ``podmessages``: the injector's own messages about a pod.
- ``removal``: the objects that the injector wrote, for its removal.
- ``minors``: what breaks between the minors of two revisions.
- ``istiod``, ``istiodoptions``, ``istiodifferences``: the answers of a running istiod beside ours, and the documented differences.
- ``prove``, ``proof``: the new pods of many workloads beside those of a running istiod, and the outcome.
- ``sides``: two revisions or running istiods whose pods are compared.
- ``explain``, ``compare``, ``status``, ``analyze``, ``dryrun``: the questions of commands about pods, workloads and the mesh.
"""
