"""The web console: pages in a browser, in a process of its own, on the HTTP API of a node and on nothing else of it."""
