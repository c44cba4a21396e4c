"""Upgrades: move workloads from one revision to another in waves, behind gates, with a way back.

- ``controller``: watches the ``Upgrade`` resources of the cluster; ``launch`` starts one, for it and for the command.
- ``document``: an ``Upgrade`` as a user writes it. ``state``: what is stored of its progress, in ``store``.
- ``survey``: the revisions, the tag and the workloads of the cluster. ``plan``: the wave of each workload, and how its pods would change.
- ``run``: the loop: it observes (``observe``, ``gates``), decides (``step``), stores the decision, and acts.

``document``, ``plan``, ``state`` and ``step`` are pure. ``docs/upgrades.md`` describes the rules.
"""
