"""``python -m barnabas.services.settings > docs/configuration.md`` writes the reference page."""

import sys

from barnabas.services.settings.reference import render_reference

if __name__ == "__main__":
    sys.stdout.write(render_reference())
