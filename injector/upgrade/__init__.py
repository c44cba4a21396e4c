"""Upgrades: move workloads from one revision to another in waves, behind gates, with a way back.

``document`` reads an ``Upgrade``. The core is pure and does no I/O: ``plan`` says which workload moves in which wave and what changes in
it. ``docs/upgrades.md`` describes the rules.
"""
