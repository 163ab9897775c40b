// Each client commits to its own table.

import exec from 'k6/execution';
import * as catalog from './lib/catalog.js';
import { CLIENTS, closed } from './lib/options.js';

export const options = closed();

export function setup() {
  const namespace = catalog.createNamespace('commit_many');
  catalog.createTables(namespace, CLIENTS);
  return { namespace };
}

export default function ({ namespace }) {
  catalog.setProperty(namespace, `t${exec.vu.idInInstance - 1}`, exec.vu.iterationInInstance);
}

export function teardown({ namespace }) {
  catalog.clear(namespace);
}
