"""Access: who may do what with which resource, in the terms of Kafka's ACLs."""
