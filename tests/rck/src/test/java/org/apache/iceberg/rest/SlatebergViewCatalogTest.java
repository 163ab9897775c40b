package org.apache.iceberg.rest;

import java.util.Map;
import java.util.UUID;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.view.ViewCatalogTests;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;

/** Iceberg's suite for views, with the strictest value of every feature flag. */
public class SlatebergViewCatalogTest extends ViewCatalogTests<RESTCatalog> {
  private static RESTCatalog catalog;

  // JUnit creates one instance for each test, so each test has locations of its own.
  private final String corner = UUID.randomUUID().toString();

  @BeforeAll
  static void connect() {
    catalog = Server.connect("rck_catalog", Map.of());
    Server.insistOnOurs(catalog);
  }

  @AfterEach
  void purge() {
    Server.purge(catalog);
  }

  @AfterAll
  static void disconnect() throws Exception {
    if (catalog != null) {
      catalog.close();
    }
  }

  @Override
  protected RESTCatalog catalog() {
    return catalog;
  }

  @Override
  protected Catalog tableCatalog() {
    return catalog;
  }

  @Override
  protected String viewLocation(String... paths) {
    String location = Server.requestedLocation("views", corner);
    return paths.length == 0 ? location : location + "/" + String.join("/", paths);
  }

  @Override
  protected boolean requiresNamespaceCreate() {
    return true;
  }

  @Override
  protected boolean supportsServerSideRetry() {
    return true;
  }

  @Override
  protected boolean overridesRequestedLocation() {
    return false;
  }

  /** The only test that depends on this flag fails in the Java client: see skipped-tests.txt. */
  @Override
  protected boolean supportsEmptyNamespace() {
    return false;
  }
}
