"""Istio sidecars for many control-plane revisions at once."""
