"""Test infrastructure: an embedded broker, and simulated disk, network and time, all from one seed."""
