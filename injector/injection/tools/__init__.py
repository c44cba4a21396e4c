"""What is built on injection: kube-inject's manifests, the differences of two revisions, drift, explain, and uninject."""
