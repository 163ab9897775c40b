// A mixture of requests as in normal use. Of a hundred iterations, eighty read, fifteen commit, and
// five create and drop a table.

import exec from 'k6/execution';
import * as catalog from './catalog.js';

export const TABLES = 50;

export function setup() {
  const namespace = catalog.createNamespace('mixed');
  catalog.createTables(namespace, TABLES);
  return { namespace };
}

export function iteration({ namespace }) {
  const name = `t${Math.floor(Math.random() * TABLES)}`;
  const dice = Math.random() * 100;
  if (dice < 60) {
    catalog.loadTable(namespace, name);
  } else if (dice < 70) {
    catalog.tableExists(namespace, name);
  } else if (dice < 80) {
    catalog.listTables(namespace, 100);
  } else if (dice < 95) {
    catalog.setProperty(namespace, name, exec.scenario.iterationInTest);
  } else {
    const own = `own_${exec.vu.idInInstance}_${exec.vu.iterationInInstance}`;
    catalog.createTable(namespace, own);
    catalog.dropTable(namespace, own);
  }
}

export function teardown({ namespace }) {
  catalog.clear(namespace);
}
