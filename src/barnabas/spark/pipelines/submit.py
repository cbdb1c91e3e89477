"""A pipeline under `spark-submit`, which wants a Python file: this one, followed by the pipeline's own.

    spark-submit --master spark://HOST:7077 "$(python -m barnabas.spark.pipelines.submit --path)" orders.yaml --once

Master and settings are those that `spark-submit` was told; the file's own `spark` settings win.
"""

import argparse
import sys
from pathlib import Path

if __name__ == "__main__":
    # Run as a file, Python looks for modules beside it first: ours are called model, schema, avro, as others' are.
    _here = Path(__file__).resolve().parent
    sys.path[:] = [place for place in sys.path if not place or Path(place).resolve() != _here]

from barnabas.core.errors import BarnabasError
from barnabas.spark.pipelines.pipeline import Pipeline


def main(arguments: list[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    if given.path:
        print(Path(__file__).resolve())
        return 0
    if given.file is None:
        _parser().error("FILE.yaml is missing")
    try:
        final = Pipeline.load(given.file).run(once=given.once, seconds=given.seconds)
    except BarnabasError as refusal:
        print(f"barnabas: {refusal}", file=sys.stderr)
        return 1
    print(f"pipeline {final.name}: {final.state}; {final.summary()}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="submit.py", description="Run a pipeline under spark-submit.")
    parser.add_argument("file", metavar="FILE.yaml", nargs="?", help="the pipeline")
    parser.add_argument("--once", action="store_true", help="process the records available now, then stop")
    parser.add_argument("--seconds", type=float, help="stop after this many seconds")
    parser.add_argument("--path", action="store_true", help="print the path of this file, and run nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
