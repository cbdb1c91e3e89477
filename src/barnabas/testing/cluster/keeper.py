"""Starts processes for another one, and ends them with it, however that one ends: by SIGKILL, too. It also ends those
that are paused.

Run as a script, without the rest of the package. Each line on its standard input is a command to run, as JSON:
`{"command": [...], "log": PATH}`; each is answered with the id of the process in a line. The end of the input is the
end of whoever asked: then every process is killed, and the directory named as its argument is removed, if one is.
"""

import json
import os
import shutil
import signal
import subprocess
import sys


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # unlike SIG_IGN, not for the processes that are started
    started: list[subprocess.Popen[bytes]] = []
    try:
        for line in sys.stdin:
            asked = json.loads(line)
            started = [each for each in started if each.poll() is None]  # their ids are free for others from here on
            with open(asked["log"], "ab") as log:
                process = subprocess.Popen(
                    asked["command"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            started.append(process)
            print(process.pid, flush=True)
    finally:
        for each in started:
            each.kill()
        for each in started:
            each.wait()
        if len(sys.argv) > 1:
            shutil.rmtree(sys.argv[1], ignore_errors=True)
        os._exit(0)


if __name__ == "__main__":
    main()
