"""The routes of the API, a module for each kind of thing; `ALL` has them in the order of the description."""

from barnabas.edge.http.calling import Route
from barnabas.edge.http.routes import (
    acls,
    cluster,
    groups,
    history,
    login,
    producing,
    quotas,
    records,
    tail,
    topics,
    transactions,
    users,
)

ALL: tuple[Route, ...] = (
    *login.ROUTES,
    *cluster.ROUTES,
    *topics.ROUTES,
    *records.ROUTES,
    *tail.ROUTES,
    *producing.ROUTES,
    *groups.ROUTES,
    *transactions.ROUTES,
    *users.ROUTES,
    *acls.ROUTES,
    *quotas.ROUTES,
    *history.ROUTES,
)
