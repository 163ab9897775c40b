package org.apache.iceberg.rest;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.Schema;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.types.Types;

/**
 * The server under test. Environment variables contain its address.
 *
 * <p>{@code SLATEBERG_URI} is the part of the URI before {@code /v1}. {@code RCK_WAREHOUSE} is a
 * directory that must have the same path for this process and for the server, because the suites
 * move metadata files and the client writes manifests itself. {@code RCK_WAREHOUSE_NAME} and {@code
 * RCK_TOKEN} are sent only if they are set.
 */
final class Server {
  /** Every namespace that the suites create or expect to be absent. */
  private static final Set<Namespace> USED_BY_THE_SUITES =
      Set.of(
          Namespace.of("a"),
          Namespace.of("new.db"),
          Namespace.of("new/db"),
          Namespace.of("newdb"),
          Namespace.of("newdb_1"),
          Namespace.of("newdb_2"),
          Namespace.of("non-existing"),
          Namespace.of("non_existing"),
          Namespace.of("ns"),
          Namespace.of("ns1"),
          Namespace.of("ns2"),
          Namespace.of("ns_1"),
          Namespace.of("ns_2"),
          Namespace.of("other_ns"),
          Namespace.of("parent"));

  private static final Schema PROBE_SCHEMA =
      new Schema(Types.NestedField.required(1, "id", Types.LongType.get()));

  private Server() {}

  /** Returns a client with the defaults and overrides that the suites expect in new tables. */
  static RESTCatalog connect(String catalogName, Map<String, String> additionalProperties) {
    Map<String, String> properties = new HashMap<>();
    properties.put("uri", required("SLATEBERG_URI"));
    optional("RCK_WAREHOUSE_NAME", name -> properties.put("warehouse", name));
    optional(
        "RCK_TOKEN",
        token -> {
          properties.put("rest.auth.type", "oauth2");
          properties.put("token", token);
          // A refresh would call the token endpoint, which these suites do not test.
          properties.put("token-refresh-enabled", "false");
        });

    properties.put("table-default.default-key1", "catalog-default-key1");
    properties.put("table-default.default-key2", "catalog-default-key2");
    properties.put("table-default.override-key3", "catalog-default-key3");
    properties.put("table-override.override-key3", "catalog-override-key3");
    properties.put("table-override.override-key4", "catalog-override-key4");
    properties.put("view-default.key1", "catalog-default-key1");
    properties.put("view-default.key2", "catalog-default-key2");
    properties.put("view-default.key3", "catalog-default-key3");
    properties.put("view-override.key3", "catalog-override-key3");
    properties.put("view-override.key4", "catalog-override-key4");
    properties.putAll(additionalProperties);

    RESTCatalog catalog = new RESTCatalog();
    catalog.setConf(new Configuration());
    catalog.initialize(catalogName, properties);
    return catalog;
  }

  /**
   * Fails if the suites could destroy data of this server, or if it is the wrong server.
   *
   * <p>The suites would purge an existing namespace with a name that they use. And a different
   * server may listen at this address; it is detected because its tables are not in the warehouse.
   */
  static void insistOnOurs(RESTCatalog catalog) {
    for (Namespace namespace : catalog.listNamespaces()) {
      if (USED_BY_THE_SUITES.contains(namespace)) {
        throw new IllegalStateException(
            "The catalog already has the namespace "
                + namespace
                + ", which the suites create and drop; run them against another catalog");
      }
    }

    TableIdentifier probe = TableIdentifier.of("newdb", "probe");
    catalog.createNamespace(probe.namespace());
    try {
      String location = catalog.createTable(probe, PROBE_SCHEMA).location();
      Path path = Path.of(location.replaceFirst("^file:/+", "/"));
      if (!path.startsWith(required("RCK_WAREHOUSE"))) {
        throw new IllegalStateException(
            "The server puts a table at "
                + location
                + ", which is not in RCK_WAREHOUSE; is this the right server?");
      }
    } finally {
      purge(catalog);
    }
  }

  /**
   * Drops everything that a test left, and fails if something remains.
   *
   * <p>Drops only namespaces with names that the suites use, so that other data on the server is
   * safe. Iceberg's own code purges before each test and ignores errors. Here, a namespace that
   * cannot be dropped fails the test that created it, and not a later test.
   */
  static void purge(RESTCatalog catalog) {
    for (Namespace namespace : catalog.listNamespaces()) {
      if (USED_BY_THE_SUITES.contains(namespace)) {
        purge(catalog, namespace);
      }
    }
    for (Namespace namespace : catalog.listNamespaces()) {
      if (USED_BY_THE_SUITES.contains(namespace)) {
        throw new IllegalStateException("Still exists after it was dropped: " + namespace);
      }
    }
  }

  private static void purge(RESTCatalog catalog, Namespace namespace) {
    catalog.listNamespaces(namespace).forEach(child -> purge(catalog, child));
    catalog.listTables(namespace).forEach(catalog::dropTable);
    catalog.listViews(namespace).forEach(catalog::dropView);
    catalog.dropNamespace(namespace);
  }

  /**
   * Returns the location that the suites request for a table or view.
   *
   * <p>Iceberg's own code requests locations in {@code file:/tmp}. slateberg rejects locations
   * outside of the warehouse, so these locations are in a directory of the warehouse.
   */
  static String requestedLocation(String... parts) {
    return "file:" + required("RCK_WAREHOUSE") + "/requested/" + String.join("/", parts);
  }

  private static String required(String variable) {
    String value = System.getenv(variable);
    if (value == null || value.isEmpty()) {
      throw new IllegalStateException(variable + " is not set; tests/rck/run.sh sets it");
    }
    return value;
  }

  private static void optional(String variable, Consumer<String> use) {
    String value = System.getenv(variable);
    if (value != null && !value.isEmpty()) {
      use.accept(value);
    }
  }
}
