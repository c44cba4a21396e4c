"""YAML as Go reads and writes it: sigs.k8s.io/yaml on go-yaml, with libyaml's parser (``read``) and emitter (``write``)."""

from injector.kube.yaml.read import Document, load_yaml, objects_in, objects_of, split_documents
from injector.kube.yaml.write import dump_yaml

__all__ = ["Document", "dump_yaml", "load_yaml", "objects_in", "objects_of", "split_documents"]
