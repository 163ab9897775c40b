import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import javax.xml.parsers.DocumentBuilderFactory;
import org.w3c.dom.Element;
import org.w3c.dom.NodeList;

/**
 * Reads the surefire reports, and reports whether the run has the expected result.
 *
 * <p>A run has the expected result if the tests that failed and the tests that were skipped are
 * exactly those that the two lists contain with a reason. This program is a single file, so that
 * {@code java Verdict.java} runs it without a build.
 */
public class Verdict {
  /** The list of exceptions must not grow unnoticed, so each exception must be here as well. */
  private static final Set<String> PERMITTED_EXCEPTIONS =
      Set.of(
          "SlatebergCatalogTest.testLoadTableWithMissingMetadataFile",
          "TestRegisterTableProcedure.testRegisterTable",
          "TestRemoteScanPlanning.fileIOIsPropagated",
          "TestRemoteScanPlanning.testExpressionPushdown",
          "TestRemoteScanPlanning.testProjection",
          "TestRemoteScanPlanning.testSelectRewrite",
          "TestRemoveOrphanFilesProcedure.testRemoveOrphanFilesWithPartitionStatisticFiles",
          "TestRewriteTablePathProcedure.testRewriteTablePathWithManifestAndDeleteCounts",
          "TestRewriteTablePathProcedure.testRewriteTablePathWithNamedArgument",
          "TestViews.createAndDescribeViewWithoutCurrentNamespace",
          "TestViews.renameViewToDifferentTargetCatalog",
          "TestViews.showViewsWithCurrentNamespace");

  /** Skipped tests with such a reason are not counted: tests/iceberg-spark omits them on purpose. */
  private static final String OMITTED = "omitted: ";

  private static final int MESSAGE_LENGTH_MAX = 300;

  private final Set<String> passed = new TreeSet<>();
  private final Map<String, String> failed = new TreeMap<>();
  private final Set<String> skipped = new TreeSet<>();
  private final Set<String> suites = new TreeSet<>();
  private final List<String> errors = new ArrayList<>();
  private int passedCount;
  private int failedCount;
  private int skippedCount;

  public static void main(String[] args) throws Exception {
    boolean partial = args.length == 5 && args[0].equals("--partial");
    if (args.length != 4 && !partial) {
      System.err.println(
          "usage: java Verdict.java [--partial] REPORTS KNOWN_EXCEPTIONS SKIPPED_TESTS SUITES");
      System.exit(2);
    }
    int first = partial ? 1 : 0;
    Map<String, String> knownExceptions = readList(Path.of(args[first + 1]));
    Map<String, String> skippedTests = readList(Path.of(args[first + 2]));

    Verdict verdict = new Verdict();
    verdict.readReports(Path.of(args[first]));
    verdict.compareWhatRan(knownExceptions, skippedTests);
    if (!partial) {
      verdict.compareWhatDidNotRun(
          knownExceptions, skippedTests, readLines(Path.of(args[first + 3])));
    }
    System.exit(verdict.print() ? 0 : 1);
  }

  private void readReports(Path directory) throws Exception {
    try (DirectoryStream<Path> reports = Files.newDirectoryStream(directory, "TEST-*.xml")) {
      for (Path report : reports) {
        readReport(report);
      }
    }
  }

  private void readReport(Path report) throws Exception {
    DocumentBuilderFactory factory = DocumentBuilderFactory.newInstance();
    factory.setFeature("http://apache.org/xml/features/disallow-doctype-decl", true);
    NodeList cases =
        factory.newDocumentBuilder().parse(report.toFile()).getElementsByTagName("testcase");
    for (int i = 0; i < cases.getLength(); i++) {
      Element testcase = (Element) cases.item(i);
      String className = testcase.getAttribute("classname");
      String suite = className.substring(className.lastIndexOf('.') + 1);
      String invocation = suite + "." + testcase.getAttribute("name");
      Element problem = child(testcase, "failure", "error");
      Element skip = child(testcase, "skipped");
      suites.add(suite);
      if (problem != null) {
        failedCount++;
        failed.put(invocation, message(problem));
      } else if (skip == null) {
        passedCount++;
        passed.add(method(invocation));
      } else if (!skip.getAttribute("message").startsWith(OMITTED)) {
        skippedCount++;
        skipped.add(method(invocation));
      }
    }
  }

