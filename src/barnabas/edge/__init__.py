"""The edges: each translates one protocol into the verbs of `services`, and knows no other edge."""
