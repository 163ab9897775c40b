import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.ContentFileParser;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.PartitionKey;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SingleValueParser;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableScan;
import org.apache.iceberg.data.GenericFileWriterFactory;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.InternalRecordWrapper;
import org.apache.iceberg.encryption.EncryptedFiles;
import org.apache.iceberg.encryption.EncryptedOutputFile;
import org.apache.iceberg.expressions.And;
import org.apache.iceberg.expressions.Binder;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.ExpressionParser;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.expressions.InclusiveMetricsEvaluator;
import org.apache.iceberg.expressions.Literal;
import org.apache.iceberg.expressions.StrictMetricsEvaluator;
import org.apache.iceberg.expressions.UnboundPredicate;
import org.apache.iceberg.expressions.UnboundTerm;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.util.ByteBuffers;
import org.apache.iceberg.util.DateTimeUtil;

/**
 * Loops of test_planning_parity.py that would need thousands of calls from Python.
 *
 * <p>Janino compiles this file. It does not infer type arguments, so there are casts.
 */
public class Scans {
  /**
   * The tasks of a scan as a JSON array. Each has its file, its delete files, and the conjuncts of
   * its residual filter without negations. They are null if Java fails to evaluate the filter.
   */
  public static String plan(TableScan scan, String filter) throws Exception {
    StringBuilder tasks = new StringBuilder("[");
    TableScan filtered = (TableScan) scan.filter(expression(filter, scan.schema()));
    CloseableIterable planned = filtered.planFiles();
    try {
      for (Object next : planned) {
        FileScanTask task = (FileScanTask) next;
        tasks.append(tasks.length() > 1 ? ",{" : "{").append("\"file\":");
        tasks.append(ContentFileParser.toJson(task.file(), task.spec()));
        tasks.append(",\"deletes\":[");
        String separator = "";
        for (Object delete : task.deletes()) {
          tasks.append(separator);
          tasks.append(ContentFileParser.toJson((ContentFile) delete, task.spec()));
          separator = ",";
        }
        List residual = residual(task);
        tasks.append("],\"residual\":").append(json(texts(residual, scan.schema()))).append("}");
      }
    } finally {
      planned.close();
    }
    return tasks.append("]").toString();
  }

  /**
   * The residual filters of the files of a scan, without the conjuncts that the statistics of a
   * file prove for all its rows, and without most of the values of a set that the statistics
   * exclude. A JSON object with the location of each file. The conjuncts that Java cannot prove as
   * the server does are separate.
   */
  public static String residuals(TableScan scan, String filter) throws Exception {
    Schema schema = scan.schema();
    Map files = new HashMap();
    TableScan filtered = (TableScan) scan.filter(expression(filter, schema));
    CloseableIterable planned = ((TableScan) filtered.includeColumnStats()).planFiles();
    try {
      for (Object next : planned) {
        FileScanTask task = (FileScanTask) next;
        List residual = residual(task);
        List unproven = new ArrayList();
        List unknown = new ArrayList();
        boolean matches = true;
        for (int i = 0; residual != null && i < residual.size(); i++) {
          Expression conjunct = (Expression) residual.get(i);
          matches &= new InclusiveMetricsEvaluator(schema, conjunct).eval(task.file());
          Expression narrowed = conjunct.op() == Expression.Operation.IN
              ? narrowed((UnboundPredicate) conjunct, schema, task.file())
              : conjunct;
          if (isUnknown(conjunct, schema, task.file())) {
            unknown.add(conjunct);
            unknown.add(narrowed);
          } else if (!new StrictMetricsEvaluator(schema, conjunct).eval(task.file())) {
            unproven.add(narrowed);
          }
        }
        Map of = new HashMap();
        of.put("residual", residual == null ? null : texts(unproven, schema));
        of.put("unknown", texts(unknown, schema));
        of.put("matches", matches);
        files.put(task.file().location(), of);
      }
    } finally {
      planned.close();
    }
    return json(files);
  }

  /**
   * Whether Java proves less or more than the server. It proves nothing about columns of a struct,
   * and takes a missing number of NaN values for zero.
   */
  private static boolean isUnknown(Expression conjunct, Schema schema, ContentFile file) {
    List one = new ArrayList();
    one.add(conjunct);
    for (Object id : Binder.boundReferences(schema.asStruct(), one, true)) {
      Type type = schema.findType((Integer) id);
      boolean isFloating =
          type.typeId() == Type.TypeID.FLOAT || type.typeId() == Type.TypeID.DOUBLE;
      Map nans = file.nanValueCounts();
      if (schema.asStruct().field((Integer) id) == null
          || isFloating && (nans == null || !nans.containsKey(id))) {
        return true;
      }
    }
    return false;
  }

  private static Expression narrowed(UnboundPredicate set, Schema schema, ContentFile file) {
    Set all = new HashSet();
    List kept = new ArrayList();
    UnboundTerm term = (UnboundTerm) set.term();
    for (Object literal : set.literals()) {
      Object value = ((Literal) literal).value();
      Expression equal = Expressions.equal(term, value);
      String text = Binder.bind(schema.asStruct(), equal, true).toString();
      if (text.equals("false") || !all.add(text)) {
        continue;
      }
      if (new InclusiveMetricsEvaluator(schema, equal).eval(file)) {
        kept.add(value);
      }
    }
    if (kept.size() * 2 > all.size()) {
      return set;
    }
    return Expressions.in(term, (Iterable) kept);
  }

  private static List residual(FileScanTask task) {
    List conjuncts = new ArrayList();
    try {
      addConjuncts(Expressions.rewriteNot(task.residual()), conjuncts);
    } catch (NullPointerException nullPartitionValue) {
      // Java 1.12 fails to test whether null starts with a prefix.
      return null;
    }
    return conjuncts;
  }

