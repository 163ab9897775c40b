// All clients commit to the same table.

import exec from 'k6/execution';
import * as catalog from './lib/catalog.js';
import { closed } from './lib/options.js';

export const options = closed();

export function setup() {
  const namespace = catalog.createNamespace('commit_one');
  catalog.createTables(namespace, 1);
  return { namespace };
}

export default function ({ namespace }) {
  catalog.setProperty(namespace, 't0', exec.scenario.iterationInTest);
}

export function teardown({ namespace }) {
  catalog.clear(namespace);
}
