// Clients load tables, and load each table again with the ETag that they got.

import * as catalog from './lib/catalog.js';
import { closed } from './lib/options.js';

const TABLES = 50;
export const options = closed();

export function setup() {
  const namespace = catalog.createNamespace('load_table');
  catalog.createTables(namespace, TABLES);
  return { namespace };
}

export default function ({ namespace }) {
  const name = `t${Math.floor(Math.random() * TABLES)}`;
  const loaded = catalog.loadTable(namespace, name);
  catalog.loadTable(namespace, name, loaded.headers.Etag);
}

export function teardown({ namespace }) {
  catalog.clear(namespace);
}
