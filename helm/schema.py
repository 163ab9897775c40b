"""Generates the part of the chart's schema for `config` from the keys, value types and comments of config/default.toml.
`schema.py` writes the schema, `schema.py --check` fails if the schema is not up to date.
"""

import json
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEFAULTS = HERE.parent / "config/default.toml"
SCHEMA = HERE / "slateberg/values.schema.json"

# Settings that the chart sets by itself: addresses, paths of mounted files and directories, and the names of members.
OF_THE_CHART = {
    "data_dir",
    "server.listen",
    "server.management.listen",
    "server.tls.certificate_file",
    "server.tls.key_file",
    "server.tls.client_ca_file",
    "authn.bootstrap_key",
    "authn.bootstrap_key_file",
    "cluster.enabled",
    "cluster.listen",
    "cluster.advertise",
    "cluster.name",
    "store.object_cache_dir",
    "store.object_cache_bytes",
}
# Tables whose keys are names that an operator chooses.
BY_NAME = {"authn.issuers", "authn.client_certificates.subjects", "credentials"}
# Tables whose keys are options of an object store or of a client, not of slateberg.
OPTIONS = {
    "options",
    "wal_options",
    "client_defaults",
    "client_overrides",
    "maintenance",
    "headers",
    "resource_attributes",
}
# The allowed values of settings that have a fixed list of values.
CHOICES = {
    "server.tls.client_certificates": ["off", "optional", "required"],
    "authn.client_certificates.name_from": ["common_name", "dns_name", "uri"],
    "encryption.kms": ["none", "local", "aws"],
    "log.format": ["text", "json"],
    "telemetry.otlp.protocol": ["http/protobuf", "grpc"],
    "audit.to": ["off", "stdout", "file"],
}
TEXTS_BY_NAME = {"type": "object", "additionalProperties": {"type": "string"}}


def comments(text):
    """Returns the comment above each key and each table, by its path."""
    found, above, table = {}, [], ""
    for line in text.splitlines():
        if line.startswith("#"):
            above.append(line.removeprefix("#").strip())
            continue
        if line.startswith("["):
            table = line.strip("[]")
            found[table] = " ".join(above)
        elif "=" in line:
            key = line.split("=")[0].strip()
            found[f"{table}.{key}".lstrip(".")] = " ".join(above)
        above = []
    return found


def schema_of(path, value, said):
    """Returns the schema of the setting or table at a path. `value` is its default."""
    schema = {"description": said[path]} if said.get(path) else {}
    if path == "warehouses":
        # All warehouses have the same schema as the default one.
        return schema | {"type": "object", "additionalProperties": table(f"{path}.default", value["default"], said)}
    if path in BY_NAME:
        return schema | {"type": "object", "additionalProperties": {"type": "object"}}
    if isinstance(value, dict) and path.rpartition(".")[2] in OPTIONS:
        return schema | TEXTS_BY_NAME
    if path in CHOICES:
        return schema | {"enum": CHOICES[path]}
    match value:
        case bool():
            return schema | {"type": "boolean"}
        case int():
            return schema | {"type": "integer", "minimum": 0}
        case float():
            return schema | {"type": "number", "minimum": 0}
        case str():
            return schema | {"type": "string"}
        case list():
            return schema | {"type": "array", "items": {"type": "string"}}
        case dict():
            return schema | table(path, value, said)
    raise TypeError(f"{path}: there is no schema for {value!r}")


def table(path, values, said):
    properties = {}
    for key, value in values.items():
        below = f"{path}.{key}".lstrip(".")
        if below not in OF_THE_CHART:
            properties[key] = schema_of(below, value, said)
    return {"type": "object", "additionalProperties": False, "properties": properties}


def main():
    text = DEFAULTS.read_text()
    before = SCHEMA.read_text()
    schema = json.loads(before)
    schema["properties"]["config"] = {
        "description": "Settings of the server. Settings that are missing here do not exist, or the chart sets them.",
        **table("", tomllib.loads(text), comments(text)),
    }
    after = json.dumps(schema, indent=2) + "\n"
    if "--check" not in sys.argv:
        SCHEMA.write_text(after)
    elif before != after:
        sys.exit(f"{SCHEMA} does not match {DEFAULTS}: run python3 {Path(__file__)}")


if __name__ == "__main__":
    main()
