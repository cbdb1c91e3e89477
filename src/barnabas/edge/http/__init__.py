"""HTTP beside the Kafka port of a node: metrics and health (base install), and the API (`barnabas[http]`)."""
