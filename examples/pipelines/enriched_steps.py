"""The function of enriched.yaml: frames in, a frame out."""

from pyspark.sql import DataFrame


def with_customers(orders: DataFrame, customers: DataFrame, minimum: float = 0) -> DataFrame:
    large = orders.where(orders.amount >= minimum).select("id", "customer", "amount")
    return large.join(customers.select("customer", "name", "country"), "customer", "left")
