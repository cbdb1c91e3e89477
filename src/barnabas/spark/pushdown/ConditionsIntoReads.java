package barnabas.spark;

import java.lang.reflect.Constructor;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.GreaterThan;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.LessThan;
import org.apache.spark.sql.sources.LessThanOrEqual;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Function1;
import scala.Option;
import scala.Product;
import scala.runtime.AbstractPartialFunction;

/**
 * Hands conditions on partition, offset and timestamp to the reads of topics below them, as an option of the read.
 *
 * Spark has a way of its own to push filters into a Python data source, which cannot be used: all reads of a frame in
 * all of its plans share one reader, so the filters of the one last planned hold for all others, and those lose rows.
 * Here a read gets a reader of its own for each plan. The filter stays where it is: a condition that is not understood,
 * or only in part, costs time and nothing else.
 *
 * Compiled by Janino, in Spark's JVM: no lambdas, no type parameters.
 */
public class ConditionsIntoReads extends Rule {
    static final String OPTION = "barnabas.conditions";

    public TreeNode apply(TreeNode plan) {
        return ((LogicalPlan) plan).transformDown(new Narrow());
    }

    public static class Narrow extends AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            return conditionsOf(node) != null;
        }

        public Object applyOrElse(Object node, Function1 otherwise) {
            String conditions = conditionsOf(node);
            if (conditions == null) {
                return otherwise.apply(node);
            }
            Filter filter = (Filter) node;
            return filter.copy(filter.condition(), narrowed((DataSourceV2ScanRelation) filter.child(), conditions));
        }
    }

    /** What a node says of the offsets of a topic that is read below it, one condition a line; null if nothing. */
    static String conditionsOf(Object node) {
        if (!(node instanceof Filter) || !(((Filter) node).child() instanceof DataSourceV2ScanRelation)) {
            return null;
        }
        DataSourceV2Relation read = ((DataSourceV2ScanRelation) ((Filter) node).child()).relation();
        boolean isOurs = read.table() instanceof PythonTable && "barnabas".equals(read.table().name());
        if (!isOurs || read.options().containsKey(OPTION)) {
            return null;
        }
        StringBuilder found = new StringBuilder();
        collect(((Filter) node).condition(), found);
        return found.length() == 0 ? null : found.toString();
    }

    /** Adds those of a condition's parts that are comparisons with constants. */
    static void collect(Expression condition, StringBuilder found) {
        if (condition instanceof And) {
            collect(((And) condition).left(), found);
            collect(((And) condition).right(), found);
            return;
        }
        try {
            collectOne(condition, found);
        } catch (ArithmeticException tooFar) {
            // Of a time at the very end of what there is, Java's own classes have no word: all is read.
        }
    }

    static void collectOne(Expression condition, StringBuilder found) {
        Option translated = DataSourceStrategy$.MODULE$.translateFilter(condition, true);
        if (!translated.isDefined()) {
            return;
        }
        Object filter = translated.get();
        if (filter instanceof EqualTo) {
            add(found, "=", ((EqualTo) filter).attribute(), new Object[] {((EqualTo) filter).value()});
        } else if (filter instanceof GreaterThan) {
            add(found, ">", ((GreaterThan) filter).attribute(), new Object[] {((GreaterThan) filter).value()});
        } else if (filter instanceof GreaterThanOrEqual) {
            GreaterThanOrEqual each = (GreaterThanOrEqual) filter;
            add(found, ">=", each.attribute(), new Object[] {each.value()});
        } else if (filter instanceof LessThan) {
            add(found, "<", ((LessThan) filter).attribute(), new Object[] {((LessThan) filter).value()});
        } else if (filter instanceof LessThanOrEqual) {
            LessThanOrEqual each = (LessThanOrEqual) filter;
            add(found, "<=", each.attribute(), new Object[] {each.value()});
        } else if (filter instanceof In) {
            add(found, "in", ((In) filter).attribute(), ((In) filter).values());
        }
    }

    static void add(StringBuilder found, String comparison, String column, Object[] values) {
        if (!column.equals("partition") && !column.equals("offset") && !column.equals("timestamp")) {
            return;
        }
        StringBuilder line = new StringBuilder(column).append(' ').append(comparison);
        for (int at = 0; at < values.length; at++) {
            if (values[at] != null) {
                String text = number(values[at]);
                if (text == null) {
                    return;
                }
                line.append(' ').append(text);
            }
        }
        found.append(line).append('\n');
    }

    /** Whole numbers as they are, times in microseconds. */
    static String number(Object value) {
        if (value instanceof java.sql.Timestamp) {
            value = ((java.sql.Timestamp) value).toInstant();
        }
        if (value instanceof Instant) {
            Instant instant = (Instant) value;
            long seconds = Math.multiplyExact(instant.getEpochSecond(), 1000000L);
            return Long.toString(Math.addExact(seconds, instant.getNano() / 1000));
        }
        return value instanceof Integer || value instanceof Long ? value.toString() : null;
    }

    static LogicalPlan narrowed(DataSourceV2ScanRelation read, String conditions) {
        Map options = new HashMap(read.relation().options().asCaseSensitiveMap());
        options.put(OPTION, conditions);
        CaseInsensitiveStringMap given = new CaseInsensitiveStringMap(options);
        PythonDataSourceV2 source = new PythonDataSourceV2();
        source.setShortName(read.relation().table().name());
        Table old = read.relation().table();
        PythonTable table = (PythonTable) source.getTable(old.schema(), new Transform[0], new HashMap());
        Object relation = with(with(read.relation(), Table.class, table), CaseInsensitiveStringMap.class, given);
        Scan scan = table.newScanBuilder(given).build();
        return (LogicalPlan) with(with(read, DataSourceV2Relation.class, relation), Scan.class, scan);
    }

    /** A copy of a case class with its part of this type replaced: what other parts there are differs by version. */
    static Object with(Object node, Class type, Object value) {
        Product product = (Product) node;
        Object[] parts = new Object[product.productArity()];
        for (int at = 0; at < parts.length; at++) {
            Object part = product.productElement(at);
            parts[at] = type.isInstance(part) ? value : part;
        }
        try {
            Constructor[] constructors = node.getClass().getConstructors();
            return constructors[0].newInstance(parts);
        } catch (ReflectiveOperationException problem) {
            throw new IllegalStateException(problem);
        }
    }
}
