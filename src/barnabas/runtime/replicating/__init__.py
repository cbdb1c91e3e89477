"""Following the leaders of partitions on other nodes: fetch sessions (`session`), one fetcher for each leader
(`fetcher`), and who is fetched from whom (`fetchers`). What is done with the answers is in `runtime.following`.
"""
