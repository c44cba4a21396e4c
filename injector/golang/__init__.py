"""Go's own behaviour, one module for each Go package. It knows nothing of templates, Kubernetes or Istio."""
