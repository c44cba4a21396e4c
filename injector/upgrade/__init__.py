"""Upgrades: move workloads from one revision to another in waves, behind gates, with a way back.

- ``controller``: watches the ``Upgrade`` resources of the cluster, and runs those that have something to do.
- ``document``: an ``Upgrade`` as a user writes it. ``state``: what is stored of its progress, by ``status`` and ``store``.
- ``commands``: how the commands of users change the state.
- ``survey``: the revisions, the tag and the workloads of the cluster. ``plan``: the wave of each workload, and how its pods would change.
- ``run``: the loop: it observes (``observe``, ``tag``, ``preflight``, ``gates``), decides (``step``), stores the decision, and acts.
  ``observation``: the cluster as a step sees it. ``events``: the Events that the loop records.
- ``gatewaywave``: how Gateways are pinned before the tag moves, and released one at a time.
- ``remaining``: the work that is left at the end. ``statefulset``: the pods for which a rollout waits.
- ``planning``, ``single``: the plan for people, and the commands that read the cluster.

``document``, ``plan``, ``state``, ``commands``, ``status``, ``observation``, ``step``, ``gatewaywave``, ``statefulset`` and ``remaining``
are pure.
``docs/reference/upgrades.md`` describes the rules.
"""
