"""Time, tasks, sockets, files and threads. The one layer that touches the machine it runs on."""
