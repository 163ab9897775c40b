"""Writes the part of the chart's schema that is about `config`, from config/default.toml: its keys, the kinds of
its values, and its comments. `schema.py` writes, `schema.py --check` only says whether there is something to write.
"""

import json
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEFAULTS = HERE.parent / "config/default.toml"
SCHEMA = HERE / "slateberg/values.schema.json"

# What the chart says by itself: where to listen, and where it has mounted what.
OF_THE_CHART = {
    "data_dir",
    "server.listen",
    "server.management.listen",
    "server.tls.certificate_file",
    "server.tls.key_file",
    "server.tls.client_ca_file",
    "authn.bootstrap_key",
    "authn.bootstrap_key_file",
    "store.object_cache_dir",
    "store.object_cache_bytes",
}
# Tables whose keys are names that an operator chooses.
BY_NAME = {"authn.issuers", "authn.client_certificates.subjects", "credentials"}
# Tables of options that are not ours, but an object store's or a client's.
OPTIONS = {"options", "wal_options", "client_defaults", "client_overrides", "headers", "resource_attributes"}
# Words of which one is to be said.
CHOICES = {
    "server.tls.client_certificates": ["off", "optional", "required"],
    "authn.client_certificates.name_from": ["common_name", "dns_name", "uri"],
    "encryption.kms": ["none", "local", "aws"],
    "log.format": ["text", "json"],
    "telemetry.otlp.protocol": ["http/protobuf", "grpc"],
    "audit.to": ["nowhere", "stdout", "file"],
}
TEXTS_BY_NAME = {"type": "object", "additionalProperties": {"type": "string"}}


def comments(text):
    """What stands above each key and each table, by its path."""
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
    """The schema of what stands at a path, whose default this is."""
    schema = {"description": said[path]} if said.get(path) else {}
    if path == "warehouses":
        # Whatever holds for the default one holds for all.
        return schema | {"type": "object", "additionalProperties": table(f"{path}.default", value["default"], said)}
    if path in BY_NAME:
        return schema | {"type": "object", "additionalProperties": {"type": "object"}}
    if path.rpartition(".")[2] in OPTIONS:
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
        "description": "The program's settings. What is missing here does not exist, or the chart says it by itself.",
        **table("", tomllib.loads(text), comments(text)),
    }
    after = json.dumps(schema, indent=2) + "\n"
    if "--check" not in sys.argv:
        SCHEMA.write_text(after)
    elif before != after:
        sys.exit(f"{SCHEMA} does not fit to {DEFAULTS}: run python3 {Path(__file__)}")


if __name__ == "__main__":
    main()
