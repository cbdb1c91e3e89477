"""The catalogue of settings: names, types, defaults and meaning.

How a value is read and used is not known here. `setting` defines a setting and validates its text; `field` reads
settings from the fields of a struct. `topic_settings`, `group_settings`, `transaction_settings` and `unused_settings`
list them, `topic_defaults` those of a broker that are the defaults of its topics. `listener` is the one type of value
that is more than a number or a text. `not_ours` has the names of Kafka's settings that are accepted and ignored.
"""
