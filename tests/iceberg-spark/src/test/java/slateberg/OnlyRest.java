package slateberg;

import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * Omits the invocations of tests with other catalogs than a REST catalog.
 *
 * <p>Most suites run each test with four catalogs. The display name of an invocation contains its
 * parameters. Verdict.java does not count what this class omits, which it recognizes by the reason.
 */
public class OnlyRest implements ExecutionCondition {
  private static final String REASON = "omitted: another catalog";

  @Override
  public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
    String name = context.getDisplayName();
    if (name.startsWith("catalogName = ") && !name.contains("type=rest")) {
      return ConditionEvaluationResult.disabled(REASON);
    }
    return ConditionEvaluationResult.enabled("a REST catalog");
  }
}
