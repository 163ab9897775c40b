package org.apache.iceberg.rest;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.catalog.Namespace;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * Connects Iceberg's Spark suites to the server under test.
 *
 * <p>Iceberg's test jar has a class of this name, which starts the reference server inside of the
 * JVM of the tests. The suites have it in a private static field, so a subclass cannot replace it.
 * This class is earlier on the class path. If the environment variable {@code SLATEBERG_URI} is not
 * set, it starts the reference server, too.
 */
public class RESTServerExtension implements BeforeAllCallback, AfterAllCallback {
  public static final String FREE_PORT = "0";

  private static final Namespace DEFAULT = Namespace.of("default");

  private final Map<String, String> config;
  private RESTCatalogServer reference;
  private RESTCatalog client;

  public RESTServerExtension() {
    this(Map.of());
  }

  public RESTServerExtension(Map<String, String> config) {
    this.config = new HashMap<>(config);
  }

  public Map<String, String> config() {
    return config;
  }

  public RESTCatalog client() {
    return client;
  }

  @Override
  public void beforeAll(ExtensionContext context) throws Exception {
    String uri = System.getenv("SLATEBERG_URI");
    boolean external = uri != null && !uri.isEmpty();
    if (!external) {
      int port = RCKUtils.findFreePort();
      config.put(RESTCatalogServer.REST_PORT, String.valueOf(port));
      reference = new RESTCatalogServer(config);
      reference.start(false);
      uri = "http://localhost:" + port;
    }
    client = new RESTCatalog();
    client.setConf(new Configuration());
    client.initialize("rest", Map.of("uri", uri));
    if (external) {
      insistOnEmpty();
      // The suites rely on this namespace, which the reference server has without a request.
      client.createNamespace(DEFAULT);
    }
  }

  @Override
  public void afterAll(ExtensionContext context) throws Exception {
    if (reference != null) {
      client.close();
      reference.stop();
    } else if (client != null) {
      client.listNamespaces().forEach(this::drop);
      insistOnEmpty();
      client.close();
    }
  }

  /** Protects data of others: everything on the server is dropped after each suite. */
  private void insistOnEmpty() {
    List<Namespace> namespaces = client.listNamespaces();
    if (!namespaces.isEmpty()) {
      client = null;
      throw new IllegalStateException("The server must have no namespaces, but has " + namespaces);
    }
  }

  private void drop(Namespace namespace) {
    client.listNamespaces(namespace).forEach(this::drop);
    client.listTables(namespace).forEach(table -> client.dropTable(table, false));
    client.listViews(namespace).forEach(client::dropView);
    client.dropNamespace(namespace);
  }
}
