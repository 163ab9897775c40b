// One client sends each kind of request, to test that the load scenarios can run against this
// server.

import * as catalog from './lib/catalog.js';
import { closed } from './lib/options.js';

export const options = { ...closed(), scenarios: { smoke: { executor: 'per-vu-iterations', vus: 1, iterations: 3 } } };

export default function () {
  const namespace = catalog.createNamespace('smoke');
  catalog.createTables(namespace, 2);
  catalog.listNamespaces();
  catalog.listTables(namespace, 1);
  catalog.tableExists(namespace, 't0');
  const loaded = catalog.loadTable(namespace, 't0');
  catalog.loadTable(namespace, 't0', loaded.headers.Etag);
  catalog.setProperty(namespace, 't0', 1);
  catalog.clear(namespace);
}
