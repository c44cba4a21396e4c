"""Webhook configurations: written as Istio installs them, read from a cluster, matched with pods, and checked for overlaps."""