  private static Element child(Element testcase, String... names) {
    for (String name : names) {
      NodeList found = testcase.getElementsByTagName(name);
      if (found.getLength() > 0) {
        return (Element) found.item(0);
      }
    }
    return null;
  }

  /** Returns the message on one line. The messages of assertions have several lines. */
  private static String message(Element problem) {
    String type = problem.getAttribute("type");
    String text = problem.getAttribute("message");
    if (text.isEmpty()) {
      text = problem.getTextContent();
    }
    String line = (type.substring(type.lastIndexOf('.') + 1) + ": " + text).strip();
    line = line.replaceAll("\\s+", " ");
    return line.length() <= MESSAGE_LENGTH_MAX ? line : line.substring(0, MESSAGE_LENGTH_MAX) + " ...";
  }

  /** Returns the name without surefire's parameter types, display names and invocation numbers. */
  private static String method(String invocation) {
    return invocation.replaceAll("[({\\[ ].*$", "");
  }

  private static List<String> readLines(Path file) throws IOException {
    return Files.readAllLines(file).stream()
        .filter(line -> !line.isBlank() && !line.startsWith("#"))
        .map(String::strip)
        .toList();
  }

  private static Map<String, String> readList(Path file) throws IOException {
    Map<String, String> list = new LinkedHashMap<>();
    for (String line : readLines(file)) {
      String[] nameAndReason = line.split("\\s+", 2);
      if (nameAndReason.length < 2) {
        throw new IOException(file.getFileName() + ": there is no reason for the entry " + line);
      }
      list.put(nameAndReason[0], nameAndReason[1]);
    }
    return list;
  }

  private void compareWhatRan(
      Map<String, String> knownExceptions, Map<String, String> skippedTests) {
    failed.forEach(
        (invocation, message) -> {
          if (knownExceptions.containsKey(method(invocation))) {
            System.out.println("known exception: " + invocation + "\n    " + message);
          } else {
            errors.add("FAILED " + invocation + "\n    " + message);
          }
        });

    for (String name : knownExceptions.keySet()) {
      if (!PERMITTED_EXCEPTIONS.contains(name)) {
        errors.add("not a permitted exception: " + name);
      }
      if (passed.contains(name)) {
        errors.add("is listed as a known exception, but passes: " + name);
      }
    }

    for (String name : skipped) {
      if (!skippedTests.containsKey(name)) {
        errors.add("was skipped, but is not in the list with a reason: " + name);
      }
    }
  }

  /** Checks that a full run contains all listed tests. A run of selected tests does not. */
  private void compareWhatDidNotRun(
      Map<String, String> knownExceptions, Map<String, String> skippedTests, List<String> required) {
    for (String name : knownExceptions.keySet()) {
      boolean ran =
          passed.contains(name) || failed.keySet().stream().anyMatch(f -> method(f).equals(name));
      if (!ran) {
        errors.add("is listed as a known exception, but did not run: " + name);
      }
    }
    for (String name : skippedTests.keySet()) {
      if (!skipped.contains(name)) {
        errors.add("is listed as skipped, but was not skipped: " + name);
      }
    }
    for (String suite : required) {
      if (!suites.contains(suite)) {
        errors.add("this suite left no report: " + suite);
      }
    }
  }

  private boolean print() {
    errors.forEach(System.out::println);
    System.out.printf(
        "%d passed, %d failed, %d skipped%n", passedCount, failedCount, skippedCount);
    return errors.isEmpty();
  }
}
