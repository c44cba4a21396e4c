"""Upgrades: move workloads from one revision to another in waves, behind gates, with a way back.

The core is pure and does no I/O: ``document`` reads an ``Upgrade``, ``plan`` says what a restart of a workload means, and gives each
workload its wave and class of change, ``state`` is what is stored, and ``step`` decides. Around it, ``store`` keeps the state, ``observe``
reads objects, ``gates`` ask Prometheus, ``run`` is the loop, with the preflight of each wave, and ``controller`` runs it in the cluster.
``docs/upgrades.md`` describes the rules.
"""
