// A client of the Iceberg REST protocol, with the requests that the scenarios need. Each request
// has a tag `kind` (read or write), which the thresholds use, and a name that does not depend on
// the table.

import http from 'k6/http';
import { check, fail } from 'k6';

const uri = __ENV.SLATEBERG_URI || 'http://127.0.0.1:8181';
const headers = { 'Content-Type': 'application/json' };
if (__ENV.SLATEBERG_API_KEY) {
  headers.Authorization = `Bearer ${__ENV.SLATEBERG_API_KEY}`;
}

const SCHEMA = {
  type: 'struct',
  'schema-id': 0,
  fields: [
    { id: 1, name: 'id', required: true, type: 'long' },
    { id: 2, name: 'at', required: false, type: 'timestamptz' },
    { id: 3, name: 'note', required: false, type: 'string' },
  ],
};

function request(method, name, kind, path, body, statuses, more = {}) {
  const response = http.request(method, `${uri}/v1${path}`, body === null ? null : JSON.stringify(body), {
    headers: { ...headers, ...more },
    tags: { name, kind },
    responseCallback: http.expectedStatuses(...statuses),
  });
  check(response, { 'the response has an expected status': (answer) => statuses.includes(answer.status) });
  return response;
}

// Creates a namespace that only this run uses.
export function createNamespace(stem) {
  const name = `${stem}_${Date.now()}_${Math.floor(Math.random() * 1e9)}`;
  const answer = request('POST', 'create_namespace', 'write', '/namespaces', { namespace: [name] }, [200]);
  if (answer.status !== 200) {
    fail(`the namespace of this run was not created: ${answer.status} ${answer.body}`);
  }
  return name;
}

export function dropNamespace(namespace) {
  return request('DELETE', 'drop_namespace', 'write', `/namespaces/${namespace}`, null, [204]);
}

export function createTable(namespace, name) {
  const body = { name, schema: SCHEMA };
  return request('POST', 'create_table', 'write', `/namespaces/${namespace}/tables`, body, [200]);
}

export function dropTable(namespace, name) {
  return request('DELETE', 'drop_table', 'write', `/namespaces/${namespace}/tables/${name}`, null, [204]);
}

export function loadTable(namespace, name, etag) {
  const more = etag ? { 'If-None-Match': etag } : {};
  const what = etag ? 'load_table_304' : 'load_table';
  return request('GET', what, 'read', `/namespaces/${namespace}/tables/${name}`, null, [etag ? 304 : 200], more);
}

export function tableExists(namespace, name) {
  return request('HEAD', 'table_exists', 'read', `/namespaces/${namespace}/tables/${name}`, null, [204]);
}

// Lists a page of names. The response also has the token of the next page.
export function listTables(namespace, pageSize, token) {
  const path = `/namespaces/${namespace}/tables?pageSize=${pageSize}&pageToken=${encodeURIComponent(token || '')}`;
  return request('GET', 'list_tables', 'read', path, null, [200]);
}

export function listNamespaces() {
  return request('GET', 'list_namespaces', 'read', '/namespaces?pageSize=100', null, [200]);
}

// Commits a property of a table. The commit has no requirements, so concurrent commits cannot make
// it fail.
export function setProperty(namespace, name, value) {
  const body = { requirements: [], updates: [{ action: 'set-properties', updates: { 'k6.value': `${value}` } }] };
  return request('POST', 'commit', 'write', `/namespaces/${namespace}/tables/${name}`, body, [200]);
}

// Creates the tables t0, t1, ... in a namespace.
export function createTables(namespace, count) {
  for (let n = 0; n < count; n += 1) {
    if (createTable(namespace, `t${n}`).status !== 200) {
      fail(`table t${n} was not created`);
    }
  }
}

// Drops a namespace and its tables, so that a run leaves nothing behind.
export function clear(namespace) {
  for (;;) {
    const found = listTables(namespace, 100).json('identifiers');
    if (found.length === 0) {
      break;
    }
    found.forEach((table) => dropTable(namespace, table.name));
  }
  dropNamespace(namespace);
}
