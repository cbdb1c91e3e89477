"""The verbs, independent of any protocol: produce, fetch, topics, settings.

An edge translates a request into one of them.
"""
