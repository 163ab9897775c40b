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
 * The server under test, as the environment names it.
 *
 * <p>{@code SLATEBERG_URI} is the address in front of {@code /v1}. {@code RCK_WAREHOUSE} is a
 * directory that this process and the server both reach under the same path, because the suites
 * move metadata files about and the client writes manifests itself. {@code RCK_WAREHOUSE_NAME} and
 * {@code RCK_TOKEN} are sent only if they are set.
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

  /** A client with the defaults and overrides that the suites expect to find in new tables. */
  static RESTCatalog connect(String catalogName, Map<String, String> additionalProperties) {
    Map<String, String> properties = new HashMap<>();
    properties.put("uri", required("SLATEBERG_URI"));
    optional("RCK_WAREHOUSE_NAME", name -> properties.put("warehouse", name));
    optional(
        "RCK_TOKEN",
        token -> {
          properties.put("rest.auth.type", "oauth2");
          properties.put("token", token);
          // A refresh would call the token endpoint, which is not what these suites are about.
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
   * Refuses a server that the suites must not be let loose on.
   *
   * <p>A namespace that the suites use themselves would be destroyed by purging it. And an address
   * where some other server happens to listen looks just like the right one, until its tables turn
   * out to lie elsewhere than in the warehouse.
   */
  static void insistOnOurs(RESTCatalog catalog) {
    for (Namespace namespace : catalog.listNamespaces()) {
      if (USED_BY_THE_SUITES.contains(namespace)) {
        throw new IllegalStateException(
            "The catalog already has the namespace "
                + namespace
                + ", which the suites create and drop; give them a catalog of their own");
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
   * Drops whatever a test left behind and insists that it is gone.
   *
   * <p>Only the names that the suites use are ever touched, so that a server shared by mistake
   * keeps what others have on it. Upstream purges before each test and swallows what goes wrong;
   * here a namespace that cannot be emptied fails the test that filled it, instead of some later
   * one.
   */
  static void purge(RESTCatalog catalog) {
    for (Namespace namespace : catalog.listNamespaces()) {
      if (USED_BY_THE_SUITES.contains(namespace)) {
        purge(catalog, namespace);
      }
    }
    for (Namespace namespace : catalog.listNamespaces()) {
      if (USED_BY_THE_SUITES.contains(namespace)) {
        throw new IllegalStateException("Dropped, but still there: " + namespace);
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
   * Where the suites ask for tables and views with a location of their choice.
   *
   * <p>Upstream asks for {@code file:/tmp}; a server that keeps its tables inside its warehouse
   * rightly refuses that, so the requests go to a corner of the warehouse.
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
