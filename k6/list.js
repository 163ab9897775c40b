// Clients list a long namespace, page by page.

import * as catalog from './lib/catalog.js';
import { closed } from './lib/options.js';

const TABLES = 500;
const PAGE = 100;
export const options = closed();

export function setup() {
  const namespace = catalog.createNamespace('list');
  catalog.createTables(namespace, TABLES);
  return { namespace };
}

export default function ({ namespace }) {
  let token = '';
  do {
    token = catalog.listTables(namespace, PAGE, token).json('next-page-token');
  } while (token);
  catalog.listNamespaces();
}

export function teardown({ namespace }) {
  catalog.clear(namespace);
}