  private static void addConjuncts(Expression filter, List conjuncts) {
    if (filter instanceof And) {
      addConjuncts(((And) filter).left(), conjuncts);
      addConjuncts(((And) filter).right(), conjuncts);
    } else if (filter.op() != Expression.Operation.TRUE) {
      conjuncts.add(filter);
    }
  }

  /** The conjuncts with literals of the types of their columns, so that they can be compared. */
  private static List texts(List conjuncts, Schema schema) {
    if (conjuncts == null) {
      return null;
    }
    List texts = new ArrayList();
    for (Object conjunct : conjuncts) {
      Expression bound = Binder.bind(schema.asStruct(), (Expression) conjunct, true);
      if (bound.op() != Expression.Operation.TRUE) {
        texts.add(bound.toString());
      }
    }
    return texts;
  }

  private static String json(Object value) throws Exception {
    return new ObjectMapper().writeValueAsString(value);
  }

  private static Expression expression(String filter, Schema schema) {
    for (Object column : schema.columns()) {
      if (((Types.NestedField) column).type().typeId() == Type.TypeID.TIMESTAMP_NANO) {
        // With the schema, the parser converts to nanoseconds, which are bound as microseconds.
        return ExpressionParser.fromJson(filter);
      }
    }
    return ExpressionParser.fromJson(filter, schema);
  }

  /** The rows with a filter, one in a line. */
  public static String rows(Table table, String filter) throws Exception {
    Expression condition = expression(filter, table.schema());
    StringBuilder rows = new StringBuilder();
    CloseableIterable found = IcebergGenerics.read(table).where(condition).build();
    try {
      for (Object row : found) {
        GenericRecord record = (GenericRecord) row;
        for (int i = 0; i < record.size(); i++) {
          rows.append(text(record.get(i))).append(' ');
        }
        rows.append('\n');
      }
    } finally {
      found.close();
    }
    return rows.toString();
  }

  private static Object text(Object value) {
    if (value instanceof ByteBuffer) {
      return text(ByteBuffers.toByteArray((ByteBuffer) value));
    }
    return value instanceof byte[] ? "0x" + new BigInteger(1, (byte[]) value).toString(16) : value;
  }

  /**
   * Appends rows, which are a JSON array of objects. A file has consecutive rows of one partition,
   * and a limited number of them.
   */
  public static void append(Table table, String rows, int rowsPerFile) throws Exception {
    Schema schema = table.schema();
    InternalRecordWrapper wrapper = new InternalRecordWrapper(schema.asStruct());
    PartitionKey key = new PartitionKey(table.spec(), schema);
    AppendFiles append = table.newAppend();
    PartitionKey ofFile = null;
    DataWriter writer = null;
    int written = 0;
    for (JsonNode row : new ObjectMapper().readTree(rows)) {
      GenericRecord record = record(schema, row);
      key.partition(wrapper.wrap(record));
      if (writer == null || written == rowsPerFile || !key.equals(ofFile)) {
        if (writer != null) {
          writer.close();
          append.appendFile(writer.toDataFile());
        }
        ofFile = key.copy();
        writer = newWriter(table, ofFile);
        written = 0;
      }
      writer.write(record);
      written++;
    }
    writer.close();
    append.appendFile(writer.toDataFile());
    append.commit();
  }

  private static DataWriter newWriter(Table table, PartitionKey key) {
    String name = UUID.randomUUID() + ".parquet";
    String location = table.locationProvider().newDataLocation(name);
    EncryptedOutputFile file =
        EncryptedFiles.plainAsEncryptedOutput(table.io().newOutputFile(location));
    GenericFileWriterFactory factory = new GenericFileWriterFactory.Builder(table).build();
    return factory.newDataWriter(file, table.spec(), table.spec().isUnpartitioned() ? null : key);
  }

  private static GenericRecord record(Schema schema, JsonNode row) {
    GenericRecord record = GenericRecord.create(schema);
    for (Object column : schema.columns()) {
      Types.NestedField field = (Types.NestedField) column;
      JsonNode value = row.get(field.name());
      if (value != null && !value.isNull()) {
        record.setField(field.name(), value(field.type(), value));
      }
    }
    return record;
  }

  private static Object value(Type type, JsonNode json) {
    // JSON has no number for NaN and the infinities.
    if (json.isTextual() && type.typeId() == Type.TypeID.FLOAT) {
      return Float.valueOf(json.asText());
    }
    if (json.isTextual() && type.typeId() == Type.TypeID.DOUBLE) {
      return Double.valueOf(json.asText());
    }
    Object value = SingleValueParser.fromJson(type, json);
    switch (type.typeId()) {
      case DATE:
        return DateTimeUtil.dateFromDays(((Integer) value).intValue());
      case TIME:
        return DateTimeUtil.timeFromMicros(((Long) value).longValue());
      case TIMESTAMP:
        return ((Types.TimestampType) type).shouldAdjustToUTC()
            ? (Object) DateTimeUtil.timestamptzFromMicros(((Long) value).longValue())
            : DateTimeUtil.timestampFromMicros(((Long) value).longValue());
      case TIMESTAMP_NANO:
        return ((Types.TimestampNanoType) type).shouldAdjustToUTC()
            ? (Object) DateTimeUtil.timestamptzFromNanos(((Long) value).longValue())
            : DateTimeUtil.timestampFromNanos(((Long) value).longValue());
      case FIXED:
        return ByteBuffers.toByteArray((ByteBuffer) value);
      default:
        return value;
    }
  }
}
