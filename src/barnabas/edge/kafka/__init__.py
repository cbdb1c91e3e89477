"""The Kafka protocol: frames to requests to verbs and back, one handler module per API."""
