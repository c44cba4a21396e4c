"""Tools on top of injection: kube-inject's manifests, differences between revisions, drift, explain, and uninject."""
