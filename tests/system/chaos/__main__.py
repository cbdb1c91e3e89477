"""`make chaos MINUTES=N`: a cluster of real processes whose nodes are killed, paused, restarted and cut off.

    python -m tests.system.chaos --minutes 10 --seed 42
    python -m tests.system.chaos --fault "kill a leader" --fault "unplug a node" --quick

A seed decides which faults happen, to whom and for how long; what else the machine does is not in its hands, so that a
run is similar to another of the same seed, and not the same.
"""

import argparse
import random
import signal
import sys
from typing import Final

from tests.system.chaos import network
from tests.system.chaos.cluster import NODES
from tests.system.chaos.run import Plan, run

_QUICK: Final = {
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "group.initial.rebalance.delay.ms": "0",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="chaos", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=1.0, help="how long faults happen")
    parser.add_argument("--seed", type=int, default=None, help="what decides on the faults; drawn unless it is named")
    parser.add_argument("--fault", action="append", default=[], help="only these, once each, in this order")
    parser.add_argument("--quick", action="store_true", help="short faults, which are noticed sooner than by default")
    parser.add_argument("--without-cuts", action="store_true", help="all nodes on 127.0.0.1, no link is cut")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the nodes")
    options = parser.parse_args()
    why_not = None if network.is_inside() else network.why_not()
    if options.without_cuts:
        why_not = "nobody asked for it"
    elif why_not is None and not network.is_inside():
        network.enter(["-m", "tests.system.chaos", *sys.argv[1:]])
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    if why_not is not None:
        print(f"no link between nodes is cut: {why_not}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    wires = network.Network(NODES) if network.is_inside() else None
    plan = Plan(
        seed=seed,
        length_s=options.minutes * 60,
        kinds=options.fault,
        settings={**(_QUICK if options.quick else {}), **dict(each.split("=", 1) for each in options.set)},
        is_quick=options.quick,
    )
    try:
        is_right = run(plan, wires)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        return 1
    print("all of it held" if is_right else f"something did not hold: seed {seed}", flush=True)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
