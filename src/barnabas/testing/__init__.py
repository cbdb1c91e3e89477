"""What tests stand on: an embedded broker, and simulated disk, network and time, all from one seed."""
