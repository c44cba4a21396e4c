"""Write down the annotations of istio.io/api, for Istio's analyzer messages.

    python tests/istio/recorder/apiannotations.py DIR

DIR is the folder of the Go module istio.io/api, here v1.31.0: ``go mod download -json istio.io/api@v1.31.0`` prints it. Writes
``injector/istio/apiannotations.json``: for each annotation the resources that it is for, and whether it is alpha or deprecated.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import yaml

TABLE = Path(__file__).parents[3] / "injector" / "istio" / "apiannotations.json"


def main() -> None:
    """Write the table, a line for each annotation."""
    source = yaml.safe_load((Path(sys.argv[1]) / "annotation" / "annotations.yaml").read_text())
    rows = []
    for annotation in sorted(source["annotations"], key=lambda row: row["name"]):
        row = {"resources": annotation["resources"]}
        row |= {"alpha": True} if annotation.get("featureStatus", "Alpha") == "Alpha" else {}
        row |= {"deprecated": True} if annotation.get("deprecated") else {}
        rows.append(f"{json.dumps(annotation['name'])}: {json.dumps(row)}")
    TABLE.write_text("{\n" + ",\n".join(rows) + "\n}\n")


main()
