"""Record batches (format v2): the header view, records, compression, markers, columnar decode."""
