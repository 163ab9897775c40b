"""A writer with PyIceberg: `append_with_pyiceberg.py URI KEY TABLE ID...` commits a row for each id."""

import sys

import pyarrow
from pyiceberg.catalog import load_catalog

uri, key, name, *ids = sys.argv[1:]
table = load_catalog("lake", type="rest", uri=uri, token=key).load_table(name)
for id in ids:
    table.append(pyarrow.table({"id": pyarrow.array([int(id)], pyarrow.int64())}))
