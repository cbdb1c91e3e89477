"""What can be set: names, types, defaults and meaning. Who reads a value, and from where, is not known here.

`setting` says what a setting is and checks a text against it, `topic_settings` lists those of a topic, `not_ours` the
names of Kafka that a configuration may hold although they mean nothing here.
"""
