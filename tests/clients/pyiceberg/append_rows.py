"""A writer in a separate process: appends one order per id, each in its own commit."""

import sys

from pyiceberg.catalog import load_catalog
from shop import orders

uri, table_name, *order_ids = sys.argv[1:]
table = load_catalog("slateberg", type="rest", uri=uri).load_table(table_name)
for order_id in order_ids:
    table.append(orders(int(order_id)))
