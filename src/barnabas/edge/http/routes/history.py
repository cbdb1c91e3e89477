"""The last hour of rates and latencies, the last day of lag: what the node that is asked remembers."""

from barnabas.core.access.resources import Operation
from barnabas.core.access.resources import group as group_resource
from barnabas.core.access.resources import topic as topic_resource
from barnabas.core.errors import GroupIdNotFound
from barnabas.edge.http import models
from barnabas.edge.http.calling import Call, Route
from barnabas.edge.http.context import Context
from barnabas.services import history


async def of_node(context: Context, call: Call) -> models.Series:
    """Of this node."""
    context.authorize(call.session, Operation.DESCRIBE)
    return _series(context, context.history.node())


async def of_topic(context: Context, call: Call) -> models.Series:
    """Of what this node leads of a topic."""
    name = call.path["topic"]
    context.authorize(call.session, Operation.DESCRIBE, topic_resource(name))
    context.broker.image.get_topic(name)
    return _series(context, context.history.topic(name))


async def of_group(context: Context, call: Call) -> models.Series:
    """Of a group that this node coordinates."""
    name = call.path["group"]
    context.authorize(call.session, Operation.DESCRIBE, group_resource(name))
    if name not in context.lags.by_group:
        raise GroupIdNotFound(f"this node coordinates no group '{name}', or has not measured its lag yet")
    return _series(context, context.history.group(name))


def _series(context: Context, found: history.Series | None) -> models.Series:
    node_id = context.broker.config.node_id
    if found is None:
        return models.Series(step_s=history.STEP_S, until_ms=0, values={}, nodes=[node_id])
    return models.Series(step_s=found.step_s, until_ms=found.until_ms, values=dict(found.values), nodes=[node_id])


ROUTES = (
    Route("GET", "/history/node", of_node, "Rates and latencies of the node, an hour.", models.Series),
    Route("GET", "/history/topics/{topic}", of_topic, "Rates of a topic on the node, an hour.", models.Series),
    Route("GET", "/history/groups/{group}", of_group, "The lag of a group, a day.", models.Series),
)
