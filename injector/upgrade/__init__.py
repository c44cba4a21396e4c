"""Upgrades: move workloads from one revision to another in waves, behind gates, with a way back.

The core is pure and does no I/O: ``document`` reads an ``Upgrade``, ``workloads`` says what a restart means, ``plan`` gives each workload
its wave and class of change, ``state`` is what is stored, and ``step`` decides. Around it, ``store`` keeps the state, ``observe`` reads
objects, ``preflight`` and ``gates`` ask the API server and Prometheus, ``run`` is the loop, and ``controller`` runs it in the cluster.
``docs/upgrades.md`` describes the rules.
"""
